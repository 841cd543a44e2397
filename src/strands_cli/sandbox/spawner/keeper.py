"""The keeper of one call: watches the process tree of one executable, and ends it.

It stands between the spawner and the executable. In a PID namespace it is the first process, with which all
others die; elsewhere it is a subreaper, below which all of them are found. It reports how the call went over
the call's own socket, and takes the end of that socket, or of the host, as the order to end everything.
"""

import _socket
import marshal
import os
import select
import signal
import time
from typing import Any

from strands_cli.sandbox import tree

LOOK_SECONDS = 0.025
"""How often the memory of a tree is looked at."""
MOST_MESSAGE_BYTES = 65536


class Keeper:
    def __init__(self, runner: int, pair: _socket.socket, host: int, proc: int, disk: int) -> None:
        self._runner = runner
        self._pair = pair
        self._host = host
        self._proc = proc
        self._disk = disk
        """The room's scratch file system; -1 where there is no room."""
        self._in_room = disk >= 0
        self._why = "exited"
        self._status: int | None = None
        self._reported = False
        self._cpu = 0.0
        self._peak = 0
        self._kill_at: float | None = None
        self._look_at = 0.0
        self._survivors = False

    def keep(self) -> None:
        """Waits for a call, then sees it through; returns when nothing is left of it."""
        message, descriptors = receive(self._pair, 1)
        if not descriptors:
            return  # the host has gone, and with it the runner
        self._control = _socket.socket(fileno=descriptors[0])
        self._limits: dict[str, int] = marshal.loads(message)
        self._look_at = time.monotonic() + LOOK_SECONDS
        wake = self._wake_on_child()
        watched = select.poll()
        for descriptor in (self._control.fileno(), self._host, self._pair.fileno(), wake):
            watched.register(descriptor, select.POLLIN)
        while self._reap():
            self._look()
            for descriptor, _ in watched.poll(LOOK_SECONDS * 1000):
                self._react(descriptor, watched, wake)
        self._read_refusal()
        self._report("ended", self._account())

    def rehearse(self) -> None:
        """Goes through what a call will need, without effect, for the same reason as `Runner.rehearse`."""
        self._limits = {"memory": 1 << 60, "processes": 1 << 30, "grace": 0}
        self._control, other = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._reap()
        self._look()
        self._report("ended", self._account())
        marshal.loads(receive(other, 1)[0])
        other.close()
        # The runner may have taken its call, and have ended, by now: what was reported of it reached nobody.
        self._reported = self._survivors = False

    def _wake_on_child(self) -> int:
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return reading

    def _react(self, descriptor: int, watched: select.poll, wake: int) -> None:
        if descriptor == wake:
            os.read(wake, 4096)
        elif descriptor == self._pair.fileno():
            watched.unregister(descriptor)
            self._read_refusal()
        elif descriptor == self._control.fileno() and self._order() == b"T":
            self._end("", 0.001 * self._limits["grace"])
        else:
            self._end("", 0)

    def _order(self) -> bytes:
        """What the host says. The pipe that may come with it is held until this process ends."""
        try:
            return receive(self._control, 1)[0]
        except OSError:
            return b""

    def _read_refusal(self) -> None:
        """What the runner says if it cannot become the executable; nothing where it has."""
        try:
            refusal = self._pair.recv(MOST_MESSAGE_BYTES, _socket.MSG_DONTWAIT)
        except OSError:
            return
        if refusal:
            self._report("failed", marshal.loads(refusal))

    def _end(self, why: str, grace: float) -> None:
        """TERM now and KILL after the grace; without one, KILL at once."""
        self._why = why or self._why
        if grace and self._kill_at is None:
            self._kill_at = time.monotonic() + grace
            self._send(signal.SIGTERM)
        elif not grace:
            self._kill_at = 0

    def _send(self, number: int) -> None:
        if self._in_room:
            try:
                os.kill(-1, number)
            except ProcessLookupError:
                pass  # nobody is left
        elif number == signal.SIGKILL:
            tree.end_descendants(os.getpid(), self._proc)
        else:
            tree.send(number, tree.descendants(os.getpid(), self._proc))

    def _look(self) -> None:
        """Ends the tree where its time is up, or where it holds more than it may."""
        now = time.monotonic()
        if self._kill_at is None and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._weigh()
        if self._kill_at is not None and now >= self._kill_at:
            self._send(signal.SIGKILL)

    def _weigh(self) -> None:
        below = self._below()
        held = tree.memory(below, self._proc, self._limits["memory"]) + self._scratch()
        self._peak = max(self._peak, held)
        if held > self._limits["memory"]:
            self._end("memory", 0)
        elif len(below) > self._limits["processes"]:
            self._end("processes", 0)

    def _below(self) -> list[int]:
        if self._in_room:
            return [int(name) for name in os.listdir(self._proc) if name.isdigit() and name != "1"]
        return tree.likely_descendants(os.getpid(), self._proc)

    def _scratch(self) -> int:
        """What lies in the room's scratch file system is memory too."""
        if not self._in_room:
            return 0
        used = os.statvfs(self._disk)
        return (used.f_blocks - used.f_bfree) * used.f_frsize

    def _reap(self) -> bool:
        """Reaps the children that have ended; False when none is left."""
        while True:
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not process:
                self._report_survivors()
                return True
            self._cpu += usage.ru_utime + usage.ru_stime
            if process == self._runner:
                self._status = status
                self._peak = max(self._peak, usage.ru_maxrss * 1024)

    def _report_survivors(self) -> None:
        """The executable has ended and left others behind: the host says how long they may go on."""
        if self._status is not None and not self._reported:
            self._reported = self._survivors = True
            self._report("exited", self._account())

    def _account(self) -> dict[str, Any]:
        return {
            "status": self._status,
            "why": self._why,
            "cpu": self._cpu,
            "peak": self._peak,
            "survivors": self._survivors,
        }

    def _report(self, kind: str, values: dict[str, Any]) -> None:
        try:
            self._control.send(marshal.dumps((kind, values)), _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)
        except OSError:
            pass  # the host no longer listens, so the call is to end


def receive(socket: _socket.socket, most: int) -> tuple[bytes, list[int]]:
    """The next message and the descriptors that came with it."""
    space = _socket.CMSG_SPACE(4 * most)
    data, ancillary, _, _ = socket.recvmsg(1 << 18, space, _socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, content in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptors += memoryview(content).cast("i")[: len(content) // 4].tolist()
    return data, descriptors


def pass_on(socket: _socket.socket, data: bytes, descriptor: int) -> None:
    """Sends a message together with a descriptor."""
    rights = descriptor.to_bytes(4, "little")
    socket.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
