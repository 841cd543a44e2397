"""Read a text file."""

import io
import os
from contextlib import suppress

from strands_cli.documents.problems import shorten_text
from strands_cli.errors import ToolFailed, did_you_mean
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.decorator import tool
from strands_cli.toolkit.workspace import file_refusal
from strands_cli.tools import with_tool_specs

TOOL_SPEC = {
    "name": "file_read",
    "description": (
        "Read a text file in the workspace: all of it (up to 10 MB), or the lines start_line to end_line. "
        "Returns the text unchanged, without line numbers."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "The path of the file in the workspace",
                    "minLength": 1,
                },
                "start_line": {
                    "type": "integer",
                    "description": "The first line to return; the file's first line is 1",
                    "minimum": 1,
                    "default": 1,
                },
                "end_line": {
                    "type": "integer",
                    "description": "The last line to return, included; without it, up to the end of the file",
                    "minimum": 1,
                },
                "encoding": {
                    "type": "string",
                    "description": "The encoding of the file, such as 'utf-8', 'latin-1' or 'utf-16'",
                    "default": "utf-8",
                    "maxLength": 50,
                },
            },
            "required": ["path"],
        }
    },
}

MAX_BYTES = 10_000_000
_PIECE = 65_536
HEAD_BYTES = 8192

# Encodings of Python's that are not for the contents of files; the first two take very long over long texts.
_FOR_OTHER_USES = frozenset({"punycode", "idna", "undefined", "unicode-escape", "raw-unicode-escape"})
_KINDS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "an executable"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xff\xfe", "probably text in UTF-16"),
    (b"\xfe\xff", "probably text in UTF-16"),
)


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    category="file_ops",
    effects={"reads": ["file:{path}"]},
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def file_read(
    path: str,
    start_line: int = 1,
    end_line: int | None = None,
    encoding: str = "utf-8",
    *,
    context: ToolContext,
) -> str:
    if end_line is not None and end_line < start_line:
        raise ToolFailed(
            f"end_line {end_line} comes before start_line {start_line}",
            code="input_invalid",
            hint="Both are line numbers, and end_line is included.",
        )
    codec = _text_codec(encoding)
    with context.workspace.open(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if start_line == 1 and end_line is None and size > MAX_BYTES:
            raise too_much_to_read(f"{path} has {size:,} bytes")
        try:
            head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
            return _read_lines(stream, head, path, codec, context, first=start_line, last=end_line)
        except UnicodeError:
            raise not_a_text_file(path, size, head, encoding) from None
        except OSError as error:
            raise file_refusal(error, path, "read") from None


def _read_lines(
    stream: io.BufferedReader,
    head: bytes,
    path: str,
    codec: str,
    context: ToolContext,
    *,
    first: int,
    last: int | None,
) -> str:
    """The lines; UnicodeError where they are not text. Read in pieces: a line may be as long as the file."""
    is_wide = codec.startswith(("utf-16", "utf-32"))
    if b"\0" in head and not is_wide:
        raise UnicodeError
    codec = "utf-8-sig" if codec == "utf-8" and head.startswith(b"\xef\xbb\xbf") else codec
    # Lines end with "\n" and nothing else, and no line ending is translated.
    kept: list[str] = []
    size, line, seen = 0, 1, 0
    with io.TextIOWrapper(stream, codec, newline="\n") as decoded:
        while (last is None or line <= last) and (piece := decoded.readline(_PIECE)):
            seen = line
            if context.cancelled:
                raise ToolFailed(f"Reading {path} was cancelled", code="cancelled")
            if line >= first and "\0" in piece and not is_wide:
                raise UnicodeError
            if line >= first:
                kept.append(piece)
                size += len(piece)
            if size > MAX_BYTES:
                raise too_much_to_read(f"{path} has more than that from line {first} on")
            line += piece.endswith("\n")
    if first > max(seen, 1):
        raise ToolFailed(
            f"{path} has {seen} line{'' if seen == 1 else 's'}, so there is no line {first}", code="not_found"
        )
    return "".join(kept)


def _text_codec(encoding: str) -> str:
    import codecs
    from encodings.aliases import aliases

    with suppress(LookupError, ValueError):
        io.TextIOWrapper(io.BytesIO(), encoding).detach()  # refuses what is not for text, such as base64
        name = codecs.lookup(encoding).name.replace("_", "-")
        if name not in _FOR_OTHER_USES:
            return name
    known = {name.replace("_", "-") for name in (*aliases, *aliases.values())}
    meant = did_you_mean(encoding.replace("_", "-"), known)
    raise ToolFailed(
        f"Unknown text encoding {shorten_text(encoding)!r}",
        code="input_invalid",
        hint=meant or "Use 'utf-8', 'latin-1', 'cp1252' or 'utf-16'.",
    )


def too_much_to_read(what: str, way: str = "start_line and end_line") -> ToolFailed:
    return ToolFailed(
        f"{what}; {MAX_BYTES:,} bytes can be read at most",
        hint=f"Read a part with {way}, or look for what you need with file_search.",
    )


def not_a_text_file(path: str, size: int, head: bytes, encoding: str) -> ToolFailed:
    kind, hint = "binary data", "This tool reads text only."
    if b"\0" not in head:
        kind, hint = (
            f"{kind}, or text in another encoding",
            "If it is text, name its encoding, such as 'latin-1'.",
        )
    kind = next((kind for signature, kind in _KINDS if head.startswith(signature)), kind)
    hint = "Read it with file_read and the encoding 'utf-16'." if "UTF-16" in kind else hint
    return ToolFailed(f"{path} is not {encoding} text: it is {kind}, {size:,} bytes", hint=hint)


__getattr__ = with_tool_specs(__name__)
