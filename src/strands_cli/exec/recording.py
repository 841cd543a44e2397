"""Recordings (`--record`, `--replay`): every model request of a run with its answer, as JSON lines.

A replay takes the answers from a recording and runs everything else. Requests are found by their step and
their number in it, not by their order in the run, so parallel steps work.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import msgspec

from strands_cli.artifacts import write_named_file
from strands_cli.documents.files import read_regular_file, unread_reason
from strands_cli.errors import ArtifactError, RunError, SessionError, UsageError, did_you_mean
from strands_cli.exec.history import Count
from strands_cli.exec.journal import decode_row, encode_row
from strands_cli.secrets import Redactor

FORMAT = "strands-recording/1"
MAX_BYTES = 500_000_000
MAX_MESSAGES = 5_000_000
"""In all requests together. Each request of a step repeats the earlier messages; a recording does not."""
_DIRECTORY = "<strands:directory>"
"""Replaces the directory in which a run began, so a recording can be replayed in another clone."""
_SHORTEST = 3
"""Parts of a path. A shorter path, such as `/tmp`, may occur in a text by chance."""
_BEFORE, _BEHIND = 30, 50
"""Characters shown before and after a difference."""


class Recording:
    """Converts values between this run and a recording, which has neither secrets nor the run's directory."""

    def __init__(self, file: Path, directory: Path, redactor: Redactor) -> None:
        self.file, self._redactor, self._directory = file, redactor, str(directory)
        if len(directory.parts) >= _SHORTEST:
            self._here = re.compile(rf"(?<![\w./-]){re.escape(self._directory)}(?![\w-])")
        else:
            self._here = re.compile(r"(?!)")

    def plain(self, value: Any) -> Any:
        """A value as it is recorded."""
        clean = decode_row(encode_row(self._redactor.value(value)))
        return _with_texts(clean, lambda text: self._here.sub(_DIRECTORY, text))

    def local(self, value: Any) -> Any:
        """A recorded value as this run has it; a copy."""
        return _with_texts(value, lambda text: text.replace(_DIRECTORY, self._directory))


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _with_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_texts(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


class RequestRecorder(Recording):
    """Collects requests and answers, and writes the file atomically when the run ends or fails."""

    def __init__(
        self, file: Path, directory: Path, redactor: Redactor, *, name: str, force: bool = False
    ) -> None:
        super().__init__(directory / file, directory, redactor)
        self._name, self._force = name, force
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._last: dict[str, list[Any]] = {}
        if self.file.exists() and not force:
            raise ArtifactError(
                f"{file} already exists.", hint="Use --force to replace it, or record to another file."
            )
        if not self.file.parent.is_dir():
            raise ArtifactError(f"There is no directory {file.parent}.", hint="Create it first.")

    def keep(self, step: str, request: dict[str, Any], answer: dict[str, Any]) -> None:
        asked = self.plain(request)
        rows, before = self._rows.setdefault(step, []), self._last.get(step, [])
        known = len(before) if asked["messages"][: len(before)] == before else 0
        self._last[step] = asked["messages"]
        row = {"step": step, "number": len(rows) + 1, "system": asked["system"], "tools": asked["tools"]}
        added = {"after": known, "messages": asked["messages"][known:]}
        rows.append({**row, **added, "answer": self.plain(answer)})

    def write(self) -> None:
        """ArtifactError if the file cannot be written."""
        head = {"format": FORMAT, "workflow": self._name}
        rows = (row for _, rows in sorted(self._rows.items(), key=_natural_order) for row in rows)
        lines = b"".join(encode_row(row) + b"\n" for row in (head, *rows))
        try:
            write_named_file(self.file, lines, replace=self._force)
        except OSError as error:
            raise ArtifactError(
                f"The recording {self.file} cannot be written: {error.strerror or error}.",
                hint="Choose another file.",
            ) from error


def _natural_order(item: tuple[str, Any]) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", item[0])
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


class _Use(msgspec.Struct, rename="camel"):
    tool_use_id: str
    name: str
    input: dict[str, Any]


class _Result(msgspec.Struct, rename="camel"):
    tool_use_id: str
    status: str
    content: list[dict[str, Any]]


class Block(msgspec.Struct, rename="camel"):
    text: str = ""
    tool_use: _Use | None = None
    tool_result: _Result | None = None


class Message(msgspec.Struct):
    """The required fields of a message; others are allowed."""

    role: Literal["user", "assistant"]
    content: list[Block]


class _Tokens(msgspec.Struct, rename="camel"):
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count


class _Answer(msgspec.Struct):
    message: Message
    stop_reason: str
    usage: _Tokens


class _Failure(msgspec.Struct):
    error: str
    hint: str = ""
    overflow: bool = False


class _Request(msgspec.Struct):
    """One line of a recording."""

    step: str
    number: int
    system: Any
    tools: list[str]
    after: int
    """How many messages it shares with the previous request of the step."""
    messages: list[dict[str, Any]]
    answer: dict[str, Any]
    is_used: bool = False

    def check(self, before: list[dict[str, Any]]) -> None:
        """msgspec.ValidationError if it does not continue the messages of the previous request."""
        if not 0 <= self.after <= len(before):
            raise msgspec.ValidationError("it does not continue the previous request")
        msgspec.convert(self.messages, list[Message])
        msgspec.convert(self.answer, _Failure if "error" in self.answer else _Answer)

    def asked(self, ignored: Collection[str]) -> dict[str, Any]:
        asked = {"system": self.system, "tools": self.tools, "messages": self.messages}
        return _compared(asked, ignored)


class Replay(Recording):
    """Answers the requests of a run from a recording; RunError if a request differs from the recorded one."""

    def __init__(
        self, file: Path, directory: Path, redactor: Redactor, *, ignored: Collection[str] = ()
    ) -> None:
        """The results of `ignored` tools may differ."""
        super().__init__(file, directory, redactor)
        self._ignored = frozenset(ignored)
        self._steps: dict[str, list[_Request]] = {}
        self._next: dict[str, int] = {}
        for row in _read_recording(directory / file, file):
            self._steps.setdefault(row.step, []).append(row)
        offered = {tool for rows in self._steps.values() for row in rows for tool in row.tools}
        if unknown := sorted(self._ignored - offered):
            hint = did_you_mean(unknown[0], offered) or "Remove it from --replay-ignore."
            raise UsageError(f"No request in {file} has a tool {unknown[0]!r}.", hint=hint)

    def answer(self, step: str, request: dict[str, Any]) -> dict[str, Any]:
        rows, at = self._steps.get(step, []), self._next.get(step, 0)
        asked = _compared(self.plain(request), self._ignored)
        expected = rows[at] if at < len(rows) else None
        # The expected request or any later one: a resumed run begins in the middle of a step.
        order = [*range(at, len(rows)), *range(at)]
        found = next((place for place in order if rows[place].asked(self._ignored) == asked), None)
        if found is None:
            raise self._parted(step, at, expected, asked)
        rows[found].is_used = True
        self._next[step] = found + 1
        answer: dict[str, Any] = self.local(rows[found].answer)
        return answer

    def _parted(self, step: str, at: int, expected: _Request | None, asked: dict[str, Any]) -> RunError:
        again = f"If this is intended, record it again: --record {self.file} --force."
        if expected is None:
            what = f"This step makes more requests than the {at}" if at else "No request of this step is"
            return RunError(f"{what} recorded in {self.file}.", hint=again, step=step)
        what, old, new, tool = _first_difference(expected.asked(self._ignored), asked)
        if tool:
            again = f"To accept any result of this tool, use --replay-ignore {tool}. {again}"
        return RunError(
            f"The run differs from {self.file} in request {at + 1} of this step: {what} is not the same.\n"
            f"It was: {old}\nIt is:  {new}",
            hint=again,
            step=step,
        )

    def check_all_used(self) -> None:
        """RunError if the run ended without making all recorded requests."""
        left = {step: sum(not row.is_used for row in rows) for step, rows in self._steps.items()}
        named = ", ".join(f"{step} ({number})" for step, number in left.items() if number)
        if named:
            raise RunError(
                f"The run ended without making all requests recorded in {self.file}: {named}.",
                hint=f"If this is intended, record it again: --record {self.file} --force.",
            )


def _read_recording(path: Path, shown: Path) -> Iterator[_Request]:
    hint = "Make one with --record FILE."
    try:
        lines = read_regular_file(path, MAX_BYTES).splitlines()
    except FileNotFoundError:
        raise UsageError(f"The recording {shown} was not found.", hint=hint) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"The recording {shown} cannot be used: {unread_reason(error)}", hint=hint) from None
    try:
        head = decode_row(lines[0]) if lines else None
    except SessionError:
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise UsageError(f"{shown} is not a recording of this version ({FORMAT}).", hint=hint)
    last: dict[str, list[dict[str, Any]]] = {}
    messages = 0
    for number, line in enumerate(lines[1:], start=2):
        try:
            row = msgspec.convert(decode_row(line), _Request)
            row.check(before := last.get(row.step, []))
            messages += row.after + len(row.messages)
            if messages > MAX_MESSAGES:
                reason = f"{shown}:{number}: the requests have more than {MAX_MESSAGES} messages."
                raise UsageError(reason, hint=hint)
            last[row.step] = row.messages = [*before[: row.after], *row.messages]
            yield row
        except (SessionError, msgspec.ValidationError):
            raise UsageError(f"{shown}:{number} is not a line of a recording.", hint=hint) from None


