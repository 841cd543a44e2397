"""`strands dev`"""

import asyncio
import os
import shlex
import stat
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click

from strands_cli.cli.app import ALIASES, COMMANDS
from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import complete_tools, log_option, trust_option, warn_of_untrusted
from strands_cli.cli.output import Styled, count_text, is_debugging, print_line, print_message
from strands_cli.cli.tool import pytest_words, tests_of
from strands_cli.cli.validate import looks_like_a_workflow
from strands_cli.errors import EXIT_INTERRUPTED, Issue, ToolError, UsageError
from strands_cli.tools.registry import ToolRegistry
from strands_cli.tools.watch import ToolChanges, watch

_WORKFLOW_SUFFIXES = (".yaml", ".yml", ".json")
_SETTINGS_NAMES = ("strands.toml", "pyproject.toml", ".mcp.json")
_END_SECONDS = 3.0

Command = tuple[str, ...]
"""The words after `strands`; of a test run, after `python`."""


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("target", metavar="[TARGET…]", nargs=-1, shell_complete=complete_tools)
@click.option("--test", "runs_tests", is_flag=True, help="Run the tests of each tool that changes.")
@trust_option
@log_option
def dev(target: tuple[str, ...], runs_tests: bool) -> int:
    """Watch the project, and repeat a command on every save.

    Shows which tools were added (+), changed (~) and removed (-), and what is broken (!) in which line.
    Validates workflows that change.

    TARGET is what to repeat: a tool with its arguments, as in 'strands dev greet name=Ada'; workflow files
    to validate; or any command, as in 'strands dev run flow.yaml'. It runs in a process of its own. A save
    while it runs starts it again when it has finished.

    The tools in tools/ are imported to find errors in them.
    """
    registry = ToolRegistry()
    warn_of_untrusted(registry.settings)
    command = _command_for(target, registry)
    if runs_tests:
        from importlib.util import find_spec

        if find_spec("pytest") is None:
            raise UsageError("--test needs pytest.", hint="Install it: pip install pytest")
    try:
        run_async(_DevLoop(registry, command, runs_tests).run())
    except KeyboardInterrupt:  # as it is meant to end: there is no error to report
        if sys.stdout.isatty():
            print_line()  # after the terminal's ^C
        return EXIT_INTERRUPTED
    return 0


def _command_for(target: tuple[str, ...], registry: ToolRegistry) -> Command:
    """The words of the strands command that TARGET means."""
    if not target or target[0] in COMMANDS or target[0] in ALIASES:
        if target[:1] == ("dev",):
            raise UsageError("'strands dev' cannot repeat itself.", hint="Name another command, or a tool.")
        return target
    if target[0].endswith(_WORKFLOW_SUFFIXES):
        return ("validate", *target)
    try:
        registry.require(target[0])
    except ToolError as error:
        if error.code == "unknown_tool":
            hint = f"{error.hint} TARGET is a tool, a workflow file or a command of strands."
            raise UsageError(f"There is no tool or command {target[0]!r}.", hint=hint) from None
    return ("tool", "call", *target)


