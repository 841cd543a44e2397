"""Tools are discovered from what their files say. Nothing is imported; `scan` remembers what was read."""

from collections.abc import Iterable

import msgspec

from strands_cli.errors import Issue
from strands_cli.toolkit.info import ToolInfo

MAX_MODULES = 2_000
"""How many modules and families of one directory are read."""


class EntryPoint(msgspec.Struct, frozen=True, array_like=True):
    """One line of an installed package's `entry_points.txt`."""

    name: str
    module: str
    attribute: str
    distribution: str
    version: str
    file: str

    @property
    def origin(self) -> str:
        return f"{self.distribution} {self.version}".strip()


class Discovered(msgspec.Struct, frozen=True, array_like=True):
    """The tools of a file, a family, a directory or a source, and what was wrong."""

    infos: tuple[ToolInfo, ...] = ()
    issues: tuple[Issue, ...] = ()
    files: tuple[str, ...] = ()
    """Every path that this rests on, those that were looked for and are not there included."""
    entry_points: tuple[EntryPoint, ...] = ()
    """Of the packages in a directory of the import path: tools are behind them."""


def join_discovered(parts: Iterable[Discovered]) -> Discovered:
    parts = list(parts)
    return Discovered(
        tuple(info for part in parts for info in part.infos),
        tuple(issue for part in parts for issue in part.issues),
        tuple(file for part in parts for file in part.files),
    )


def is_module_name(name: str) -> bool:
    """Whether a file of a tools directory is read as a tool."""
    return name.endswith(".py") and name[0] not in "_." and name != "conftest.py" and name[:5] != "test_"
