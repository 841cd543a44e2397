"""The tools of plugins, as discovery hands them on: from manifests, or the cache where nothing changed."""

import os
import sys
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING

from strands_cli.errors import Issue, SpecError
from strands_cli.plugins.directories import (
    MANIFEST_NAME,
    approvals_in_locks,
    is_plugin_disabled,
    lock_files,
    plugin_paths,
    plugin_roots,
    plugin_update_hint,
    plugins_in,
    read_plugin_state,
    unapproved_changes,
)
from strands_cli.settings import Settings
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import Discovered, join_discovered
from strands_cli.tools._discovery.scan import NO_CACHE, Cache, unreadable_directory
from strands_cli.tools.sources.modules import Source

if TYPE_CHECKING:
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
    return join_discovered(parts)


def read_named_plugin(name: str, base: Path, settings: Settings) -> Discovered:
    """The tools of a plugin that a workflow names: by its name, or by its directory, relative to `base`."""
    found = _find_named_plugin(name, base, settings)
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


def _find_named_plugin(name: str, base: Path, settings: Settings) -> tuple[Path, Discovered] | None:
    for root in plugin_roots(settings).values():
        for place in plugins_in(root):
            reading = _read_plugin_tools(place, settings)
            if place.name == name or any(info.family == name for info in reading.infos):
                return place, reading
    place = base / Path(name).expanduser()
    # os.path answers for names that no file system takes, too
    exists = os.path.lexists(place / MANIFEST_NAME)
    return (place, _read_plugin_tools(place, settings)) if exists else None


def _refused_plugin(reason: str, remedy: str) -> Discovered:
    return Discovered(issues=(Issue(reason=reason, remediation=remedy),))


def _scan_plugin_root(root: Path, places: list[Path], settings: Settings, cache: Cache) -> list[Discovered]:
    state = read_plugin_state()
    known = cache.file(f"{root}|plugins|{settings.project}|{_has_keyring()}")
    parts: list[Discovered] = []
    for place in places:
        if is_plugin_disabled(place, state):
            continue
        found = known.find(str(place))
        if found is None:
            found = _read_plugin_tools(place, settings)
            if not found.issues:  # what would repair them may be a file that the reading did not get to
                known.keep(str(place), found)
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
    approval = _check_approval(reading.plugin.name, place, settings)
    origin = place.relative_to(settings.project) if place.is_relative_to(settings.project) else place
    infos = reading.plugin.infos(str(origin), has_keyring=_has_keyring())
    return Discovered(infos, approval.issues, (*reading.files, *approval.files))


def _check_approval(name: str, place: Path, settings: Settings) -> Discovered:
    """Whether a plugin is unchanged since it was approved. Files are hashed only where a lock names it."""
    locks = tuple(str(file) for file in lock_files(settings.project))
    try:
        if not any(approvals_in_locks(place, settings.project)):
            return Discovered(files=locks)
        changes = unapproved_changes(place, settings.project)
    except SpecError as error:
        return Discovered(issues=(Issue(reason=error.message, remediation=error.hint),), files=locks)
    files = (*locks, *plugin_paths(place.resolve()))
    if not changes:
        return Discovered(files=files)
    issue = Issue(
        file=str(place),
        reason=f"The plugin {name} has changed since it was approved ({changes}); its tools do not run.",
        remediation=plugin_update_hint(name),
    )
    return Discovered(issues=(issue,), files=files)


@once
def _has_keyring() -> bool:
    from importlib.util import find_spec

    return find_spec("keyring") is not None
