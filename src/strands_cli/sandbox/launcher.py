"""Starting zygotes and asking them for confined processes: the host's side, for any thread and any loop."""

import atexit
import itertools
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from strands_cli.sandbox import messages, seccomp
from strands_cli.sandbox.profile import Layer

_SOURCES = str(Path(__file__).resolve().parents[2])
_START_SECONDS = 30.0


def start_helper(
    module: str, *arguments: str, stderr: int | None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Starts the `main` of one of our modules, with nothing of this process in it, and the socket to it.

    The other end is its standard input. Its arguments begin with the number of this process.
    """
    program = f"import sys; sys.path.append(sys.argv.pop()); from {module} import main; main()"
    command = [
        sys.executable,
        "-I",
        "-S",
        "-X",
        "utf8",
        "-c",
        program,
        str(os.getpid()),
        *arguments,
        _SOURCES,
    ]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_START_SECONDS)
    with theirs:
        process = subprocess.Popen(
            command,
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={},
            cwd="/",
            start_new_session=True,
        )
    return process, ours


class ZygoteLost(Exception):
    """The zygote has ended, and with it all the processes that it had forked."""


class ZygoteHandle:
    """One warm interpreter, made by a thread that lives on: the kernel ends a child with its thread."""

    def __init__(self, layers: frozenset[Layer]) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._spare: tuple[Child, dict[str, int]] | None = None
        self.is_lost = False
        """Whether somebody has noticed its end, which the kernel may tell us a little later."""
        self.process, self._control = start_helper(
            "strands_cli.sandbox.inside.zygote", stderr=subprocess.PIPE
        )
        self.layers: frozenset[str] = frozenset()
        """Those that are in force."""
        self.missing: dict[str, str] = {}
        """Those that were asked for and are not in force, with the reason."""
        try:
            self._configure(layers)
        finally:
            if not self.layers and layers:
                self.kill()

    def _configure(self, layers: frozenset[Layer]) -> None:
        # Made while the interpreter starts.
        program = seccomp.python_filter() if "seccomp" in layers else b""
        try:
            messages.send_value(self._control, (set(layers), program))
            report, _ = messages.receive_value(self._control)
        except ConnectionError:
            report = None
        assert self.process.stderr is not None
        with self.process.stderr as errors:
            if report is None:
                raise OSError(errors.read().decode(errors="replace").strip()[-1000:] or "it ended at once")
        self.layers, self.missing = frozenset(report[0]), report[1]

    def is_alive(self) -> bool:
        return not self.is_lost and self.process.poll() is None

    def take(self, limits: dict[str, int], seconds: float, *, zones: bool = False) -> "Child":
        """A confined process that waits for code and is killed when the time is over."""
        with self._lock:
            spare = self._spare
            if spare is not None and spare[1] == limits and not zones:
                self._spare = None
                spare[0].arm(seconds)
                return spare[0]
        return self._start(limits, seconds, zones=zones)

    def park(self, limits: dict[str, int]) -> None:
        """Has a confined process made ahead, so that the next call need not wait for a fork."""
        with self._lock:
            if self._spare is not None and self._spare[1] == limits:
                return
            if self._spare is not None:
                self._spare[0].end()
            try:
                self._spare = (self._start(limits, 0, zones=False), limits)
            except ZygoteLost:
                self._spare = None  # whoever needs the next one will notice

    def _start(self, limits: dict[str, int], seconds: float, *, zones: bool) -> "Child":
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        status, status_end = socket.socketpair()
        options = {"limits": limits, "zones": zones}
        request = ("start", number, _deadline_after(seconds), options)
        try:
            messages.send_value(self._control, request, theirs.fileno(), status_end.fileno())
        except OSError:
            self.is_lost = True
            ours.close()
            status.close()
            raise ZygoteLost from None
        finally:
            theirs.close()
            status_end.close()
        return Child(self, number, ours, status)

    def ask(self, order: str, number: int, seconds: float = 0.0) -> None:
        """`arm` or `kill`, for one of its children."""
        with suppress(OSError):  # it has ended, and all its children with it
            messages.send_value(self._control, (order, number, _deadline_after(seconds), {}))

    def kill(self) -> None:
        self.is_lost = True
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare[0].end()
        self._control.close()


def _deadline_after(seconds: float) -> float:
    """A point on the clock that all processes share, which waiting in line does not move; 0 is never."""
    return time.monotonic() + seconds if seconds else 0.0


class Child:
    """One confined process: the channel to it, and where its end is reported."""

    def __init__(
        self, zygote: ZygoteHandle, number: int, channel: socket.socket, status: socket.socket
    ) -> None:
        self.zygote = zygote
        self.channel = channel
        self.status = status
        self._number = number
        channel.setblocking(False)
        status.setblocking(False)

    def arm(self, seconds: float) -> None:
        """Sets when it is killed, counted from now; 0 means not at all."""
        self.zygote.ask("arm", self._number, seconds)

    def is_alive(self) -> bool:
        try:
            return self.channel.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True  # it has nothing to say, and its end is open
        except OSError:
            return False

    def end(self) -> None:
        """Kills it, whatever it does, and forgets it."""
        self.zygote.ask("kill", self._number)
        self.channel.close()
        self.status.close()


_Jobs = queue.SimpleQueue[tuple[frozenset[Layer], Future[ZygoteHandle]]]


class Zygotes:
    """The zygotes of this process, one for each set of layers; a dead one is replaced when it is needed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """For a forked copy of the host: it has no thread that starts zygotes, and none that is its own."""
        self._lock = threading.Lock()
        self._jobs: _Jobs | None = None
        self._running: dict[frozenset[Layer], Future[ZygoteHandle]] = {}

    def get(self, layers: frozenset[Layer]) -> "Future[ZygoteHandle]":
        with self._lock:
            known = self._running.get(layers)
            if known is not None and known.done():
                if known.exception() is not None:
                    known = None
                elif not known.result().is_alive():
                    known.result().kill()  # takes back what it held in this process
                    known = None
            if known is None:
                known = self._running[layers] = Future()
                if self._jobs is None:
                    self._jobs = _start_thread()
                self._jobs.put((layers, known))
            return known

    def close(self) -> None:
        """Ends all of them, and with them every confined process."""
        with self._lock:
            running, self._running = self._running, {}
        for future in running.values():
            if future.done() and future.exception() is None:
                future.result().kill()


def _start_thread() -> _Jobs:
    """A thread that starts zygotes for as long as this process lives, whose end does not wait for it.

    An executor's would be waited for when the main thread ends, be it interrupted, and then be gone while
    other threads still run.
    """
    jobs: _Jobs = queue.SimpleQueue()
    threading.Thread(target=_start_zygotes, args=(jobs,), name="zygotes", daemon=True).start()
    return jobs


def _start_zygotes(jobs: _Jobs) -> None:
    while True:
        layers, future = jobs.get()
        try:
            future.set_result(ZygoteHandle(layers))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            future.set_exception(error)


ZYGOTES = Zygotes()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=ZYGOTES.forget)
atexit.register(ZYGOTES.close)
