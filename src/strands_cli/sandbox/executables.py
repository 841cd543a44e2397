"""Executables under confinement: one process tree per call, with the caller's user and no capability.

    finished = await run_confined(["./format.sh"], profile, cwd=workspace, input=b"{}", seconds=30)

`start_confined` starts one and gives it nothing yet; `complete_confined` does the rest of a call;
`run_confined` does both. Nothing of a call is left when it has been answered, whatever the executable does.
"""

import asyncio
import marshal
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from strands_cli.errors import ToolError
from strands_cli.sandbox.confined_executable import Confined, Exit, Intake, Outlet
from strands_cli.sandbox.messages import SYSTEM_DIRECTORIES
from strands_cli.sandbox.profile import LAYER_REMEDIES, Profile
from strands_cli.sandbox.seccomp import SeccompMissing, executable_filter, further_filter
from strands_cli.sandbox.spawner_handle import Abilities, SpawnerLost, shared_spawner

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
"""What every executable gets of the caller's environment; HOME and TMPDIR lead to its scratch directory."""
GRACE_SECONDS = 0.3
"""Between TERM and KILL."""
DRAIN_SECONDS = 0.1
"""How long output is awaited from processes that the executable left behind."""

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_SCRATCH = "/tmp"
"""Where a room has its scratch directory (`spawner/mounts.py`)."""
_ANSWER_SECONDS = 2.0
"""How long a keeper may take to end a tree before it is left to itself."""
_SIGNAL_SCOPE_ABI = 6
_MAX_REQUEST_BYTES = 150_000
_AGAIN_SECONDS = 0.005
_STDERR_FLOOD = 64
"""How many times the limit is read, and forgotten, of standard error before that is too much."""


class Hint(msgspec.Struct, frozen=True):
    """What its author may have forgotten to declare. A guess, for people and models to read."""

    key: str
    """`network`, `files.read`, `files.write` or `requires.binaries`."""
    text: str


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has been answered; nothing of it runs any more."""

    exit: Exit
    stdout: bytes
    """The beginning, where it is too long."""
    stderr: bytes
    """The end, where it is too long."""
    seconds: float
    hint: Hint | None = None
    """Which key its author may have forgotten to declare; after a success only where that is certain."""


def environment_for(names: Sequence[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What an executable gets of the caller's environment: the usual names and those that it declares."""
    kept = {name: environment[name] for name in (*PASSED_ON, *names) if name in environment}
    return {"PATH": _DEFAULT_PATH, "LANG": "C.UTF-8", **kept}


async def start_confined(
    argv: Sequence[str], profile: Profile, *, cwd: Path, accept: str = "", room: bool = True
) -> Confined:
    """Starts an executable, which waits for what is written to its standard input.

    It may read `cwd`. That it cannot be executed is raised by `Confined.wait`. `accept` is a lower level that
    the user accepts; without `room`, namespaces are not even tried.
    """
    if sys.platform != "linux":
        require_confinement(executables_level())
    handle = shared_spawner(network=profile.network, room=room)
    found = handle.abilities() if handle.is_running() else await asyncio.to_thread(handle.abilities)
    require_confinement(level_from_abilities(found), accept)
    request = _spawn_request(argv, profile, cwd, found)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
    confined = Confined(ours, (stdin[1], stdout[0], stderr[0]), list(argv), profile, cwd)
    passed = [theirs.detach(), stdin[0], stdout[1], stderr[1]]
    handed_over = False
    try:
        while not handle.hand_over(request, passed):  # noqa: ASYNC110 - a full socket tells nobody
            await asyncio.sleep(_AGAIN_SECONDS)
        handed_over = True
    finally:
        for descriptor in passed:
            os.close(descriptor)
        if not handed_over:
            confined.close()
    return confined


async def run_confined(
    argv: Sequence[str],
    profile: Profile,
    *,
    cwd: Path,
    input: bytes = b"",
    seconds: float | None = None,
    idle_seconds: float | None = None,
    on_stderr_line: Callable[[str], object] | None = None,
    accept: str = "",
    room: bool = True,
) -> Finished:
    """A whole call; ToolError where the executable cannot be started. See `complete_confined`."""
    for may_retry in (True, False):
        try:
            confined = await start_confined(argv, profile, cwd=cwd, accept=accept, room=room)
            return await complete_confined(
                confined,
                input=input,
                seconds=seconds,
                idle_seconds=idle_seconds,
                on_stderr_line=on_stderr_line,
            )
        except SpawnerLost as lost:  # nothing of the call has run
            if not may_retry:
                raise ToolError(f"{argv[0]} cannot be started: {lost}", code="unavailable") from lost
    raise AssertionError("the second attempt answers")


