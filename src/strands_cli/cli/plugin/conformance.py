"""`strands plugin test`: each tool of a plugin called in good and in bad ways, as a model would call it."""

import asyncio
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import click
import msgspec

from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import json_option, permit_all
from strands_cli.cli.output import (
    Styled,
    count_text,
    print_columns,
    print_json,
    print_line,
    print_note,
    tool_output_aside,
)
from strands_cli.cli.plugin.commands import plugin_argument, read_named_plugin
from strands_cli.cli.terminal import cut_text, duration_text, one_line
from strands_cli.documents.problems import local_reference_target
from strands_cli.errors import SpecError, ToolError, ToolFailed
from strands_cli.plugins.executable_output import OWN_CODES, REFUSED_MARK, parse_printed_json
from strands_cli.plugins.manifest import CliTool
from strands_cli.plugins.permissions import runnable_plugin
from strands_cli.plugins.plugin import Plugin
from strands_cli.plugins.plugin_tool import plugin_tool
from strands_cli.settings import Settings, load_settings
from strands_cli.toolkit.call import call_tool, prepare_arguments
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.info import missing_requirements
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.toolkit.workspace import Workspace

_FIXTURES = "fixtures"
_MARK = "STRANDS_PLUGIN_TEST"
"""A variable that every process of a trial has, so that it is found again if it is left behind."""
_PARKING_SECONDS = 0.3
_SLOWNESS_SECONDS = 0.05
_SHORTEST_LIMIT_SECONDS = 0.01
_NEAR_SECONDS = 2.0
"""How long after its limit an answer may come on a busy machine."""
_SURVIVAL_SECONDS = 3.0
_LONGEST_REASON = 300
_HUGE_CHARACTERS = 500_000
"""More than a pipe holds, more than an argument may have, and less than an answer may have."""
_HUGE = re.compile("x{40,}")
"""What is left of the huge input in an error."""
_WRONG_VALUES = ({"unexpected": "object"}, ["unexpected", "list"], "unexpected text", 1.5, None)


class Check(msgspec.Struct, frozen=True):
    outcome: Literal["passed", "failed", "skipped"]
    reason: str


@click.command()
@plugin_argument()
@json_option
def test(name: str, as_json: bool) -> int:
    """Call every tool of a plugin with valid and invalid input, and report the results.

    Valid input comes from the 'examples' of a tool's parameters, their defaults or their types. The workspace
    is a copy of the plugin's fixtures/ directory, or empty. The tools really run, with the permissions that
    they declare.
    """
    reading = read_named_plugin(name)
    plugin = reading.plugin
    if plugin is None:
        raise SpecError(f"The plugin {name} has mistakes.", issues=reading.issues)
    plugin = runnable_plugin(plugin, load_settings())
    tools: list[dict[str, Any]] = []
    for declared in plugin.manifest.cli_tools:
        tool_id = plugin.manifest.tool_id(declared)
        checks = [
            {"check": name, **msgspec.to_builtins(check)}
            for name, check in _check_tool(plugin, declared).items()
        ]
        tools.append({"tool": tool_id, "checks": checks})
        if not as_json:
            print_line(Styled(tool_id))
            print_columns([(check["outcome"], check["check"], check["reason"]) for check in checks])
    outcomes = [check["outcome"] for tool in tools for check in tool["checks"]]
    totals = {outcome: outcomes.count(outcome) for outcome in ("passed", "failed", "skipped")}
    if as_json:
        print_json({"plugin": plugin.name, **totals, "tools": tools})
    else:
        parts = ", ".join(f"{number} {outcome}" for outcome, number in totals.items() if number)
        counts = f"{count_text(len(tools), 'tool')}, {count_text(len(outcomes), 'check')}"
        print_note(f"{counts}: {parts or 'nothing to do'}.")
    return ToolError.exit_code if totals["failed"] else 0


