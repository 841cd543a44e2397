"""What discovery hands on. Nothing here knows how it was found out."""

from collections.abc import Iterable

import msgspec

from strands_cli.errors import Issue
from strands_cli.toolkit.info import ToolInfo


class Reading(msgspec.Struct, frozen=True):
    """The tools of a file, a family or a directory, and what was wrong."""

    infos: tuple[ToolInfo, ...] = ()
    issues: tuple[Issue, ...] = ()
    files: tuple[str, ...] = ()
    """Every path that the reading rests on, those that were looked for and are not there included."""


class EntryPoint(msgspec.Struct, frozen=True, array_like=True):
    """One line of an installed package's `entry_points.txt`."""

    name: str
    module: str
    attribute: str
    distribution: str
    version: str
    directory: str
    """The entry of the import path that the package was found in."""
    file: str

    @property
    def value(self) -> str:
        return f"{self.module}:{self.attribute}" if self.attribute else self.module


Stamp = tuple[int, int, int, int]
"""When a file was written, when anything about it changed, its size and its number."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A remembered reading, or the entry points of one directory, with the state of the files it rests on."""

    stamps: dict[str, Stamp]
    infos: tuple[ToolInfo, ...] = ()
    issues: tuple[Issue, ...] = ()
    entry_points: tuple[EntryPoint, ...] = ()

    @property
    def files(self) -> Iterable[str]:
        return self.stamps


def join_parts(parts: Iterable[Reading | Entry]) -> Reading:
    infos: list[ToolInfo] = []
    issues: list[Issue] = []
    files: list[str] = []
    for part in parts:
        infos += part.infos
        issues += part.issues
        files += part.files
    return Reading(tuple(infos), tuple(issues), tuple(files))
