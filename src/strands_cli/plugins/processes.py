"""The processes of a plugin's tools: what each is started with, and those that are started ahead."""

import asyncio
import json
import os
import select
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from strands_cli.errors import ToolError
from strands_cli.plugins.configuration import Configuration
from strands_cli.plugins.directories import Identity, neighbourhood
from strands_cli.plugins.manifest import CliTool
from strands_cli.plugins.plugin import Plugin
from strands_cli.sandbox.confined_executable import Confined
from strands_cli.sandbox.executables import environment_for, start_confined
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE, Profile
from strands_cli.sandbox.spawner_handle import SpawnerLost
from strands_cli.toolkit.workspace import Workspace

LEAST_STREAM_BYTES = 1_000_000
"""What is read of a stream, unless `max_output` asks for more."""
PARKED_SECONDS = 60.0
MOST_PARKED = 8
"""Of one loop; the one that has waited longest goes first."""
_END_SECONDS = 2.0
_DELAY_SECONDS = 0.002
"""Between an answer and the start of the next process: who makes one call and ends never starts it."""
_WORKER_CPU_SECONDS = 24 * 3600.0
_COMPARED = tuple(name for name in Profile.__struct_fields__ if name != "environment")

Key = tuple[object, ...]


class Launch(msgspec.Struct, frozen=True):
    """All that decides what a started process is: two of the same are interchangeable."""

    argv: tuple[str, ...]
    profile: Profile
    cwd: Path
    accept: str
    files: tuple[tuple[str, Identity], ...]
    """The executable and what lies beside it."""

    @property
    def key(self) -> Key:
        environment = tuple(sorted(self.profile.environment.items()))
        rest = tuple(getattr(self.profile, name) for name in _COMPARED)
        return (self.argv, environment, rest, str(self.cwd), self.accept, self.files)

    async def start(self) -> Confined:
        return await start_confined(self.argv, self.profile, cwd=self.cwd, accept=self.accept)


def launch_of(
    plugin: Plugin, tool: CliTool, configuration: Configuration, workspace: Workspace, accept: str
) -> Launch:
    """A process begins where relative paths of the call do, if that is in the workspace."""
    executable = plugin.executable(tool)
    is_inside = any(workspace.base.is_relative_to(root) for root in workspace.roots)
    return Launch(
        (str(executable), *tool.args),
        _profile(plugin, tool, configuration, workspace),
        workspace.base if is_inside else workspace.roots[0],
        accept,
        neighbourhood(executable),
    )


def input_of(arguments: dict[str, Any]) -> bytes:
    """One line, so that a shell's `read` takes it too."""
    try:
        return json.dumps(arguments, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(arguments).encode() + b"\n"


def _profile(plugin: Plugin, tool: CliTool, configuration: Configuration, workspace: Workspace) -> Profile:
    seconds = tool.timeout
    cpu = _WORKER_CPU_SECONDS if tool.mode == "worker" else max(EXECUTABLE_PROFILE.cpu_seconds, 2 * seconds)
    memory = tool.memory_bytes
    roots = [str(root) for root in workspace.roots]
    return msgspec.structs.replace(
        EXECUTABLE_PROFILE,
        seconds=seconds,
        cpu_seconds=cpu,
        memory_bytes=memory,
        address_bytes=max(EXECUTABLE_PROFILE.address_bytes, 8 * memory),
        output_bytes=max(LEAST_STREAM_BYTES, tool.max_output or 0),
        reads=(str(plugin.directory), *roots, *_paths(tool.files.read, workspace)),
        writes=_paths(tool.files.write, workspace),
        network=tool.network,
        environment={**environment_for(tool.env, os.environ), **configuration.environment},
    )


def _paths(declared: tuple[str, ...], workspace: Workspace) -> tuple[str, ...]:
    """Declared paths are relative to the workspace, wherever the call comes from."""
    root = workspace.roots[0]
    return tuple(os.path.realpath(root / os.path.expanduser(path)) for path in declared)


# --- Started ahead ---------------------------------------------------------------------------------------


class _Parked(msgspec.Struct):
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
        self._waiting: dict[Key, _Parked] = {}
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
        is_waiting = _is_waiting(parked.confined)
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
        parked = _Parked(confined, asyncio.get_running_loop().create_future())
        self._waiting[key] = parked
        self._make_room()
        try:
            await asyncio.wait([parked.released], timeout=self._idle_seconds)
        finally:
            if self._waiting.get(key) is parked:
                del self._waiting[key]
                del self._keepers[key]
            if not parked.is_taken:
                await _end(confined)

    def _make_room(self) -> None:
        while len(self._waiting) > MOST_PARKED:
            oldest = next(iter(self._waiting))
            self._waiting.pop(oldest).release(is_taken=False)
            self._keepers.pop(oldest, None)


async def _end(confined: Confined) -> None:
    """Its input is closed only when nobody is left to see that."""
    confined.kill()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await confined.wait()
    except (TimeoutError, ToolError, SpawnerLost):
        pass  # it never began, or its keeper is stuck, which closing the socket ends
    finally:
        confined.close()


def _is_waiting(confined: Confined) -> bool:
    """Whether a process still reads its input and has said nothing: what it says now, no call asked for."""
    poll = select.poll()
    poll.register(confined.stdin, 0)  # an error is told without being asked for: nobody reads any more
    poll.register(confined.stdout, select.POLLIN)
    return not poll.poll(0)


_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, Parking]" = WeakKeyDictionary()


def parking() -> Parking:
    """The one of the running loop."""
    return _of_loops.setdefault(asyncio.get_running_loop(), Parking())
