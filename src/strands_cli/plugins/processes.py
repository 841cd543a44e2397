"""The processes of a plugin's tools: what each is started with, those that are started ahead, and workers.

A worker stays, and answers many calls. One line of JSON per message, on both sides. To the worker:
`{"id": "1", "key": "…", "input": {…}}`, and `{"cancel": "1"}` when nobody waits for the answer. From it:
`{"id": "1", "progress": …}` any number of times, then `{"id": "1", "result": …}` or one with `error`.
Answers may come in any order.
"""

import asyncio
import errno
import itertools
import json
import logging
import os
import select
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from strands_cli.documents.files import Outside, locate
from strands_cli.errors import ToolError, ToolFailed
from strands_cli.plugins.directories import Identity, files_beside_executable
from strands_cli.plugins.executable_output import (
    ending_text,
    error_code_of_exit,
    json_answer,
    parse_printed_json,
    refuse_error_answer,
    stderr_tail,
)
from strands_cli.plugins.manifest import CliTool, Configuration
from strands_cli.plugins.plugin import Plugin, interpreter_of
from strands_cli.plugins.protected_paths import Guard, guard_of
from strands_cli.sandbox.confined_executable import Confined, Intake, LineWriter
from strands_cli.sandbox.executables import GRACE_SECONDS, environment_for, start_confined
from strands_cli.sandbox.messages import SYSTEM_DIRECTORIES
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE, Profile
from strands_cli.sandbox.spawner_handle import SpawnerLost
from strands_cli.secrets import Redactor
from strands_cli.toolkit.workspace import Workspace

LEAST_STREAM_BYTES = 1_000_000
"""What is read of a stream, unless `max_output` asks for more."""
IDLE_SECONDS = 300.0
"""How long a worker is kept without a call."""
PARKED_SECONDS = 60.0
MAX_PARKED = 8
"""Of one loop; the one that has waited longest goes first."""
_END_SECONDS = 2.0
_DELAY_SECONDS = 0.002
"""Between an answer and the start of the next process: who makes one call and ends never starts it."""
_WORKER_CPU_SECONDS = 24 * 3600.0

_STDERR_BYTES = 64_000
_LIBRARIES = ("lib", "lib64", "libexec", "include", "share", "pkg")
"""What is beside `bin` where programs are installed."""

T = TypeVar("T")
Key = tuple[object, ...]
OnProgress = Callable[[Any], object]

_log = logging.getLogger(__name__)


class Launch(msgspec.Struct, frozen=True):
    """All that decides what a started process is: two of the same are interchangeable."""

    argv: tuple[str, ...]
    profile: Profile
    cwd: Path
    accept: str
    files: tuple[tuple[str, Identity], ...]
    """The executable and what lies beside it."""
    guard: Guard

    @property
    def key(self) -> Key:
        profile = msgspec.structs.asdict(self.profile)
        profile["environment"] = tuple(sorted(self.profile.environment.items()))
        return (self.argv, *profile.values(), str(self.cwd), self.accept, self.files)

    async def start(self) -> Confined:
        return await start_confined(self.argv, self.profile, cwd=self.cwd, accept=self.accept)


def launch_of(
    plugin: Plugin, tool: CliTool, configuration: Configuration, workspace: Workspace, accept: str
) -> Launch:
    """A process begins where relative paths of the call do, if that is in the workspace.

    Without a workspace it begins in the plugin's directory.
    """
    executable = plugin.executable(tool)
    is_inside = any(workspace.base.is_relative_to(root) for root in workspace.roots)
    cpu = max(EXECUTABLE_PROFILE.cpu_seconds, 2 * tool.timeout)
    environment = {**environment_for(tool.env, os.environ), **configuration.environment}
    written = {path for other in plugin.manifest.cli_tools for path in other.files.write}
    declared = DeclaredPaths(plugin.name, written, workspace, plugin.directory)
    guard = guard_of(declared.real_paths(tool.files.write), workspace.roots)
    programs, links = programs_elsewhere(executable, tool.requires.binaries, environment["PATH"])
    profile = msgspec.structs.replace(
        EXECUTABLE_PROFILE,
        seconds=tool.timeout,
        cpu_seconds=_WORKER_CPU_SECONDS if tool.mode == "worker" else cpu,
        memory_bytes=tool.memory_bytes,
        address_bytes=max(EXECUTABLE_PROFILE.address_bytes, 8 * tool.memory_bytes),
        output_bytes=max(LEAST_STREAM_BYTES, tool.max_output or 0),
        reads=(
            str(plugin.directory),
            *map(str, workspace.roots),
            *declared.real_paths(tool.files.read),
            *programs,
        ),
        links=links,
        writes=guard.writes,
        kept=guard.kept,
        network=tool.network,
        environment=environment,
    )
    return Launch(
        (str(executable), *tool.args),
        profile,
        workspace.base if is_inside else (*workspace.roots, plugin.directory)[0],
        accept,
        files_beside_executable(executable),
        guard,
    )


