"""From a directory to a Plugin. All that is wrong with one is reported here, at once, with its place."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.documents.problems import (
    MAX_REPAIRED,
    JsonPath,
    Problem,
    Refusal,
    repaired_document,
    schemas_at,
)
from strands_cli.documents.reader import Document, Position, read_document_file, with_whole_numbers
from strands_cli.errors import Issue, ToolError
from strands_cli.plugins.approvals import PluginApproval
from strands_cli.plugins.directories import LEFT_OUT, MANIFEST_NAME, plugin_place
from strands_cli.plugins.manifest import CliTool, Manifest, Setting, setting_value_problem, setting_variable
from strands_cli.sandbox.messages import SYSTEM_DIRECTORIES
from strands_cli.schema.validator import SchemaInvalid, Validator, published_schema
from strands_cli.toolkit.contract import Tool, closed_schema
from strands_cli.toolkit.info import DEFAULTS, Requires, ToolInfo, tool_name_problem

MAX_BYTES = 1_000_000
SOURCE = "plugin"
"""What `ToolInfo.source` says of a plugin's tools."""

_FORMAT_HINT = "'strands plugin new NAME' makes one that works."
_TAKEN_VARIABLES = frozenset({"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ"})
_ELF = b"\x7fELF"
_LONGEST_FIRST_LINE = 256


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin whose manifest and executables are in order."""

    manifest: Manifest
    place: Path
    """Where it was found: its name there counts, not where a link leads."""
    directory: Path
    """Where it is, links resolved; of an approved plugin that is to run, the user's copy."""
    positions: dict[str, Position]
    """The place of each value in the manifest, by its pointer."""
    approval: PluginApproval | None = None
    """What the copy was approved as."""

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

    def issue(self, path: JsonPath, reason: str, remedy: str) -> Issue:
        """Something about a place in the manifest."""
        document = Document(file=str(self.file), positions=self.positions)
        issue = document.issue(path, reason, remedy)
        return msgspec.structs.replace(issue, file=str(self.file))

    def infos(self, origin: str, *, has_keyring: bool = False) -> tuple[ToolInfo, ...]:
        """Its tools as a listing shows them; with a keyring, secrets need not be in the environment."""
        return tuple(
            ToolInfo(
                **_manifest_tool_fields(self.manifest, tool)
                | {"requires": self._requires(tool, has_keyring=has_keyring)},
                callable_name=tool.name,
                source=SOURCE,
                origin=origin,
                file=str(self.file),
                manifest=str(self.file),
                line=self.positions[f"/cli_tools/{index}"][1],
            )
            for index, tool in enumerate(self.manifest.cli_tools)
        )

    def _requires(self, tool: CliTool, *, has_keyring: bool) -> Requires | None:
        """What the tool needs, with the variables of settings that nothing else can give a value."""
        needs = tool.needs or {}
        variables = [
            setting_variable(self.name, name, setting)
            for name, setting in self.manifest.settings_of(tool).items()
            if setting.is_needed and not (setting.sensitive and has_keyring)
        ]
        known = needs.get("env", [])
        added = [name for name in variables if name not in known]
        return {**needs, "env": [*known, *added]} if added else needs or None


class PluginReading(msgspec.Struct, frozen=True):
    """What a directory holds: a plugin, or the reasons why it cannot be loaded."""

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
    place = plugin_place(place)
    remedy = "A plugin is a directory with a plugin.json."
    document = read_document_file(place / MANIFEST_NAME, remedy, is_json=True, max_bytes=MAX_BYTES)
    issues = list(document.issues)
    if document.value is None:
        return PluginReading(place, None, tuple(issues))
    problems = published_schema("plugin").problems(document.value, MAX_REPAIRED + 1)
    issues += [
        document.schema_issue(
            problem, "The manifest", _manifest_key_description(problem.path) or _FORMAT_HINT
        )
        for problem in problems
    ]
    directory = place.resolve()
    if problems:
        issues += _further_manifest_issues(problems, directory, document)
        return PluginReading(place, None, tuple(issues))
    manifest = msgspec.convert(with_whole_numbers(document.value), Manifest)
    issues += _manifest_issues(manifest, directory, document)
    if not issues:
        manifest = _with_interpreters(manifest, directory)
    plugin = Plugin(manifest=manifest, place=place, directory=directory, positions=document.positions)
    return PluginReading(place, None if issues else plugin, tuple(issues))


