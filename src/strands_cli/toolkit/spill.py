"""Answers that are too long for a model: the whole goes to a file, the model gets a preview and the path."""

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from strands_cli.settings import answers_directory
from strands_cli.toolkit.results import ToolResult
from strands_cli.toolkit.values import BINARY_KINDS, encoded_size

_KEPT_SECONDS = 7 * 24 * 3600
_PREVIEW_SHARE = 0.5
"""How much of the limit the preview may take, so that path and size fit beside it."""


def capped(tool_id: str, result: ToolResult, most: int) -> ToolResult:
    """The result itself where it is short enough, else previews that name the files with the whole.

    Images and documents are not counted: models take them by other measures.
    """
    content = result["content"]
    # The common case without encoding anything: one short text, of at most four bytes a character.
    if not most or (len(content) == 1 and "text" in content[0] and len(content[0]["text"]) * 4 <= most):
        return result
    blocks = [block for block in content if not any(kind in block for kind in BINARY_KINDS)]
    if encoded_size({**result, "content": blocks}) <= most:
        return result
    share = most // len(blocks)
    return {**result, "content": [_preview(tool_id, block, share) for block in content]}


def _preview(tool_id: str, block: dict[str, Any], most: int) -> dict[str, Any]:
    if "text" in block:
        data, suffix, how = block["text"].encode(), ".txt", "file_read opens it"
    elif "json" in block:
        data, suffix, how = _json(block["json"]), ".json", "parse_json opens it, with a query for a part"
    else:
        return block
    if len(data) <= most:
        return block
    path = None
    try:
        path = _write(tool_id, data, suffix)
        whole = f"All of it is in {path}; {how}."
    except OSError as error:
        whole = f"The rest is lost: it could not be written to a file ({error.strerror})."
    note = f"The answer has {len(data)} bytes. {whole}"
    room = int(most * _PREVIEW_SHARE)
    if "text" in block:
        return {"text": f"{data[:room].decode(errors='ignore')}\n… {note}"}
    preview = _pruned(block["json"], room)
    return {"json": {"truncated": True, "size": len(data), "path": path, "note": note, "preview": preview}}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=_unprintable).encode()


def _unprintable(value: object) -> str:
    return f"({type(value).__name__} of {len(value)} bytes)" if isinstance(value, bytes) else str(value)


def _pruned(value: Any, room: int) -> Any:
    """As much of a JSON value as fits into about `room` characters, still valid JSON."""
    if isinstance(value, str):
        data = value.encode()
        return value if len(data) <= room else data[: max(room, 0)].decode(errors="ignore") + "…"
    if isinstance(value, dict):
        return dict(_first(value.items(), room))
    if isinstance(value, list):
        return [inner for _, inner in _first((("", inner) for inner in value), room)]
    return _unprintable(value) if isinstance(value, bytes) else value


def _first(pairs: Iterable[tuple[str, Any]], room: int) -> Iterator[tuple[str, Any]]:
    """The first members of an object or an array, as many as there is room for."""
    for key, inner in pairs:
        room -= len(key) + 6  # quotes, colon, comma and spaces
        if room <= 0:
            return
        shown = _pruned(inner, room)
        yield key, shown
        room -= len(_json(shown))


def _write(tool_id: str, data: bytes, suffix: str) -> str:
    """The path of a new file; those of last week make room for it."""
    directory = answers_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for file in directory.iterdir():
        with suppress(OSError):  # another process was faster
            if file.stat().st_mtime < time.time() - _KEPT_SECONDS:
                file.unlink()
    descriptor, name = tempfile.mkstemp(suffix=suffix, prefix=f"{tool_id}-", dir=directory)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    return name