async def with_second_attempt(name: str, work: Callable[[], Awaitable[T]]) -> T:
    """Does it again where the spawner was lost: nothing has run then."""
    with suppress(SpawnerLost):
        return await work()
    try:
        return await work()
    except SpawnerLost as lost:
        raise ToolFailed(f"{name} cannot be started: {lost}", code="unavailable") from lost


def input_line(arguments: dict[str, Any]) -> bytes:
    """One line, so that a shell's `read` takes it too."""
    try:
        return json.dumps(arguments, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(arguments).encode() + b"\n"


class DeclaredPaths:
    """The paths that a manifest or a server's entry declares, as they are when a process begins.

    Relative ones are relative to the workspace, wherever the call comes from, and stay in it. Links in the
    others are the user's, and are followed, but none below a place where a plugin could have made it.
    """

    def __init__(self, name: str, written: Iterable[str], workspace: Workspace, directory: Path) -> None:
        """`written` are all paths that one of its processes may write."""
        self._name, self._roots = name, workspace.roots
        self._base = (*workspace.roots, directory)[0]
        outside = (path for path in map(os.path.expanduser, written) if os.path.isabs(path))
        self._plain = (*workspace.roots, *(Path(os.path.realpath(path)) for path in outside))

    def real_paths(self, declared: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(real for path in declared if (real := self._real_path(path)))

    def _real_path(self, declared: str) -> str:
        """Empty where there is nothing: a directory on the way is missing."""
        path = os.path.expanduser(declared)
        roots = (Path("/"),) if os.path.isabs(path) else self._roots
        try:
            with locate(path, self._base, roots, plain=self._plain) as place:
                return str(place.path)
        except FileNotFoundError:
            return ""
        except Outside:
            reason, hint = "is outside the workspace", "A relative path must stay inside the workspace."
        except OSError as error:
            reason, hint = f"cannot be used: {error.strerror}", ""
            if error.errno == errno.ELOOP:
                reason = f"leads through {error.filename}, which is a link"
                hint = (
                    "Replace the link with a directory or a file: anybody could have made it lead elsewhere."
                )
        raise ToolFailed(f"The path {declared!r} of {self._name} {reason}", code="forbidden", hint=hint)


def programs_elsewhere(
    executable: Path, names: tuple[str, ...], path: str
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """What a tool's programs need that are outside system directories: what it may read, and links to it.

    Programs are the interpreter of its first line, those that it requires by name, and their interpreters.
    """
    reads: dict[str, None] = {}
    links: dict[str, str] = {}
    ahead, known = [*names, interpreter_of(str(executable))], set[str]()
    while ahead:
        name = ahead.pop()
        place = program_elsewhere(name, path) if name not in known else None
        known.add(name)
        if place is None:
            continue
        real = os.path.realpath(place)
        for found in (place, real):
            if tree := _installed_tree(found):
                reads[tree] = None
        if not _is_below(real, (*reads, *SYSTEM_DIRECTORIES)):
            reads[real] = None
        if not _is_below(place, (*reads, *SYSTEM_DIRECTORIES)):
            links[place] = real
        ahead.append(interpreter_of(real))
    return tuple(reads), tuple(links.items())


def program_elsewhere(name: str, path: str) -> str | None:
    """Where a program is, if it is not in a system directory; of two, the one that is there counts."""
    if not name or ("/" in name and not os.path.isabs(name)):
        return None
    system = os.pathsep.join(part for part in path.split(os.pathsep) if _is_below(part, SYSTEM_DIRECTORIES))
    place = which(name, path=system) or which(name, path=path)
    is_elsewhere = place and not _is_below(os.path.realpath(place), SYSTEM_DIRECTORIES)
    return os.path.abspath(place) if place and is_elsewhere else None


def _installed_tree(program: str) -> str:
    """The directory that a program was installed to, as `~/.nvm/versions/node/v20` for its `bin/node`.

    Empty where other files may be there too: then the program alone can be read. A home directory and what is
    directly below it, as `~/.local`, hold much more than programs; so do repositories, and directories
    without libraries. Shims are known by what is beside them. Links are followed before any of this is asked.
    """
    kind = os.path.basename(os.path.dirname(program))
    tree = Path(os.path.realpath(os.path.dirname(os.path.dirname(program))))
    homes = {os.path.expanduser("~")}
    with suppress(KeyError, OSError):
        homes.add(os.path.expanduser(f"~{tree.owner()}"))
    roots = [Path(os.path.realpath(home)) for home in homes]
    if len(tree.parts) < 3 or any(root.is_relative_to(tree) for root in roots):
        return ""

    def has(*names: str) -> bool:
        return any((tree / name).exists() for name in names)

    if kind == "shims":
        return str(tree) if has("versions", "installs") else ""
    is_own = tree.parent not in roots and has(*_LIBRARIES) and not has(".git")
    return str(tree) if is_own and kind in ("bin", "sbin", "libexec") else ""


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(Path(path).is_relative_to(place) for place in places)


# --- Started ahead ---------------------------------------------------------------------------------------


class _ParkedProcess(msgspec.Struct):
    confined: Confined
    released: "asyncio.Future[None]"
    is_taken: bool = False

    def release(self, *, is_taken: bool) -> None:
        self.is_taken = is_taken
        if not self.released.done():
            self.released.set_result(None)


class Parking:
    """The processes of one event loop that were started ahead, and wait on their input for the next call.

    One per tool, and only for tools that have been called. An unused one is ended, and never sees the end of
    its input, which would be an empty call. Everything ends with the loop.
    """

    def __init__(self, idle_seconds: float = PARKED_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._waiting: dict[Key, _ParkedProcess] = {}
        self._keepers: dict[Key, asyncio.Task[None]] = {}
        self._impatient: set[Key] = set()
        """What did not wait for its input is not started ahead again."""

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, launch: Launch) -> Confined | None:
        """The process that waits for this launch, if there is one and it still waits."""
        parked = self._waiting.pop(launch.key, None)
        if parked is None:
            return None
        is_waiting = _is_waiting_for_input(parked.confined)
        parked.release(is_taken=is_waiting)
        self._keepers.pop(launch.key, None)
        if not is_waiting:
            self._impatient.add(launch.key)
        return parked.confined if is_waiting else None

    def prepare(self, launch: Launch) -> None:
        """Has the next process started soon, unless one waits already."""
        key = launch.key
        if key not in self._impatient and key not in self._keepers:
            self._keepers[key] = asyncio.get_running_loop().create_task(self._keep(launch))

    async def _keep(self, launch: Launch) -> None:
        """Starts a process and holds it until it is taken or too old, or the loop ends."""
        key = launch.key
        await asyncio.sleep(_DELAY_SECONDS)
        try:
            confined = await launch.start()
        except (ToolError, SpawnerLost, OSError):
            self._keepers.pop(key, None)  # the next call starts its own, and says what is wrong
            return
        parked = _ParkedProcess(confined, asyncio.get_running_loop().create_future())
        self._waiting[key] = parked
        while len(self._waiting) > MAX_PARKED:
            oldest = next(iter(self._waiting))
            self._waiting.pop(oldest).release(is_taken=False)
            self._keepers.pop(oldest, None)
        try:
            await asyncio.wait([parked.released], timeout=self._idle_seconds)
        finally:
            if self._waiting.get(key) is parked:
                del self._waiting[key]
                del self._keepers[key]
            if not parked.is_taken:
                await _end_parked_process(confined)


async def _end_parked_process(confined: Confined) -> None:
    """Its input is closed only when nobody is left to see that."""
    confined.kill()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await confined.wait()
    except (TimeoutError, ToolError, SpawnerLost):
        pass  # it never began, or its keeper is stuck, which closing the socket ends
    finally:
        confined.close()


def _is_waiting_for_input(confined: Confined) -> bool:
    """Whether a process still reads its input and has printed nothing: no call asked for that."""
    poll = select.poll()
    poll.register(confined.stdin, 0)  # an error is reported unasked: nobody reads on the other side
    poll.register(confined.stdout, select.POLLIN)
    return not poll.poll(0)


_parking_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, Parking]" = WeakKeyDictionary()


def parking_of_loop() -> Parking:
    """The one of the running loop."""
    return _parking_of_loops.setdefault(asyncio.get_running_loop(), Parking())


# --- Workers ----------------------------------------------------------------------------------------------


class _PendingCall:
    """One call that a worker has not answered yet."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.on_progress = on_progress
        self.answer: asyncio.Future[dict[str, Any] | ToolFailed] = asyncio.get_running_loop().create_future()
        self.last_heard = time.monotonic()
        self.is_abandoned = False

    def settle(self, outcome: dict[str, Any] | ToolFailed) -> None:
        if not self.answer.done():
            self.answer.set_result(outcome)


class Worker:
    """One process, and the calls that wait for it.

    One that may write a directory ends with the last of them: what it made there is looked at then, and
    nobody could tell later what it had made in between.
    """

    def __init__(
        self, tool_id: str, confined: Confined, redactor: Redactor, idle_seconds: float, guard: Guard
    ) -> None:
        self._id = tool_id
        self._guard = guard
        self._ends_with_calls = guard.has_directories
        self._was_abandoned = False
        self._confined = confined
        self._redactor = redactor
        self._idle_seconds = idle_seconds
        self._pending: dict[str, _PendingCall] = {}
        self._numbers = itertools.count(1)
        self._last_used = time.monotonic()
        self._refusal = ""
        self.is_over = False
        self._reader = Intake(
            confined.stdout,
            0,
            on_data=lambda _: None,
            on_line=self._receive,
            longest_line=confined.profile.output_bytes,
            on_long_line=lambda: confined.kill("output"),
        )
        self._writer = LineWriter(confined.stdin)
        self._stderr = Intake(
            confined.stderr,
            _STDERR_BYTES,
            keep_last=True,
            on_data=lambda _: None,
            on_line=lambda line: _log.debug("%s wrote to standard error: %s", tool_id, redactor.text(line)),
        )
        self._life = asyncio.get_running_loop().create_task(self._live())

    async def ask(
        self,
        arguments: dict[str, Any],
        *,
        key: str,
        seconds: float,
        idle_seconds: float | None,
        on_progress: OnProgress,
    ) -> Any:
        """The worker's answer to one call; ToolFailed where it has none, or says that it failed."""
        number = str(next(self._numbers))
        pending = self._pending[number] = _PendingCall(on_progress)
        self._send({"id": number, "key": key, "input": arguments})
        try:
            await self._wait(pending, time.monotonic() + seconds, idle_seconds)
        finally:
            self._last_used = time.monotonic()
            if not pending.answer.done():  # nobody waits for it: the worker is ended if it goes on
                pending.is_abandoned = self._was_abandoned = True
                self._send({"cancel": number})
                asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end_unless_answered, number)
        if self._ends_with_calls and not self._pending:
            await asyncio.wait([self._life], timeout=_END_SECONDS)
        answer = pending.answer.result()
        if isinstance(answer, ToolFailed):
            raise answer
        if "error" in answer:
            refuse_error_answer(self._redactor.value({"success": False, "error": answer["error"]}))
        return json_answer(answer["result"], self._redactor)

    async def settled(self) -> None:
        """Returns when it works on no call that nobody waits for: it gave that up, or was ended for it."""
        late = [pending.answer for pending in self._pending.values() if pending.is_abandoned]
        if late:
            await asyncio.wait(late)

    async def _wait(self, pending: _PendingCall, deadline: float, idle_seconds: float | None) -> None:
        """Returns when there is an answer; ToolFailed (`timeout`) if none comes in time."""
        while not pending.answer.done():
            now = time.monotonic()
            until = min(deadline, pending.last_heard + idle_seconds) if idle_seconds else deadline
            if now >= until:
                what = "did not answer in time" if until == deadline else "said nothing for too long"
                raise ToolFailed(f"{self._id} {what}", code="timeout")
            await asyncio.wait([pending.answer], timeout=until - now)

    def _end_unless_answered(self, number: str) -> None:
        if number in self._pending:
            self._refusal = "was stopped, because it kept working on a call that was cancelled or timed out"
            self._confined.kill()

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    def _receive(self, line: str) -> None:
        """One line of the worker's. What is not a message of the protocol is noise, and only logged."""
        try:
            message = parse_printed_json(line)
        except ValueError:
            message = None
        pending = self._pending.get(str(message.get("id"))) if isinstance(message, dict) else None
        if pending is None or not isinstance(message, dict):
            _log.debug("%s printed a line that answers no call: %.200s", self._id, self._redactor.text(line))
        elif "result" in message or "error" in message:
            del self._pending[str(message["id"])]
            pending.settle(message)
            if self._ends_with_calls and not self._pending:
                self.is_over = True
                self._confined.kill("exited")
        elif "progress" in message and not pending.is_abandoned:
            pending.last_heard = time.monotonic()
            pending.on_progress(message["progress"])

    async def _live(self) -> None:
        """Until the process ends, has been idle for too long, or the loop ends."""
        failed = ToolFailed(f"{self._id} was ended", code="cancelled")
        exited = asyncio.ensure_future(self._confined.exited())
        try:
            while not exited.done() and (
                self._pending or time.monotonic() < self._last_used + self._idle_seconds
            ):
                await asyncio.wait([exited], timeout=self._idle_seconds)
            if exited.done():
                self._reader.drain()
                failed = await self._failure()
        finally:
            exited.cancel()
            self._close(failed)
            if self._was_abandoned:  # else the call looks
                self._guard.rename_new(self._id)

    async def _failure(self) -> ToolFailed:
        """How the calls that waited fail when their worker has ended."""
        self._confined.kill("exited")
        ending = await self._confined.wait()
        self._stderr.drain()
        how = self._refusal or ending_text(ending)
        errors = stderr_tail(self._stderr.data, self._redactor)
        code = "crashed" if ending.why == "exited" else error_code_of_exit(ending)
        _log.debug("the worker of %s %s", self._id, how)
        return ToolFailed(f"The worker of {self._id} {how}{': ' if errors else ''}{errors}", code=code)

    def _close(self, failed: ToolFailed) -> None:
        self.is_over = True
        self._reader.stop()
        self._writer.stop()
        self._stderr.stop()
        self._confined.close()
        for pending in self._pending.values():
            pending.settle(failed)
        self._pending.clear()


class Workers:
    """The workers of one event loop, with which they end."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._running: dict[Key, Worker] = {}
        self._lock = asyncio.Lock()

    async def get(self, tool_id: str, launch: Launch, redactor: Redactor) -> Worker:
        """The worker for a launch, started where none runs."""
        async with self._lock:
            self._running = {key: worker for key, worker in self._running.items() if not worker.is_over}
            worker = self._running.get(launch.key)
            if worker is not None:
                await worker.settled()
            if worker is None or worker.is_over:
                confined = await with_second_attempt(launch.argv[0], launch.start)
                worker = Worker(tool_id, confined, redactor, self._idle_seconds, launch.guard)
                self._running[launch.key] = worker
            return worker


_workers_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, Workers]" = WeakKeyDictionary()


def workers_of_loop() -> Workers:
    """Those of the running loop."""
    return _workers_of_loops.setdefault(asyncio.get_running_loop(), Workers())
