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
from strands_cli.toolkit.values import BINARY_KINDS, encoded_size

_KEPT_SECONDS = 7 * 24 * 3600
_PREVIEW_SHARE = 0.5
"""How much of the limit the preview may take, so that path and size fit beside it."""


def capped(tool_id: str, result: ToolResult, most: int) -> ToolResult:
    """The result itself where it is short enough, else previews that name the files with the whole.

    Images and documents are not counted: models take them by other measures.
    """
    if not most or _is_surely_short(result, most):
        return result
    blocks = [block for block in result["content"] if not any(kind in block for kind in BINARY_KINDS)]
    size = encoded_size({**result, "content": blocks})
    if size <= most:
        return result
    share = most // len(blocks)
    return {**result, "content": [_preview(tool_id, block, share) for block in result["content"]]}


def _is_surely_short(result: ToolResult, most: int) -> bool:
    """The common case without encoding anything: one short text, of at most four bytes a character."""
    blocks = result["content"]
    return len(blocks) == 1 and "text" in blocks[0] and len(blocks[0]["text"]) * 4 <= most


def _preview(tool_id: str, block: dict[str, Any], most: int) -> dict[str, Any]:
    if "text" in block and len(block["text"].encode()) > most:
        return _text_preview(tool_id, block["text"], most)
    if "json" in block and len(_json(block["json"])) > most:
        return _json_preview(tool_id, block["json"], most)
    return block


def _text_preview(tool_id: str, text: str, most: int) -> dict[str, Any]:
    data = text.encode()
    kept = _kept(tool_id, data, ".txt", "file_read opens it")
    shown = data[: int(most * _PREVIEW_SHARE)].decode(errors="ignore")
    return {"text": f"{shown}\n… The answer has {len(data)} bytes. {kept}"}


def _json_preview(tool_id: str, value: Any, most: int) -> dict[str, Any]:
    data = _json(value)
    kept = _kept(tool_id, data, ".json", "parse_json opens it, with a query for a part")
    note = f"The answer has {len(data)} bytes. {kept}"
    path = kept.rpartition(" is in ")[2].partition(";")[0] if " is in " in kept else None
    preview = _pruned(value, int(most * _PREVIEW_SHARE))
    return {"json": {"truncated": True, "size": len(data), "path": path, "note": note, "preview": preview}}


def _kept(tool_id: str, data: bytes, suffix: str, how: str) -> str:
    """A sentence that says where the whole is."""
    try:
        return f"All of it is in {_write(tool_id, data, suffix)}; {how}."
    except OSError as error:
        return f"The rest is lost: it could not be written to a file ({error.strerror})."


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
        room -= len(_json(shown))


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
