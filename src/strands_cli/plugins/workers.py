"""Workers: executables that stay, and answer many calls. One line of JSON per message, on both sides.

To the worker: `{"id": "1", "key": "…", "input": {…}}`, and `{"cancel": "1"}` when nobody waits any more.
From it: `{"id": "1", "progress": …}` any number of times, then `{"id": "1", "result": …}` or
`{"id": "1", "error": …}`. Answers may come in any order.
"""

import asyncio
import itertools
import json
import logging
import os
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from strands_cli.errors import ToolFailed
from strands_cli.plugins.executable_output import code_of, ending_text, parsed, refuse_error, structured, tail
from strands_cli.plugins.processes import Key, Launch
from strands_cli.sandbox.confined_executable import Confined
from strands_cli.sandbox.executables import GRACE_SECONDS
from strands_cli.sandbox.pumps import Intake
from strands_cli.sandbox.spawner_handle import SpawnerLost
from strands_cli.secrets import Redactor

IDLE_SECONDS = 300.0
_STDERR_BYTES = 64_000
_CHUNK = 65536

OnProgress = Callable[[Any], object]

_log = logging.getLogger(__name__)


class _Pending:
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
    """One process, and the calls that wait for it."""

    def __init__(self, tool_id: str, confined: Confined, redactor: Redactor, idle_seconds: float) -> None:
        self._id = tool_id
        self._confined = confined
        self._redactor = redactor
        self._idle_seconds = idle_seconds
        self._pending: dict[str, _Pending] = {}
        self._numbers = itertools.count(1)
        self._last_used = time.monotonic()
        self._refusal = ""
        self.is_over = False
        self._reader = _LineReader(
            confined.stdout, confined.profile.output_bytes, self._receive, lambda: confined.kill("output")
        )
        self._writer = _LineWriter(confined.stdin)
        self._stderr = Intake(confined.stderr, _STDERR_BYTES, keep_last=True, on_data=lambda _: None)
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
        pending = self._pending[number] = _Pending(on_progress)
        self._send({"id": number, "key": key, "input": arguments})
        try:
            await self._wait(pending, time.monotonic() + seconds, idle_seconds)
        finally:
            self._last_used = time.monotonic()
            if not pending.answer.done():
                self._give_up(number, pending)
        answer = pending.answer.result()
        if isinstance(answer, ToolFailed):
            raise answer
        if "error" in answer:
            refuse_error(self._redactor.value({"success": False, "error": answer["error"]}))
        return structured(answer["result"], self._redactor)

    async def settled(self) -> None:
        """Returns when it works on no call that nobody waits for: it gave that up, or was ended for it."""
        late = [pending.answer for pending in self._pending.values() if pending.is_abandoned]
        if late:
            await asyncio.wait(late)

    async def _wait(self, pending: _Pending, deadline: float, idle_seconds: float | None) -> None:
        """Returns when there is an answer; ToolFailed (`timeout`) where there is none in time."""
        while not pending.answer.done():
            now = time.monotonic()
            until = min(deadline, pending.last_heard + idle_seconds) if idle_seconds else deadline
            if now >= until:
                what = "did not answer in time" if until == deadline else "said nothing for too long"
                raise ToolFailed(f"{self._id} {what}", code="timeout")
            await asyncio.wait([pending.answer], timeout=until - now)

    def _give_up(self, number: str, pending: _Pending) -> None:
        """Cancels a call that nobody waits for; the worker is ended if it goes on all the same."""
        pending.is_abandoned = True
        self._send({"cancel": number})
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end_unless_answered, number)

    def _end_unless_answered(self, number: str) -> None:
        if number in self._pending:
            self._refusal = "was ended, since it went on with a call that was cancelled or too late"
            self._confined.kill()

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    def _receive(self, line: bytes) -> None:
        """One line of the worker's. What is not a message of the protocol is noise, and only logged."""
        text = line.decode("utf-8", "replace")
        try:
            message = parsed(text)
        except ValueError:
            message = None
        pending = self._pending.get(str(message.get("id"))) if isinstance(message, dict) else None
        if pending is None or not isinstance(message, dict):
            _log.debug("%s printed what answers no call: %.200s", self._id, self._redactor.text(text))
        elif "result" in message or "error" in message:
            del self._pending[str(message["id"])]
            pending.settle(message)
        elif "progress" in message and not pending.is_abandoned:
            pending.last_heard = time.monotonic()
            pending.on_progress(message["progress"])

    async def _live(self) -> None:
        """Until the process ends, has been idle for too long, or the loop ends."""
        failed = ToolFailed(f"{self._id} was ended", code="cancelled")
        exited = asyncio.ensure_future(self._confined.exited())
        try:
            while not exited.done() and not self._is_idle():
                await asyncio.wait([exited], timeout=self._idle_seconds)
            if exited.done():
                self._reader.drain()
                failed = await self._failure()
        finally:
            exited.cancel()
            self._close(failed)

    def _is_idle(self) -> bool:
        return not self._pending and time.monotonic() >= self._last_used + self._idle_seconds

    async def _failure(self) -> ToolFailed:
        """How the calls that waited fail when their worker has ended."""
        self._confined.kill("exited")
        ending = await self._confined.wait()
        self._stderr.drain()
        how = self._refusal or ending_text(ending)
        errors = tail(self._stderr.data, self._redactor)
        code = "crashed" if ending.why == "exited" else code_of(ending)
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
                confined = await _started(launch)
                worker = self._running[launch.key] = Worker(tool_id, confined, redactor, self._idle_seconds)
            return worker


async def _started(launch: Launch) -> Confined:
    for may_retry in (True, False):
        try:
            return await launch.start()
        except SpawnerLost as lost:
            if not may_retry:
                raise ToolFailed(f"{launch.argv[0]} cannot be started: {lost}", code="unavailable") from lost
    raise AssertionError("the second attempt answers")


_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, Workers]" = WeakKeyDictionary()


def workers() -> Workers:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    if loop not in _of_loops:
        _of_loops[loop] = Workers()
    return _of_loops[loop]


# --- Lines to and from a process. Nothing here waits for the other side. ---------------------------------


class _LineReader:
    """Calls `on_line` with each line of a pipe, and `on_flood` where one is longer than `most` bytes."""

    def __init__(
        self, descriptor: int, most: int, on_line: Callable[[bytes], object], on_flood: Callable[[], object]
    ) -> None:
        self._descriptor = descriptor
        self._most = most
        self._on_line = on_line
        self._on_flood = on_flood
        self._begun = bytearray()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def drain(self) -> None:
        """Takes what is there now."""
        while self._read():
            pass

    def stop(self) -> None:
        self._loop.remove_reader(self._descriptor)

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.stop()
            return False
        *lines, rest = (bytes(self._begun) + data).split(b"\n") if b"\n" in data else (data,)
        if lines:
            self._begun.clear()
        for line in lines:
            if line.strip():
                self._on_line(line)
        self._begun += rest
        if len(self._begun) > self._most:
            self._begun.clear()
            self._on_flood()
        return True


class _LineWriter:
    """Writes what it is given as fast as it is read on the other side."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)

    def write(self, data: bytes) -> None:
        waits = bool(self._unsent)
        self._unsent += data
        if not waits:
            self._send()

    def stop(self) -> None:
        self._loop.remove_writer(self._descriptor)
        self._unsent.clear()

    def _send(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._descriptor, self._unsent[:_CHUNK])]
        except BlockingIOError:
            self._loop.add_writer(self._descriptor, self._send)
            return
        except OSError:
            pass  # it closed its input, or has ended, as will be seen
        self.stop()
