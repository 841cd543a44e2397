"""From a directory to a Plugin. All that is wrong with one is said here, at once, with its place."""

import os
import stat
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.documents.problems import JsonPath, Problem
from strands_cli.errors import Issue, ToolError
from strands_cli.plugins.executable import executable_problem
from strands_cli.plugins.manifest import (
    CliTool,
    Manifest,
    Setting,
    manifest_schema,
    variable_of,
)
from strands_cli.plugins.mending import described, mended_manifest, with_whole_numbers
from strands_cli.plugins.places import MANIFEST_NAME, located
from strands_cli.plugins.positions import Document, read_json
from strands_cli.plugins.setting_values import value_problem
from strands_cli.schema.validator import SchemaInvalid, Validator
from strands_cli.toolkit.contract import Tool, closed_schema
from strands_cli.toolkit.info import Requires, ToolInfo, name_problem

MOST_BYTES = 1_000_000
SOURCE = "plugin"
"""What `ToolInfo.source` says of a plugin's tools."""

_FORMAT_HINT = "'strands plugin new NAME' makes one that is in order."
_TAKEN_VARIABLES = frozenset({"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ"})


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin whose manifest and executables are in order."""

    manifest: Manifest
    place: Path
    """Where it was found: its name there counts, not where a link leads."""
    directory: Path
    """Where it is, links resolved."""
    lines: Mapping[str, int]
    """The line of each tool in the manifest, by the tool's name."""

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def file(self) -> Path:
        return self.place / MANIFEST_NAME

    def executable(self, tool: CliTool) -> Path:
        return self.directory / tool.path

    def tool(self, tool_id: str) -> CliTool | None:
        named = (tool for tool in self.manifest.cli_tools if self.manifest.tool_id(tool) == tool_id)
        return next(named, None)

    def infos(self, origin: str, *, has_keyring: bool = False) -> tuple[ToolInfo, ...]:
        """Its tools as a listing shows them; with a keyring, secrets need not be in the environment."""
        return tuple(
            ToolInfo(
                id=self.manifest.tool_id(tool),
                callable_name=tool.name,
                family=self.name,
                description=tool.description,
                version=self.manifest.version,
                requires_consent=tool.requires_consent,
                timeout_ms=max(1, round(1000 * tool.timeout)),
                requires=self._requires(tool, has_keyring=has_keyring),
                input_schema=tool.parameters,
                output_schema=tool.output_schema,
                source=SOURCE,
                origin=origin,
                file=str(self.file),
                line=self.lines[tool.name],
            )
            for tool in self.manifest.cli_tools
        )

    def _requires(self, tool: CliTool, *, has_keyring: bool) -> Requires | None:
        """What the tool needs, with the variables of settings that nothing else can give a value."""
        needs = tool.needs or {}
        variables = [
            variable_of(self.name, name, setting)
            for name, setting in self.manifest.settings_of(tool).items()
            if setting.is_needed and not (setting.sensitive and has_keyring)
        ]
        known = needs.get("env", [])
        added = [name for name in variables if name not in known]
        return {**needs, "env": [*known, *added]} if added else needs or None


