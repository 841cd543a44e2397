"""Where tools come from, in order of precedence, through one table."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from strands_cli.errors import Issue
from strands_cli.settings import Settings
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery.cache import Cache
from strands_cli.tools._discovery.packages import locate_module, scan_packages
from strands_cli.tools._discovery.plugins import scan_plugins
from strands_cli.tools._discovery.reading import Reading, join_parts
from strands_cli.tools._discovery.references import NATIVE, PLUGIN
from strands_cli.tools._discovery.scan import scan_directory

_NATIVE_DIRECTORY = Path(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - cheap: every listing pays it
_NOT_TOOLS = frozenset({"registry", "base"})
FILE = "file"


def _native(_: Settings, cache: Cache) -> Reading:
    return scan_directory(
        _NATIVE_DIRECTORY,
        package="strands_cli.tools",
        source=NATIVE,
        origin="strands-cli",
        cache=cache,
        skip=_NOT_TOOLS,
    )


def _packages(_: Settings, cache: Cache) -> Reading:
    return scan_packages(cache=cache)


def _plugins(settings: Settings, cache: Cache) -> Reading:
    return scan_plugins(settings, cache)


def _project(settings: Settings, cache: Cache) -> Reading:
    return scan_directory(settings.tools_directory, package="tools", source="project", origin="", cache=cache)


def _callables(settings: Settings, _: Cache) -> Reading:
    return join_parts(_read_callable(dotted, settings) for dotted in settings.allow)


SOURCES: dict[str, Callable[[Settings, Cache], Reading]] = {
    NATIVE: _native,
    "package": _packages,
    PLUGIN: _plugins,
    "project": _project,
    "callable": _callables,
}


def discover(settings: Settings) -> Reading:
    """Every tool of every source, and all that was wrong. Nothing is imported."""
    cache = Cache()
    found = join_parts(read(settings, cache) for read in SOURCES.values())
    infos, refused = accepted(found.infos)
    return Reading(tuple(infos), (*found.issues, *refused), found.files)


def accepted(infos: Iterable[ToolInfo]) -> tuple[list[ToolInfo], list[Issue]]:
    """The first of each id and version; a later one of the same is refused, and both origins are named."""
    kept: dict[str, ToolInfo] = {}
    refused: list[Issue] = []
    for info in infos:
        earlier = kept.setdefault(info.reference, info)
        if earlier is not info:
            refused.append(_collision(earlier, info))
    return list(kept.values()), refused


def _collision(earlier: ToolInfo, later: ToolInfo) -> Issue:
    return Issue(
        reason=f"There are two tools {later.reference}: {earlier.origin} has one, {later.origin} another.",
        remediation=f"The one of {earlier.origin} is used. Give the other one another name or version.",
        file=later.file,
        line=later.line,
    )


def _read_callable(dotted: str, settings: Settings) -> Reading:
    """An allowed `package.module.function`, read without importing the package."""
    from strands_cli.tools._discovery.modules import read_module

    module, _, name = dotted.rpartition(".")
    file = locate_module(module, [str(settings.project), *sys.path]) if module else None
    if file is None:
        issue = Issue(
            reason=f"The callable {dotted} is not found: no module {module or dotted} is on the path.",
            remediation="Install its package, or take it off the list of allowed callables.",
            file=str(settings.file or ""),
        )
        return Reading(issues=(issue,))
    reading = read_module(file, module_path=module, source="callable", origin=dotted)
    named = tuple(info for info in reading.infos if name in (info.callable_name, info.id))
    if named:
        return Reading(named, files=reading.files)
    plain = ToolInfo(
        id=name, module_path=module, source="callable", origin=dotted, file=str(file), inferred=True
    )
    return Reading((plain,), files=reading.files)


def read_path(path: Path) -> Reading:
    """What a file, or a directory of tools, declares."""
    if path.is_dir() and not (path / "__init__.py").is_file():
        return scan_directory(path, package=path.name, source=FILE, origin="")
    from strands_cli.tools._discovery.modules import read_family, read_module

    place = path.resolve()
    if path.is_dir():
        return read_family(place, module_path=place.name, source=FILE, origin=str(path))
    return read_module(place, module_path=place.stem, source=FILE, origin=str(path))


def read_reference(reference: str) -> ToolInfo | None:
    """The tool that `./my_tool.py` or `./my_tool.py:greet` means, or None."""
    file, _, name = reference.rpartition(":") if ".py:" in reference else (reference, "", "")
    if not Path(file).is_file():
        return None
    infos = read_path(Path(file)).infos
    if not name:
        return infos[0] if len(infos) == 1 else None
    named = next((info for info in infos if name in (info.id, info.callable_name)), None)
    return msgspec.structs.replace(named, origin=file) if named else None
