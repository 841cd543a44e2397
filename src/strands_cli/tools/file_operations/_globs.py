"""Which of the files below a directory are meant: glob patterns, and what is passed over."""

import fnmatch
import re
from collections.abc import Callable
from functools import lru_cache

from strands_cli.documents.files import MAX_LEVELS, Entry

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
    # Several `**` in a row mean what one means.
    steps = [
        step for step, before in zip(steps, ["", *steps], strict=False) if step != "**" or before != "**"
    ]
    expressions = [None if step == "**" else re.compile(fnmatch.translate(step)) for step in steps]

    def with_empty_stars(reached: set[int]) -> frozenset[int]:
        """A `**` may stand for no directory at all."""
        return frozenset(reached | {step + 1 for step in reached if expressions[step : step + 1] == [None]})

    @lru_cache(maxsize=2 * MAX_LEVELS)  # a walk asks about what is in a directory after the directory
    def steps_done(parts: Parts) -> frozenset[int]:
        """How many steps of the pattern a path may have used up."""
        if not parts:
            return with_empty_stars({0})
        reached: set[int] = set()
        for step in steps_done(parts[:-1]) - {len(expressions)}:
            expression = expressions[step]
            if expression is None:
                reached.add(step)
            elif expression.match(parts[-1]):
                reached.add(step + 1)
        return with_empty_stars(reached)

    return lambda parts: len(expressions) in steps_done(parts)
