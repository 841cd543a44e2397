"""Tools of installed packages: entry points are read from disk, and modules are located, not imported.

`importlib.metadata` and `find_spec` are not used: the first costs more than a whole listing, the second runs
the packages around a dotted name.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from strands_cli.errors import Issue, closest
from strands_cli.toolkit.info import ToolInfo, name_problem
from strands_cli.tools._discovery.cache import Cache, Shelf, open_shelf
from strands_cli.tools._discovery.reading import Entry, EntryPoint, Reading, join_parts

GROUP = "strands_cli.tools"

_SPEC_NAMES = ("TOOL_SPEC", "TOOL_SPECS")


def read_entry_points(
    group: str = GROUP, path: Sequence[str] | None = None, cache: Cache | None = None
) -> list[EntryPoint]:
    """The entry points of a group in the packages along an import path, by default that of this process."""
    directories = _directories(path)
    shelf = _shelf(cache, group, directories)
    points = _entry_points(shelf, group, directories)
    shelf.close()
    return points


def scan_packages(
    *,
    group: str = GROUP,
    path: Sequence[str] | None = None,
    source: str = "package",
    cache: Cache | None = None,
) -> Reading:
    """The tools that installed packages offer; the name of an entry is the id of a tool or of a family."""
    directories = _directories(path)
    shelf = _shelf(cache, group, directories)
    parts: list[Reading | Entry] = []
    for point in _entry_points(shelf, group, directories):
        file = locate_module(point.module, directories)
        if file is None:
            parts.append(_unlocated(point, source))
            continue
        name = f"{point.name}={point.value}|{_origin(point)}|{file}"
        found: Reading | Entry | None = shelf.find(name)
        if found is None:
            found = reading = _read(point, file, source)
            shelf.keep(name, reading)
        parts.append(found)
    shelf.close()
    return join_parts(parts)


def locate_module(dotted: str, path: Sequence[str] | None = None) -> Path | None:
    """The source file of a module, found by walking directories; None where there is none to read."""
    *parents, last = dotted.split(".")
    if not all(name.isidentifier() for name in (*parents, last)):
        return None
    places = _directories(path)
    for name in parents:
        packages = [place for place in (f"{place}{os.sep}{name}" for place in places) if _is_directory(place)]
        regular = [place for place in packages if _is_file(f"{place}{os.sep}__init__.py")]
        # A package with an __init__.py is the package; without one, all parts along the path are one.
        places = regular[:1] or packages
    for place in places:
        for candidate in (f"{place}{os.sep}{last}{os.sep}__init__.py", f"{place}{os.sep}{last}.py"):
            if _is_file(candidate):
                return Path(candidate)
    return None


# --- entry points -----------------------------------------------------------------------------------------


def _directories(path: Sequence[str] | None) -> list[str]:
    found = [os.path.abspath(place) for place in (sys.path if path is None else path)]  # noqa: PTH100 - cheap
    return list(dict.fromkeys(found))


def _shelf(cache: Cache | None, group: str, directories: list[str]) -> Shelf:
    return open_shelf(cache, f"packages|{group}|{os.pathsep.join(directories)}")


def _entry_points(shelf: Shelf, group: str, directories: list[str]) -> list[EntryPoint]:
    """Of a distribution that is there twice, the first along the path counts, as when it is imported."""
    points: dict[tuple[str, str], EntryPoint] = {}
    for directory in directories:
        entry = shelf.find(directory)
        if entry is None:
            files, found = _read_directory(directory, group)
            shelf.keep(directory, Reading(files=files), found)
        else:
            found = entry.entry_points
        for point in found:
            points.setdefault((_normal(point.distribution), point.name), point)
    return sorted(points.values(), key=lambda point: (point.name, point.distribution))


def _read_directory(directory: str, group: str) -> tuple[tuple[str, ...], tuple[EntryPoint, ...]]:
    """The entry points of the packages in a directory, and the files that this rests on."""
    files, points = [directory], list[EntryPoint]()
    try:
        with os.scandir(directory) as listing:
            names = sorted(
                entry.name for entry in listing if entry.name.endswith((".dist-info", ".egg-info"))
            )
    except OSError:
        return tuple(files), ()
    for name in names:
        file = f"{directory}{os.sep}{name}{os.sep}entry_points.txt"
        lines = list(_section(_text(file), group))
        # An installer replaces a .dist-info, which shows in the directory's date; an .egg-info it rewrites.
        if lines or name.endswith(".egg-info"):
            files.append(file)
        if lines:
            distribution, version = _identity(directory, name)
            points += [_entry_point(line, distribution, version, directory, file) for line in lines]
    return tuple(files), tuple(points)


def _section(text: str, group: str) -> Iterator[tuple[str, str]]:
    """The `name = value` lines below `[group]`."""
    if f"[{group}]" not in text:
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield name.strip(), value.partition("[")[0].strip()


def _entry_point(
    line: tuple[str, str], distribution: str, version: str, directory: str, file: str
) -> EntryPoint:
    name, value = line
    module, _, attribute = value.partition(":")
    return EntryPoint(name, module.strip(), attribute.strip(), distribution, version, directory, file)


def _identity(directory: str, name: str) -> tuple[str, str]:
    """A distribution's name and version, from its metadata or else from the name of its directory."""
    stem = name.rpartition(".")[0]
    kind = "METADATA" if name.endswith(".dist-info") else "PKG-INFO"
    headers = _text(f"{directory}{os.sep}{name}{os.sep}{kind}").partition("\n\n")[0].splitlines()
    facts = dict(line.split(": ", 1) for line in headers if line.startswith(("Name: ", "Version: ")))
    parts = [*stem.split("-"), ""]
    return facts.get("Name", parts[0]).strip(), facts.get("Version", parts[1]).strip()


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _text(file: str) -> str:
    try:
        return Path(file).read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _is_file(path: str) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - strings, since most of them are not there