async def complete_confined(
    confined: Confined,
    *,
    input: bytes = b"",
    seconds: float | None = None,
    idle_seconds: float | None = None,
    on_stderr_line: Callable[[str], object] | None = None,
    until: Callable[[bytes], bool] | None = None,
) -> Finished:
    """Gives a started executable its input and collects what it says until it ends, or its time does.

    `seconds` is by default the profile's; `idle_seconds` bounds the silence between two pieces of output.
    Once `until` is true of what it has printed, that is the whole answer: it is ended then (`answered`).
    """
    call = _ExecutableCall(confined, idle_seconds, on_stderr_line, until)
    limit = confined.profile.seconds if seconds is None else seconds
    timer = asyncio.get_running_loop().call_later(limit, confined.terminate, "timeout")
    outlet = Outlet(confined.stdin, input, confined.close_pipe)
    try:
        ending = await call.see_through(limit)
    finally:
        timer.cancel()
        outlet.stop()
        call.stop()
        confined.close()
    return call.finished(ending)


class _ExecutableCall:
    """The output of one call, and the watch over it."""

    def __init__(
        self,
        confined: Confined,
        idle_seconds: float | None,
        on_stderr_line: Callable[[str], object] | None,
        until: Callable[[bytes], bool] | None,
    ) -> None:
        self._confined = confined
        self._started = self._last_output = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._until = until
        self._enough: asyncio.Future[None] = self._loop.create_future()
        self._limit = confined.profile.output_bytes
        self._stdout = Intake(confined.stdout, self._limit, on_data=self._on_stdout)
        self._stderr = Intake(
            confined.stderr, self._limit, keep_last=True, on_data=self._on_stderr, on_line=on_stderr_line
        )
        if idle_seconds is not None:
            self._check_idle(idle_seconds)

    async def see_through(self, limit: float) -> Exit:
        """Finished when the executable has exited and a short drain is over, not at the end of its pipes."""
        confined = self._confined
        exited = asyncio.ensure_future(confined.exited())
        try:
            async with asyncio.timeout(limit + GRACE_SECONDS + _ANSWER_SECONDS):
                await asyncio.wait([exited, self._enough], return_when=asyncio.FIRST_COMPLETED)
                if self._enough.done():
                    return Exit(why="answered")
                if not confined.has_ended:
                    await asyncio.wait([self._stdout.at_end, self._stderr.at_end], timeout=DRAIN_SECONDS)
                    confined.kill("exited")
                ending = await confined.wait()
        except TimeoutError:
            return Exit(why="timeout")  # the keeper itself is stuck; closing the socket is its order to end
        finally:
            exited.cancel()
        self._stdout.drain()
        self._stderr.drain()
        return ending

    def finished(self, ending: Exit) -> Finished:
        failed = ending.why != "answered" and (ending.why != "exited" or ending.status != 0)
        stdout, stderr = self._stdout.data, self._stderr.data
        errors = stderr.decode("utf-8", "replace")
        profile, cwd = self._confined.profile, str(self._confined.cwd)
        hint = hint_from_stderr(errors, profile, cwd, is_certain=not failed)
        if not failed and not hint:
            hint = _refused_write_in_answer(stdout.decode("utf-8", "replace"), profile, cwd)
        seconds = time.monotonic() - self._started
        return Finished(exit=ending, stdout=stdout, stderr=stderr, seconds=seconds, hint=hint)

    def stop(self) -> None:
        self._stdout.stop()
        self._stderr.stop()
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    def _on_stdout(self, total: int) -> None:
        self._last_output = time.monotonic()
        if total > self._limit:
            self._confined.kill("output")
        elif self._until is not None and not self._enough.done() and self._until(self._stdout.data):
            self._enough.set_result(None)

    def _on_stderr(self, total: int) -> None:
        self._last_output = time.monotonic()
        if total > _STDERR_FLOOD * self._limit:
            self._confined.kill("output")

    def _check_idle(self, seconds: float) -> None:
        rest = self._last_output + seconds - time.monotonic()
        if rest <= 0:
            self._confined.terminate("idle")
        else:
            self._idle_timer = self._loop.call_later(rest, self._check_idle, seconds)


