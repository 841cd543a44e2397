"""Tools of a plugin: each call is a process of its own, or a message to a worker, under confinement."""

import logging
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from strands_cli.errors import Issue, ToolError, ToolFailed
from strands_cli.plugins.executable_output import (
    PROGRESS_MARK,
    executable_answer,
    is_whole_answer,
    parse_printed_json,
    stderr_tail,
)
from strands_cli.plugins.manifest import CliTool, configure_plugin_tool
from strands_cli.plugins.permissions import refuse_unapproved, runnable_plugin
from strands_cli.plugins.plugin import Plugin, plugin_tool_contract, read_plugin
from strands_cli.plugins.processes import (
    Launch,
    input_line,
    launch_of,
    parking_of_loop,
    with_second_attempt,
    workers_of_loop,
)
from strands_cli.sandbox.executables import GRACE_SECONDS, Finished, complete_confined
from strands_cli.secrets import Redactor
from strands_cli.settings import Settings
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import ToolContext, call_time_limit, report_stderr
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.decorator import FunctionTool
from strands_cli.toolkit.info import ToolInfo
from strands_cli.toolkit.values import value_of_result

MAX_PROGRESS = 1000
"""Words of progress that are passed on from one call."""
_MARGIN_SHARE, _MARGIN_SECONDS = 0.1, GRACE_SECONDS + 0.1
"""How long before its deadline a process is asked to end, so that what it printed can still be reported."""

_log = logging.getLogger(__name__)


def load_plugin_tool(info: ToolInfo, settings: Settings) -> Tool:
    """The tool that a listing showed; ToolError where its plugin is no longer in order."""
    reading = read_plugin(Path(info.file).parent)
    declared = reading.plugin.tool(info.id) if reading.plugin else None
    if reading.plugin is None or declared is None:
        issue = next(iter(reading.issues), None) or Issue(
            reason=f"it no longer declares a tool {info.callable_name!r}", file=info.file
        )
        raise ToolError(
            f"Failed to load tool '{info.id}': {issue.reason} ({issue.place})",
            code="unavailable",
            hint=issue.remediation,
            issue=issue,
        )
    plugin = runnable_plugin(reading.plugin, settings)
    return plugin_tool(plugin, plugin.tool(info.id) or declared, settings, origin=info.origin)


def plugin_tool(plugin: Plugin, declared: CliTool, settings: Settings, *, origin: str = "") -> FunctionTool:
    """A tool whose body is an executable of a plugin; awaited with arguments by name, it gives its value."""

    async def function(**arguments: Any) -> Any:
        return value_of_result(await call_tool(tool, {"name": tool.id, "input": arguments}), tool)

    run = _PluginExecutable(plugin, declared, settings).run
    tool = FunctionTool(
        **plugin_tool_contract(plugin.manifest, declared),
        invoke=run,
        function=function,
        binding=lambda _: run,
        origin=origin or str(plugin.directory),
    )
    return tool


class _PluginExecutable:
    """An executable of a plugin, called as the body of a tool."""

    def __init__(self, plugin: Plugin, tool: CliTool, settings: Settings) -> None:
        self._plugin = plugin
        self._tool = tool
        self._settings = settings
        self._id = plugin.manifest.tool_id(tool)
        self._is_read_only = bool(tool.annotations.get("readOnlyHint"))
        """Then nothing can come after its answer, which therefore need not wait for its end."""
        reads_only = self._is_read_only or not (tool.network or tool.files.write)
        self._may_start_ahead = tool.mode == "call" and reads_only
        """What it does before it has its input, or when its host dies, must be without consequence."""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        deadline = time.monotonic() + call_time_limit(context)
        refuse_unapproved(self._plugin, self._settings)
        configuration = await configure_plugin_tool(self._plugin.manifest, self._tool)
        redactor, accept = configuration.redactor, self._settings.sandbox.accept
        launch = launch_of(self._plugin, self._tool, configuration, context.workspace, accept)
        progress = _ExecutableProgress(context, redactor)
        try:
            if self._tool.mode == "worker":
                worker = await workers_of_loop().get(self._id, launch, redactor)
                return await worker.ask(
                    arguments,
                    key=context.key,
                    seconds=_seconds_until(deadline),
                    idle_seconds=self._tool.idle_timeout,
                    on_progress=progress.report,
                )
            complete = partial(self._complete, launch, input_line(arguments), deadline, progress)
            finished = await with_second_attempt(self._id, complete)
        except ToolError as error:
            raise ToolFailed(redactor.text(error.message), code=error.code, hint=error.hint) from None
        finally:
            self._refuse_protected(launch)
        if self._starts_ahead(launch):
            parking_of_loop().prepare(launch)
        _log.debug("%s %s after %.3f s", self._id, finished.exit.text, finished.seconds)
        errors = stderr_tail(finished.stderr, redactor)
        if errors:
            _log.debug("%s wrote to standard error:\n%s", self._id, errors)
        answer = executable_answer(self._id, finished, redactor, is_read_only=self._is_read_only)
        report_stderr(context, errors, redactor.text(finished.hint.text) if finished.hint else "")
        return answer

    def _starts_ahead(self, launch: Launch) -> bool:
        """What is written into a directory is looked at when a call ends, so it must not begin before one."""
        return self._may_start_ahead and not launch.guard.has_directories

    def _refuse_protected(self, launch: Launch) -> None:
        """ToolFailed where a call created protected paths: after a failure of it too."""
        message = launch.guard.rename_new(self._id)
        if message and isinstance(sys.exception(), ToolFailed | None):  # a cancellation stays one
            hint = "Rename it back if you want it, or declare that path under `files.write`."
            raise ToolFailed(message, code="forbidden", hint=hint)

    async def _complete(
        self, launch: Launch, data: bytes, deadline: float, progress: "_ExecutableProgress"
    ) -> Finished:
        waiting = parking_of_loop().take(launch) if self._starts_ahead(launch) else None
        confined = waiting or await launch.start()
        _log.debug("%s runs %s in %s", self._id, launch.argv, launch.cwd)
        return await complete_confined(
            confined,
            input=data,
            seconds=_seconds_until(deadline),
            idle_seconds=self._tool.idle_timeout,
            on_stderr_line=progress.read_line,
            until=is_whole_answer if self._is_read_only else None,
        )


class _ExecutableProgress:
    """Hands on what a process reports about how far it has come."""

    def __init__(self, context: ToolContext, redactor: Redactor) -> None:
        self._context = context
        self._redactor = redactor
        self._count = 0

    def read_line(self, line: str) -> None:
        """A line of standard error."""
        if self._count < MAX_PROGRESS and line.startswith(PROGRESS_MARK):
            text = line.removeprefix(PROGRESS_MARK).strip()
            try:
                self.report(parse_printed_json(text))
            except ValueError:
                self.report(text)

    def report(self, data: Any) -> None:
        self._count += 1
        if self._count <= MAX_PROGRESS:
            self._context.progress(self._redactor.value(data))


def _seconds_until(deadline: float) -> float:
    rest = deadline - time.monotonic()
    return max(0.01, rest - min(_MARGIN_SHARE * rest, _MARGIN_SECONDS))
