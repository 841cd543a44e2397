"""Walking through a directory of the workspace, and the glob patterns that choose from it."""

import fnmatch
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

Parts = tuple[str, ...]
"""A path below the directory that is walked, divided at its slashes."""

_NOTHING = re.compile(r"(?!)")
_VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})


def walk(directory: Path, *, recursive: bool) -> Iterator[tuple[Parts, "os.DirEntry[str]"]]:
    """What is in a directory, sorted by path. Never through links, and not into the data of version control.

    OSError where the directory itself cannot be read; those below it that cannot are passed over.
    """
    pending = _entries(str(directory), ())
    while pending:
        parts, entry = pending.pop()
        yield parts, entry
        if recursive and entry.name not in _VERSION_CONTROL and entry.is_dir(follow_symlinks=False):
            with suppress(OSError):
                pending += _entries(entry.path, parts)


def _entries(directory: str, above: Parts) -> list[tuple[Parts, "os.DirEntry[str]"]]:
    """Last name first, since the last one of a list is the next one to be taken from it."""
    with os.scandir(directory) as entries:
        in_order = sorted(entries, key=lambda entry: entry.name, reverse=True)
    return [((*above, entry.name), entry) for entry in in_order]


def glob_filter(pattern: str) -> Callable[[Parts], bool]:
    """Tells whether a path fits: `*.py` is for names at any depth, `src/*.py` and `src/**/*.py` for paths."""
    if not pattern:
        return lambda _: True
    steps = [step for step in pattern.removeprefix("./").split("/") if step]
    if len(steps) == 1:
        steps.insert(0, "**")
    compiled = [None if step == "**" else re.compile(fnmatch.translate(step)) for step in steps]
    return lambda parts: _fits(parts, compiled)


def _fits(parts: Parts, steps: list[re.Pattern[str] | None]) -> bool:
    """Follows all ways through the pattern at once, so that many `**` cost no more than a few."""
    places = {0}
    for part in parts:
        following: set[int] = set()
        for place in _without_depth(places, steps):
            step = steps[place] if place < len(steps) else _NOTHING
            if step is None:
                following.add(place)
            elif step.match(part):
                following.add(place + 1)
        places = following
    return len(steps) in _without_depth(places, steps)


def _without_depth(places: set[int], steps: list[re.Pattern[str] | None]) -> set[int]:
    """The places, and those behind a `**`, which may stand for no directory at all."""
    reached = set(places)
    for place, step in enumerate(steps):
        if place in reached and step is None:
            reached.add(place + 1)
    return reached
