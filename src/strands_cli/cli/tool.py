"""`strands tool`, and `strands list-tools`, which is also `strands tool list`.

What only `call` or `show` needs is imported there: a listing must be quick.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli.cli.app import LazyGroup
from strands_cli.cli.options import (
    allow_write_option,
    complete_tools,
    file_text,
    json_option,
    log_option,
    permit_all,
    trust_option,
    warn_of_untrusted,
    yes_option,
)
from strands_cli.cli.output import (
    Styled,
    can_ask,
    count_text,
    is_debugging,
    issue_document,
    print_columns,
    print_failure,
    print_findings,
    print_issues,
    print_json,
    print_line,
    print_note,
    print_paragraphs,
    print_text,
    print_warning,
    tool_output_aside,
)
from strands_cli.cli.terminal import crash_place
from strands_cli.errors import EXIT_TESTS_FAILED, Issue, ToolError, UnsupportedError, UsageError
from strands_cli.toolkit.info import DEFAULTS, FIELDS, ToolCategory, ToolInfo, missing_requirements
from strands_cli.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from strands_cli.cli.progress import Progress
    from strands_cli.cli.questions import AskForPermit
    from strands_cli.events import Event, Listener
    from strands_cli.plugins.manifest import CliTool, Manifest
    from strands_cli.toolkit.context import CallContext
    from strands_cli.toolkit.contract import Tool
    from strands_cli.toolkit.results import ToolResult

_UNGROUPED = "other"
_GROUPS = [*(item.value for item in ToolCategory), _UNGROUPED]


@click.group(
    cls=LazyGroup,
    table={
        "new": ("strands_cli.cli.create:new_tool", "Create a tool and its test in this project."),
        "package": ("strands_cli.cli.tool_package:package", "Make a Python package of tools, for pip."),
    },
)
def tool() -> None:
    """Create, list, show, call, check and test tools."""


# --- list -------------------------------------------------------------------------------------------------


@tool.command("list")
@click.option("--category", type=click.Choice(_GROUPS), help="Show only this category.")
@click.option("--verbose", "-v", is_flag=True, help="Also show files, and errors in them.")
@json_option
@log_option
def list_tools(category: str | None, verbose: bool, as_json: bool) -> None:
    """List all tools, where they come from and whether they are available. No tool is run."""
    registry = ToolRegistry.to_look_at()
    warn_of_untrusted(registry.settings)
    infos = [info for info in registry.list_all() if category in (None, _tool_group(info))]
    if as_json:
        problems = [issue_document(issue) for issue in registry.problems]
        print_json({"tools": [_info_document(info) for info in infos], "problems": problems})
        return
    for group in _GROUPS:
        rows = []
        for info in sorted((info for info in infos if _tool_group(info) == group), key=lambda info: info.id):
            place = f"{info.file}:{info.line}" if verbose and info.file else info.origin
            about = " ".join([*tool_remarks(info), first_sentence(info.description)])
            rows.append((info.id, info.version, place, about))
        if rows:
            print_line(Styled(group))
            print_columns(rows)
    if verbose:
        print_issues(registry.problems, err=True)
        return
    print_issues(registry.settings.issues, err=True)
    for shadowed in registry.shadowed:
        print_warning(shadowed.warning_in(Path.cwd()))
    if number := len(registry.problems) - len(registry.shadowed) - len(registry.settings.issues):
        found = f"{count_text(number, 'problem')} found in tool files"
        print_note(f"{found}: run 'strands list-tools --verbose' for details.")


def _tool_group(info: ToolInfo) -> str:
    return info.category or _UNGROUPED


def first_sentence(text: str) -> str:
    return text.strip().split("\n")[0].partition(". ")[0].removesuffix(".")


def tool_remarks(info: ToolInfo) -> list[str]:
    """What a user should know before calling a tool."""
    notes = []
    if reasons := missing_requirements(info.requires):
        notes.append(f"[unavailable: {'; '.join(reasons)}]")
    if info.unread:
        notes.append(f"[unread: {info.unread}]")
    if info.deprecated:
        notes.append(f"[deprecated, use {info.replaced_by}]" if info.replaced_by else "[deprecated]")
    return notes


def _info_document(info: ToolInfo) -> dict[str, Any]:
    """All that is known of a tool without loading it."""
    more = {"import_path": info.import_path, "unavailable": missing_requirements(info.requires)}
    return msgspec.structs.asdict(info) | more


# --- show -------------------------------------------------------------------------------------------------


@tool.command()
@click.argument("reference", metavar="TOOL", shell_complete=complete_tools)
@click.option("--load", is_flag=True, help="Import the tool, to show what is known only then.")
@json_option
@log_option
def show(reference: str, load: bool, as_json: bool) -> None:
    """Show a tool: description, arguments, result and requirements."""
    registry = ToolRegistry.to_look_at()
    info = registry.require(reference)
    if load:
        loaded = registry.load(info)
        told = {name: getattr(loaded, name) for name in ("description", "input_schema", "output_schema")}
        info = msgspec.structs.replace(info, **told, unread="")
    if as_json:
        document = _info_document(info)
        if declared := plugin_access(info):
            from strands_cli.cli.plugin.commands import access_document

            document["access"] = access_document(*declared)
        print_json(document)
        return
    print_line(Styled(f"{info.id} {info.version}"))
    print_paragraphs(info.description)
    for remark in tool_remarks(info):
        print_line(remark)
    print_line()
    print_columns([*_tool_facts(info)], indent="")
    print_line()
    _print_arguments(info)


def _tool_facts(info: ToolInfo) -> Iterator[tuple[str, str]]:
    place = f" ({info.file}:{info.line})" if info.file else ""
    yield "origin", f"{info.origin}{place}"
    yield "category", _tool_group(info)
    yield "family", info.family
    yield "time limit", f"{info.timeout:g} s"
    yield "consent", "asked before each call" if info.requires_consent else "not needed"
    for name, default in DEFAULTS.items():
        value = getattr(info, name)
        if FIELDS[name].label and value != default:
            yield FIELDS[name].label, value if isinstance(value, str) else json.dumps(value)
    if declared := plugin_access(info):
        from strands_cli.plugins.permissions import access_lines

        yield from (("access", text) for text in access_lines(*declared))
    if info.output_schema:
        yield "returns", _type_text(info.output_schema)


def plugin_access(info: ToolInfo) -> "tuple[Manifest, CliTool] | None":
    """What the plugin of a tool says of it, if it is one of a plugin: what it asks for is there."""
    if not info.manifest:
        return None
    from strands_cli.plugins.plugin import plugin_declaration_of

    return plugin_declaration_of(info)


_EXAMPLES = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def _print_arguments(info: ToolInfo) -> None:
    if info.input_schema is None:
        print_line(f"Its arguments are known after loading: 'strands tool show {info.id} --load' imports it.")
        return
    required = info.input_schema.get("required", [])
    rows, example = [], dict[str, Any]()
    for name, part in info.input_schema.get("properties", {}).items():
        described = part if isinstance(part, dict) else {}
        default, kind = described.get("default"), described.get("type", "string")
        need = f"default {json.dumps(default)}" if default is not None else "optional"
        if name in required:
            need = "required"
            usual = _EXAMPLES.get(kind[0] if isinstance(kind, list) else kind, "…")
            first = described.get("minimum", described.get("maximum", usual))
            example[name] = described["enum"][0] if described.get("enum") else first
        rows.append((name, _type_text(part), need, str(described.get("description", ""))))
    print_line(Styled("arguments"))
    print_columns(rows)
    print_line()
    print_line(f"strands tool call {info.id} '{json.dumps(example, ensure_ascii=False)}'")


_LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def _type_text(part: Any) -> str:
    if not isinstance(part, dict):
        return "any"
    if "enum" in part:
        return "|".join(str(option) for option in part["enum"])
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    if options := part.get("anyOf") or part.get("oneOf"):
        return "|".join(_type_text(option) for option in options)
    kind = part.get("type", "any")
    limits = [f"{sign} {part[key]}" for key, sign in _LIMITS.items() if key in part]
    return " ".join(["|".join(kind) if isinstance(kind, list) else str(kind), *limits])


# --- call -------------------------------------------------------------------------------------------------


@tool.command()
@click.argument("reference", metavar="TOOL", shell_complete=complete_tools)
@click.argument("arguments", metavar="[JSON | - | @FILE | KEY=VALUE…]", nargs=-1)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="The time limit in seconds, instead of the tool's own.",
)
@yes_option
@allow_write_option
@trust_option
@json_option
@log_option
def call(
    *,
    reference: str,
    arguments: tuple[str, ...],
    timeout: float | None,
    yes: bool,
    allowed: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Call a tool with validated input.

    Pass the input as one JSON object, as '-' to read it from standard input, as '@FILE' to read it from a
    file, or as KEY=VALUE pairs, which get their types from the tool's schema. KEY=@FILE reads a value from
    a file; KEY=@@… is a text that begins with '@'.
    """
    from strands_cli.cli.event_loop import run_async
    from strands_cli.toolkit.context import CallContext, Permit
    from strands_cli.toolkit.workspace import Workspace, current_directory

    if timeout is not None and isnan(timeout):
        raise UsageError("--timeout is not a number.", hint="Give seconds, such as --timeout 5.")
    registry = ToolRegistry()
    settings, info = registry.settings, registry.require(reference)
    warn_of_untrusted(settings)
    for shadowed in registry.shadowed_by(reference):
        print_warning(shadowed.warning_in(Path.cwd()))
    if info.deprecated:
        instead = f"; use {info.replaced_by}" if info.replaced_by else ""
        print_warning(f"{info.id} {info.version} is deprecated{instead}.")
    with tool_output_aside():
        loaded = registry.load(info)
    sent = _tool_input(arguments, loaded.input_schema)
    with tool_output_aside(), span_export() as export, ExitStack() as stack:
        progress: Progress | None = None
        if not loaded.runs_inline:  # a quick one has nothing to show
            from strands_cli.cli.progress import open_progress

            progress = stack.enter_context(open_progress(shows_calls=False))
        may_write = (*allowed, *_typed_paths(arguments))
        permit: Permit | None = permit_all if yes or settings.bypass_consent else None
        ask: AskForPermit | None = None
        if can_ask():
            from strands_cli.cli.questions import permit_asked_in

            ask = permit_asked_in(progress.asking if progress else nullcontext)
        context = CallContext(
            emit=_both_listeners(progress, export),
            permit=permit or ask,
            permit_protected=ask,
            timeout=timeout,
            max_output=0,
            settings=settings,
            workspace=Workspace(settings.workspace, current_directory(), may_write),
            resolve=registry.load,
        )
        result = run_async(_call_asking(loaded, sent, context, progress.asking if progress else nullcontext))
    return _print_result(result, as_json)