def _check_tool(plugin: Plugin, declared: CliTool) -> dict[str, Check]:
    """Every check with its outcome, in the order of the table."""
    if missing := missing_requirements(declared.needs):
        unavailable = Check("skipped", f"the tool is unavailable here: {'; '.join(missing)}")
        return dict.fromkeys((*_CHECKS, "survivors"), unavailable)
    with TemporaryDirectory(prefix="plugin-test-") as name, tool_output_aside():
        workspace = Path(name).resolve() / "workspace"
        fixtures = plugin.place / _FIXTURES  # the copy of an approved plugin is read-only
        if fixtures.is_dir():
            shutil.copytree(fixtures, workspace, symlinks=True)
        else:
            workspace.mkdir()
        trial = _ToolTrial(plugin, declared, load_settings(), workspace)

        async def all_checks() -> dict[str, Check]:
            return {name: await check(trial) for name, check in _CHECKS.items()}

        checks = run_async(all_checks())
        # After the loop has ended, and with it what was started ahead.
        return {**checks, "survivors": _left_processes(trial)}


class _CheckedCall(msgspec.Struct, frozen=True):
    """One call and its answer."""

    result: ToolResult
    seconds: float

    @property
    def error(self) -> dict[str, Any] | None:
        return error_of(self.result)

    @property
    def code(self) -> str | None:
        return self.error["code"] if self.error else None

    @property
    def text(self) -> str:
        """What became of it, for people."""
        if self.error is None:
            return f"answered in {duration_text(self.seconds)}"
        hint = f" {self.error['hint']}" if self.error.get("hint") else ""
        line = _HUGE.sub("x…x", f"{self.error['code']}: {self.error['message']}{hint}")
        return cut_text(one_line(line), _LONGEST_REASON)


class _ToolTrial:
    """One tool, its good input, and its answer to that."""

    def __init__(self, plugin: Plugin, declared: CliTool, settings: Settings, workspace: Path) -> None:
        declared = msgspec.structs.replace(declared, env=(*declared.env, _MARK), retries=0)
        self.declared = declared
        self.tool = plugin_tool(plugin, declared, settings)
        fresh = declared if declared.mode == "worker" else msgspec.structs.replace(declared, mode="fresh")
        self._fresh = plugin_tool(plugin, fresh, settings)
        self.mark = os.environ[_MARK] = f"{os.getpid()}-{time.monotonic_ns()}"
        self._context = CallContext(
            permit=permit_all, settings=settings, workspace=Workspace((workspace,), workspace), max_output=0
        )
        self.schema = self.tool.input_schema
        self.good: dict[str, Any] = {}
        self.first: _CheckedCall | None = None

    async def call(self, input: object, *, timeout: float | None = None, ahead: bool = True) -> _CheckedCall:
        """`ahead`: a process may be used that was started before."""
        tool = self.tool if ahead else self._fresh
        context = msgspec.structs.replace(self._context, timeout=timeout)
        started = time.monotonic()
        result = await call_tool(tool, {"toolUseId": "test", "name": tool.id, "input": input}, context)
        return _CheckedCall(result, time.monotonic() - started)

    def is_refused(self, input: object) -> bool:
        """Whether the contract refuses an input before anything runs."""
        try:
            prepare_arguments(self.tool, {"toolUseId": "test", "name": self.tool.id, "input": input})
        except ToolFailed:
            return True
        return False


# --- The checks --------------------------------------------------------------------------------------------

_NO_ANSWER = Check("skipped", "there was no good answer to compare with")


async def _good_input(trial: _ToolTrial) -> Check:
    example = example_input(trial.schema)
    if not isinstance(example.value, dict) or trial.is_refused(example.value):
        return Check("skipped", "no input could be made from 'parameters': give them 'examples'")
    trial.good = example.value
    attempt = await trial.call(example.value)
    remarks = [block.get("text", "") for block in attempt.result["content"][1:]]
    if refusal := next((text for text in remarks if text.startswith(REFUSED_MARK)), ""):
        return Check("failed", one_line(refusal))
    if attempt.error is None:
        trial.first = attempt
        return Check("passed", attempt.text)
    if example.is_invented and attempt.code in OWN_CODES:
        trial.first = attempt
        return Check("skipped", f"made-up input was answered with an error; give 'examples' ({attempt.text})")
    return Check("failed", attempt.text)


async def _second_call(trial: _ToolTrial) -> Check:
    if trial.first is None:
        return _NO_ANSWER
    await asyncio.sleep(_PARKING_SECONDS)  # the next process, if one is started ahead
    return _like_the_first(trial.first, await trial.call(trial.good))


async def _missing_arguments(trial: _ToolTrial) -> Check:
    inputs = [
        (name, {key: value for key, value in trial.good.items() if key != name})
        for name in trial.schema.get("required", ())
    ]
    if not inputs:
        return Check("skipped", "no argument is required")
    return await _all_refused(trial, inputs)


