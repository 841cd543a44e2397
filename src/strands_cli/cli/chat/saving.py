"""A conversation as a file: Markdown for people, JSON for programs."""

import json
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from strands_cli.cli.text import clean
from strands_cli.errors import ArtifactError, UsageError

Messages = Sequence[Mapping[str, Any]]

_SPEAKERS = {"user": "You", "assistant": "Model"}
_FENCE = "```"


def as_text(file: Path, messages: Messages, model: str) -> str:
    """What the file is to hold, by its name: JSON for `.json`, else Markdown."""
    if file.suffix.lower() == ".json":
        document = {"model": model, "messages": messages}
        return json.dumps(document, indent=2, ensure_ascii=False, default=_plain) + "\n"
    return clean("\n".join(_markdown(messages, model)))


def file_of(argument: str) -> Path:
    """The file that someone means who types this."""
    try:
        return Path(argument).expanduser()
    except RuntimeError as error:  # a home that nobody has
        raise UsageError(f"{argument}: {error}", hint="Name a file: /save FILE") from None


def is_file(file: Path) -> bool:
    return file.is_file()


def write_whole(file: Path, text: str) -> None:
    """Writes the file whole or not at all, in the place of one that is there."""
    if file.exists() and not file.is_file():
        raise ArtifactError(f"{file} is no file.", hint="Choose another place: /save FILE")
    temporary = file.with_name(f".strands-{os.urandom(8).hex()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
        temporary.replace(file)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise ArtifactError(
            f"{file} cannot be written: {error.strerror}.", hint="Choose another place: /save FILE"
        ) from None


def _plain(value: object) -> str:
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _markdown(messages: Messages, model: str) -> Iterator[str]:
    yield f"# Conversation with {model}\n"
    speaker = ""
    for message in messages:
        is_result = any("toolResult" in block for block in message["content"])
        now = speaker if is_result else _SPEAKERS[message["role"]]
        if now != speaker:
            yield f"## {now}\n"
        speaker = now
        for block in message["content"]:
            yield from _block(block)


def _block(block: Mapping[str, Any]) -> Iterator[str]:
    if "text" in block:
        yield f"{block['text'].strip()}\n"
    elif "toolUse" in block:
        use = block["toolUse"]
        yield from _fenced(f"Calls `{use['name']}` with", use["input"])
    elif "toolResult" in block:
        result = block["toolResult"]
        said = [part.get("text", part.get("json", list(part))) for part in result["content"]]
        if result["status"] == "success":
            yield from _fenced("The tool answers", said[0] if len(said) == 1 else said)
        else:  # the message, which is there for programs a second time
            yield from _fenced("The tool fails", said[0] if said else "")


def _fenced(title: str, value: Any) -> Iterator[str]:
    """A value in a fence that nothing in it ends."""
    is_text = isinstance(value, str)
    text = str(value) if is_text else json.dumps(value, indent=2, ensure_ascii=False, default=_plain)
    fence = _FENCE
    while fence in text:
        fence += "`"
    yield f"{title}:\n\n{fence}{'text' if is_text else 'json'}\n{text}\n{fence}\n"