async def _call_asking(
    tool: "Tool", sent: object, context: "CallContext", aside: "Callable[[], AbstractContextManager[None]]"
) -> "ToolResult":
    """A call whose tool may ask the person at the terminal, where there is one."""
    from strands_cli.toolkit.call import call_tool

    if can_ask():
        import asyncio

        from strands_cli.cli.questions import person_asked_in

        interrupt = person_asked_in(aside, asyncio.get_running_loop())
        context = msgspec.structs.replace(context, interrupt=interrupt)
    return await call_tool(tool, {"toolUseId": "call-1", "name": tool.id, "input": sent}, context)


def _typed_paths(arguments: tuple[str, ...]) -> Iterator[Path]:
    """The values on the command line, as paths: whoever types a protected path has agreed to it."""
    for word in arguments:
        document: object = word.partition("=")[2]
        if word.startswith("{"):
            with suppress(ValueError, RecursionError):
                document = json.loads(word)
        values = document.values() if isinstance(document, dict) else [document]
        yield from (Path(os.path.abspath(text)) for text in values if isinstance(text, str) and text)  # noqa: PTH100


def _both_listeners(one: "Listener | None", other: "Listener | None") -> "Listener | None":
    if one is None or other is None:
        return one or other

    def tell(event: "Event") -> None:
        one(event)
        other(event)

    return tell


