"""Documents that are changed: their values know where they were written, and the text keeps its comments.

`fragments_of` makes a tree of the value of a document. Whoever moves parts in it need not care for places:
`rewritten_document` finds them, and `rewritten_text` writes the tree as YAML, line for line as it was where
nothing has changed.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from strands_cli.documents.problems import json_pointer, value_at
from strands_cli.documents.reader import Document, Position, read_document

_PLAIN_TEXT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[ ./+-][A-Za-z0-9_]+)*")
_STEP = "  "
_LONGEST_FLOW = 100


class Fragment:
    """A value, and the pointer at which the text has it. A mapping or a list holds parts.

    What `is_new` is not in the text; its pointer is that of what it was made for.
    """

    __slots__ = ("at", "is_new", "value")

    def __init__(self, value: Any, at: str, *, is_new: bool = False) -> None:
        self.value, self.at, self.is_new = value, at, is_new

    @property
    def mapping(self) -> "dict[str, Fragment]":
        """What is in it; nothing where it is not a mapping."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> "list[Fragment]":
        return self.value if isinstance(self.value, list) else []

    @property
    def plain(self) -> Any:
        """The value alone."""
        if isinstance(self.value, dict):
            return {key: part.plain for key, part in self.value.items()}
        return [part.plain for part in self.value] if isinstance(self.value, list) else self.value


def fragments_of(value: Any, at: str = "") -> Fragment:
    if isinstance(value, dict):
        return Fragment(
            {key: fragments_of(inner, at + json_pointer((key,))) for key, inner in value.items()}, at
        )
    if isinstance(value, list):
        return Fragment([fragments_of(inner, f"{at}/{index}") for index, inner in enumerate(value)], at)
    return Fragment(value, at)


def rewritten_document(document: Document, root: Fragment) -> Document:
    """The document with the value of a tree; its places are those of the text, its pointers too."""
    positions, origins = dict[str, Position](), dict[str, str]()
    if "" in document.positions:
        positions[""] = document.positions[""]
    for pointer, part, is_moved in _walk(root, ""):
        if is_moved:
            origins[pointer] = part.at
        if part.at in document.positions:
            positions[pointer] = document.positions[part.at]
    return msgspec.structs.replace(
        document, value=root.plain, positions=positions, origins=origins, issues=[*document.issues]
    )


def _walk(part: Fragment, pointer: str) -> Iterator[tuple[str, Fragment, bool]]:
    """Every part with its pointer, and whether that does not follow from the part around it."""
    inner: Iterator[tuple[str | int, Fragment]] = iter(part.mapping.items() or enumerate(part.items))
    for key, child in inner:
        step = json_pointer((key,))
        yield pointer + step, child, child.at != part.at + step
        yield from _walk(child, pointer + step)


# --- Writing ----------------------------------------------------------------------------------------------


def rewritten_text(document: Document, root: Fragment) -> str:
    """The text of a document with the value of a tree: comments stay, and so does what has not changed."""
    value = root.plain
    if value == document.value:
        return document.text
    if document.text.lstrip()[:1] == "{":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    for keep_lines in (True, False):  # anchors and aliases may not survive that lines change their order
        text = _Writer(document, keep_lines=keep_lines).text(root)
        again = read_document(text, document.file)
        if not again.issues and again.value == value:
            return text
    raise AssertionError(f"{document.file} cannot be written again")


class _Entry(msgspec.Struct, frozen=True):
    """Where the text has a value: the lines from that of its key or dash to its last one."""

    line: int
    column: int
    after_key: int
    """The column behind the key or the dash."""
    last_line: int
    inner_column: int
    """The column of what is in it, where that begins on a line of its own; else -1."""
    is_block: bool
    """Whether it has its lines for itself."""


