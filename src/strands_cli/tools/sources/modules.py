"""What every source can do, and the sources of Python modules: this package, the project, files by name.

Loading a module is the first place that runs a tool's code.
"""

import os
import re
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

from strands_cli.errors import Issue, ToolError, did_you_mean
from strands_cli.settings import Settings
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import Discovered
from strands_cli.tools._discovery.scan import TICK_NANOSECONDS, Cache, FileStamps, Stamp, scan_directory

if TYPE_CHECKING:
    from strands_cli.toolkit.contract import Tool

_DIRECTORY = Path(os.path.dirname(os.path.dirname(__file__)))  # cheap: every listing pays it
_TOOLS = "tools"
_PACKAGE = "_strands_tools_"
"""What the names begin with that the directories of tools have as packages."""
NOT_TOOLS = frozenset({"base", "calls", "registry", "sources", "toolset", "watch"})


class Source:
    """One place that tools come from, for one project.

    This class loads Python modules by their names; sources of other tools, or of modules that have no name of
    their own, load them in another way.
    """

    name: ClassVar[str]
    """What `ToolInfo.source` says of its tools."""

    def __init__(self, settings: Settings, cache: Cache) -> None:
        self.settings = settings
        self.cache = cache

    def discover(self) -> Discovered:
        """Every tool that it offers without being asked for one, and all that was wrong. Nothing is run."""
        return Discovered()

    def names(self, info: ToolInfo) -> list[str]:
        """What one of its tools may be called besides its id: its module, its callable, and a package called
        like the tool.
        """
        module, name = info.module_path, info.callable_name
        if not module:
            return []
        package = module.rpartition(".")[0]
        return [module, f"{module}.{name}", *([package] if package.rpartition(".")[2] == info.id else [])]

    def load(self, info: ToolInfo) -> "Tool":
        """Imports the tool's module and makes the tool; ToolError names the file, the line and the reason."""
        before, stamps = {*sys.modules}, FileStamps()
        own = _ImportedFile(info.file, stamps[info.file])  # as it was before it is read
        try:
            module = self.import_module(info)
            from strands_cli.toolkit.decorator import tool_in

            return tool_in(module, info)
        except ToolError as error:
            reason = error.issue.reason if error.issue else error.message
            line = error.issue.line if error.issue and error.issue.line else info.line
            raise _load_failure(info, reason, error.hint, line) from error
        except (Exception, SystemExit) as error:  # importing a module runs whatever its author wrote
            reason = _import_failure(error, info.file, self.settings.project)
            raise _load_failure(
                info, reason, "Correct the file.", _line_of_failure(info.file, error)
            ) from error
        finally:
            roots = (f"{self.settings.project}{os.sep}", f"{os.path.dirname(info.file)}{os.sep}")
            _remember_modules(before, roots, own)

    async def aclose(self) -> None:
        """Ends processes that loaded tools keep running."""

    def import_module(self, info: ToolInfo) -> ModuleType:
        self._make_importable()
        return import_module(info.module_path)

    def import_file(self, file: Path, root: Path) -> ModuleType:
        """Imports a file below `root` within a package of our own: relative imports work there, and two
        projects with a `tools` directory, or an installed package of that name, do not meet.
        """
        self._make_importable()
        package = f"{_PACKAGE}{crc32(str(root).encode()):08x}"
        if package not in sys.modules:
            namespace = ModuleType(package)
            namespace.__path__ = [str(root)]
            sys.modules[package] = namespace
        dotted = ".".join(file.relative_to(root).with_suffix("").parts)
        return import_module(f"{package}.{dotted}".removesuffix(".__init__"))

    def _make_importable(self) -> None:
        """A project's tools may import its own packages; last on the path, so that they shadow nothing."""
        project = str(self.settings.project)
        if project not in sys.path:
            sys.path.append(project)


class _ImportedFile:
    """A file of a project, as it was when loading a tool ran it."""

    def __init__(self, path: str, stamp: Stamp) -> None:
        self.path, self._stamp = path, stamp
        is_young = max(stamp[:2]) > time.time_ns() - TICK_NANOSECONDS
        self._content = _checksum(path) if is_young else None
        """Of a file that may change again without another date."""

    def has_changed(self, stamps: FileStamps) -> bool:
        if stamps[self.path] != self._stamp:
            return True
        return self._content is not None and _checksum(self.path) != self._content


def _checksum(path: str) -> int:
    try:
        return crc32(Path(path).read_bytes())
    except OSError:
        return -1


_imported: dict[str, _ImportedFile] = {}
"""The modules that loading tools has imported from files of projects."""


def _remember_modules(before: set[str], roots: tuple[str, ...], own: _ImportedFile) -> None:
    stamps = FileStamps()
    for name in {*sys.modules} - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        is_ours = name.partition(".")[0] == __name__.partition(".")[0]
        if file.startswith(roots) and "site-packages" not in file and not is_ours:
            _imported[name] = own if file == own.path else _ImportedFile(file, stamps[file])
    _imported[own.path] = own  # of a file that failed there is no module


def have_modules_changed() -> bool:
    """Whether the file of a module that tools have imported is not as it was then."""
    stamps = FileStamps()
    return any(file.has_changed(stamps) for file in _imported.values())


