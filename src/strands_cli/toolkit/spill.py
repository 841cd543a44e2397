"""Answers that are too long for a model: the whole goes to a file, the model gets a preview and the path."""

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from strands_cli.settings import answers_directory
from strands_cli.toolkit.results import ToolResult
from strands_cli.toolkit.values import encoded_size

_KEPT_SECONDS = 7 * 24 * 3600
_PREVIEW_SHARE = 0.5
"""How much of the limit the preview may take, so that path and size fit beside it."""


def capped(tool_id: str, result: ToolResult, most: int) -> ToolResult:
    """The result itself where it is short enough, else a preview of it that names the file with the whole."""
    if not most or _is_surely_short(result, most):
        return result
    size = encoded_size(result)
    if size <= most:
        return result
    blocks = result["content"]
    if len(blocks) == 1 and "text" in blocks[0]:
        return {**result, "content": [_text_preview(tool_id, blocks[0]["text"], size, most)]}
    values = [block.get("json", block.get("text")) for block in blocks]
    whole = values[0] if len(values) == 1 else values
    return {**result, "content": [_json_preview(tool_id, whole, size, most)]}


def _is_surely_short(result: ToolResult, most: int) -> bool:
    """The common case without encoding anything: one short text, of at most four bytes a character."""
    blocks = result["content"]
    return len(blocks) == 1 and "text" in blocks[0] and len(blocks[0]["text"]) * 4 <= most


def _text_preview(tool_id: str, text: str, size: int, most: int) -> dict[str, Any]:
    file = _write(tool_id, text.encode(), ".txt")
    shown = text.encode()[: int(most * _PREVIEW_SHARE)].decode(errors="ignore")
    return {"text": f"{shown}\n… The answer has {size} bytes. All of it is in {file}; file_read opens it."}


def _json_preview(tool_id: str, value: Any, size: int, most: int) -> dict[str, Any]:
    file = _write(tool_id, json.dumps(value, ensure_ascii=False, default=_unprintable).encode(), ".json")
    room = int(most * _PREVIEW_SHARE)
    note = "The answer was too long. parse_json reads all of it from the path, with a query for a part of it."
    return {
        "json": {
            "truncated": True,
            "size": size,
            "path": str(file),
            "note": note,
            "preview": _pruned(value, room),
        }
    }


def _unprintable(value: object) -> str:
    return f"({type(value).__name__} of {len(value)} bytes)" if isinstance(value, bytes) else str(value)


def _pruned(value: Any, room: int) -> Any:
    """As much of a JSON value as fits into about `room` characters, still valid JSON."""
    if isinstance(value, str):
        return value if len(value) <= room else value[: max(room, 0)] + "…"
    if isinstance(value, dict):
        return dict(_first(((key, inner) for key, inner in value.items()), room))
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
        room -= len(json.dumps(shown, ensure_ascii=False))


def _write(tool_id: str, data: bytes, suffix: str) -> Path:
    directory = answers_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_old(directory)
    descriptor, name = tempfile.mkstemp(suffix=suffix, prefix=f"{tool_id}-", dir=directory)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
    return Path(name)


def _remove_old(directory: Path) -> None:
    limit = time.time() - _KEPT_SECONDS
    for file in directory.iterdir():
        try:
            if file.stat().st_mtime < limit:
                file.unlink()
        except OSError:
            continue  # another process was faster