class _Writer:
    def __init__(self, document: Document, *, keep_lines: bool) -> None:
        self._value = document.value
        self._lines = document.text.split("\n")
        self._entries: dict[str, _Entry] = {}
        self._filled: set[int] = set()
        """The lines that hold values."""
        self._comments: dict[int, str] = {}
        """What is behind a value in its line, or in a line of its own."""
        self._adopted: dict[str, list[int]] = {}
        self._used: set[str] = set()
        self._written: set[int] = set()
        self._keep_lines = keep_lines
        self._read(document.text)

    def text(self, root: Fragment) -> str:
        kept = self._lines_kept(root)
        self._orphans = sorted(line for line in self._comments if line not in kept)
        self._adopt_comments(root)
        lines = self._mapping(root, 0)
        lines += (self._comments[line] for line in self._orphans)
        end = max(self._filled, default=-1) + 1
        tail = [line for number, line in enumerate(self._lines[end:], end) if number not in self._written]
        return "\n".join([*lines, *tail]).rstrip("\n") + "\n"

    # --- the text as it is ------------------------------------------------------------------------------

    def _read(self, text: str) -> None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        root = yaml.compose(text, Loader=loader)
        if root is not None:
            self._read_node(root, "", is_block=True)
        before = None
        for token in yaml.scan(text, Loader=loader):
            start = before.end_mark.index if before is not None else 0
            line = before.end_mark.line if before is not None else 0
            for number, gap in enumerate(text[start : token.start_mark.index].split("\n"), line):
                if (at := gap.find("#")) >= 0:
                    self._comments[number] = gap[at:]
            before = token

    def _read_node(self, node: Any, at: str, *, is_block: bool) -> int:
        """Notes where the parts of a value stand; its last line."""
        kind = type(node).__name__
        start, end = node.start_mark, node.end_mark
        if kind == "ScalarNode" or node.flow_style:
            last = int(end.line - (end.column == 0 and end.line > start.line))
            while last > start.line and not self._lines[last].strip():
                last -= 1
            self._filled |= {*range(start.line, last + 1)}
        else:
            last = int(start.line)
        is_block = is_block and not getattr(node, "flow_style", False)
        pairs = node.value if kind != "ScalarNode" else ()
        for index, pair in enumerate(pairs):
            key, inner = pair if kind == "MappingNode" else (None, pair)
            place = at + (json_pointer((key.value,)) if key is not None else f"/{index}")
            line = key.start_mark.line if key is not None else inner.start_mark.line
            ended = max(line, self._read_node(inner, place, is_block=is_block))
            self._filled.add(line)
            last = max(last, ended)
            is_below = type(inner).__name__ != "ScalarNode" and not inner.flow_style
            self._entries[place] = _Entry(
                line=line,
                column=key.start_mark.column if key is not None else start.column,
                after_key=key.end_mark.column if key is not None else start.column + 1,
                last_line=ended,
                inner_column=inner.start_mark.column if is_below else -1,
                is_block=is_block,
            )
        return last

    def _lines_kept(self, root: Fragment) -> set[int]:
        """The lines of comments that come with the parts that are still there."""
        kept = set[int]()
        for _, part, _ in _walk(root, ""):
            if not part.is_new and (entry := self._entries.get(part.at)) is not None:
                last = entry.last_line if self._is_as_written(part) else entry.line
                kept |= {*range(self._begin_of(entry.line), last + 1)}
        return kept | {*range(max(self._filled, default=-1) + 1, len(self._lines))}

    def _adopt_comments(self, root: Fragment) -> None:
        """Gives the comments of what is no longer there to the first part of it that is elsewhere now."""
        there = [part.at for _, part, _ in _walk(root, "") if not part.is_new]
        for at, entry in self._entries.items():
            heir = next((other for other in there if other.startswith(f"{at}/")), None)
            if at in there or heir is None:
                continue
            own = [line for line in self._orphans if self._begin_of(entry.line) <= line <= entry.line]
            self._adopted.setdefault(heir, []).extend(own)
            self._orphans = [line for line in self._orphans if line not in own]

    def _begin_of(self, line: int) -> int:
        """The first of the lines without values in front of a line."""
        while line and line - 1 not in self._filled:
            line -= 1
        return line

    def _is_as_written(self, part: Fragment) -> bool:
        value = value_at(self._value, part.at)
        return bool(value == part.plain) and type(value) is type(part.plain)

    # --- the text as it becomes -------------------------------------------------------------------------

    def _mapping(self, part: Fragment, indent: int) -> list[str]:
        return [line for key, child in part.mapping.items() for line in self._entry(key, child, indent)]

    def _entry(self, key: str, part: Fragment, indent: int) -> list[str]:
        entry, name = self._take(part), _key_text(key)
        lines = self._leading(part, entry, indent)
        margin = " " * indent
        is_key = entry is not None and not part.at.rpartition("/")[2].isdigit()
        if entry and is_key and entry.is_block and self._keep_lines and self._is_as_written(part):
            first, *rest = self._shifted(entry, indent)
            own = self._lines[entry.line][entry.column : entry.after_key]
            is_same = part.at.endswith(json_pointer((key,)))
            return [*lines, f"{margin}{own if is_same else name}{first}", *rest]
        comment = self._trailing(entry)
        if (flow := self._flow_text(part, entry)) and len(flow) < _LONGEST_FLOW:
            return [*lines, f"{margin}{name}: {flow}{comment}"]
        if isinstance(part.value, dict) and part.value:
            lines.append(f"{margin}{name}:{comment}")
            return lines + self._mapping(part, indent + self._inner_step(entry, len(_STEP)))
        if isinstance(part.value, list) and part.value:
            lines.append(f"{margin}{name}:{comment}")
            inner = indent + self._inner_step(entry, len(_STEP), least=0)
            return lines + [line for item in part.value for line in self._item(item, inner)]
        return [*lines, *_scalar_lines(f"{margin}{name}: ", part.plain, comment, indent)]

    def _item(self, part: Fragment, indent: int) -> list[str]:
        entry = self._take(part)
        lines = self._leading(part, entry, indent)
        margin = " " * indent
        if entry and entry.is_block and self._keep_lines and self._is_as_written(part):
            first, *rest = self._shifted(entry, indent)
            return [*lines, f"{margin}-{first}", *rest]
        if (flow := self._flow_text(part, entry)) and len(flow) < _LONGEST_FLOW:
            return [*lines, f"{margin}- {flow}{self._trailing(entry)}"]
        if isinstance(part.value, dict) and part.value:
            body = self._mapping(part, indent + 2)
            first_value = next(at for at, line in enumerate(body) if not _is_trivia(line))
            lines += body[:first_value]
            lines += [margin + comment.lstrip() for comment in [self._trailing(entry)] if comment]
            return [*lines, f"{margin}- {body[first_value].lstrip()}", *body[first_value + 1 :]]
        comment = self._trailing(entry)
        if isinstance(part.value, list) and part.value:
            return [*lines, f"{margin}-{comment}", *(
                line for item in part.value for line in self._item(item, indent + 2))]  # fmt: skip
        return [*lines, *_scalar_lines(f"{margin}- ", part.plain, comment, indent)]

    def _flow_text(self, part: Fragment, entry: _Entry | None) -> str:
        """A mapping or a list as `{…}` or `[…]`, where it was one, or is new and has only short values."""
        was_flow = entry is not None and entry.inner_column < 0 and entry.line == entry.last_line
        inner = [child for _, child, _ in _walk(part, "")]
        is_plain_list = (
            entry is None and part.items and not any(child.mapping or child.items for child in inner)
        )
        has_comments = any(self._has_comments(child, entry) for child in inner)
        return _flow_value(part.plain) if (was_flow or is_plain_list) and inner and not has_comments else ""

    def _has_comments(self, part: Fragment, around: _Entry | None) -> bool:
        """Whether comments belong to a part that are not written yet, and not with what is around it."""
        entry = self._entries.get(part.at)
        if part.at in self._adopted or entry is None or part.at in self._used:
            return part.at in self._adopted
        lines = range(self._begin_of(entry.line), entry.line + 1)
        is_elsewhere = around is None or around.line != entry.line
        return is_elsewhere and any(line in self._comments and line not in self._written for line in lines)

    def _take(self, part: Fragment) -> _Entry | None:
        """Where a part was written; what is there twice now has its lines once."""
        if part.is_new or part.at in self._used:
            return None
        self._used.add(part.at)
        return self._entries.get(part.at)

    def _leading(self, part: Fragment, entry: _Entry | None, indent: int) -> list[str]:
        """The comments and empty lines in front of an entry, and comments of what is no longer there."""
        if entry is None:
            return []
        begin = self._begin_of(entry.line)
        own = [number for number in range(begin, entry.line) if number not in self._written]
        self._written |= {*own}
        lost = self._adopted.pop(part.at, []) + [line for line in self._orphans if line < entry.line]
        self._orphans = [number for number in self._orphans if number >= entry.line]
        margin = " " * indent
        lines = [f"{margin}{self._comments[number]}" for number in lost]
        for number in own:
            line = self._lines[number]
            is_comment = line.lstrip().startswith("#")
            lines.append(f"{margin}{line.lstrip()}" if is_comment and entry.column != indent else line)
        return lines

    def _trailing(self, entry: _Entry | None) -> str:
        if entry is None or entry.line in self._written or entry.line not in self._comments:
            return ""
        self._written.add(entry.line)
        return f"  {self._comments[entry.line]}"

    def _shifted(self, entry: _Entry, indent: int) -> list[str]:
        """What follows the key or the dash, moved to another indentation."""
        self._written |= {*range(entry.line, entry.last_line + 1)}
        first, *rest = self._lines[entry.line : entry.last_line + 1]
        shift = indent - entry.column
        moved = []
        for line in rest:
            margin = len(line) - len(line.lstrip(" "))
            moved.append(" " * max(0, margin + shift) + line[margin:] if line.strip() else line)
        return [first[entry.after_key :], *moved]

    def _inner_step(self, entry: _Entry | None, default: int, least: int = 1) -> int:
        """How much further in the text has what is below an entry."""
        step = entry.inner_column - entry.column if entry and entry.inner_column >= 0 else default
        return step if least <= step <= 8 else default


