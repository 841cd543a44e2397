"""The file that a tool's `path` names: where it may lie, and whether the kernel would execute it."""

import os
from pathlib import Path

_ELF = b"\x7fELF"
_LONGEST_FIRST_LINE = 256


def executable_problem(directory: Path, path: str) -> tuple[str, str] | None:
    """Why the executable of a tool cannot be used and what to do about it; None where it can.

    `directory` is the plugin's, resolved.
    """
    if Path(path).is_absolute():
        return f"{path} is an absolute path.", "Name the file relative to the plugin's directory."
    try:
        file = (directory / path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        return f"{path} is no usable path: {error}.", "Name a file in the plugin's directory."
    if not file.is_relative_to(directory):
        return (
            f"{path} leads out of the plugin, to {file}.",
            "Keep it inside the plugin's directory.",
        )
    if not file.exists():
        return f"There is no file {path}.", "Create it, or correct the path."
    if not file.is_file():
        return f"{path} is not a file.", "Name the executable itself."
    if not os.access(file, os.X_OK):
        return f"{path} is not executable.", f"Run: chmod +x {directory / path}"
    return _format_problem(file, path)


def _format_problem(file: Path, path: str) -> tuple[str, str] | None:
    try:
        with file.open("rb") as stream:
            first = stream.readline(_LONGEST_FIRST_LINE)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}.", "Make it readable."
    if first.startswith(b"#!") and first.endswith(b"\r\n"):
        return (
            f"The lines of {path} end in CR LF, so its interpreter is not found.",
            "Let them end in LF.",
        )
    if first.startswith((b"#!", _ELF)):
        return None
    return (
        f"{path} is no program, and no script with an interpreter.",
        "Begin it with a line like #!/bin/sh.",
    )
