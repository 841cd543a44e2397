"""`run_python`: code that a model wrote, run at the best level of confinement that this machine offers.

The level is found out once, by trying to break out.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from typing import Literal

import msgspec

from strands_cli.sandbox.code_run import CallTool, CodeRun, PythonOutcome
from strands_cli.sandbox.launcher import ZYGOTES, Child, ZygoteHandle, ZygoteLost
from strands_cli.sandbox.profile import ALL_LAYERS, LAYER_REMEDIES, PYTHON_PROFILE, Layer, Profile
from strands_cli.sandbox.seccomp import SeccompMissing

_TRIES = 3
_SESSION_CPU_SECONDS = 600.0
MAX_SESSIONS = 16
IDLE_SECONDS = 600.0
_LOOK_SECONDS = 0.005


class PythonUnavailable(Exception):
    """Code cannot be confined here, so it is not run."""

    def __init__(self, level: "PythonLevel") -> None:
        super().__init__(f"Python code cannot be confined on this machine: {level.reason}")
        self.level = level


async def run_python(
    code: str,
    *,
    profile: Profile = PYTHON_PROFILE,
    files: Mapping[str, bytes] | None = None,
    session: str = "",
    call_tool: CallTool | None = None,
    _layers: frozenset[Layer] | None = None,
) -> PythonOutcome:
    """Runs the code in a process of its own and answers with what became of it; it never raises for the code.

    With a session, the code sees what earlier code of that session has left. `_layers` is for tests of what
    each layer does alone: it takes the self-test's place.
    """
    if _layers is None:
        level = await python_level()
        if level.name == "interpreter":
            from strands_cli.sandbox.monty import run_interpreted

            return await run_interpreted(code, profile, files or {}, session, call_tool)
        if level.name == "disabled":
            raise PythonUnavailable(level)
    layers = ALL_LAYERS if _layers is None else _layers
    outcome, _ = await _run_confined_code(
        code, profile, layers, files=files, session_name=session, call_tool=call_tool
    )
    return outcome


async def _run_confined_code(
    code: str,
    profile: Profile,
    layers: frozenset[Layer],
    *,
    files: Mapping[str, bytes] | None = None,
    session_name: str = "",
    call_tool: CallTool | None = None,
    parks: bool = True,
) -> tuple[PythonOutcome, ZygoteHandle]:
    """The outcome of code in a process of its own or of its session, and the zygote that made the process.

    Where the zygote dies under it, the code runs again, unless it has called a tool by then. A process that
    was killed takes its session with it; the next call begins a new one. `parks` says whether a process for
    the next call is made ahead.
    """
    lasting = msgspec.structs.replace(profile, cpu_seconds=_SESSION_CPU_SECONDS) if session_name else profile
    for attempt in range(_TRIES):
        session = await SESSIONS.take(session_name, lambda: _take_child(code, lasting, layers))
        if not session.is_new:
            session.child.arm(profile.seconds)
        run = CodeRun(session.child, profile, call_tool)
        try:
            outcome = await run.run(code, files or {}, session=bool(session_name))
            outcome.new_session = bool(session_name) and session.is_new
            return outcome, session.child.zygote
        except ZygoteLost:
            if run.outcome.calls or attempt == _TRIES - 1:
                raise
        finally:
            (SESSIONS.give_back if session_name and run.outcome.is_whole else SESSIONS.end)(session)
            if parks and not session_name:
                session.child.zygote.park(profile.rlimits())
    raise AssertionError("the last attempt answers")


async def _take_child(code: str, profile: Profile, layers: frozenset[Layer]) -> Child:
    for _ in range(_TRIES):
        try:
            # Shielded: others may wait for the same one, or need it later.
            zygote = await asyncio.shield(asyncio.wrap_future(ZYGOTES.get(layers)))
        except OSError as error:
            raise ZygoteLost(f"it cannot be started: {error}") from None
        try:
            return zygote.take(profile.rlimits(), profile.seconds, zones="zoneinfo" in code)
        except ZygoteLost:
            continue
    raise ZygoteLost


# --- Sessions: processes that keep their state from one call to the next ----------------------------------


class Session(msgspec.Struct, eq=False):
    name: str
    """Empty for a process that serves one call only."""
    child: Child
    is_new: bool = True
    is_busy: bool = True
    used: float = 0.0
    """When it was given back."""


class Sessions:
    """By name. At most so many live; the one that has rested longest makes room, and a long rest ends it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Lets go of all without ending any: for a forked copy of the host, whose they are not."""
        self._lock = threading.Lock()
        self._live: dict[str, Session] = {}

    async def take(self, name: str, start: Callable[[], Awaitable[Child]]) -> Session:
        """The session of that name, for one call alone; whoever comes meanwhile waits."""
        while (session := self._claim(name)) is None:
            if name not in self._live:
                session = Session(name, await start())
                if not name or self._enter(session):
                    break
                session.child.end()  # another call was faster
            # A lock of an event loop would tie the session to that loop; calls come from many.
            await asyncio.sleep(_LOOK_SECONDS)
        return session

    def _claim(self, name: str) -> Session | None:
        """The live session of that name, if there is one that rests."""
        with self._lock:
            session = self._live.get(name)
            if session is None or session.is_busy:
                return None
            session.is_busy, session.is_new = True, False
        if session.child.is_alive():
            return session
        self.end(session)  # it had rested too long, or the zygote is gone
        return None

    def _enter(self, session: Session) -> bool:
        with self._lock:
            if session.name in self._live:
                return False
            self._live[session.name] = session
            resting = sorted((live.used, name) for name, live in self._live.items() if not live.is_busy)
            surplus = max(0, len(self._live) - MAX_SESSIONS)
            gone = [self._live.pop(name) for _, name in resting[:surplus]]
        for rested in gone:
            rested.child.end()
        return True

    def give_back(self, session: Session) -> None:
        """Its process rests until the next call, or until it has rested too long."""
        session.child.arm(IDLE_SECONDS)
        session.used = time.monotonic()
        session.is_busy = False

    def end(self, session: Session) -> None:
        with self._lock:
            if self._live.get(session.name) is session:
                del self._live[session.name]
        session.child.end()

    def close(self) -> None:
        for session in list(self._live.values()):
            self.end(session)


SESSIONS = Sessions()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=SESSIONS.forget)


# --- Levels -----------------------------------------------------------------------------------------------

PythonLevelName = Literal["full", "seccomp+landlock", "seccomp", "interpreter", "disabled"]

_SELF_TEST = """
import _socket, mmap, os, posix