async def _wrong_arguments(trial: _ToolTrial) -> Check:
    inputs: list[tuple[str, Any]] = [("text that is not JSON", "no JSON")]
    anything: list[str] = []
    for name in trial.schema.get("properties", {}):
        wrong = ({**trial.good, name: other} for other in _WRONG_VALUES)
        if refused := next(filter(trial.is_refused, wrong), None):
            inputs.append((name, refused))
        else:
            anything.append(name)
    check = await _all_refused(trial, inputs)
    if anything and check.outcome == "passed":
        return Check("passed", f"{check.reason}; anything is taken for {', '.join(anything)}: give it a type")
    return check


async def _all_refused(trial: _ToolTrial, inputs: list[tuple[str, Any]]) -> Check:
    for name, input in inputs:
        attempt = await trial.call(input)
        if attempt.code not in ("input_invalid", "input_malformed"):
            return Check("failed", f"{name}: {attempt.text}")
    return Check("passed", f"refused before it ran: {', '.join(name for name, _ in inputs)}")


async def _empty_input(trial: _ToolTrial) -> Check:
    attempt = await trial.call({})
    if attempt.code == "input_invalid":
        return Check("passed", "refused before it ran")
    return _answer_check(attempt)


async def _huge_input(trial: _ToolTrial) -> Check:
    for name in trial.schema.get("properties", {}) or ("text",):
        input = {**trial.good, name: "x" * _HUGE_CHARACTERS}
        if not trial.is_refused(input):
            check = _answer_check(await trial.call(input))
            return Check(check.outcome, f"{_HUGE_CHARACTERS:,} characters in {name}: {check.reason}")
    return Check("skipped", "no argument takes a long text")


async def _slow_drain(trial: _ToolTrial) -> Check:
    """Its output is read with pauses, so that it waits for its reader."""
    if trial.first is None:
        return _NO_ANSWER
    calling = asyncio.ensure_future(trial.call(trial.good))
    while not calling.done():
        time.sleep(_SLOWNESS_SECONDS)  # noqa: ASYNC251 - the loop is the reader that is to be slow
        await asyncio.sleep(0)
    return _like_the_first(trial.first, await calling)


async def _short_timeout(trial: _ToolTrial) -> Check:
    """With half of the time that it needs, or hardly any, it is answered for and ended."""
    if trial.first is None:
        return _NO_ANSWER
    half = min(trial.first.seconds / 2, trial.declared.timeout)
    for limit in (max(half, _SHORTEST_LIMIT_SECONDS), _SHORTEST_LIMIT_SECONDS):
        attempt = await trial.call(trial.good, timeout=limit, ahead=False)
        times = f"limit {duration_text(limit)}, answered after {duration_text(attempt.seconds)}"
        if attempt.seconds > limit + _NEAR_SECONDS:
            return Check("failed", times)
        if attempt.code == "timeout":
            return Check("passed", times)
        if attempt.code != trial.first.code:
            return Check("failed", f"{times}: {attempt.text}")
    return Check("skipped", "it answers too fast to be timed")


async def _extra_output(trial: _ToolTrial) -> Check:
    if trial.first is None or trial.first.error:
        return _NO_ANSWER
    remarks = [block["text"] for block in trial.first.result["content"][1:] if "text" in block]
    if remarks:
        return Check("failed", one_line(f"{remarks[0]} Standard output is for the answer alone."))
    answer = trial.first.result["content"][0]
    if "json" in answer:
        return Check("passed", "one JSON value")
    if _has_json_inside(str(answer.get("text", ""))):
        return Check("failed", "JSON with other lines around it: standard output is for the answer alone.")
    return Check("passed", "one text")


def _has_json_inside(text: str) -> bool:
    """Whether some lines of a text are an object or an array: an answer that was lost in noise."""
    lines = text.splitlines()
    begins = [index for index, line in enumerate(lines) if line[:1] in ("{", "[")]
    ends = [index + 1 for index, line in enumerate(lines) if line.rstrip()[-1:] in ("}", "]")]
    if not begins or not ends:
        return False
    parts = [lines[begins[0] : ends[-1]], lines[begins[0] : begins[0] + 1], lines[begins[-1] : ends[-1]]]
    for part in parts:
        with suppress(ValueError):
            if isinstance(parse_printed_json("\n".join(part)), dict | list):
                return True
    return False