def _spawn_request(argv: Sequence[str], profile: Profile, cwd: Path, found: Abilities) -> dict[str, Any]:
    place = os.path.normpath(cwd)
    reads, writes = ([*map(os.path.normpath, paths)] for paths in (profile.reads, profile.writes))
    if not found.room:  # Landlock cannot take a part back from what it grants
        writes = [part for path in writes for part in _parts_without(path, profile.kept)]
    paths = {**dict.fromkeys((*reads, *profile.kept), False), **dict.fromkeys(writes, True)}
    if not _is_path_within(place, (*paths,)):
        paths[place] = False  # in a room the later mount wins: what may be written must not become read-only
    if "/" in paths:
        raise ToolError("The whole file system cannot be given to an executable", code="unavailable")
    if found.room and _SCRATCH in paths:
        raise ToolError(
            f"{_SCRATCH} itself cannot be given to an executable, which has its scratch directory there",
            code="unavailable",
            hint="Work in a directory below it.",
        )
    shares_processes = not found.room and found.landlock < _SIGNAL_SCOPE_ABI
    further = further_filter(network=profile.network, shares_processes=shares_processes)
    request = {
        "argv": list(argv),
        "directory": place,
        "environment": {**environment_for(()), **profile.environment},
        "paths": paths,
        "links": [list(link) for link in profile.links],
        "limits": profile.rlimits(),
        "filters": [executable_filter(network=profile.network), further],
        "watch": {
            "memory": profile.memory_bytes,
            "processes": profile.processes,
            "scratch": profile.memory_bytes // 2,
            "grace": int(1000 * GRACE_SECONDS),
        },
    }
    if len(marshal.dumps(request)) > _MAX_REQUEST_BYTES:
        raise ToolError("The arguments and the environment of an executable are too long", code="unavailable")
    return request


def _parts_without(path: str, kept: tuple[str, ...]) -> Iterator[str]:
    """A directory, or all in it but what is kept: then nothing new can be made in the directory itself."""
    if path in kept:
        return
    if not any(Path(inner).is_relative_to(path) for inner in kept):
        yield path
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_symlink():
                yield from _parts_without(entry.path, kept)


# --- Which key of a manifest an executable would have needed, guessed from its standard error -------------

_UNREACHABLE = re.compile(
    r"EAI_AGAIN|ENETUNREACH|name resolution|could not resolve|name or service not known"
    r"|network is unreachable",
    re.IGNORECASE,
)
_NOT_PERMITTED = re.compile(r"not permitted|EPERM", re.IGNORECASE)
_SOCKET = re.compile(r"socket|connect|getaddrinfo|/dev/tcp", re.IGNORECASE)
_DENIED = re.compile(r"permission denied|EACCES", re.IGNORECASE)
_READ_ONLY = re.compile(r"read-only file system|EROFS", re.IGNORECASE)
_REFUSED = re.compile(f"{_DENIED.pattern}|{_READ_ONLY.pattern}", re.IGNORECASE)
_MISSING = re.compile(r"no such file|ENOENT", re.IGNORECASE)
_CREATES = re.compile(
    r"cannot (?:create|touch|remove|move|make)|mkdir|unlink|rename|touch|rm:|mv:", re.IGNORECASE
)
_PATH = re.compile(r"(?<![^\s'\"`:;,()<>|])[^\s'\"`:;,()<>|]*/[^\s'\"`:;,()<>|]+")
_SCRATCH_DEPTH = 3
_REFUSED_NAMES = (
    re.compile(rf"(?:{_REFUSED.pattern})[^'\"]*['\"]([^'\"]+)['\"]", re.IGNORECASE),
    re.compile(
        rf"(?<![^\s'\"`])(?!E[A-Z]+:|\w*Error:)([^\s'\"`:]+)['\"`]?: (?:{_REFUSED.pattern})", re.IGNORECASE
    ),
)
"""`Permission denied: 'a.txt'` and `a.txt: Permission denied`: names that need not look like paths."""
_LONGEST_LINE = 2000
_NO_PROGRAM = re.compile(
    r"env: ['\u2018]?([\w.+-]+)['\u2019]?: (?:no such file|not found)"
    r"|(?:^|[: ])([\w.+-]+): command not found"
    r"|(?:sh|: (?:line )?[0-9]+): ([\w.+-]+): not found",
    re.IGNORECASE,
)
_JSON_ESCAPE = re.compile(r"\\(.)")
_CONTEXT_LINES = 10
"""How far above an error its circumstances are looked for, as in a traceback."""


