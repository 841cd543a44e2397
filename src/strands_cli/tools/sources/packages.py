"""Tools of installed packages: entry points are read from disk, and modules are located, not imported.

`importlib.metadata` is not used, since it costs more than a whole listing; nor is `importlib.util.find_spec`,
which runs the packages around a dotted name.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from os.path import isdir, isfile
from pathlib import Path

from strands_cli.documents.files import read_regular_file
from strands_cli.errors import Issue, closest
from strands_cli.toolkit.info import ToolInfo, tool_name_problem
from strands_cli.tools._discovery import Discovered, EntryPoint, join_discovered
from strands_cli.tools._discovery.scan import NO_CACHE, Cache, CacheFile
from strands_cli.tools.sources.modules import Source

GROUP = "strands_cli.tools"

_MAX_METADATA_BYTES = 5_000_000
_SPEC_NAMES = ("TOOL_SPEC", "TOOL_SPECS")


class Packages(Source):
    name = "package"

    def discover(self) -> Discovered:
        return scan_packages(cache=self.cache)


class Callables(Source):
    """Dotted callables that the user allows: `package.module.function`."""

    name = "callable"

    def discover(self) -> Discovered:
        return join_discovered(self._read(dotted) for dotted in self.settings.allow)

    def _read(self, dotted: str) -> Discovered:
        """What an allowed callable is, read without importing its package."""
        from strands_cli.tools._discovery.tool_files import read_tools

        module, _, name = dotted.rpartition(".")
        file = locate_module(module, [str(self.settings.project), *sys.path]) if module else None
        if file is None:
            issue = Issue(
                reason=f"The callable {dotted} is not found: no module {module or dotted} is on the path.",
                remediation="Install its package, or take it off the list of allowed callables.",
                file=str(self.settings.file or ""),
            )
            return Discovered(issues=(issue,))
        found = read_tools(file, module_path=module, source=self.name, origin=dotted)
        named = tuple(info for info in found.infos if name in (info.callable_name, info.id))
        plain = ToolInfo(
            id=name, module_path=module, source=self.name, origin=dotted, file=str(file), inferred=True
        )
        return Discovered(named or (plain,), files=found.files)


def scan_packages(path: Sequence[str] | None = None, cache: Cache = NO_CACHE) -> Discovered:
    """The tools that the packages along an import path offer, by default that of this process.

    The name of an entry is the id of a tool or of a family.
    """
    directories = _import_directories(path)
    known = cache.file(f"packages|{os.pathsep.join(directories)}")
    parts: list[Discovered] = []
    for point in _entry_points(known, directories):
        file = locate_module(point.module, directories)
        if file is None:
            parts.append(_unlocated_entry_point(point))
            continue
        name = f"{point.name}={point.module}:{point.attribute}|{point.origin}|{file}"
        found = known.find(name)
        if found is None:
            found = _read_entry_point(point, file)
            known.keep(name, found)
        parts.append(found)
    known.close()
    return join_discovered(parts)


def locate_module(dotted: str, path: Sequence[str] | None = None) -> Path | None:
    """The source file of a module, found by walking directories; None if there is no source to read."""
    *parents, last = dotted.split(".")
    if not all(name.isidentifier() for name in (*parents, last)):
        return None
    places = _import_directories(path)
    for name in parents:
        packages = [inner for place in places if isdir(inner := f"{place}{os.sep}{name}")]
        regular = [place for place in packages if isfile(f"{place}{os.sep}__init__.py")]
        # A package with an __init__.py is the package; without one, all parts along the path are one.
        places = regular[:1] or packages
    for place in places:
        for candidate in (f"{place}{os.sep}{last}{os.sep}__init__.py", f"{place}{os.sep}{last}.py"):
            if isfile(candidate):
                return Path(candidate)
    return None


# --- entry points -----------------------------------------------------------------------------------------


def _import_directories(path: Sequence[str] | None) -> list[str]:
    return list(dict.fromkeys(map(os.path.abspath, sys.path if path is None else path)))


def _entry_points(known: CacheFile, directories: list[str]) -> list[EntryPoint]:
    """Of a distribution that is there twice, the first along the path counts, as when it is imported."""
    points: dict[tuple[str, str], EntryPoint] = {}
    for directory in directories:
        found = known.find(directory)
        if found is None:
            found = _read_entry_points(directory)
            known.keep(directory, found)
        for point in found.entry_points:
            distribution = point.distribution.lower().replace("-", "_").replace(".", "_")
            points.setdefault((distribution, point.name), point)
    return sorted(points.values(), key=lambda point: (point.name, point.distribution))


def _read_entry_points(directory: str) -> Discovered:
    """The entry points of the packages in a directory."""
    files, points = [directory], list[EntryPoint]()
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        names = []
    for name in names:
        if not name.endswith((".dist-info", ".egg-info")):
            continue
        file = f"{directory}{os.sep}{name}{os.sep}entry_points.txt"
        lines = list(_entry_point_lines(_metadata_text(file)))
        # An installer replaces a .dist-info, which shows in the directory's date; an .egg-info it rewrites.
        if lines or name.endswith(".egg-info"):
            files.append(file)
        if lines:
            distribution, version = _distribution_identity(directory, name)
            for entry, value in lines:
                module, _, attribute = (part.strip() for part in value.partition(":"))
                points.append(EntryPoint(entry, module, attribute, distribution, version, file))
    return Discovered(files=tuple(files), entry_points=tuple(points))


def _entry_point_lines(text: str) -> Iterator[tuple[str, str]]:
    """The `name = value` lines of our group."""
    if f"[{GROUP}]" not in text:
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == GROUP and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield name.strip(), value.partition("[")[0].strip()


def _distribution_identity(directory: str, name: str) -> tuple[str, str]:
    """A distribution's name and version, from its metadata or else from the name of its directory."""
    stem = name.rpartition(".")[0]
    kind = "METADATA" if name.endswith(".dist-info") else "PKG-INFO"
    headers = _metadata_text(f"{directory}{os.sep}{name}{os.sep}{kind}").partition("\n\n")[0].splitlines()
    facts = dict(line.split(": ", 1) for line in headers if line.startswith(("Name: ", "Version: ")))
    parts = [*stem.split("-"), ""]
    return facts.get("Name", parts[0]).strip(), facts.get("Version", parts[1]).strip()