def _is_trivia(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _key_text(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_.-]*", key) and not _is_word(key) else json.dumps(key)


def _is_word(text: str) -> bool:
    return not isinstance(read_document(text, "").value, str)


def _flow_value(value: Any) -> str:
    """A value in one line; empty for a plain text, which is not a mapping or a list."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key_text(key)}: {_inline(inner)}" for key, inner in value.items()) + "}"
    return "[" + ", ".join(map(_inline, value)) + "]" if isinstance(value, list) else ""


def _inline(value: Any) -> str:
    if isinstance(value, dict | list):
        return _flow_value(value)
    if isinstance(value, str) and _PLAIN_TEXT.fullmatch(value) and not _is_word(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _scalar_lines(start: str, value: Any, comment: str, indent: int) -> list[str]:
    """A value in one line, or a text of several lines as a block."""
    if isinstance(value, str) and "\n" in value and _fits_block(value):
        body = value.rstrip("\n").split("\n")
        chomp = "-" if not value.endswith("\n") else "+" if value.endswith("\n\n") else ""
        body += [""] * (len(value) - len(value.rstrip("\n")) - 1)
        margin = " " * indent + _STEP
        return [f"{start}|{chomp}{comment}", *(f"{margin}{line}" if line else "" for line in body)]
    return [f"{start}{_inline(value)}{comment}"]


def _fits_block(text: str) -> bool:
    """Whether a text can be a literal block: it begins with a letter of a line, and has no odd characters."""
    first = text.split("\n", 1)[0]
    is_odd = any(not letter.isprintable() and letter != "\n" for letter in text)
    return bool(first.strip()) and not first.startswith((" ", "\t")) and not is_odd