def hint_from_stderr(
    stderr: str, profile: Profile, directory: str, *, is_certain: bool = False
) -> Hint | None:
    """The last line that looks like a refusal by the sandbox decides.

    With `is_certain`, only what would have worked outside of it: programs that succeed complain of all sorts.
    """
    lines = [line[:_LONGEST_LINE] for line in stderr.splitlines()[-40:]]
    for number in range(len(lines) - 1, -1, -1):
        around = "\n".join(lines[max(0, number - _CONTEXT_LINES) : number + 1])
        is_refused = _NOT_PERMITTED.search(lines[number]) and _SOCKET.search(around)
        if not profile.network and (is_refused or _UNREACHABLE.search(lines[number])):
            return Hint("network", "It tried to use the network: declare `network: true` if it may.")
        if missing := _NO_PROGRAM.search(lines[number]):
            name = missing[1] or missing[2] or missing[3]
            if (hint := _program_hint(name, profile, is_certain=is_certain)) or not is_certain:
                return hint
        if hint := _file_hint(lines[number], profile, directory, is_certain=is_certain):
            return hint
    return None


def _program_hint(name: str, profile: Profile, *, is_certain: bool) -> Hint | None:
    """For what a shell, or `env`, did not find on the PATH of an executable."""
    place = shutil.which(name, path=profile.environment.get("PATH", _DEFAULT_PATH))
    if is_certain and (place is None or _is_path_within(os.path.realpath(place), SYSTEM_DIRECTORIES)):
        return None
    if place is None:
        return Hint("requires.binaries", f"The program {name} is not on the PATH: install it.")
    text = f"The tool cannot see the program {place}: add {name!r} to `requires.binaries`, or"
    return Hint("requires.binaries", f"{text} the directory where it is installed to `files.read`.")


def _refused_write_in_answer(stdout: str, profile: Profile, directory: str) -> Hint | None:
    """A script may put what its programs complain of into its answer, and call that a success."""
    text = _JSON_ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], stdout)
    for line in text.splitlines()[-40:]:
        hint = _file_hint(line[:_LONGEST_LINE], profile, directory, is_certain=True)
        if hint and hint.key == "files.write":
            return hint
    return None


def _file_hint(line: str, profile: Profile, directory: str, *, is_certain: bool) -> Hint | None:
    visible = (*profile.reads, *SYSTEM_DIRECTORIES, directory)
    if not (_REFUSED.search(line) or _MISSING.search(line)):
        return None
    paths = next(filter(None, (names.findall(line) for names in _REFUSED_NAMES)), _PATH.findall(line))
    named = [os.path.normpath(Path(directory, path)) for path in paths]
    if is_certain:
        named = [path for path in named if _is_usable(path, visible)]
    kept = next((path for path in named if _is_path_within(path, profile.kept)), "")
    if kept and _REFUSED.search(line):
        text = f"It tried to write {kept}, which is protected, because other programs act on it: "
        return Hint("files.write", text + "declare that path under `files.write` to allow it.")
    found = [path for path in named if not (_is_path_within(path, profile.writes) or _is_scratch_path(path))]
    hidden = next((path for path in found if not _is_path_within(path, visible)), "")
    if hidden and (_DENIED.search(line) or _MISSING.search(line)):
        if _CREATES.search(line) or (not _path_exists(hidden) and not is_certain):
            return _write_hint(hidden)
        if not _path_exists(hidden):
            return None
        text = f"It tried to read {hidden}: declare it under `files.read` if it may."
        return Hint("files.read", text)
    if (_READ_ONLY.search(line) and not is_certain) or (found and _REFUSED.search(line)):
        return _write_hint(found[-1] if found else "")
    return None


def _write_hint(path: str) -> Hint:
    where = f" {path}" if path else " outside its scratch directory"
    text = f"It tried to write{where}: declare the place under `files.write` if it may."
    return Hint("files.write", text)


def _is_scratch_path(path: str) -> bool:
    """A path in a room's own scratch, or in one of the directories that serve where there is no room."""
    own = path.startswith(f"{_SCRATCH}/") and not _path_exists(path) and path.count("/") <= _SCRATCH_DEPTH
    return own or path.startswith(f"{tempfile.gettempdir()}/strands-")


def _is_usable(path: str, visible: tuple[str, ...]) -> bool:
    """Whether the caller could do what was refused: write a path that can be seen, read or make another."""
    if not _path_exists(path):
        return os.access(Path(path).parent, os.W_OK)
    return os.access(path, os.W_OK if _is_path_within(path, visible) else os.R_OK)


