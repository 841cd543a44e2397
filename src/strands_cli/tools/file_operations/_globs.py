"""Which of the files below a directory are meant: glob patterns, and what is passed over."""

import fnmatch
import re
from collections.abc import Callable
from functools import cache

from strands_cli.documents.files import Entry

Parts = tuple[str, ...]
"""A path below the directory that is walked, divided at its slashes."""

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
    expressions = [None if step == "**" else re.compile(fnmatch.translate(step)) for step in steps]
    return lambda parts: _path_fits_glob(parts, expressions)


def _path_fits_glob(parts: Parts, steps: list[re.Pattern[str] | None]) -> bool:
    @cache  # so that many `**` cost no more than a few
    def fits(part: int, step: int) -> bool:
        """Whether what is left of the path fits what is left of the pattern."""
        if step == len(steps):
            return part == len(parts)
        expression = steps[step]
        if expression is None:  # a `**`, which may stand for no directory at all
            return fits(part, step + 1) or (part < len(parts) and fits(part + 1, step))
        return part < len(parts) and bool(expression.match(parts[part])) and fits(part + 1, step + 1)

    return fits(0, 0)
