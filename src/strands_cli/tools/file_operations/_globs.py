"""Which of the files below a directory are meant: glob patterns, and what is passed over."""

import fnmatch
import re
from collections.abc import Callable

from strands_cli.documents.files import Entry

Parts = tuple[str, ...]
"""A path below the directory that is walked, divided at its slashes."""

_NOTHING = re.compile(r"(?!)")
_VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})


def is_searched(directory: Entry) -> bool:
    """Whether what is in a directory counts: the data of version control does not."""
    return directory.parts[-1] not in _VERSION_CONTROL


def glob_filter(pattern: str) -> Callable[[Parts], bool]:
    """Tells whether a path fits: `*.py` is for names at any depth, `src/*.py` and `src/**/*.py` for paths."""
    if not pattern:
        return lambda _: True
    steps = [step for step in pattern.removeprefix("./").split("/") if step]
    if len(steps) == 1:
        steps.insert(0, "**")
    compiled = [None if step == "**" else re.compile(fnmatch.translate(step)) for step in steps]
    return lambda parts: _path_fits_glob(parts, compiled)


def _path_fits_glob(parts: Parts, steps: list[re.Pattern[str] | None]) -> bool:
    """Follows all ways through the pattern at once, so that many `**` cost no more than a few."""
    places = {0}
    for part in parts:
        following: set[int] = set()
        for place in _past_double_stars(places, steps):
            step = steps[place] if place < len(steps) else _NOTHING
            if step is None:
                following.add(place)
            elif step.match(part):
                following.add(place + 1)
        places = following
    return len(steps) in _past_double_stars(places, steps)


def _past_double_stars(places: set[int], steps: list[re.Pattern[str] | None]) -> set[int]:
    """The places, and those behind a `**`, which may stand for no directory at all."""
    reached = set(places)
    for place, step in enumerate(steps):
        if place in reached and step is None:
            reached.add(place + 1)
    return reached
