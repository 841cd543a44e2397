"""The tools of one directory: its modules and its families, from the cache where nothing has changed."""

import os
from pathlib import Path

from strands_cli.errors import Issue
from strands_cli.tools._discovery.cache import Cache, Stamps, open_shelf, stamp_of
from strands_cli.tools._discovery.names import is_family_name, is_module_name
from strands_cli.tools._discovery.reading import Entry, Reading, join_parts

# `modules` is imported where something has to be read: on a second run that is nowhere, and `ast` stays away.

_NOTHING: frozenset[str] = frozenset()


_Candidate = tuple[str, bool, str]
"""The name without suffix, whether it is a module, and the path."""


def scan_directory(
    directory: Path,
    *,
    package: str,
    source: str,
    origin: str,
    cache: Cache | None = None,
    skip: frozenset[str] = _NOTHING,
) -> Reading:
    """What the modules and families of a tools directory declare, in the order of their names.

    `package` is the dotted name that the directory is loaded as; `skip` has names without suffix. Without an
    `origin`, each tool gets its own file, relative to the directory that holds this one.
    """
    root = os.path.abspath(directory)  # noqa: PTH100 - the cheap one: nothing is asked of the file system
    shelf = open_shelf(cache, f"{root}|{package}|{source}|{origin}")
    try:
        candidates = _candidates(root, shelf.stamps)
    except FileNotFoundError:
        return Reading()
    except OSError as error:
        return Reading(issues=(_unreadable(root, error),))
    parts: list[Reading | Entry] = []
    directories: set[str] = {name for name, is_module, _ in candidates if not is_module}
    for name, is_module, path in candidates:
        if name in skip:
            continue
        found: Reading | Entry | None = shelf.find(path)
        if is_module and name in directories and is_family(f"{root}{os.sep}{name}"):
            found = _hidden(path, name)
        elif found is None:
            found = reading = _read(path, f"{package}.{name}", is_module, source, origin)
            shelf.keep(path, reading)
        parts.append(found)
    shelf.close()
    return join_parts(parts)


def _candidates(root: str, stamps: Stamps) -> list[_Candidate]:
    found: list[_Candidate] = []
    with os.scandir(root) as listing:
        for entry in listing:
            name, path = entry.name, entry.path
            if is_module_name(name):
                found.append((name[:-3], True, path))
            elif is_family_name(name) and entry.is_dir():
                found.append((name, False, path))
            else:
                continue
            try:
                stamps[path] = stamp_of(entry.stat())
            except OSError:
                continue  # a dangling link: reading it says so
    found.sort()
    return found


def is_family(directory: str) -> bool:
    return os.path.isfile(f"{directory}{os.sep}__init__.py")  # noqa: PTH113 - a string, as everywhere here


def _read(path: str, module_path: str, is_module: bool, source: str, origin: str) -> Reading:
    from strands_cli.tools._discovery.modules import read_family, read_module

    place = Path(path)
    if "." in (place.stem if is_module else place.name):
        return _unloadable(
            path, f"{place.name} can never be loaded: there is a dot in its name.", "Rename it."
        )
    if is_module:
        return read_module(place, module_path=module_path, source=source, origin=origin)
    if is_family(path):
        return read_family(place, module_path=module_path, source=source, origin=origin)
    return _read_plain_directory(place)


def _hidden(path: str, name: str) -> Reading:
    reason = f"{name}.py can never be loaded: Python prefers the package {name}/ beside it."
    return _unloadable(path, reason, f"Rename one of them, or move {name}.py into {name}/.")


def _unloadable(path: str, reason: str, remedy: str) -> Reading:
    return Reading(issues=(Issue(file=path, line=1, reason=reason, remediation=remedy),), files=(path,))


def _read_plain_directory(directory: Path) -> Reading:
    """Without an `__init__.py` a directory is no family; it is a likely mistake where it holds modules."""
    files = (str(directory), str(directory / "__init__.py"))
    try:
        modules = sorted(file.name for file in directory.iterdir() if is_module_name(file.name))
    except OSError as error:
        return Reading(issues=(_unreadable(str(directory), error),), files=files)
    if not modules:
        return Reading(files=files)
    issue = Issue(
        severity="warning",
        file=files[0],
        reason=f"The directory holds {modules[0]}, but it is no family: it has no __init__.py.",
        remediation=f"Add {files[1]}, or rename the directory to _{directory.name}.",
    )
    return Reading(issues=(issue,), files=files)


def _unreadable(path: str, error: OSError) -> Issue:
    reason = f"The directory cannot be read: {error.strerror}."
    return Issue(file=path, reason=reason, remediation="Make it readable, or remove it.")