@contextmanager
def span_export() -> "Iterator[Listener | None]":
    """A listener that sends the call's spans where the environment says; None where it names nothing."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        yield None  # most calls: importing OpenTelemetry takes longer than they do
        return
    from strands_cli.telemetry import open_telemetry
    from strands_cli.types.sections import Telemetry

    with open_telemetry(Telemetry(), warn=print_warning) as exporting:
        yield exporting.listener


def _tool_input(arguments: tuple[str, ...], schema: dict[str, Any]) -> object:
    """The input on the command line: pairs become an object, all else the contract judges."""
    if not arguments:
        return {}
    first = arguments[0]
    if len(arguments) > 1 or (first[:1] not in ("{", "[", "@") and "=" in first):
        pairs: dict[str, object] = {}
        for item in arguments:
            key, value = _parse_pair(item, schema)
            if key in pairs:
                raise UsageError(f"{key!r} is given twice.", hint="Write a list as JSON: KEY='[1, 2]'.")
            pairs[key] = value
        return pairs
    if first == "-":
        if sys.stdin is None:
            raise UsageError("Standard input is closed.", hint="Pass the JSON as an argument, or @FILE.")
        return sys.stdin.read()
    return (
        file_text(first[1:], hint="Write '@' and the path of a JSON file.")
        if first.startswith("@")
        else first
    )


def _parse_pair(item: str, schema: dict[str, Any]) -> tuple[str, object]:
    """A value as its property asks for it; what does not parse stays text, for validation to refuse."""
    key, separator, text = item.partition("=")
    if not separator or not key:
        hint = "Write pairs such as message=hi, or one JSON object."
        raise UsageError(f"{item!r} is not KEY=VALUE.", hint=hint)
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        hint = f"{key}=@FILE reads a file; {key}=@@… is a text that begins with '@'."
        text = file_text(text[1:], hint=hint)
    part = schema.get("properties", {}).get(key)
    kinds = part.get("type") if isinstance(part, dict) else None
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        return key, text
    with suppress(ValueError):
        return key, json.loads(text)
    return key, text


def _print_result(result: "ToolResult", as_json: bool) -> int:
    from strands_cli.toolkit.results import error_code_row, error_of

    error = error_of(result)
    if as_json:
        print_json({"toolUseId": result["toolUseId"], "status": "error", "error": error} if error else result)
    elif error:
        print_failure(f"{error['message']} [{error['code']}]", error.get("hint") or _crash_hint(error))
    else:
        for block in result["content"]:
            text = block.get("text", f"[{next(iter(block), 'block')}: shown with --json]")
            print_text(json.dumps(block["json"], indent=2, ensure_ascii=False) if "json" in block else text)
    return error_code_row(error["code"]).exit_code if error else 0


def _crash_hint(error: dict[str, Any]) -> str:
    """Where a tool crashed, and how to see more of it."""
    if error["code"] != "crashed":
        return ""
    place = crash_place(error)
    more = "" if is_debugging() else "'strands --debug tool call …' shows the traceback."
    return " ".join(filter(None, [f"Raised at {place}." if place else "", more]))


# --- check ------------------------------------------------------------------------------------------------


@tool.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--load", is_flag=True, help="Also import the tools and build each of them.")
@json_option
@log_option
def check(path: Path | None, load: bool, as_json: bool) -> int:
    """Find errors in tools, with file and line.

    PATH is the file of a tool or a directory of tools. Without it, all tools of this project are checked.
    """
    from strands_cli.tools._discovery.checking import check_tools
    from strands_cli.tools.sources.modules import read_tool_path

    registry = ToolRegistry.to_look_at()
    if path is None:
        infos, issues = registry.list_all(), registry.problems
    elif not path.exists():
        raise UsageError(f"Not found: {path}.", hint="Give a tool's file or a directory of tools.")
    else:
        reading = read_tool_path(path)
        infos, issues = list(reading.infos), list(reading.issues)
    issues += check_tools(infos, registry.settings.project)
    for info in infos if load else ():
        try:
            registry.load(info)
        except ToolError as error:
            unloaded = Issue(reason=error.message, remediation=error.hint, file=info.file, line=info.line)
            issues.append(error.issue or unloaded)
    summary = f"{count_text(len(infos), 'tool')} checked, {count_text(len(issues), 'issue')}."
    document = {"tools": [info.reference for info in infos]}
    return print_findings(issues, document=document, summary=summary, as_json=as_json)


# --- test -------------------------------------------------------------------------------------------------

_PYTEST_SETTINGS = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)


@tool.command()
@click.argument("references", metavar="[TOOL]…", nargs=-1, shell_complete=complete_tools)
@click.option(
    "-k", "expression", metavar="EXPRESSION", help="Run only tests whose names match, as with pytest -k."
)
@log_option
def test(references: tuple[str, ...], expression: str | None) -> int:
    """Run the tests of this project's tools with pytest.

    The tests of a tool are in test_TOOL.py, below tests/ or beside the tool, or in the tests.py of its
    family. Without TOOL, the tests of all tools run.
    """
    import subprocess
    from importlib.util import find_spec

    registry = ToolRegistry.to_look_at()
    project = registry.settings.project
    files = [*_named_tests(references, registry)] if references else _all_tests(registry)
    if find_spec("pytest") is None:
        raise UnsupportedError("The tests need pytest.", hint="Install it: pip install pytest")
    paths = [str(file.relative_to(project)) for file in dict.fromkeys(files)]
    options = ["-k", expression] if expression else []
    command = [sys.executable, *pytest_words(project), *options, *paths]
    done = subprocess.run(command, cwd=project, check=False)
    return EXIT_TESTS_FAILED if done.returncode else 0


def pytest_words(project: Path) -> list[str]:
    """Returns the words after `python` that start pytest.

    pytest-asyncio warns if a certain option is not set. It is set here, unless the author has done so.
    """
    from importlib.metadata import PackageNotFoundError, version

    words, option = ["-m", "pytest"], "asyncio_default_fixture_loop_scope"
    try:
        has_option = not version("pytest-asyncio").startswith(("0.1", "0.20", "0.21", "0.22", "0.23"))
    except PackageNotFoundError:
        return words
    if not has_option or os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return words
    files = [place / name for place in (project, *project.parents) for name in _PYTEST_SETTINGS]
    readable = [file for file in files if file.is_file() and os.access(file, os.R_OK)]
    is_set = any(option.encode() in file.read_bytes() for file in readable)
    return words if is_set else [*words, "-o", f"{option}=function"]


def tests_of(info: ToolInfo, project: Path) -> list[Path]:
    """Returns the files with tests of a tool in tools/: below tests/, beside it, and of its family."""
    place = Path(info.file).parent
    names = {f"test_{name}.py" for name in (info.id, Path(info.file).stem)}
    found = [file for root in (project / "tests", place) for name in names for file in root.rglob(name)]
    of_family = [place / "tests.py"] if place != project / "tools" else []
    return [*sorted(found), *(file for file in of_family if file.is_file())]


def _named_tests(references: Sequence[str], registry: ToolRegistry) -> Iterator[Path]:
    project = registry.settings.project
    for reference in references:
        info = registry.require(reference)
        if not (info.file and Path(info.file).is_relative_to(project / "tools")):
            hint = "'strands list-tools' shows where each tool comes from."
            raise UsageError(f"{reference} is not in the tools/ directory of this project.", hint=hint)
        if not (found := tests_of(info, project)):
            hint = f"Write tests/test_{info.id}.py; 'strands_cli.testing' has what it needs."
            raise UsageError(f"{reference} has no tests.", hint=hint)
        yield from found


def _all_tests(registry: ToolRegistry) -> list[Path]:
    """Returns the tests of all tools in tools/, also of files that cannot be read."""
    project = registry.settings.project
    tools, tests = project / "tools", project / "tests"
    beside = [file for name in ("test_*.py", "tests.py") for file in tools.rglob(name)]
    names = {file.stem for file in tools.rglob("*.py")} | {info.id for info in registry.list_all()}
    found = [file for file in tests.rglob("test_*.py") if file.stem.removeprefix("test_") in names]
    if not beside + found:
        hint = "'strands tool new' creates a tool with a test."
        raise UsageError("The tools of this project have no tests.", hint=hint)
    return sorted(found) + sorted(beside)
