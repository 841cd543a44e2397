"""The tools of plugins, as discovery hands them on: from manifests, or the cache where nothing changed."""

import os
import sys
from collections.abc import Sequence
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING

from strands_cli.errors import Issue, SpecError
from strands_cli.plugins.directories import (
    MANIFEST_NAME,
    is_plugin_disabled,
    lock_files,
    plugin_paths,
    plugin_roots,
    plugins_in,
    read_plugin_state,
)
from strands_cli.settings import Settings
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import Discovered, join_discovered
from strands_cli.tools._discovery.scan import NO_CACHE, Cache, unreadable_directory
from strands_cli.tools.sources.modules import Source

if TYPE_CHECKING:
    from strands_cli.plugins.plugin import Plugin
    from strands_cli.toolkit.contract import Tool

# What reads a plugin is imported where there is one to be read: most listings have none.


class Plugins(Source):
    """A plugin's processes belong to the event loop that calls its tools, and end with it."""

    name = "plugin"

    def discover(self) -> Discovered:
        return scan_plugins(self.settings, self.cache)

    def load(self, info: ToolInfo) -> "Tool":
        from strands_cli.plugins.plugin_tool import load_plugin_tool

        return load_plugin_tool(info, self.settings)


def scan_plugins(settings: Settings, cache: Cache = NO_CACHE) -> Discovered:
    """The tools of every plugin that is switched on: the project's, then the user's."""
    parts: list[Discovered] = []
    for root in plugin_roots(settings).values():
        try:
            if places := plugins_in(root):
                parts += _scan_plugin_root(root, places, settings, cache)
        except OSError as error:
            parts.append(Discovered(issues=(unreadable_directory(root, error),)))
        except SpecError as error:  # which plugins are switched off is not known, so none is on
            parts.append(_refused_plugin(error.message, error.hint))
    # What does not run comes last, so that it takes no other plugin's name.
    return join_discovered(sorted(parts, key=lambda part: bool(part.issues)))


def read_named_plugins(names: Sequence[str], base: Path, settings: Settings) -> list[Discovered]:
    """The tools of the plugins that a workflow names: by name, or by directory, relative to `base`.

    Each directory is read once, however often it is named.
    """
    readings: dict[str, Discovered] = {}

    def read(place: Path) -> tuple[Path, Discovered]:
        key = os.path.normpath(place)
        if key not in readings:
            readings[key] = _read_plugin_tools(place, settings)
        return place, readings[key]

    roots = plugin_roots(settings).values() if names else ()
    listed = [read(place) for root in roots for place in plugins_in(root)]

    def find(name: str) -> tuple[Path, Discovered] | None:
        found = [
            (place, reading)
            for place, reading in listed
            if place.name == name or any(info.family == name for info in reading.infos)
        ]
        if found:
            return min(found, key=lambda one: bool(one[1].issues))  # the first, if possible one that runs
        place = base / Path(name).expanduser()
        # os.path answers for names that no file system takes, too
        return read(place) if os.path.lexists(place / MANIFEST_NAME) else None

    return [_if_enabled(name, find(name), base) for name in names]


def _if_enabled(name: str, found: tuple[Path, Discovered] | None, base: Path) -> Discovered:
    if found is None:
        reason = f"There is no plugin {name!r}: neither of this name, nor as a directory below {base}."
        return _refused_plugin(
            reason, "Name a plugin of 'strands plugin list', or a directory with a plugin.json."
        )
    place, reading = found
    try:
        if not is_plugin_disabled(place, read_plugin_state()):
            return reading
    except SpecError as error:
        return _refused_plugin(error.message, error.hint)
    return _refused_plugin(f"The plugin {name!r} is disabled.", f"'strands plugin enable {name}' enables it.")


def _refused_plugin(reason: str, remedy: str) -> Discovered:
    return Discovered(issues=(Issue(reason=reason, remediation=remedy),))


def _scan_plugin_root(root: Path, places: list[Path], settings: Settings, cache: Cache) -> list[Discovered]:
    state = read_plugin_state()
    known = cache.file(f"{root}|plugins|{settings.project}|{settings.workspace}|{_has_keyring()}")
    parts: list[Discovered] = []
    for place in places:
        if is_plugin_disabled(place, state):
            continue
        name = f"{place}|{os.path.realpath(place)}"  # a link may lead elsewhere than it did
        found = known.find(name)
        if found is None:
            found = _read_plugin_tools(place, settings)
            if not found.issues:  # what would repair them may be a file that the reading did not get to
                known.keep(name, found)
        parts.append(found)
        if "logging" in sys.modules:  # somebody wants to know
            import logging

            log = logging.getLogger("strands_cli.plugins")
            log.debug("%s: %d tools, %d problems", place, len(found.infos), len(found.issues))
    known.close()
    return parts


def _read_plugin_tools(place: Path, settings: Settings) -> Discovered:
    from strands_cli.plugins.plugin import read_plugin

    reading = read_plugin(place)
    if reading.plugin is None:
        return Discovered(issues=reading.issues)
    decided = _check_decisions(reading.plugin, settings)
    origin = place.relative_to(settings.project) if place.is_relative_to(settings.project) else place
    infos = reading.plugin.infos(str(origin), has_keyring=_has_keyring())
    return Discovered(infos, decided.issues, (*reading.files, *decided.files))


def _check_decisions(plugin: "Plugin", settings: Settings) -> Discovered:
    """Whether a plugin may run. Files are hashed only where the user approved it or a lock names it."""
    from strands_cli.plugins.approvals import approvals_file
    from strands_cli.plugins.permissions import plugin_standing

    files = tuple(str(file) for file in (*lock_files(settings.project), approvals_file()) if file)
    try:
        standing = plugin_standing(plugin.place, plugin.name, settings, plugin)
        if standing.approval or standing.lock:
            files = (*files, *plugin_paths(plugin.directory))
    except SpecError as error:
        return Discovered(issues=(Issue(reason=error.message, remediation=error.hint),), files=files)
    except OSError as error:  # it went away, or a part of it cannot be read
        gone = Issue(file=str(plugin.place), reason=f"The plugin cannot be read: {error.strerror}.")
        return Discovered(issues=(gone,), files=files)
    return Discovered(issues=(standing.refusal,) if standing.refusal else (), files=files)


@once
def _has_keyring() -> bool:
    from importlib.util import find_spec

    return find_spec("keyring") is not None