def _metadata_text(file: str) -> str:
    try:
        return read_regular_file(Path(file), _MAX_METADATA_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


# --- the tools behind them --------------------------------------------------------------------------------


def _read_entry_point(point: EntryPoint, file: Path) -> Discovered:
    from strands_cli.tools._discovery.tool_files import read_tools

    is_package = file.name == "__init__.py"
    attribute = "" if point.attribute in _SPEC_NAMES else point.attribute
    is_family = is_package and not attribute
    depth = len(point.module.split("."))
    found = read_tools(
        file.parent if is_family else file,
        module_path=point.module,
        source=Packages.name,
        origin=point.origin,
        family=point.name,
        root=file.parents[depth if is_package else depth - 1],
        is_family=is_family,
        attribute=attribute,
    )
    return _only_named_tool(found, point) if attribute else found


def _only_named_tool(found: Discovered, point: EntryPoint) -> Discovered:
    """The one tool that the entry's attribute names."""
    infos = tuple(info for info in found.infos if point.attribute in (info.callable_name, info.id))
    if infos:
        files = {info.file for info in infos}
        issues = tuple(issue for issue in found.issues if issue.file in files)
        return Discovered(infos, issues, found.files)
    match = closest(point.attribute, [info.callable_name for info in found.infos])
    nearest = f"The closest is {match!r}. " if match else ""
    issue = Issue(
        file=point.file,
        reason=f"The entry point {point.name!r}: {point.module} has no tool {point.attribute!r}.",
        remediation=f"{nearest}Ask the author of {point.origin} to fix it, or remove the package.",
    )
    return Discovered((), (issue, *found.issues), found.files)


def _unlocated_entry_point(point: EntryPoint) -> Discovered:
    """Listed all the same: an import hook may know where the module is."""
    reason = f"the module {point.module} of {point.origin} is not a file on the import path"
    issue = Issue(
        severity="warning",
        file=point.file,
        reason=f"The entry point {point.name!r} is broken: {reason}.",
        remediation="Reinstall the package, or remove it.",
    )
    info = ToolInfo(
        id=point.name,
        module_path=point.module,
        callable_name=point.attribute,
        source=Packages.name,
        origin=point.origin,
        file=point.file,
        unread=reason,
    )
    return Discovered(() if tool_name_problem(point.name) else (info,), (issue,))