def _with_interpreters(manifest: Manifest, directory: Path) -> Manifest:
    """What `#!/usr/bin/env node` asks for is a requirement, whether the manifest says so or not."""
    tools = []
    for tool in manifest.cli_tools:
        needed, name = tool.requires, interpreter_of(str(directory / tool.path))
        is_system = any(Path(name).is_relative_to(place) for place in SYSTEM_DIRECTORIES)
        is_known = is_system or name in needed.binaries or ("/" in name and not os.path.isabs(name))
        if name and not is_known:
            needed = msgspec.structs.replace(needed, binaries=(*needed.binaries, name))
        tools.append(msgspec.structs.replace(tool, requires=needed))
    return msgspec.structs.replace(manifest, cli_tools=tuple(tools))


def interpreter_of(file: str) -> str:
    """What the first line of a script names: a path, or the name that `env` looks up; empty for a program."""
    try:
        with open(file, "rb") as stream:
            first = stream.readline(_LONGEST_FIRST_LINE).decode("utf-8", "replace")
    except OSError:
        return ""
    words = first[2:].split() if first.startswith("#!") else []
    if words and words[0].endswith("/env"):
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else ""


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


def plugin_tool_contract(manifest: Manifest, tool: CliTool) -> dict[str, Any]:
    """The parts of a Tool that the manifest decides: all but its body."""
    description = tool.description or f"{tool.name} of the plugin {manifest.name}"
    return {**_manifest_tool_fields(manifest, tool), "description": description, "is_async": True}


def _manifest_tool_fields(manifest: Manifest, tool: CliTool) -> dict[str, Any]:
    """What a manifest says of a tool: the fields that it shares with every other declaration of one."""
    values = {name: getattr(tool, name) for name in CliTool.__struct_fields__ if name in DEFAULTS}
    return {
        **{name: value for name, value in values.items() if value is not None},
        "id": manifest.tool_id(tool),
        "input_schema": tool.parameters,
        "family": manifest.name,
        "version": manifest.version,
        "requires": tool.needs,
    }


def plugin_declaration_of(info: ToolInfo) -> tuple[Manifest, CliTool] | None:
    """What the manifest of a listed tool's plugin says of it; None where that is invalid."""
    plugin = read_plugin(Path(info.file).parent).plugin
    tool = plugin.tool(info.id) if plugin else None
    return (plugin.manifest, tool) if plugin and tool else None


# --- What is wrong with one ------------------------------------------------------------------------------


def _manifest_key_description(path: JsonPath) -> str:
    """What the schema says that a place is for, with an example where it has one."""
    parts = schemas_at(published_schema("plugin").schema, *path)
    text = next((part["description"] for part in parts if "description" in part), "")
    examples = next((part["examples"] for part in parts if "examples" in part), ())
    example = f" For example: {msgspec.json.encode(examples[0]).decode()}." if examples else ""
    return f"{text}{example}"


def _further_manifest_issues(problems: list[Problem], directory: Path, document: Document) -> list[Issue]:
    """What else is wrong with a manifest that does not fit its schema, as far as it can be read."""
    broken = {problem.pointer for problem in problems}
    if not isinstance(document.value, dict) or len(problems) > MAX_REPAIRED:
        return []
    left = repaired_document(document.value, problems, published_schema("plugin").schema)
    if "/name" in broken:
        left["name"] = "plugin"  # a part of every tool's name, which may be right
    try:
        manifest = msgspec.convert(with_whole_numbers(left), Manifest)
    except msgspec.ValidationError:
        return []
    found = _manifest_issues(manifest, directory, document)
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
        try:
            _check_executable(directory, tool.path)
        except Refusal as refusal:
            yield document.issue((*place, "path"), refusal.reason, refusal.remedy)
        for name, setting in tool.config.items():
            yield from _setting_issues((*place, "config", name), setting, document)
        yield from _variable_issues(manifest, tool, place, document)
        yield from _tool_issues(manifest, tool, place, document)


