"""A plugin as its source has it now, in a directory of our own, so that what is shown is what is taken."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from strands_cli.cli.plugin.arguments import plugin_directory
from strands_cli.cli.plugin.copying import copy_plugin, unportable
from strands_cli.cli.plugin.git import check_out
from strands_cli.cli.plugin.sources import Source
from strands_cli.errors import Issue, SpecError
from strands_cli.plugins.contents import digests
from strands_cli.plugins.places import MANIFEST_NAME
from strands_cli.plugins.reading import Plugin, read_plugin

_SHOWN_PLACES = 3


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    source: Source
    plugin: Plugin
    files: dict[str, str]
    """Its hashes."""
    commit: str = ""

    @property
    def directory(self) -> Path:
        return self.plugin.directory


@contextmanager
def fetched(source: Source) -> Iterator[Candidate]:
    """The plugin of a source, gone afterwards; SpecError with all its problems where it is not in order."""
    with TemporaryDirectory(prefix="strands-plugin-") as name:
        root = Path(name).resolve() / "fetched"
        commit, place, shown = (_from_repository if source.is_repository else _from_directory)(source, root)
        issues = unportable(place)
        reading = read_plugin(place)
        issues += reading.issues
        _refuse([_moved(issue, place, shown) for issue in issues], source)
        assert reading.plugin is not None
        yield Candidate(source=source, plugin=reading.plugin, files=digests(place), commit=commit)


def _from_repository(source: Source, root: Path) -> tuple[str, Path, Path]:
    """The commit, where the plugin lies, and how that place is called in messages."""
    commit = check_out(source, root)
    place = root / source.directory
    is_inside = place.resolve().is_relative_to(root)  # it may be a link of the repository's
    if not is_inside or not (place / MANIFEST_NAME).exists():
        raise _no_plugin(source, root)
    return commit, place, Path(source.directory)


def _from_directory(source: Source, root: Path) -> tuple[str, Path, Path]:
    origin = plugin_directory(Path(source.place))
    _refuse(unportable(origin), source)  # before a pipe is read
    copy_plugin(origin, root)
    return "", root, origin


def _refuse(issues: list[Issue], source: Source) -> None:
    if issues:
        raise SpecError(f"The plugin of {source} is not in order.", issues=issues)


def _moved(issue: Issue, place: Path, shown: Path) -> Issue:
    """The same issue, told of the source and not of our copy."""
    file = Path(issue.file)
    inside = file.relative_to(place) if file.is_relative_to(place) else file
    return msgspec.structs.replace(issue, file=str(shown / inside))


def _no_plugin(source: Source, root: Path) -> SpecError:
    found = sorted(file.parent.relative_to(root).as_posix() for file in root.glob(f"**/{MANIFEST_NAME}"))
    where = source.directory or "its root"
    if found:
        named = ", ".join(f"#{place}" for place in found[:_SHOWN_PLACES] if place != ".") or "no directory"
        hint = f"Plugins lie elsewhere in it: add {named} to the URL."
    else:
        hint = f"A plugin is a directory with a {MANIFEST_NAME}."
    return SpecError(f"{source} has no {MANIFEST_NAME} in {where}.", hint=hint)
