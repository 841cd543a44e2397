"""The host that attacks are run against: a program of its own, so that it may be brought down.

    python -m tests.sandbox.attacked_host RUN.json SECRET

Calls `python_exec` with the code of each attack and looks for traces. Writes a line before each attack and one
after it, so that whoever started it knows which attack it did not survive.
"""

import asyncio
import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from strands_cli import ToolFailed, call_tool
from strands_cli.sandbox.python_code import python_level
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.tools import get_registry
from tests.sandbox.attacks import CORPUS
from tests.sandbox.attacks.prelude import with_prelude
from tests.sandbox.attacks.records import Attack
from tests.sandbox.canaries import ENVIRONMENT_NAME, FORGERY, Canaries
from tests.sandbox.targets import target

LATE_SECONDS = 2.0
"""How long after its limit an answer may come, and how long the event loop may stand still, on a busy machine."""
MAX_GROWTH = 200 << 20
MAX_ANSWER = 3_000_000
_GONE_SECONDS = 1.5
_TOGETHER = 4
_PROBE = "sum(range(10)) * 1000 + 234"
_PROBE_ANSWER = "45234"


Processes = dict[int, tuple[int, str]]
"""By process id: the parent and the name."""
PERMITTED = ("layered", "python_exec", "echo")


async def _permit(tool: Tool, _arguments: dict[str, Any]) -> None:
    if tool.id not in PERMITTED:
        raise ToolFailed(f"{tool.id} is not permitted", code="denied")


class Heart:
    """Measures how long the event loop stands still."""

    def __init__(self) -> None:
        self.beats: list[tuple[float, float]] = []

    async def beat(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.02)
            now = time.monotonic()
            self.beats.append((now, now - before - 0.02))

    def longest_since(self, since: float) -> float:
        return max((pause for at, pause in self.beats if at >= since), default=0.0)


class AttackedHost:
    def __init__(self, run: dict[str, Any], secrets: dict[str, str]) -> None:
        self._journal = Path(run["journal"])
        self._tool = target(run["target"])
        self._is_shipped = run["target"] is None
        self._canaries = Canaries(Path(run["place"]), secrets)
        wanted = set(run["attacks"])
        self._attacks = [attack for attack in CORPUS if attack.name in wanted]
        self._heart = Heart()
        # All that an attack answers is looked at, and of the tools that code may call a run permits these.
        self._context = CallContext(max_output=0, resolve=get_registry().load, permit=_permit)
        self._calls = 0
        self._own_output = Path(run["output"])

    async def run(self) -> None:
        beating = asyncio.create_task(self._heart.beat())
        if not await self._probe():
            raise RuntimeError("the sandbox does not even answer an honest call")
        if self._is_shipped:
            self._write({"level": (await python_level()).name})
        before = descendants()
        gate = asyncio.Semaphore(_TOGETHER)

        async def gated(attack: Attack) -> list[str]:
            async with gate:
                return await self._try(attack)

        together = [attack for attack in self._attacks if not attack.alone]
        found = await asyncio.gather(*map(gated, together))
        # What may be a neighbour's doing, or that of a busy machine, is tried again alone.
        for attack, traces in zip(together, found, strict=True):
            if any(trace.startswith("host") for trace in traces):
                self._write({"name": attack.name, "again": True})
                await self._try(attack)
        named = {attack.input["session"] for attack in together if "session" in attack.input}
        sessions = len(named) + sum(bool(attack.before) for attack in together)
        left = await self._left_behind(before, sessions)
        for attack in self._attacks:
            if attack.alone:
                await self._try(attack)
        self._write({"left": left, "answers_as_before": await self._probe()})
        beating.cancel()

    def _write(self, line: dict[str, Any]) -> None:
        with self._journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(line) + "\n")

    async def _try(self, attack: Attack) -> list[str]:
        self._write({"name": attack.name, "started": True})
        self._canaries.prepare(attack)
        memory, processes = resident(), descendants()
        victim = f"victim-{self._calls}"
        if attack.before:
            hidden = {"HIDDEN": self._canaries.secrets["session"]}
            laid = await self._call(with_prelude(attack.before, hidden), session=victim)
            assert laid["status"] == "success", laid
        since = time.monotonic()
        beside = asyncio.create_task(self._call(attack.beside, timeout=4)) if attack.beside else None
        if beside:
            await asyncio.sleep(0.1)
        begun = time.monotonic()
        code = with_prelude(attack.code, self._canaries.given(attack))
        answer = await self._call(code, timeout=attack.seconds, **attack.input)
        took = time.monotonic() - begun
        witnesses = [await beside] if beside else []
        if attack.after:
            witnesses.append(await self._call(attack.after, **({"session": victim} if attack.before else {})))
        traces = self._canaries.traces(attack, json.dumps(answer, ensure_ascii=False))
        traces += self._forged(attack, answer, witnesses)
        traces += self._slowed(attack, answer, took, since, memory)
        if attack.alone and not own_children(processes) <= own_children(descendants()):
            traces.append("host: the process that all calls come from has ended")
        elif attack.alone:
            traces += [f"alive: {left}" for left in await self._left_behind(processes)]
        if not await self._probe():
            traces.append("host: the next call is not answered as it should be")
        self._write({"name": attack.name, "traces": traces, "took": round(took, 3), "answer": _short(answer)})
        return traces

    async def _call(self, code: str, **more: object) -> dict[str, Any]:
        self._calls += 1
        call = {"toolUseId": f"call-{self._calls}", "input": {"code": code, **more}}
        answer: Any = await asyncio.wait_for(call_tool(self._tool, call, self._context), 60)
        return {**answer, "asked": call["toolUseId"]}

    async def _left_behind(self, before: Processes, allowed: int = 0) -> list[str]:
        """The processes that were not there before and do not go away; as many as allowed may stay.

        A process that waits for the next call is used up by a probe and replaced, so it is not among them.
        What is found is ended, so that it is nobody else's fault.
        """
        until = time.monotonic() + _GONE_SECONDS
        now = descendants()
        stays = set(now) - set(before)
        while len(stays) > allowed:
            if time.monotonic() > until:
                for pid in stays:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                # Else the next attack is blamed for their end.
                while stays & set(descendants()):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)
                return [f"{pid} {now[pid][1]}" for pid in sorted(stays)]
            await self._probe()
            await asyncio.sleep(0.05)
            stays &= set(descendants())
        return []

    async def _probe(self) -> bool:
        answer = await self._call(_PROBE, timeout=10)
        return answer["status"] == "success" and _PROBE_ANSWER in json.dumps(answer)

    def _forged(self, attack: Attack, answer: dict[str, Any], witnesses: list[dict[str, Any]]) -> list[str]:
        found = []
        if answer["toolUseId"] != answer["asked"] or set(answer) != {
            "toolUseId",
            "status",
            "content",
            "asked",
        }:
            found.append("forged: the answer's shape or id")
        if any(set(block) not in ({"text"}, {"json"}) for block in answer["content"]):
            found.append("forged: a block of another kind")
        if "the honest end" in attack.code and answer["status"] == "success":
            found.append("forged: a success, though the code failed")
        if names := [name for name in files_in(answer) if name.startswith("/") or ".." in name.split("/")]:
            found.append(f"forged: files with names that lead elsewhere: {names}")
        for witness in witnesses:
            text = json.dumps(witness)
            if "untouched" not in text or FORGERY in text:
                found.append(f"forged: a neighbour was touched: {_short(witness)}")
        return found

    def _slowed(
        self, attack: Attack, answer: dict[str, Any], took: float, since: float, memory: int
    ) -> list[str]:
        found = []
        if took > attack.seconds + LATE_SECONDS:
            found.append(f"host: answered after {took:.1f} s, its limit was {attack.seconds} s")
        if (pause := self._heart.longest_since(since)) > LATE_SECONDS:
            found.append(f"host: its event loop stood still for {pause:.1f} s")
        if (grown := resident() - memory) > MAX_GROWTH:
            found.append(f"host: it has grown by {grown >> 20} MB")
        if (size := len(json.dumps(answer))) > MAX_ANSWER:
            found.append(f"host: the answer has {size} bytes")
        if attack.name in self._own_output.read_text(errors="replace"):
            found.append("contact: the host's own output")
        return found


