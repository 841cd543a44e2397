"""From what discovery knows of a tool to the tool itself: the first place that runs a tool's module."""

import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import msgspec

from strands_cli.errors import Issue, ToolError
from strands_cli.settings import Settings
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.foreign import as_tool
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery.references import PLUGIN

_IMPORTED_BY_NAME = ("native", "package", "callable")


def load_tool(info: ToolInfo, settings: Settings) -> Tool:
    """Imports the tool's module and makes the tool; ToolError names the file, the line and the reason."""
    if info.source == PLUGIN:
        from strands_cli.plugins.plugin_tool import load_plugin_tool

        return load_plugin_tool(info, settings)
    try:
        module = _import(info, settings)
        attribute = getattr(module, info.callable_name)
        tool = _as_tool(attribute, module, info)
    except ToolError as error:
        reason = error.issue.reason if error.issue else error.message
        line = error.issue.line if error.issue and error.issue.line else info.line
        raise _failure(info, reason, error.hint, line) from error
    except (Exception, SystemExit) as error:  # importing a module runs whatever its author wrote
        reason = f"{type(error).__name__}: {error}"
        raise _failure(info, reason, "Correct the file.", _line_in(info.file, error)) from error
    return _with_declared(tool, info)


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


def _import(info: ToolInfo, settings: Settings) -> ModuleType:
    if info.source in _IMPORTED_BY_NAME or not info.file:
        _make_importable(settings.project)
        return import_module(info.module_path)
    file = Path(info.file)
    in_project = file.is_relative_to(settings.tools_directory)
    root = settings.tools_directory if in_project else file.parent
    _make_importable(settings.project)
    dotted = ".".join(file.relative_to(root).with_suffix("").parts)
    return import_module(f"{_package_for(root)}.{dotted}".removesuffix(".__init__"))


def _make_importable(project: Path) -> None:
    """A project's tools may import its own packages; last on the path, so that they shadow nothing."""
    if str(project) not in sys.path:
        sys.path.append(str(project))


def _package_for(directory: Path) -> str:
    """A package of our own around a directory of tools: relative imports work there, and two projects with a
    `tools` directory, or an installed package of that name, do not meet.
    """
    name = f"_strands_tools_{crc32(str(directory).encode()):08x}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(directory)]
        sys.modules[name] = package
    return name


def _as_tool(attribute: Any, module: ModuleType, info: ToolInfo) -> Tool:
    spec = getattr(module, "TOOL_SPEC", None)
    if spec is not None:
        return as_tool(attribute, {**spec, "name": info.id})
    if info.input_schema is not None and not info.inferred:
        declared = {"name": info.id, "description": info.description, "inputSchema": info.input_schema}
        return as_tool(attribute, declared)
    return as_tool(attribute)


_DECLARED = ("version", "category", "deprecated", "replaced_by", "requires_consent", "requires")


def _with_declared(tool: Tool, info: ToolInfo) -> Tool:
    """What a ToolSpec declares counts over the function's own; what it leaves at its default does not.

    A file that could only be read in part shows defaults where it says more: the loaded tool wins there.
    """
    blank = ToolInfo(id=info.id)
    declared: dict[str, Any] = {
        name: getattr(info, name) for name in _DECLARED if getattr(info, name) != getattr(blank, name)
    }
    if info.timeout_ms is not None:
        declared["timeout"] = info.timeout_ms / 1000
    if info.output_schema is not None and tool.output_schema is None:
        declared["output_schema"] = info.output_schema
    declared |= {"id": info.id, "origin": info.origin, "family": tool.family or info.family}
    return msgspec.structs.replace(tool, **declared)
