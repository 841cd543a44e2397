"""The host's side of the spawner: starts it, asks it what it can do, hands calls to it, replaces it."""

import atexit
import os
import socket
import subprocess
import tempfile
from functools import cache
from threading import Lock
from typing import Any

import msgspec

from strands_cli.sandbox import messages
from strands_cli.sandbox.launcher import start_helper


class SpawnerLost(Exception):
    """The spawner ended, or did not start; nothing of the call has run."""


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the spawner found when it started."""

    landlock: int
    """The version of Landlock, 0 without Landlock."""
    room: bool
    why_no_room: str
    why_not_alone: str
    """Why there is no network namespace; empty where there is one."""
    processes: str
    """How processes are counted: `cgroup` or `watched` for root, otherwise `rlimit` or `rlimit, roughly`."""
    memory: str
    """How memory is counted: `cgroup`, all of it, or `watched`, what processes hold."""


class SpawnerHandle:
    """One spawner, started at first use and again whenever it is gone. For any thread."""

    def __init__(self, *, network: bool, room: bool) -> None:
        self._arguments = ("network" if network else "alone", "room" if room else "plain")
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._calls: socket.socket | None = None
        self._abilities: Abilities | None = None

    def abilities(self) -> Abilities:
        """Blocks for as long as a spawner takes to start, where none runs; SpawnerLost if it cannot."""
        with self._lock:
            return self._running()

    def is_running(self) -> bool:
        """In a forked copy of the host it is not: there it is nobody's child."""
        process = self._process
        return process is not None and process.poll() is None

    def hand_over(self, request: dict[str, Any], descriptors: list[int]) -> bool:
        """Gives a call to the next free runner; False where too many wait already."""
        with self._lock:
            self._running()
            assert self._calls is not None
            try:
                messages.send_value(self._calls, request, *descriptors, flags=socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError) as error:
                # It has closed its socket and may take a while to end: whoever tries again needs a new one.
                self._stop()
                raise SpawnerLost("the spawner has ended") from error
            return True

    def process(self) -> int:
        """Its process id, for tests and for `doctor`."""
        self.abilities()
        assert self._process is not None
        return self._process.pid

    def _running(self) -> Abilities:
        if not self.is_running() or self._abilities is None:
            self._stop()
            self._start()
        assert self._abilities is not None
        return self._abilities

    def _stop(self) -> None:
        """Lets go of a spawner that has ended, or ends it; its free runners end with the socket."""
        if self._calls is not None:
            self._calls.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._calls = None

    def disconnect(self) -> None:
        """At the end of the program, without waiting: the spawner and its runners end with the socket."""
        if self._calls is not None and self._process is not None:
            self._calls.close()
            self._process.returncode = 0  # or it would warn that nobody has waited

    def _start(self) -> None:
        stderr = None if os.environ.get("STRANDS_SANDBOX_DEBUG") else subprocess.DEVNULL
        arguments = (*self._arguments, tempfile.gettempdir())
        try:
            self._process, self._calls = start_helper(
                "strands_cli.sandbox.spawner.spawner", *arguments, stderr=stderr
            )
            report, _ = messages.receive_value(self._calls)
        except OSError as error:
            self._stop()
            raise SpawnerLost(f"the spawner cannot be started: {error}") from error
        if report is None:
            self._stop()
            raise SpawnerLost("the spawner ended before it was ready")
        self._calls.settimeout(None)
        self._abilities = msgspec.convert(report, Abilities)


@cache
def shared_spawner(*, network: bool, room: bool = True) -> SpawnerHandle:
    """The spawner that all calls of this process share."""
    handle = SpawnerHandle(network=network, room=room)
    atexit.register(handle.disconnect)
    return handle