def _check_executable(directory: Path, path: str) -> None:
    """Refuses what the kernel would not execute, or what lies outside the plugin's resolved directory."""
    if Path(path).is_absolute():
        raise Refusal(f"{path} is an absolute path.", "Name the file relative to the plugin's directory.")
    try:
        file = (directory / path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        reason = f"{path} is not a usable path: {error}."
        raise Refusal(reason, "Name a file in the plugin's directory.") from None
    if not file.is_relative_to(directory) or LEFT_OUT & {*file.relative_to(directory).parts}:
        remedy = f"Keep it inside the plugin's directory, and out of {' and '.join(sorted(LEFT_OUT))}."
        raise Refusal(f"{path} is outside the plugin: it leads to {file}.", remedy)
    if not os.path.exists(file):  # which answers for names that no file system takes, too
        raise Refusal(f"There is no file {path}.", "Create it, or fix the path.")
    if not os.path.isfile(file):
        raise Refusal(f"{path} is not a file.", "Name the executable itself.")
    if not os.access(file, os.X_OK):
        raise Refusal(f"{path} is not executable.", f"Run: chmod +x {directory / path}")
    try:
        with file.open("rb") as stream:
            first = stream.readline(_LONGEST_FIRST_LINE)
    except OSError as error:
        raise Refusal(f"{path} cannot be read: {error.strerror}.", "Make it readable.") from None
    if first.startswith(b"#!") and first.endswith(b"\r\n"):
        reason = f"The lines of {path} end in CRLF, so its interpreter cannot be found."
        raise Refusal(reason, "Use LF line endings.")
    if not first.startswith((b"#!", _ELF)):
        reason = f"{path} is neither a program nor a script with a #! line."
        raise Refusal(reason, "Begin it with a line like #!/bin/sh.")


def _setting_issues(place: JsonPath, setting: Setting, document: Document) -> Iterator[Issue]:
    if setting.env in _TAKEN_VARIABLES:
        reason = f"The variable {setting.env} is not for a setting: every executable has its own."
        yield document.issue((*place, "env"), reason, "Choose another variable.")
    for index, value in enumerate(setting.enum):
        if problem := setting_value_problem(value, msgspec.structs.replace(setting, enum=())):
            yield document.issue((*place, "enum", index), f"{value!r} {problem}.", "Fix it, or the type.")
    if setting.default is None:
        return
    if setting.sensitive:
        reason = "A sensitive setting with a default is not a secret: everybody can read it here."
        yield document.issue((*place, "default"), reason, "Remove the default.")
    elif problem := setting_value_problem(setting.default, setting):
        yield document.issue((*place, "default"), f"The default {problem}.", "Fix it, or the type.")


def _variable_issues(
    manifest: Manifest, tool: CliTool, place: JsonPath, document: Document
) -> Iterator[Issue]:
    """Two settings of one variable, or a setting that `env` passes on as well."""
    owners = {name: f"'env' passes {name} on" for name in tool.env}
    for name, setting in manifest.settings_of(tool).items():
        variable = setting_variable(manifest.name, name, setting)
        if variable in owners:
            reason = f"The setting {name!r} uses the variable {variable}, and {owners[variable]}."
            where = (*place, "config", name) if name in tool.config else ("config", name)
            yield document.issue(where, reason, "Give the setting its own variable: 'env'.")
        owners[variable] = f"the setting {name!r} uses it too"


def _tool_issues(manifest: Manifest, tool: CliTool, place: JsonPath, document: Document) -> list[Issue]:
    """What the contract would refuse, tried on a stand-in for the tool."""
    tool_id = manifest.tool_id(tool)
    try:
        Tool(**plugin_tool_contract(manifest, tool), invoke=lambda _arguments, _context: None)
    except ToolError as error:
        reason = error.issue.reason if error.issue else error.message
        refusal = document.issue(place, f"Tool {tool_id!r} is invalid: {reason}.", error.hint or _FORMAT_HINT)
    else:
        return []
    issues = []
    if problem := tool_name_problem(tool_id):
        reason = f"The tool would be called {tool_id}: {problem}."
        issues.append(document.issue((*place, "name"), reason, "Shorten the plugin's name or the tool's."))
    schemas = {"parameters": closed_schema(tool.parameters), "output_schema": tool.output_schema}
    for key, schema in schemas.items():
        try:
            if schema is not None:
                Validator(schema)
        except SchemaInvalid as error:
            reason = f"{key!r} is not a valid JSON Schema: {error.reason}."
            remedy = "Fix it; it is JSON Schema 2020-12."
            issues.append(document.issue((*place, key, *error.path), reason, remedy))
    return issues or [refusal]