# --- Comparing --------------------------------------------------------------------------------------------


def _compared(asked: dict[str, Any], ignored: Collection[str]) -> dict[str, Any]:
    """A request without the parts that may differ."""
    if not ignored:
        return asked
    names = _tool_names(asked["messages"])

    def kept(block: dict[str, Any]) -> dict[str, Any]:
        result = block.get("toolResult")
        if result is None or names.get(result["toolUseId"]) not in ignored:
            return block
        return {"toolResult": {"toolUseId": result["toolUseId"]}}

    messages = [
        {**message, "content": [kept(block) for block in message["content"]]} for message in asked["messages"]
    ]
    return {**asked, "messages": messages}


def _tool_names(messages: list[dict[str, Any]]) -> dict[str, str]:
    blocks = [block for message in messages for block in message["content"] if "toolUse" in block]
    return {block["toolUse"]["toolUseId"]: block["toolUse"]["name"] for block in blocks}


def _first_difference(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, str, str, str]:
    """The first difference: what differs, the old and the new text, and the tool if it is a result."""
    names = _tool_names(new["messages"])
    if old["system"] != new["system"]:
        return ("the system prompt", *_excerpts(_text_of(old["system"]), _text_of(new["system"])), "")
    if old["tools"] != new["tools"]:
        return ("the list of tools", ", ".join(old["tools"]) or "none", ", ".join(new["tools"]) or "none", "")
    for number, (was, now) in enumerate(zip_longest(old["messages"], new["messages"]), start=1):
        if was is None or now is None:
            return ("the number of messages", str(len(old["messages"])), str(len(new["messages"])), "")
        for before, after in zip_longest(was["content"], now["content"]):
            if before != after:
                result = (after or before or {}).get("toolResult")
                tool = names.get(result["toolUseId"], "") if result else ""
                what = f"message {number} ({_described(now, tool)})"
                return (what, *_excerpts(_text_of(before), _text_of(after)), tool)
    return ("the request", "", "", "")


def _described(message: Mapping[str, Any], tool: str) -> str:
    if message["role"] == "assistant":
        return "an answer of the model"
    return f"the result of {tool}" if tool else "the prompt"


def _text_of(value: Any) -> str:
    """A system prompt or a content block as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    if isinstance(value, dict) and "toolResult" in value:
        content = value["toolResult"].get("content", [])
        return "\n".join(_text_of(part) for part in content)
    return encode_row(value).decode("utf-8", "replace") if value else ""


def _excerpts(old: str, new: str) -> tuple[str, str]:
    """Both texts around the first character that differs."""
    same = next((at for at, (a, b) in enumerate(zip_longest(old, new)) if a != b), 0)

    def excerpt(text: str) -> str:
        begin, end = max(0, same - _BEFORE), same + _BEHIND
        return ("…" if begin else "") + repr(text[begin:end]) + ("…" if end < len(text) else "")

    return excerpt(old), excerpt(new)
