"""Matching a regular expression against files, in a process of its own.

Python matches without letting go of the interpreter's lock, and some expressions take years on a short line:
in our own process not even a deadline would be noticed. This file is run as a program, so it imports nothing
of ours. Its input is a line of JSON and then the files' names with null bytes between them, its output JSON.
Names are looked up in a directory that it inherits open, part by part and never through links. To search one
file with the lines around its matches, the file itself is the input, and the request an environment variable.
"""

import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

MAX_BYTES = 5_000_000
LONGEST_LINE = 10_000
REQUEST = "LINE_SEARCH_REQUEST"
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


def lines_around_matches(
    stream: BinaryIO, pattern: str, max_results: int, *, around: int, ignore_case: bool
) -> dict[str, Any]:
    """The lines that match and so many `around` each, as number, whether it matches, and text."""
    expression = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    shown: list[tuple[int, bool, str]] = []
    before: deque[tuple[int, bool, str]] = deque(maxlen=around)
    found = following = 0
    for number, line in enumerate(_cut_lines(stream), 1):
        match = expression.search(line[:LONGEST_LINE])
        if match and found == max_results:
            return {"lines": shown, "found": found, "truncated": True}
        entry = (number, match is not None, match_excerpt(line, match.start() if match else 0))
        if match:
            shown += [*before, entry]
            before.clear()
            found, following = found + 1, around
        elif following:
            shown.append(entry)
            following -= 1
        else:
            before.append(entry)
    return {"lines": shown, "found": found, "truncated": False}


def _cut_lines(stream: BinaryIO) -> Iterator[str]:
    """The lines of a file of any size, each without its end, and cut where it is far too long."""
    while line := stream.readline(4 * LONGEST_LINE):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(1_000_000)
        yield line.decode("utf-8", "replace").rstrip("\n").rstrip("\r")


def main() -> None:
    around = os.environ.get(REQUEST)
    head, names = around or "", b""
    if around is None:
        data, _, names = sys.stdin.buffer.read().partition(b"\n")
        head = data.decode()
    request = json.loads(head)
    with suppress(ImportError):  # where there are limits, they end this even when nobody is left to do so
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"]))
    what = request["pattern"], request["max_results"]
    if around is not None:
        options = {name: request[name] for name in ("around", "ignore_case")}
        answer = lines_around_matches(sys.stdin.buffer, *what, **options)
    else:
        answer = search_lines(what[0], names.split(b"\0") if names else [], what[1], request.get("directory"))
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
