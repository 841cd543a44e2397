"""Matching a regular expression against files, in a process of its own.

Python matches without letting go of the interpreter's lock, and some expressions take years on a short line:
in our own process not even a deadline would be noticed. This file is run as a program, so it imports nothing
of ours. Its input is a line of JSON and then the files' names with null bytes between them, its output JSON.
"""

import io
import json
import os
import re
import sys
from typing import Any

MOST_BYTES = 5_000_000
LONGEST_LINE = 10_000
_HEAD = 8192
_SHOWN_CHARACTERS = 300
_SHOWN_BEFORE = 100


def search(pattern: str, files: list[bytes], max_results: int) -> dict[str, Any]:
    """The lines that match; `file` is the file's place in the list."""
    expression = re.compile(pattern)
    matches: list[dict[str, Any]] = []
    searched = skipped = 0
    for place, file in enumerate(files):
        text = read_text(file)
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
            matches.append({"file": place, "line": number, "text": excerpt(line.rstrip("\r"), found.start())})
    return {"matches": matches, "truncated": False, "searched": searched, "skipped": skipped}


def read_text(file: bytes) -> str | None:
    """A file's text; None where it is too large, binary or unreadable."""
    try:
        with io.BufferedReader(io.FileIO(file, opener=_open_at_once)) as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError:
        return None
    if len(data) > MOST_BYTES or b"\0" in data[:_HEAD]:
        return None
    return data.decode("utf-8", "replace")


def _open_at_once(file: str | bytes, flags: int) -> int:
    """Without waiting for the writer of a named pipe, and not through a link put there since."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))


def excerpt(line: str, start: int) -> str:
    """The line, or of a long one what is around the match."""
    if len(line) <= _SHOWN_CHARACTERS:
        return line
    begin = min(max(0, start - _SHOWN_BEFORE), len(line) - _SHOWN_CHARACTERS)
    end = begin + _SHOWN_CHARACTERS
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


def limit_processor_time(seconds: int) -> None:
    """Ends this process even when nobody is left to end it."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def main() -> None:
    head, _, names = sys.stdin.buffer.read().partition(b"\n")
    request = json.loads(head)
    limit_processor_time(request["seconds"])
    answer = search(request["pattern"], names.split(b"\0") if names else [], request["max_results"])
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