class _DevLoop:
    """Follows the changes of a project, and runs one command after the other meanwhile."""

    def __init__(self, registry: ToolRegistry, command: Command, runs_tests: bool) -> None:
        self._registry, self._command, self._runs_tests = registry, command, runs_tests
        self._waiting: dict[Command, None] = {}
        """What is to run next; a command that waits already is not added again."""
        self._has_work = asyncio.Event()
        self._directory = Path.cwd()

    async def run(self) -> None:
        changes = watch(self._registry, preload=True)
        own = [info for info in self._registry.list_all() if info.source in ("project", "plugin")]
        _print_event("", f"Watching {count_text(len(own), 'tool')} in {self._project}. Ctrl-C ends.")
        self._add(self._command)
        tasks = [asyncio.ensure_future(work) for work in (self._follow(changes), self._run_commands())]
        if os.name == "posix" and stat.S_ISFIFO(os.fstat(1).st_mode):
            # Becomes readable when the reader of the pipe is gone, as in `| head`: nobody would see more.
            asyncio.get_running_loop().add_reader(1, tasks[0].cancel)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()  # what nobody expected

    async def _follow(self, changes: AsyncIterator[ToolChanges]) -> None:
        async for change in changes:
            files = [file for file in change.files if _is_source(file, self._project)]
            self._show(change, files)
            for command in self._commands_after(change, files):
                self._add(command)

    @property
    def _project(self) -> Path:
        return self._registry.settings.project

    # --- what changed ---------------------------------------------------------------------------------------

    def _show(self, change: ToolChanges, files: Sequence[Path]) -> None:
        infos = (*change.added, *(tool.info for tool in change.changed), *change.removed)
        shown = {*(info.file for info in infos), *(issue.file for issue in change.broken), *change.recovered}
        for file in files:
            if str(file) not in shown:
                mark = "+" if file in change.created else "~" if os.path.lexists(file) else "-"
                _print_event(mark, self._relative(str(file)))
        for info in change.added:
            _print_event("+", f"{info.id}  {info.origin}")
        for tool in change.changed:
            _print_event("~", f"{tool.info.id}  {', '.join(tool.parts) or 'comments or layout only'}")
        for info in change.removed:
            _print_event("-", info.id)
        for issue in change.broken:
            place = self._relative(Issue(reason="", file=issue.file, line=issue.line).place)
            _print_event("!", ": ".join(filter(None, [place, issue.reason])), issue.remediation)
        for name in change.recovered:
            _print_event("", f"recovered {self._relative(name)}")

    def _relative(self, path: str) -> str:
        return path.removeprefix(f"{self._project}{os.sep}")

    def _commands_after(self, change: ToolChanges, files: Sequence[Path]) -> Iterator[Command]:
        workflows = [
            os.path.relpath(file, self._directory)
            for file in files
            if file.suffix in _WORKFLOW_SUFFIXES and file.name not in _SETTINGS_NAMES and file.exists()
        ]
        if others := [file for file in workflows if file not in map(os.path.normpath, self._command)]:
            yield ("validate", *map(_as_argument, others))
        has_news = bool(change.added or change.changed or change.removed or change.recovered)
        is_broken = any(issue.severity == "error" for issue in change.broken)
        if self._command and (has_news or workflows or (files and not is_broken)):
            yield self._command
        if self._runs_tests:
            yield from self._tests_after(change, files)

    def _tests_after(self, change: ToolChanges, files: Sequence[Path]) -> Iterator[Command]:
        tests = {file: None for file in files if _is_test(file) and file.is_file()}
        own = self._project / "tools"
        infos = (*change.added, *(tool.info for tool in change.changed))
        for info in (info for info in infos if info.file and Path(info.file).is_relative_to(own)):
            found = tests_of(info, self._project)
            tests |= dict.fromkeys(found)
            if not found:
                name = self._relative(str(self._project / "tests" / f"test_{info.id}.py"))
                _print_event("", f"{info.id} has no tests. Write them in {name}.")
        if tests:
            yield ("-m", "pytest", "-q", *(_as_argument(self._relative(str(file))) for file in sorted(tests)))

    # --- what runs ------------------------------------------------------------------------------------------

    def _add(self, command: Command) -> None:
        if command:
            self._waiting[command] = None
            self._has_work.set()

    async def _run_commands(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._waiting:
                command = next(iter(self._waiting))
                del self._waiting[command]
                await self._run_command(command)

    async def _run_command(self, command: Command) -> None:
        """Runs a command in a process of its own: nothing that it does ends the loop."""
        is_test = command[0] == "-m"
        _print_event(
            "$", f"{'pytest' if is_test else 'strands'} {shlex.join(command[2:] if is_test else command)}"
        )
        debug = ("--debug",) if is_debugging() else ()
        words = (*pytest_words(self._project), *command[2:])
        if not is_test:
            words = ("-m", "strands_cli", *debug, *command)
        started = time.monotonic()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *words, cwd=self._project if is_test else None
            )
        except OSError as error:
            _print_event("!", f"It cannot be started: {error.strerror}.")
            return
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _END_SECONDS)
            with suppress(ProcessLookupError):
                process.kill()
            raise
        took = f"{time.monotonic() - started:.1f} s"
        _print_event("" if code == 0 else "!", f"done, {took}" if code == 0 else f"exit code {code}, {took}")


def _as_argument(path: str) -> str:
    """Returns a path that no command reads as an option, such as the plugin of `-p evil/test_one.py`."""
    return f"./{path}" if path.startswith("-") else path


def _print_event(mark: str, text: str, more: str = "") -> None:
    colours = {"+": "green", "~": "yellow", "-": "red", "!": "red", "$": "blue"}
    label = [Styled(f"{mark} ", colours[mark])] if mark else []
    print_message(text, Styled(time.strftime("%H:%M:%S  "), "bright_black", bold=False), *label, err=False)
    if more:
        print_message(more, err=False, indent=" " * 12)


def _is_source(file: Path, project: Path) -> bool:
    """Whether a file may change what a command does. Data that a command writes does not start it again."""
    if file.suffix == ".py" or file.name in _SETTINGS_NAMES:
        return True
    if os.path.lexists(file):
        return file.suffix in _WORKFLOW_SUFFIXES and looks_like_a_workflow(file, project)
    return file.suffix in (".yaml", ".yml")


def _is_test(file: Path) -> bool:
    return file.name == "tests.py" or (file.name.startswith("test_") and file.suffix == ".py")