def _is_path_within(path: str, places: tuple[str, ...]) -> bool:
    return any(Path(path).is_relative_to(place) for place in places)


def _path_exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return True  # out of our own reach, so certainly out of its


# --- How well executables can be confined on this machine -------------------------------------------------

ExecutableLevelName = Literal["full", "namespaces", "landlock", "seccomp", "unavailable"]
"""Which layers hold besides rlimits and seccomp: both, one of them, none. Without seccomp nothing runs."""
_LEVEL_OF_LAYERS: dict[tuple[str, ...], ExecutableLevelName] = {
    ("landlock", "namespaces"): "full",
    ("namespaces",): "namespaces",
    ("landlock",): "landlock",
    (): "seccomp",
}


class ExecutableLevel(msgspec.Struct, frozen=True, kw_only=True):
    """What confines an executable on this machine."""

    name: ExecutableLevelName
    layers: tuple[str, ...]
    missing: Mapping[str, str]
    """Each layer that is not there, with the reason and what it would need."""
    processes: str = "watched"
    """How the number of processes is held: `cgroup`, `rlimit`, or `watched` forty times a second."""
    memory: str = "watched"
    """How memory is held: `cgroup`, by the kernel, or `watched` forty times a second."""

    @property
    def reason(self) -> str:
        return "; ".join(f"{layer}: {why}" for layer, why in self.missing.items())

    @property
    def weaknesses(self) -> tuple[str, ...]:
        """What executables can do at this level that a better one prevents, each as a sentence about them."""
        if self.name == "unavailable":
            return ()
        lacking = {layer for layer in ("landlock", "namespaces") if layer not in self.layers}
        if self.memory == "watched":
            lacking.add("memory")
        return tuple(
            text for needed, texts in _WEAKNESSES.items() if lacking.issuperset(needed) for text in texts
        )


_WEAKNESSES = {
    ("landlock", "namespaces"): (
        "can read and write every file that you can, including protected ones",
        "can leave files behind in /dev/shm and in temporary directories",
    ),
    ("namespaces",): (
        "can read the arguments of the other processes on this machine",
        "can find out whether any file exists, and its size",
        "cannot make new files directly in a directory that contains protected paths, even with write access",
        "can fill the temporary directory for half a second: its size is watched, not limited",
    ),
    ("landlock",): ("can write to pipes that they can only read",),
    ("memory",): (
        "can use more memory than they may for up to a tenth of a second: it is watched, not limited",
        "can hold memory in TCP connections that is not counted, if they may use the network",
    ),
}
"""By the layers that must all be missing; `memory` is a control group that counts it."""


def executables_level(*, network: bool = False, room: bool = True) -> ExecutableLevel:
    """The strongest combination that this machine offers. Starts the spawner: tens of milliseconds, once."""
    missing = {"system": f"{sys.platform} has no confinement that is supported; Linux has"}
    if sys.platform == "linux":
        try:
            return level_from_abilities(shared_spawner(network=network, room=room).abilities())
        except SpawnerLost as lost:
            missing = {"spawner": str(lost)}
    return ExecutableLevel(name="unavailable", layers=(), missing=missing)


@cache
def level_from_abilities(found: Abilities) -> ExecutableLevel:
    missing = {}
    try:
        executable_filter(network=False)
    except SeccompMissing as error:
        missing["seccomp"] = str(error)
    if not found.landlock:
        missing["landlock"] = LAYER_REMEDIES["landlock"]
    if not found.room:
        missing["namespaces"] = f"{found.why_no_room}; {LAYER_REMEDIES['namespaces']}"
    if found.why_not_alone:
        missing["network namespace"] = found.why_not_alone
    held = [name for name in ("seccomp", "landlock", "namespaces") if name not in missing]
    name = "unavailable" if "seccomp" in missing else _LEVEL_OF_LAYERS[tuple(held[1:])]
    return ExecutableLevel(
        name=name,
        layers=("rlimits", *held),
        missing=missing,
        processes=found.processes,
        memory=found.memory,
    )


def require_confinement(level: ExecutableLevel, accept: str = "") -> None:
    """ToolError unless executables may run at this level; `accept` is a lower one that the user accepts."""
    if level.name in ("full", "namespaces", "landlock") or (level.name == "seccomp" and accept == "seccomp"):
        return
    hint = 'Set `accept = "seccomp"` under [sandbox] to run them without either.'
    raise ToolError(
        f"Executables cannot be confined here ({level.reason})",
        code="unavailable",
        hint=hint if level.name == "seccomp" else "",
    )
