"""A file, or the package of a family, and the tools that it declares."""

from pathlib import Path

from strands_cli.errors import Issue
from strands_cli.tools._discovery.collector import Collector, unread_specs
from strands_cli.tools._discovery.drafts import has_tool_methods
from strands_cli.tools._discovery.names import is_submodule_name
from strands_cli.tools._discovery.reading import Reading
from strands_cli.tools._discovery.syntax import ModuleReader
from strands_cli.tools._discovery.values import Unread

_NO_TOOL = "it needs a TOOL_SPEC and a function of that name, or a function decorated with @tool"


def read_module(
    file: Path, *, module_path: str, source: str, origin: str, family: str = "", root: Path | None = None
) -> Reading:
    """The tools of one file. Imports are followed to files below `root`, by default the file's directory.

    Without an `origin`, each tool gets its own file, relative to the directory that holds the root.
    """
    collector = _collector(file, root, module_path, source=source, origin=origin, family=family)
    _read_file(collector, file)
    return collector.reading()


def read_attribute(
    file: Path,
    attribute: str,
    *,
    module_path: str,
    source: str,
    origin: str,
    family: str = "",
    root: Path | None = None,
) -> Reading:
    """The tools of the file that defines an attribute of a module; the attribute's own is among them."""
    collector = _collector(file, root, module_path, source=source, origin=origin, family=family)
    reader = collector.sources.open(file)
    found = None if isinstance(reader, Issue) else reader.find(attribute)
    if isinstance(reader, Issue) or found is None:
        _read_file(collector, file)
        return collector.reading()
    collector.add_specs(reader)
    collector.add_declared(reader, own_only=True)
    if found.reader is not reader:
        _read_file(collector, found.reader.file)
    return collector.reading()


def read_family(
    directory: Path, *, module_path: str, source: str, origin: str, family: str = "", root: Path | None = None
) -> Reading:
    """The tools of a package: those of its TOOL_SPECS, else those of `__init__.py` and every submodule."""
    family = family or directory.name
    file = directory / "__init__.py"
    collector = _collector(file, root, module_path, source=source, origin=origin, family=family)
    init = collector.sources.open(file)
    if isinstance(init, Issue):
        collector.issues.append(init)
        return collector.reading()
    listed = collector.add_specs(init)
    collector.add_declared(init, own_only=True)
    if listed is not True:
        for file in _submodules(collector, directory):
            _read_file(collector, file)
    _close(collector, init, family, listed, found_any=bool(collector.infos))
    if not collector.infos and not collector.issues:
        reason = f"The family {family!r} has no tool: {_NO_TOOL}."
        remedy = f"Add one, or rename the directory to _{directory.name} if it holds none."
        collector.issues.append(Issue(file=str(init.file), line=1, reason=reason, remediation=remedy))
    return collector.reading()


def _submodules(collector: Collector, directory: Path) -> list[Path]:
    collector.sources.seen[str(directory)] = None
    try:
        return sorted(file for file in directory.iterdir() if is_submodule_name(file.name))
    except OSError as error:
        reason = f"The family's directory cannot be listed: {error.strerror}."
        issue = Issue(file=str(directory), reason=reason, remediation="Make it readable, or remove it.")
        collector.issues.append(issue)
        return []


def _read_file(collector: Collector, file: Path) -> None:
    reader = collector.sources.open(file)
    if isinstance(reader, Issue):
        collector.issues.append(reader)
        return
    tools, issues = len(collector.infos), len(collector.issues)
    listed = collector.add_specs(reader)
    collector.add_declared(reader)
    _close(collector, reader, file.stem, listed, found_any=len(collector.infos) > tools)
    if len(collector.infos) == tools and len(collector.issues) == issues:
        collector.issues.append(_no_tool(reader))


def _close(
    collector: Collector, reader: ModuleReader, tool_id: str, listed: bool | Unread, *, found_any: bool
) -> None:
    """A TOOL_SPECS that cannot be read is never passed over: the listing has something in its place."""
    if not isinstance(listed, Unread):
        return
    if found_any:
        collector.issues.append(unread_specs(listed))
    else:
        collector.add_unread(reader, tool_id, listed)


def _no_tool(reader: ModuleReader) -> Issue:
    name = reader.file.name
    remedy = f"If it only serves other modules, rename it to _{name}."
    if has_tool_methods(reader):
        reason = (
            f"{name} has no tool: methods decorated with @tool need an instance, which only a program makes."
        )
        return Issue(severity="warning", file=str(reader.file), line=1, reason=reason, remediation=remedy)
    reason = f"{name} has no tool: {_NO_TOOL}."
    return Issue(file=str(reader.file), line=1, reason=reason, remediation=remedy)


def _collector(
    file: Path, root: Path | None, module_path: str, *, source: str, origin: str, family: str
) -> Collector:
    place = file.parent if file.name == "__init__.py" else file
    root = root or place.parent
    depth = len(place.relative_to(root).parts)
    package = ".".join(module_path.split(".")[:-depth])
    return Collector(root, package, source=source, origin=origin, family=family)
