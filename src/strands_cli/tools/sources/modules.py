"""What every source can do, and how Python modules are loaded: the first place that runs a tool's code."""

import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

from strands_cli.errors import Issue, ToolError
from strands_cli.settings import Settings
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import Discovered
from strands_cli.tools._discovery.scan import Cache

if TYPE_CHECKING:
    from strands_cli.toolkit.contract import Tool


class Source:
    """One place that tools come from, for one project.

    This class loads Python modules by their names; sources of other tools, or of modules that have no name of
    their own, load them otherwise.
    """

    name: ClassVar[str]
    """What `ToolInfo.source` says of its tools."""

    def __init__(self, settings: Settings, cache: Cache) -> None:
        self.settings = settings
        self.cache = cache

    def discover(self) -> Discovered:
        """Every tool that it offers without being asked for one, and all that was wrong. Nothing is run."""
        return Discovered()

    def find(self, reference: str) -> ToolInfo | None:
        """A tool that is there only for who names it, or None."""
        return None

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
        try:
            module = self.import_module(info)
            from strands_cli.toolkit.decorator import tool_in

            return tool_in(module, info)
        except ToolError as error:
            reason = error.issue.reason if error.issue else error.message
            line = error.issue.line if error.issue and error.issue.line else info.line
            raise _failure(info, reason, error.hint, line) from error
        except (Exception, SystemExit) as error:  # importing a module runs whatever its author wrote
            reason = f"{type(error).__name__}: {error}"
            raise _failure(info, reason, "Correct the file.", _line_in(info.file, error)) from error

    async def aclose(self) -> None:
        """Ends what loaded tools have started and keep."""

    def import_module(self, info: ToolInfo) -> ModuleType:
        self._make_importable()
        return import_module(info.module_path)

    def import_file(self, file: Path, root: Path) -> ModuleType:
        """Imports a file below `root` within a package of our own: relative imports work there, and two
        projects with a `tools` directory, or an installed package of that name, do not meet.
        """
        self._make_importable()
        package = f"_strands_tools_{crc32(str(root).encode()):08x}"
        if package not in sys.modules:
            made = ModuleType(package)
            made.__path__ = [str(root)]
            sys.modules[package] = made
        dotted = ".".join(file.relative_to(root).with_suffix("").parts)
        return import_module(f"{package}.{dotted}".removesuffix(".__init__"))

    def _make_importable(self) -> None:
        """A project's tools may import its own packages; last on the path, so that they shadow nothing."""
        project = str(self.settings.project)
        if project not in sys.path:
            sys.path.append(project)


def _failure(info: ToolInfo, reason: str, hint: str, line: int) -> ToolError:
    issue = Issue(reason=reason, remediation=hint, file=info.file, line=line)
    where = f" ({issue.place})" if issue.place else ""
    message = f"Failed to load tool '{info.id}': {reason}{where}"
    return ToolError(message, code="unavailable", hint=hint, issue=issue)


def _line_in(file: str, error: BaseException) -> int:
    """The last line of the tool's own file that the exception passed through."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno or 0
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return frames[-1].lineno or 0 if frames else 0