def _is_directory(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - as above


# --- the tools behind them --------------------------------------------------------------------------------


def _read(point: EntryPoint, file: Path, source: str) -> Reading:
    from strands_cli.tools._discovery.modules import read_attribute, read_family, read_module

    is_package = file.name == "__init__.py"
    depth = len(point.module.split("."))
    known: dict[str, Any] = {
        "module_path": point.module,
        "source": source,
        "origin": _origin(point),
        "family": point.name,
        "root": file.parents[depth if is_package else depth - 1],
    }
    if point.attribute and point.attribute not in _SPEC_NAMES:
        return _only(read_attribute(file, point.attribute, **known), point)
    return read_family(file.parent, **known) if is_package else read_module(file, **known)


def _only(reading: Reading, point: EntryPoint) -> Reading:
    """The one tool that the entry's attribute names."""
    infos = tuple(info for info in reading.infos if point.attribute in (info.callable_name, info.id))
    if infos:
        files = {info.file for info in infos}
        issues = tuple(issue for issue in reading.issues if issue.file in files)
        return Reading(infos, issues, reading.files)
    match = closest(point.attribute, [info.callable_name for info in reading.infos])
    issue = _issue(point, f"has no tool {point.attribute!r}", f" The closest is {match!r}." if match else "")
    return Reading((), (issue, *reading.issues), reading.files)


def _unlocated(point: EntryPoint, source: str) -> Reading:
    """Listed all the same: an import hook may know where the module is."""
    reason = f"the module {point.module} of {_origin(point)} is not a file on the import path"
    issue = _issue(point, "is not a file on the import path", " Reinstall the package.", severity="warning")
    if name_problem(point.name):
        return Reading(issues=(issue,))
    info = ToolInfo(
        id=point.name,
        module_path=point.module,
        callable_name=point.attribute,
        source=source,
        origin=_origin(point),
        file=point.file,
        unread=reason,
    )
    return Reading((info,), (issue,))


def _issue(point: EntryPoint, what: str, remedy: str, *, severity: str = "error") -> Issue:
    return Issue(
        severity="warning" if severity == "warning" else "error",
        file=point.file,
        reason=f"The entry point {point.name!r} of {_origin(point)}: {point.module} {what}.",
        remediation=f"Ask the package's author to correct it, or remove the package.{remedy}",
    )


def _origin(point: EntryPoint) -> str:
    return f"{point.distribution} {point.version}".strip()
