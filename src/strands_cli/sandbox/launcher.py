"""Starting zygotes and asking them for confined processes: the host's side, for any thread and any loop."""

import array
import atexit
import itertools
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from strands_cli.sandbox import seccomp
from strands_cli.sandbox.inside import frames
from strands_cli.sandbox.profile import Layer

_PROGRAM = (
    "import sys; sys.path.append(sys.argv.pop()); from strands_cli.sandbox.inside.zygote import main; main()"
)
_SOURCES = str(Path(__file__).parents[2])
_START_SECONDS = 30.0
_LONGEST_REPORT = 100_000


class ZygoteLost(Exception):
    """The zygote has ended, and with it all the processes that it had forked."""


class NoZygote(Exception):
    """A zygote cannot be started here; the message says why."""


class ZygoteHandle:
    """One warm interpreter, made by a thread that lives on: the kernel ends a child with its thread."""

    def __init__(self, layers: frozenset[Layer]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._spare: tuple[Child, dict[str, int]] | None = None
        self.is_lost = False
        """Whether somebody has noticed its end, which the kernel may tell us a little later."""
        command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, str(os.getpid()), _SOURCES]
        nowhere, pipe = subprocess.DEVNULL, subprocess.PIPE
        environment: dict[str, str] = {}
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=nowhere,
                stderr=pipe,
                env=environment,
                cwd="/",
                start_new_session=True,
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
        self._control.settimeout(_START_SECONDS)
        try:
            self._control.send(json.dumps({"layers": sorted(layers), "filter": program.hex()}).encode())
            message = self._control.recv(_LONGEST_REPORT)
        except ConnectionError:
            message = b""
        assert self.process.stderr is not None
        with self.process.stderr as errors:
            if not message:
                raise NoZygote(errors.read().decode(errors="replace").strip()[-1000:] or "it ended at once")
        report = json.loads(message)
        self.layers, self.missing = frozenset(report["layers"]), report["missing"]

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

    def _start(self, limits: Mapping[str, int], seconds: float, *, zones: bool) -> "Child":
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        status, status_end = os.pipe()
        options = json.dumps({"limits": dict(limits), "zones": zones}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno(), status_end]))]
        try:
            self._control.sendmsg([_request(frames.START, number, seconds) + options], rights)
        except OSError:
            self.is_lost = True
            ours.close()
            os.close(status)
            raise ZygoteLost from None
        finally:
            theirs.close()
            os.close(status_end)
        return Child(self, number, ours, status)

    def ask(self, letter: bytes, number: int, seconds: float = 0.0) -> None:
        try:
            self._control.send(_request(letter, number, seconds))
        except OSError:
            pass  # it has ended, and all its children with it

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


def _request(letter: bytes, number: int, seconds: float) -> bytes:
    """Times are given as points on the clock that all processes share: waiting in line does not move them."""
    return frames.REQUEST.pack(letter, number, time.monotonic() + seconds if seconds else 0.0)


class Child:
    """One confined process: the channel to it, and where its end is reported."""

    def __init__(self, zygote: ZygoteHandle, number: int, channel: socket.socket, status: int) -> None:
        self.zygote = zygote
        self.channel = channel
        self.status = status
        self._number = number
        channel.setblocking(False)
        os.set_blocking(status, False)

    def arm(self, seconds: float) -> None:
        """Sets when it is killed, counted from now; 0 means not at all."""
        self.zygote.ask(frames.ARM, self._number, seconds)

    def is_alive(self) -> bool:
        try:
            return self.channel.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True  # it has nothing to say, and its end is open
        except OSError:
            return False

    def end(self) -> None:
        """Kills it, whatever it does, and forgets it."""
        self.zygote.ask(frames.KILL, self._number)
        self.channel.close()
        status, self.status = self.status, -1
        if status >= 0:
            os.close(status)


class Zygotes:
    """The zygotes of this process, one for each set of layers; a dead one is replaced when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[frozenset[Layer], Future[ZygoteHandle]]] | None = None
        self._running: dict[frozenset[Layer], Future[ZygoteHandle]] = {}

    def get(self, layers: frozenset[Layer]) -> "Future[ZygoteHandle]":
        with self._lock:
            known = self._running.get(layers)
            if known is None or _is_lost(known):
                known = self._running[layers] = Future()
                self._queue().put((layers, known))
            return known

    def close(self) -> None:
        """Ends all of them, and with them every confined process."""
        with self._lock:
            running, self._running = self._running, {}
        for future in running.values():
            if future.done() and future.exception() is None:
                future.result().kill()

    def _queue(self) -> "queue.SimpleQueue[tuple[frozenset[Layer], Future[ZygoteHandle]]]":
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=_start_zygotes, args=(self._jobs,), name="zygotes", daemon=True).start()
        return self._jobs


def _start_zygotes(jobs: "queue.SimpleQueue[tuple[frozenset[Layer], Future[ZygoteHandle]]]") -> None:
    while True:
        layers, future = jobs.get()
        try:
            future.set_result(ZygoteHandle(layers))
        except (OSError, ValueError, NoZygote, seccomp.SeccompMissing) as error:
            future.set_exception(error)


def _is_lost(future: "Future[ZygoteHandle]") -> bool:
    if not future.done():
        return False
    lost = future.exception() is not None or not future.result().is_alive()
    if lost and future.exception() is None:
        future.result().kill()  # takes back what it held in this process
    return lost


_zygotes = Zygotes()


def zygotes() -> Zygotes:
    return _zygotes


def _forget() -> None:
    """A forked copy of this process has no thread that starts zygotes, and those that run are not its own."""
    global _zygotes  # noqa: PLW0603 - the one value that a fork must not share
    _zygotes = Zygotes()


def _close() -> None:
    _zygotes.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(_close)
