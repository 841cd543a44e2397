"""Matching a regular expression against files, in a process of its own.

Python matches without letting go of the interpreter's lock, and some expressions take years on a short line:
in our own process not even a deadline would be noticed. This file is run as a program, so it imports nothing
of ours. Its input is a line of JSON and then the files' names with null bytes between them, its output JSON.
Names are looked up in a directory that it inherits open, part by part and never through links.
"""

import json
import os
import re
import stat
import sys
from contextlib import suppress
from typing import Any

MAX_BYTES = 5_000_000
LONGEST_LINE = 10_000
_HEAD = 8192
_SHOWN_CHARACTERS = 300
_SHOWN_BEFORE = 100


def search_lines(
    pattern: str, files: list[bytes], max_results: int, directory: int | None = None
) -> dict[str, Any]:
    """The lines that match; `file` is the file's place in the list."""
    expression = re.compile(pattern)
    matches: list[dict[str, Any]] = []
    searched = skipped = 0
    for index, file in enumerate(files):
        text = read_file_text(file, directory)
        if text is None:
            skipped += 1
            continue
        searched += 1
        for number, line in enumerate(text.split("\n"), 1):
            found = expression.search(line[:LONGEST_LINE].rstrip("\r"))
            if not found:
                continue
            if len(matches) == max_results:
                return {"matches": matches, "truncated": True, "searched": searched, "skipped": skipped}
            matches.append(
                {"file": index, "line": number, "text": match_excerpt(line.rstrip("\r"), found.start())}
            )
    return {"matches": matches, "truncated": False, "searched": searched, "skipped": skipped}


def read_file_text(file: bytes, directory: int | None) -> str | None:
    """A file's text; None where it is too large, binary or unreadable."""
    try:
        with os.fdopen(_open_without_links(file, directory), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return None
            data = stream.read(MAX_BYTES + 1)
    except OSError:
        return None
    if len(data) > MAX_BYTES or b"\0" in data[:_HEAD]:
        return None
    return data.decode("utf-8", "replace")


def _open_without_links(file: bytes, directory: int | None) -> int:
    """Without waiting for the writer of a named pipe, and without following a link anywhere on the way."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    if directory is None:
        return os.open(file, flags)
    *parents, name = file.split(b"/")
    here = os.dup(directory)
    try:
        for parent in parents:
            inner = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(name, flags, dir_fd=here)
    finally:
        os.close(here)


def match_excerpt(line: str, start: int) -> str:
    """The line, or of a long one what is around the match."""
    if len(line) <= _SHOWN_CHARACTERS:
        return line
    begin = min(max(0, start - _SHOWN_BEFORE), len(line) - _SHOWN_CHARACTERS)
    end = begin + _SHOWN_CHARACTERS
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


def main() -> None:
    head, _, names = sys.stdin.buffer.read().partition(b"\n")
    request = json.loads(head)
    with suppress(ImportError):  # where there are limits, they end this even when nobody is left to do so
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"]))
    files = names.split(b"\0") if names else []
    answer = search_lines(request["pattern"], files, request["max_results"], request.get("directory"))
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