class PluginReading(msgspec.Struct, frozen=True):
    """What a directory holds: a plugin, or the reasons why there is none."""

    place: Path
    plugin: Plugin | None
    issues: tuple[Issue, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """What the reading rests on."""
        tools = self.plugin.manifest.cli_tools if self.plugin else ()
        return (str(self.place / MANIFEST_NAME), *(str(self.place / tool.path) for tool in tools))


def read_plugin(place: Path) -> PluginReading:
    """The plugin of a directory. Nothing of it is executed."""
    place = located(place)
    document = _document(place / MANIFEST_NAME)
    issues = list(document.issues)
    if document.value is None:
        return PluginReading(place, None, tuple(issues))
    problems = _schema().problems(document.value)
    issues += [_schema_issue(problem, document) for problem in problems]
    directory = place.resolve()
    if problems:
        issues += _further_issues(problems, directory, document)
        return PluginReading(place, None, tuple(issues))
    manifest = msgspec.convert(with_whole_numbers(document.value), Manifest)
    issues += _manifest_issues(manifest, directory, document)
    lines = {
        tool.name: document.positions[f"/cli_tools/{index}"][0]
        for index, tool in enumerate(manifest.cli_tools)
    }
    plugin = Plugin(manifest=manifest, place=place, directory=directory, lines=lines)
    return PluginReading(place, None if issues else plugin, tuple(issues))


def undeclared_executables(plugin: Plugin) -> list[str]:
    """Executables in `cli-tools/` that no tool names, relative to the plugin's directory."""
    declared = {plugin.executable(tool).resolve() for tool in plugin.manifest.cli_tools}
    try:
        files = sorted((plugin.directory / "cli-tools").iterdir())
    except OSError:
        return []
    return [
        str(file.relative_to(plugin.directory))
        for file in files
        if file.is_file() and os.access(file, os.X_OK) and file.resolve() not in declared
    ]


@cache
def _schema() -> Validator:
    return Validator(manifest_schema())


def _document(file: Path) -> Document:
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            return _unread(file, "This is not a file.")
        if found.st_size > MOST_BYTES:
            return _unread(file, f"The file has {found.st_size} bytes; {MOST_BYTES} are taken at most.")
        return read_json(file.read_text("utf-8-sig"), str(file))
    except FileNotFoundError:
        return _unread(file, f"There is no {MANIFEST_NAME} here.")
    except OSError as error:
        return _unread(file, f"The file cannot be read: {error.strerror}.")
    except UnicodeDecodeError as error:
        return _unread(file, f"The file is not UTF-8 text, from byte {error.start} on.")


def _unread(file: Path, reason: str) -> Document:
    issue = Issue(file=str(file), reason=reason, remediation="A plugin is a directory with a plugin.json.")
    return Document(str(file), issues=[issue])


def _schema_issue(problem: Problem, document: Document) -> Issue:
    name = problem.path[-1] if problem.path else "the manifest"
    if problem.keyword == "required":
        reason = f"The key {name!r} is missing."
    elif "name" in problem.facts:
        reason = f"There is no key {name!r} here."
    else:
        reason = f"{name!r} must be {problem.expected}, and is {problem.got}."
    return document.issue(problem.path, reason, problem.hint or described(problem.path) or _FORMAT_HINT)


def _further_issues(problems: list[Problem], directory: Path, document: Document) -> list[Issue]:
    """What else is wrong with a manifest that does not fit its schema, as far as it can be read."""
    mended = mended_manifest(document.value, problems)
    if mended is None:
        return []
    broken = {problem.pointer for problem in problems}
    found = _manifest_issues(mended, directory, document)
    return [issue for issue in found if not any(f"{issue.pointer}/".startswith(f"{at}/") for at in broken)]


def _manifest_issues(manifest: Manifest, directory: Path, document: Document) -> Iterator[Issue]:
    for name, setting in manifest.config.items():
        yield from _setting_issues(("config", name), setting, document)
    seen: set[str] = set()
    for index, tool in enumerate(manifest.cli_tools):
        place: JsonPath = ("cli_tools", index)
        if tool.name in seen:
            reason = f"There are two tools {tool.name!r}."
            yield document.issue((*place, "name"), reason, "Give one of them another name.")
        seen.add(tool.name)
        if problem := executable_problem(directory, tool.path):
            yield document.issue((*place, "path"), *problem)
        for name, setting in tool.config.items():
            yield from _setting_issues((*place, "config", name), setting, document)
        yield from _variable_issues(manifest, tool, place, document)
        yield from _tool_issues(manifest, tool, place, document)


def _setting_issues(place: JsonPath, setting: Setting, document: Document) -> Iterator[Issue]:
    if setting.env in _TAKEN_VARIABLES:
        reason = f"The variable {setting.env} is not for a setting: every executable has its own."
        yield document.issue((*place, "env"), reason, "Choose another variable.")
    for index, value in enumerate(setting.enum):
        if problem := value_problem(value, msgspec.structs.replace(setting, enum=())):
            yield document.issue((*place, "enum", index), f"{value!r} {problem}.", "Correct it, or the type.")
    if setting.default is None:
        return
    if setting.sensitive:
        reason = "A sensitive setting with a default is no secret: everybody can read it here."
        yield document.issue((*place, "default"), reason, "Take the default out.")
    elif problem := value_problem(setting.default, setting):
        yield document.issue((*place, "default"), f"The default {problem}.", "Correct it, or the type.")


def _variable_issues(
    manifest: Manifest, tool: CliTool, place: JsonPath, document: Document
) -> Iterator[Issue]:
    """Two settings of one variable, or a setting that `env` passes on as well."""
    owners = {name: f"'env' passes {name} on" for name in tool.env}
    for name, setting in manifest.settings_of(tool).items():
        variable = variable_of(manifest.name, name, setting)
        if variable in owners:
            reason = f"The setting {name!r} uses the variable {variable}, and {owners[variable]}."
            where = (*place, "config", name) if name in tool.config else ("config", name)
            yield document.issue(where, reason, "Give the setting a variable of its own: 'env'.")
        owners[variable] = f"the setting {name!r} uses it too"


def _tool_issues(manifest: Manifest, tool: CliTool, place: JsonPath, document: Document) -> Iterator[Issue]:
    """What the contract would refuse, tried on a stand-in for the tool."""
    tool_id = manifest.tool_id(tool)
    if problem := name_problem(tool_id):
        reason = f"The tool would be called {tool_id}: {problem}."
        yield document.issue((*place, "name"), reason, "Shorten the plugin's name or the tool's.")
    broken = [*_schema_issues(tool, place, document)]
    yield from broken
    if problem or broken:
        return
    try:
        Tool(**contract_of(manifest, tool), invoke=lambda _arguments, _context: None)
    except ToolError as error:
        reason = error.issue.reason if error.issue else error.message
        yield document.issue(place, f"Tool {tool_id!r} is refused: {reason}.", error.hint or _FORMAT_HINT)


def _schema_issues(tool: CliTool, place: JsonPath, document: Document) -> Iterator[Issue]:
    for key, schema in (
        ("parameters", closed_schema(tool.parameters)),
        ("output_schema", tool.output_schema),
    ):
        try:
            if schema is not None:
                Validator(schema)
        except SchemaInvalid as error:
            reason = f"{key!r} is not a JSON Schema: {error.reason}."
            remedy = "Correct it; it is JSON Schema 2020-12."
            yield document.issue((*place, key, *error.path), reason, remedy)


def contract_of(manifest: Manifest, tool: CliTool) -> dict[str, Any]:
    """The parts of a Tool that the manifest decides: all but its body."""
    own_limit = {} if tool.max_output is None else {"max_output": tool.max_output}
    return {
        "id": manifest.tool_id(tool),
        "description": tool.description or f"{tool.name} of the plugin {manifest.name}",
        "input_schema": tool.parameters,
        "output_schema": tool.output_schema,
        "is_async": True,
        "family": manifest.name,
        "version": manifest.version,
        "timeout": tool.timeout,
        "retries": tool.retries,
        "effects": tool.effects,
        "annotations": tool.annotations,
        "requires_consent": tool.requires_consent,
        "requires": tool.needs,
        **own_limit,
    }
