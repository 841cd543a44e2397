"""The host's side of the spawner: starts it, asks it what it can do, hands calls to it, replaces it."""

import atexit
import os
import select
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from strands_cli.sandbox import messages

_SOURCE = str(Path(__file__).resolve().parents[2])
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import strands_cli.sandbox.spawner.spawner as s; s.main()"
)
_READY_SECONDS = 20.0
_CALLS = 3
_CLOSE_ON_EXEC_FREE = 10


class SpawnerLost(Exception):
    """The spawner ended, or did not start; nothing of the call has run."""


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the spawner found when it started."""

    landlock: int
    """The version; 0 where there is none."""
    room: bool
    why_no_room: str
    why_not_alone: str
    """Why there is no network namespace; empty where there is one."""
    processes: str
    """How processes are counted: `cgroup`, `rlimit` (roughly, without a room) or `watched`."""


class SpawnerHandle:
    """One spawner, started at first use and again whenever it is gone. For any thread."""

    def __init__(self, *, network: bool, room: bool) -> None:
        self._network = network
        self._room = room
        self._lock = Lock()
        self._host = 0
        self._process = 0
        self._watch = -1
        self._calls: socket.socket | None = None
        self._abilities: Abilities | None = None

    def abilities(self) -> Abilities:
        """Blocks for as long as a spawner takes to start, where none runs; SpawnerLost if it cannot."""
        with self._lock:
            return self._running()

    def is_running(self) -> bool:
        if self._calls is None or self._host != os.getpid():
            return False
        poll = select.poll()
        poll.register(self._watch, select.POLLIN)
        return not poll.poll(0)

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
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._watch, signal.SIGKILL)
                self._stop()
                raise SpawnerLost("the spawner has ended") from error
            return True

    def process(self) -> int:
        """Its process id, for tests and for `doctor`."""
        self.abilities()
        return self._process

    def _running(self) -> Abilities:
        if not self.is_running() or self._abilities is None:
            self._stop()
            self._start()
        assert self._abilities is not None
        return self._abilities

    def _stop(self) -> None:
        """Lets go of a spawner that has ended; its free runners end with the socket."""
        if self._calls is None:
            return
        self._calls.close()
        os.close(self._watch)
        self._calls = None
        if self._host == os.getpid():
            with suppress(ChildProcessError):  # somebody else in this program waits for every child
                os.waitpid(self._process, 0)

    def disconnect(self) -> None:
        """At the end of the program, without waiting: the spawner and its runners end with the socket."""
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.close()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process = self._spawn(theirs.fileno())
        except OSError as error:
            ours.close()
            raise SpawnerLost(f"the spawner cannot be started: {error}") from error
        finally:
            theirs.close()
        self._process, self._host, self._calls = process, os.getpid(), ours
        self._watch = os.pidfd_open(process)
        readable, _, _ = select.select([ours], [], [], _READY_SECONDS)
        report = messages.receive_value(ours)[0] if readable else None
        if report is None:
            os.kill(process, signal.SIGKILL)
            self._stop()
            raise SpawnerLost("the spawner ended before it was ready")
        self._abilities = msgspec.convert(report, Abilities)

    def _spawn(self, calls: int) -> int:
        """posix_spawn, which takes the same time whatever the size of the host."""
        network = "network" if self._network else "alone"
        room = "room" if self._room else "plain"
        argv = [sys.executable, "-I", "-S", "-c", _START, _SOURCE, str(os.getpid()), network, room]
        nowhere = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
        actions: list[Any] = [nowhere, (os.POSIX_SPAWN_DUP2, 0, 1)]
        if not os.environ.get("STRANDS_SANDBOX_DEBUG"):
            actions.append((os.POSIX_SPAWN_DUP2, 0, 2))
        # Duplicated twice: where the number is 3 already, it would keep its close-on-exec mark.
        actions += [(os.POSIX_SPAWN_DUP2, calls, _CLOSE_ON_EXEC_FREE + calls)]
        actions += [(os.POSIX_SPAWN_DUP2, _CLOSE_ON_EXEC_FREE + calls, _CALLS)]
        return os.posix_spawn(sys.executable, [*argv, tempfile.gettempdir()], {}, file_actions=actions)


@cache
def shared_spawner(*, network: bool, room: bool = True) -> SpawnerHandle:
    """The spawner that all calls of this process share."""
    handle = SpawnerHandle(network=network, room=room)
    atexit.register(handle.disconnect)
    return handle