def is_refused(act):
    try:
        act()
    except (PermissionError, MemoryError):
        return True
    except OSError:
        pass
    return False

def leaves():
    if posix.fork() == 0:
        os._exit(0)

{name: is_refused(act) for name, act in {
    "open": lambda: posix.open("/", 0),
    "stat": lambda: posix.stat("/"),
    "list": lambda: posix.listdir("/"),
    "internet": lambda: _socket.socket(_socket.AF_INET),
    "local sockets": lambda: _socket.socket(_socket.AF_UNIX),
    "fork": leaves,
    "execute": lambda: posix.execv("/missing", ["missing"]),
    "signal": lambda: posix.kill(posix.getppid(), 0),
    "machine code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC),
    "memory": lambda: bytearray(1 << 40),
}.items()}
"""
_TEST_PROFILE = Profile(seconds=10.0, memory_bytes=PYTHON_PROFILE.memory_bytes)


class PythonLevel(msgspec.Struct, frozen=True, kw_only=True):
    """How model-written Python is confined here."""

    name: PythonLevelName
    layers: frozenset[str] = frozenset()
    missing: Mapping[str, str] = {}
    """The layers that are not in force, with the reason and what they would need."""
    reason: str = ""
    """Why it is not a better one: what the self-test found."""

    @property
    def is_confined(self) -> bool:
        return self.name in ("full", "seccomp+landlock", "seccomp")


_found: PythonLevel | None = None


async def python_level() -> PythonLevel:
    """The level in force, from a self-test at first use."""
    global _found  # noqa: PLW0603 - found once, and the same for the whole process
    if _found is None or _found.name == "disabled":
        _found = await try_level()
    return _found


def python_level_now() -> PythonLevel:
    """The same for callers without a running loop, such as `strands doctor`."""
    return asyncio.run(python_level())


async def try_level(layers: frozenset[Layer] = ALL_LAYERS) -> PythonLevel:
    """Starts a confined process and has it try what it must not be able to do."""
    if sys.platform != "linux":
        return _level_without_kernel(f"{sys.platform} has no seccomp", {"seccomp": "needs Linux"})
    try:
        outcome, zygote = await _run_confined_code(_SELF_TEST, _TEST_PROFILE, layers, parks=False)
    except SeccompMissing as error:
        return _level_without_kernel(str(error), {"seccomp": f"{error}: {LAYER_REMEDIES['seccomp']}"})
    except ZygoteLost as error:
        return _level_without_kernel(f"no process could be started: {error or 'it ended at once'}", {})
    missing = {name: f"{why}; {LAYER_REMEDIES[name]}" for name, why in zygote.missing.items()}
    if os.geteuid() != 0:
        missing.pop("uid", None)  # an ordinary user has nobody to become
    if outcome.error is not None or not isinstance(outcome.value, dict):
        return _level_without_kernel(f"the self-test failed: {outcome.error}", missing)
    holes = [name for name, is_refused in outcome.value.items() if not is_refused]
    if holes:
        return _level_without_kernel(f"the self-test broke out: {', '.join(holes)}", missing)
    name: PythonLevelName = "seccomp+landlock" if "landlock" in zygote.layers else "seccomp"
    if {"seccomp", "landlock", "namespaces"} <= zygote.layers:
        name = "full"
    return PythonLevel(name=name, layers=zygote.layers, missing=missing)


def _level_without_kernel(reason: str, missing: Mapping[str, str]) -> PythonLevel:
    name: PythonLevelName = "interpreter" if find_spec("pydantic_monty") else "disabled"
    return PythonLevel(name=name, reason=reason, missing=missing)