def _like_the_first(first: _CheckedCall, attempt: _CheckedCall) -> Check:
    if attempt.code != first.code:
        return Check("failed", attempt.text)
    same = f"the same error as before ({attempt.code})"
    return Check("passed", same if attempt.error else attempt.text)


def _answer_check(attempt: _CheckedCall) -> Check:
    """An error of the tool's own is an answer too."""
    if attempt.error and attempt.code in OWN_CODES:
        return Check("passed", f"the tool refused it ({attempt.code})")
    return Check("failed" if attempt.error else "passed", attempt.text)


def _left_processes(trial: _ToolTrial) -> Check:
    from strands_cli.sandbox import process_tree

    deadline, mark = time.monotonic() + _SURVIVAL_SECONDS, f"{_MARK}={trial.mark}"
    proc = process_tree.open_proc()
    try:
        while (left := process_tree.marked_processes(mark, proc)) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        os.close(proc)
    if left:
        return Check("failed", f"still running: {', '.join(map(str, left))}")
    return Check("passed", "nothing is left")


_CHECKS: dict[str, Callable[[_ToolTrial], Awaitable[Check]]] = {
    "good input": _good_input,
    "second call": _second_call,
    "missing arguments": _missing_arguments,
    "wrong arguments": _wrong_arguments,
    "empty input": _empty_input,
    "huge input": _huge_input,
    "slow drain": _slow_drain,
    "timeout": _short_timeout,
    "noise on stdout": _extra_output,
}


# --- Inputs made from a schema -----------------------------------------------------------------------------

_DEEPEST = 8
_FORMATS = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com/",
    "uuid": "12345678-1234-4234-8234-123456789abc",
    "ipv4": "192.0.2.1",
    "hostname": "example.com",
}


class Example(msgspec.Struct, frozen=True):
    value: Any
    is_invented: bool
    """Whether some of it is made from a type alone, and so may mean nothing to the tool."""


def example_input(schema: Any, root: dict[str, Any] | None = None, depth: int = 0) -> Example:
    """An input from `examples`, defaults and enums, and only then from types."""
    root = schema if root is None else root
    schema = _flat_schema(schema, root)
    for key in ("examples", "enum"):
        if schema.get(key):
            return Example(schema[key][0], False)
    for key in ("const", "default"):
        if key in schema:
            return Example(schema[key], False)
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if kind == "object":
        parts = {
            name: example_input(part, root, depth + 1)
            for name, part in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or (isinstance(part, dict) and part.get("examples"))
            if depth < _DEEPEST
        }
        value = {name: part.value for name, part in parts.items()}
        return Example(value, any(part.is_invented for part in parts.values()))
    if kind == "array":
        count = schema.get("minItems", 1) if depth < _DEEPEST else 0
        item = example_input(schema.get("items", {}), root, depth + 1) if count else Example(None, False)
        return Example([item.value] * count, item.is_invented)
    if kind in ("integer", "number"):
        step = schema.get("multipleOf", 1)
        bounds = {"exclusiveMinimum": step, "minimum": 0, "maximum": 0, "exclusiveMaximum": -step}
        return Example(
            next((schema[key] + more for key, more in bounds.items() if key in schema), step), True
        )
    if kind in ("boolean", "null"):
        return Example(False if kind == "boolean" else None, False)
    text = _FORMATS.get(schema.get("format", ""), "text").ljust(schema.get("minLength", 0), "x")
    return Example(text[: schema.get("maxLength")], True)


def _flat_schema(schema: Any, root: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """A schema with what its local `$ref` and its parts add: all of them, or the first to be chosen from.

    A part overrides what stands around it, since it is there to narrow that.
    """
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return {}
    parts = [local_reference_target(schema.get("$ref"), root), *schema.get("allOf", ())]
    parts += [schema[key][0] for key in ("oneOf", "anyOf") if schema.get(key)]
    flat = {key: value for key, value in schema.items() if key not in ("$ref", "oneOf", "anyOf", "allOf")}
    for part in parts:
        other = _flat_schema(part, root, depth + 1)
        both = {**flat, **other}
        if "properties" in both:
            both["properties"] = {**flat.get("properties", {}), **other.get("properties", {})}
            both["required"] = [*flat.get("required", ()), *other.get("required", ())]
        flat = both
    return flat