def _short(answer: dict[str, Any]) -> str:
    text = json.dumps({"status": answer["status"], "content": answer["content"]}, ensure_ascii=True)
    return text if len(text) < 600 else f"{text[:400]} … {text[-150:]}"


def files_in(answer: dict[str, Any]) -> list[str]:
    """The names of the files that the answer says were written."""
    told = [block["json"] for block in answer["content"] if isinstance(block.get("json"), dict)]
    files = [item["files"] for item in told if item.get("files")]
    return [item["name"] if isinstance(item, dict) else str(item) for group in files for item in group]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def descendants() -> Processes:
    """Every process that comes from this one; orphans included, since we are their reaper."""
    running: Processes = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                head, _, tail = (entry / "stat").read_text().rpartition(")")
                state, parent = tail.split()[:2]
                if state not in "ZX":
                    running[int(entry.name)] = int(parent), head.partition("(")[2]
    found: Processes = {}
    todo = {os.getpid()}
    while todo:
        todo = {pid for pid, (parent, _) in running.items() if parent in todo and pid not in found}
        found.update((pid, running[pid]) for pid in todo)
    return found


def own_children(processes: Processes) -> set[int]:
    return {pid for pid, (parent, _) in processes.items() if parent == os.getpid()}


def raise_loopback() -> None:
    """In a network namespace of its own the loopback device is down until somebody raises it."""
    with suppress(OSError), socket.socket() as any_socket:
        request = struct.pack("16sH14x", b"lo", 0x41)
        fcntl.ioctl(any_socket, 0x8914, request)


def main() -> None:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans below us become our children
    raise_loopback()
    run = json.loads(Path(sys.argv[1]).read_text())
    secrets = {"environment": os.environ[ENVIRONMENT_NAME], "arguments": sys.argv[2], "input": run["input"]}
    os.chdir(run["place"])
    asyncio.run(AttackedHost(run, secrets).run())


if __name__ == "__main__":
    main()
