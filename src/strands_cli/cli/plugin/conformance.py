"""The conformance run of one tool of a plugin: called in good and in bad ways, as a model would call it."""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from strands_cli.cli.plugin.inputs import (
    HUGE_CHARACTERS,
    Example,
    good_input,
    huge_inputs,
    incomplete_inputs,
    other_inputs,
)
from strands_cli.cli.text import cut, duration, one_line
from strands_cli.errors import ToolFailed
from strands_cli.plugins.answers import OWN_CODES, parsed
from strands_cli.plugins.manifest import CliTool
from strands_cli.plugins.reading import Plugin
from strands_cli.plugins.tool import plugin_tool
from strands_cli.settings import Settings
from strands_cli.toolkit.call import call_tool, prepare
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.toolkit.workspace import Workspace

MARK = "STRANDS_PLUGIN_TEST"
"""A variable that every process of a trial has, so that it is found again if it is left behind."""

_PARKING_SECONDS = 0.3
_SLOWNESS_SECONDS = 0.05
_SHORTEST_LIMIT_SECONDS = 0.01
_NEAR_SECONDS = 2.0
"""How long after its limit an answer may come on a busy machine."""
_SURVIVAL_SECONDS = 3.0
_LONGEST_REASON = 300
_HUGE = re.compile("x{40,}")
"""What is left of the huge input in an error."""


class Check(msgspec.Struct, frozen=True):
    outcome: Literal["passed", "failed", "skipped"]
    reason: str


class Reply(msgspec.Struct, frozen=True):
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
            return f"answered in {duration(self.seconds)}"
        hint = f" {self.error['hint']}" if self.error.get("hint") else ""
        said = _HUGE.sub("x…x", f"{self.error['code']}: {self.error['message']}{hint}")
        return cut(one_line(said), _LONGEST_REASON)


class Trial:
    """One tool, what it was called with, and what it said to the good input."""

    def __init__(self, plugin: Plugin, declared: CliTool, settings: Settings, workspace: Path) -> None:
        declared = msgspec.structs.replace(declared, env=(*declared.env, MARK), retries=0)
        self.declared = declared
        self.tool = plugin_tool(plugin, declared, settings)
        fresh = declared if declared.mode == "worker" else msgspec.structs.replace(declared, mode="fresh")
        self._fresh = plugin_tool(plugin, fresh, settings)
        self.mark = os.environ[MARK] = f"{os.getpid()}-{time.monotonic_ns()}"
        self._context = CallContext(
            permit=_grant, settings=settings, workspace=Workspace((workspace,), workspace), max_output=0
        )
        self.schema = self.tool.input_schema
        self.good: Example | None = None
        self.first: Reply | None = None

    async def call(self, given: object, *, timeout: float | None = None, ahead: bool = True) -> Reply:
        """`ahead`: a process may be used that was started before."""
        tool = self.tool if ahead else self._fresh
        context = msgspec.structs.replace(self._context, timeout=timeout)
        started = time.monotonic()
        result = await call_tool(tool, {"toolUseId": "test", "name": tool.id, "input": given}, context)
        return Reply(result, time.monotonic() - started)

    def is_refused(self, given: object) -> bool:
        """Whether the contract refuses an input before anything runs."""
        try:
            prepare(self.tool, {"toolUseId": "test", "name": self.tool.id, "input": given})
        except ToolFailed:
            return True
        return False

    def survivors(self) -> list[int]:
        from strands_cli.sandbox import tree

        proc = tree.open_proc()
        try:
            return tree.bearers(f"{MARK}={self.mark}", proc)
        finally:
            os.close(proc)


async def _grant(tool: Tool, arguments: dict[str, Any]) -> None:
    """Whoever tests a plugin wants its tools to run."""


def passed(reason: str) -> Check:
    return Check("passed", reason)


def failed(reason: str) -> Check:
    return Check("failed", reason)


def skipped(reason: str) -> Check:
    return Check("skipped", reason)


# --- The checks -------------------------------------------------------------------------------------------


async def _good_input(trial: Trial) -> Check:
    example = good_input(trial.schema)
    if not isinstance(example.value, dict) or trial.is_refused(example.value):
        return skipped("no input could be made from 'parameters': give them 'examples'")
    trial.good = example
    reply = await trial.call(example.value)
    if reply.error is None:
        trial.first = reply
        return passed(reply.text)
    if example.is_invented and reply.code in OWN_CODES:
        trial.first = reply
        return skipped(f"made-up input was answered with an error; give 'examples' ({reply.text})")
    return failed(reply.text)


async def _second_call(trial: Trial) -> Check:
    if not trial.good or not trial.first:
        return _nothing_good()
    await asyncio.sleep(_PARKING_SECONDS)  # the next process, where one is started ahead
    return _like_the_first(trial.first, await trial.call(trial.good.value))


async def _missing_arguments(trial: Trial) -> Check:
    inputs = [*incomplete_inputs(_good_value(trial), trial.schema)]
    if not inputs:
        return skipped("no argument is required")
    return await _all_refused(trial, inputs)


async def _wrong_arguments(trial: Trial) -> Check:
    good = _good_value(trial)
    inputs: list[tuple[str, Any]] = [("text that is no JSON", "no JSON")]
    anything: list[str] = []
    for name, others in other_inputs(good, trial.schema):
        refused = [other for other in others if trial.is_refused(other)]
        inputs += [(name, refused[0])] if refused else []
        anything += [] if refused else [name]
    check = await _all_refused(trial, inputs)
    if anything and check.outcome == "passed":
        return passed(f"{check.reason}; anything is taken for {', '.join(anything)}: give it a type")
    return check