def forget_changed_modules() -> None:
    """Lets the modules that tools have imported be imported again, where a file of theirs has changed.

    All of them, since what has not changed may hold what has. What a program imported before is left alone.
    """
    if not _imported:
        return
    from importlib import invalidate_caches
    from importlib.util import cache_from_source

    stamps = FileStamps()
    invalidate_caches()  # a new file may stand beside them
    changed = {file.path for file in _imported.values() if file.has_changed(stamps)}
    if not changed:
        return
    for name in _imported:
        sys.modules.pop(name, None)
        package, _, last = name.rpartition(".")
        vars(sys.modules.get(package, ModuleType(""))).pop(last, None)
    for path in changed:
        # Bytecode is dated by the second: an edit of the same size within one would not count.
        with suppress(OSError, ValueError):
            os.unlink(cache_from_source(path))
    _imported.clear()


def _load_failure(info: ToolInfo, reason: str, hint: str, line: int) -> ToolError:
    issue = Issue(reason=reason, remediation=hint, file=info.file, line=line)
    where = f" ({issue.place})" if issue.place else ""
    message = f"Failed to load tool '{info.id}': {reason}{where}"
    return ToolError(message, code="unavailable", hint=hint, issue=issue)


def _import_failure(error: BaseException, file: str, project: Path) -> str:
    """Says what an import raised, and where, if that is another file of the project than the tool's own."""
    reason = re.sub(rf"\b{_PACKAGE}[0-9a-f]{{8}}\.", ".", f"{type(error).__name__}: {error}")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(f"{project}{os.sep}") and "site-packages" not in frame.filename
    ]
    if not frames or frames[-1].filename == file:
        return reason
    return f"{reason}, in {os.path.relpath(frames[-1].filename, project)}:{frames[-1].lineno}"


def _line_of_failure(file: str, error: BaseException) -> int:
    """The last line of the tool's own file that the exception passed through."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno or 0
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return frames[-1].lineno or 0 if frames else 0


class Native(Source):
    """The tools of this package."""

    name = "native"

    def discover(self) -> Discovered:
        return scan_directory(
            _DIRECTORY,
            package="strands_cli.tools",
            source=self.name,
            origin="strands-cli",
            cache=self.cache,
            skip=NOT_TOOLS,
        )

    def names(self, info: ToolInfo) -> list[str]:
        """Also `native:…`, its name in our package without the family, and the legacy names, which had
        `file_read.file_read` besides the family's.
        """
        own, family = info.id, info.family
        return [
            *super().names(info),
            f"strands_cli.tools.{own}",
            *(f"native:{name}" for name in (own, f"{family}.{own}", f"{own}@{info.version}")),
            *(
                f"strands_tools{mark}{name}"
                for mark in ".:"
                for name in (own, f"{own}.{own}", f"{family}.{own}")
            ),
        ]


class Project(Source):
    """The tools of the project's `tools/` directory."""

    name = "project"

    def discover(self) -> Discovered:
        directory = self.settings.project / _TOOLS
        return scan_directory(directory, package="tools", source=self.name, origin="", cache=self.cache)

    def import_module(self, info: ToolInfo) -> ModuleType:
        if not info.file:
            return super().import_module(info)
        return self.import_file(Path(info.file), self.settings.project / _TOOLS)


class NamedFiles(Source):
    """Tools in files that somebody names: `./my_tool.py`, `./my_tool.py:greet`. None are listed."""

    name = "file"

    def import_module(self, info: ToolInfo) -> ModuleType:
        file = Path(info.file)
        tools = self.settings.project / _TOOLS
        return self.import_file(file, tools if file.is_relative_to(tools) else file.parent)


def is_file_reference(reference: str) -> bool:
    """Whether a reference names a file."""
    file = reference.rpartition(":")[0] if ".py:" in reference else reference
    return file.endswith(".py")


def find_named_file(reference: str) -> ToolInfo | None:
    """The tool that a reference to a file means, or None."""
    infos = _named_file_tools(reference)[1].infos
    return infos[0] if len(infos) == 1 else None


def named_file_problem(reference: str) -> Issue | None:
    """Why a reference to a file means no tool; None where the file does not exist."""
    file, found = _named_file_tools(reference)
    if not os.path.isfile(file):
        return None
    if len(found.infos) > 1:
        names = ", ".join(f"{file}:{info.id}" for info in found.infos)
        reason = f"The file has {len(found.infos)} tools."
        return Issue(file=file, reason=reason, remediation=f"Name one of them: {names}.")
    for issue in found.issues:
        if issue.severity == "error":
            return issue
    name, known = reference.rpartition(":")[2], [info.id for info in _named_file_tools(file)[1].infos]
    remedy = did_you_mean(name, known) or f"Its tools are {', '.join(known)}."
    return Issue(file=file, reason=f"The file has no tool {name!r}.", remediation=remedy)


def _named_file_tools(reference: str) -> tuple[str, Discovered]:
    """The file that a reference names, and its tools: all of them, or the one that it names."""
    file, _, name = reference.rpartition(":") if ".py:" in reference else (reference, "", "")
    if not os.path.isfile(file):  # which answers for names that no file system takes, too
        return file, Discovered()
    found = read_tool_path(Path(file))
    if not name:
        return file, found
    infos = tuple(info for info in found.infos if name in (info.id, info.callable_name))[:1]
    return file, Discovered(infos, found.issues)


def read_tool_path(path: Path) -> Discovered:
    """What a file, or a directory of tools, declares."""
    is_family = path.is_dir()
    if is_family and not (path / "__init__.py").is_file():
        return scan_directory(path, package=path.name, source=NamedFiles.name, origin="")
    from strands_cli.tools._discovery.tool_files import read_tools

    place = path.resolve()
    module = place.name if is_family else place.stem
    return read_tools(
        place, module_path=module, source=NamedFiles.name, origin=str(path), is_family=is_family
    )