async def _all_refused(trial: Trial, inputs: list[tuple[str, Any]]) -> Check:
    for name, given in inputs:
        reply = await trial.call(given)
        if reply.code not in ("input_invalid", "input_malformed"):
            return failed(f"{name}: {reply.text}")
    return passed(f"refused before it ran: {', '.join(name for name, _ in inputs)}")


async def _empty_input(trial: Trial) -> Check:
    reply = await trial.call({})
    if reply.code == "input_invalid":
        return passed("refused before it ran")
    return _answered(reply)


async def _huge_input(trial: Trial) -> Check:
    for name, given in huge_inputs(_good_value(trial), trial.schema):
        if not trial.is_refused(given):
            check = _answered(await trial.call(given))
            return Check(check.outcome, f"{HUGE_CHARACTERS:,} characters in {name}: {check.reason}")
    return skipped("no argument takes a long text")


async def _slow_drain(trial: Trial) -> Check:
    """Its output is read with pauses, so that it waits for its reader."""
    if not trial.good or not trial.first:
        return _nothing_good()
    calling = asyncio.ensure_future(trial.call(trial.good.value))
    while not calling.done():
        time.sleep(_SLOWNESS_SECONDS)  # noqa: ASYNC251 - the loop is the reader that is to be slow
        await asyncio.sleep(0)
    return _like_the_first(trial.first, await calling)


async def _timeout(trial: Trial) -> Check:
    """With half of the time that it needs, or hardly any, it is answered for and ended."""
    if not trial.good or not trial.first:
        return _nothing_good()
    half = min(trial.first.seconds / 2, trial.declared.timeout)
    for limit in (max(half, _SHORTEST_LIMIT_SECONDS), _SHORTEST_LIMIT_SECONDS):
        reply = await trial.call(trial.good.value, timeout=limit, ahead=False)
        told = f"limit {duration(limit)}, answered after {duration(reply.seconds)}"
        if reply.seconds > limit + _NEAR_SECONDS:
            return failed(told)
        if reply.code == "timeout":
            return passed(told)
        if reply.code != trial.first.code:
            return failed(f"{told}: {reply.text}")
    return skipped("it answers too fast to be timed")


async def _noise(trial: Trial) -> Check:
    if not trial.first or trial.first.error:
        return _nothing_good()
    remarks = [block["text"] for block in trial.first.result["content"][1:] if "text" in block]
    if remarks:
        return failed(one_line(f"{remarks[0]} Standard output is for the answer alone."))
    answer = trial.first.result["content"][0]
    if "json" in answer:
        return passed("one JSON value")
    if _has_json_inside(str(answer.get("text", ""))):
        return failed("JSON with other lines around it: standard output is for the answer alone.")
    return passed("one text")


def _has_json_inside(text: str) -> bool:
    """Whether some lines of a text are an object or an array: an answer that was lost in noise."""
    lines = text.splitlines()
    begins = [index for index, line in enumerate(lines) if line[:1] in ("{", "[")]
    ends = [index + 1 for index, line in enumerate(lines) if line.rstrip()[-1:] in ("}", "]")]
    if not begins or not ends:
        return False
    parts = [lines[begins[0] : ends[-1]], lines[begins[0] : begins[0] + 1], lines[begins[-1] : ends[-1]]]
    return any(_is_json("\n".join(part)) for part in parts)


def _is_json(text: str) -> bool:
    try:
        return isinstance(parsed(text), dict | list)
    except ValueError:
        return False


def _like_the_first(first: Reply, reply: Reply) -> Check:
    if reply.code != first.code:
        return failed(reply.text)
    return passed(reply.text if reply.error is None else f"the same error as before ({reply.code})")


def _answered(reply: Reply) -> Check:
    """An error of the tool's own is an answer too."""
    if reply.error is None:
        return passed(reply.text)
    return passed(f"the tool refused it ({reply.code})") if reply.code in OWN_CODES else failed(reply.text)


def _nothing_good() -> Check:
    return skipped("there was no good answer to begin with")


def _good_value(trial: Trial) -> dict[str, Any]:
    return trial.good.value if trial.good else {}


def _survivors(trial: Trial) -> Check:
    """After its loop has ended, and with it what was started ahead."""
    deadline = time.monotonic() + _SURVIVAL_SECONDS
    left = trial.survivors()
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = trial.survivors()
    return failed(f"still running: {', '.join(map(str, left))}") if left else passed("nothing is left")


CHECKS: dict[str, Callable[[Trial], Awaitable[Check]]] = {
    "good input": _good_input,
    "second call": _second_call,
    "missing arguments": _missing_arguments,
    "wrong arguments": _wrong_arguments,
    "empty input": _empty_input,
    "huge input": _huge_input,
    "slow drain": _slow_drain,
    "timeout": _timeout,
    "noise on stdout": _noise,
}
SURVIVORS = "survivors"


def run_checks(trial: Trial) -> Iterator[tuple[str, Check]]:
    """Every check with its outcome, in the order of the table."""
    from strands_cli.cli.loops import run_async
    from strands_cli.toolkit.requirements import missing_requirements

    if missing := missing_requirements(trial.declared.needs):
        for name in (*CHECKS, SURVIVORS):
            yield name, skipped(f"the tool is unavailable here: {'; '.join(missing)}")
        return
    yield from run_async(_all_checks(trial))
    yield SURVIVORS, _survivors(trial)


async def _all_checks(trial: Trial) -> list[tuple[str, Check]]:
    return [(name, await check(trial)) for name, check in CHECKS.items()]
