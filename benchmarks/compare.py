"""`make bench`: ours against the peers, one table, which becomes `docs/reference/benchmarks.md`.

Each peer has an environment of its own below `.bench/`, with the versions of `peers/with_NAME.txt`, and a
process that measures a row when it is asked to. Every round asks all of them in turn, and medians are
compared, so that a busy machine disturbs all alike. `--quick` has fewer rounds and does not write the page.
"""

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from measuring import PYTHON, STRANDS, child_cpu, environment

ROOT = Path(__file__).parents[1]
PEERS = Path(__file__).parent / "peers"
ENVIRONMENTS = ROOT / ".bench"
PAGE = ROOT / "docs" / "reference" / "benchmarks.md"


@dataclass
class Peer:
    title: str
    script: str
    packages: tuple[str, ...] = ()
    """Those that people install; the rest of its environment are their dependencies."""
    imports: str = ""
    command: str = ""
    argument: str = ""
    problem: str = ""
    """Why it could not be installed or started."""
    process: Any = None
    figures: dict[str, float | None] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        return self.script in ("nothing", "strands_cli")

    @property
    def bin(self) -> Path:
        return Path(PYTHON).parent if self.is_ours else ENVIRONMENTS / self.script / "bin"

    @property
    def requirements(self) -> Path:
        return PEERS / f"with_{self.script}.txt"


FLOOR = Peer("floor", "nothing", imports="pass")
OURS = Peer("strands-cli", "strands_cli", imports="from strands_cli import run, tool", command="strands")
ALL = (
    FLOOR,
    OURS,
    Peer("strands-cli tools in an SDK agent", "strands_cli", argument="agent"),
    Peer("strands-agents", "strands_agents", ("strands-agents",), "import strands"),
    Peer("pydantic-ai", "pydantic_ai", ("pydantic-ai-slim",), "import pydantic_ai"),
    Peer("openai-agents", "openai_agents", ("openai-agents",), "import agents"),
    Peer("langgraph", "langgraph", ("langchain", "langgraph"), "from langchain.agents import create_agent"),
    Peer("smolagents", "smolagents", ("smolagents",), "import smolagents", "smolagent"),
    Peer("llm", "llm", ("llm",), "import llm", "llm"),
    Peer("fastmcp", "fastmcp", ("fastmcp",), "import fastmcp", "fastmcp"),
    Peer("mcp", "mcp", ("mcp",), "from mcp.server.mcpserver import MCPServer", "mcp"),
)

ROWS = {
    "schema": "schema of a small function, µs",
    "nested": "schema of a nested pydantic model, µs",
    "call": "validated call, sync, µs",
    "async call": "validated call, async, µs",
    "calls": "one turn of 200 calls, µs per call",
    "turns": "200 turns of one call, µs per turn",
    "async naps": "100 async tools of 50 ms, ms of wall time",
    "naps": "100 sync tools of 50 ms, ms of wall time",
    "import": "import, ms",
    "start": "`--help` of the command line, ms",
    "dependencies": "packages that are installed with it",
}
MEASURED_BY_PEER = tuple(ROWS)[:8]
WARMED_UP = frozenset({"schema", "nested", "call", "async call", "calls", "async naps"})
ROUNDS = dict.fromkeys(ROWS, 9) | {"turns": 3, "naps": 5, "import": 5, "start": 5, "dependencies": 1}
QUICK_ROUNDS = dict.fromkeys(ROWS, 2) | {"turns": 1, "import": 1, "start": 1, "dependencies": 1}


# --- environments -----------------------------------------------------------------------------------------


def install(peer: Peer) -> None:
    """Makes the peer's environment, unless it is there already; notes the problem if that fails."""
    done, wanted = ENVIRONMENTS / peer.script / ".installed", peer.requirements.read_text()
    if done.is_file() and done.read_text() == wanted:
        return
    print(f"Installing {peer.title} ...", file=sys.stderr, flush=True)
    directory = ENVIRONMENTS / peer.script
    shutil.rmtree(directory, ignore_errors=True)
    beside = Path(PYTHON).with_name("uv")
    uv = str(beside) if beside.is_file() else shutil.which("uv")
    python, packages = str(peer.bin / "python"), ["-r", str(peer.requirements)]
    commands = [
        [PYTHON, "-m", "venv", str(directory)],
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", *packages],
    ]
    if uv is not None:
        commands = [
            [uv, "venv", "-q", "--python", PYTHON, str(directory)],
            [uv, "pip", "install", "-q", "--python", python, "--compile-bytecode", "--no-deps", *packages],
        ]
    for command in commands:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
        if ran.returncode:
            reason = (ran.stderr.strip().splitlines() or ["no reason given"])[-1]
            peer.problem = f"cannot be installed: {reason.strip().rstrip('.')}"
            return
    done.write_text(wanted)


def dependencies(peer: Peer) -> int:
    if peer.is_ours:
        return len(set(_required("strands-cli", set()))) - 1
    return len(peer.requirements.read_text().split()) - len(peer.packages)


def _required(name: str, known: set[str]) -> Iterator[str]:
    """A package, and those that it needs on this machine without any extra."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    name = canonicalize_name(name)
    if name in known:
        return
    known.add(name)
    try:
        needs = requires(name) or []
    except PackageNotFoundError:
        return
    yield name
    for need in map(Requirement, needs):
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            yield from _required(need.name, known)


# --- measuring --------------------------------------------------------------------------------------------


def start(peer: Peer) -> None:
    command = [str(peer.bin / "python"), str(PEERS / f"with_{peer.script}.py")]
    command += [peer.argument] if peer.argument else []
    pipe = subprocess.PIPE
    peer.process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment()
    )


def ask(peer: Peer, row: str) -> float | None:
    """What the peer's process measures; what else it prints is not for us."""
    try:
        peer.process.stdin.write(f"{row}\n")
        peer.process.stdin.flush()
        answer = next((line for line in peer.process.stdout if line.startswith("=")), None)
    except OSError:
        answer = None
    if answer is None:
        peer.problem = peer.problem or "its script ended before it answered"
        return None
    value = json.loads(answer[1:])
    if isinstance(value, str):
        peer.remarks[row] = value
    return float(value) if isinstance(value, float | int) else None


def measure_process(peer: Peer, row: str) -> float | None:
    """CPU time of a process that imports the peer, or shows the help of its command line."""
    command = [str(peer.bin / "python"), "-c", peer.imports]
    if row == "start":
        program = peer.bin / peer.command
        command = [STRANDS if peer is OURS else str(program), "--help"] if peer.command else []
        if peer is FLOOR:
            command = [PYTHON, "-c", "pass"]
    elif not peer.imports:
        command = []
    if not command:
        return None
    try:
        return child_cpu(command, env=environment())
    except (OSError, subprocess.CalledProcessError):
        peer.remarks[row] = "it fails as installed: its command line needs an extra"
        return None


def measure(rounds: Mapping[str, int]) -> None:
    """Fills in the figures of all peers, row by row."""
    for row in ROWS:
        taken: dict[str, list[float]] = {peer.title: [] for peer in ALL}
        if row in WARMED_UP:
            for peer in ALL:
                _sample(peer, row)
        for number in range(rounds[row]):
            print(f"{row}, round {number + 1} of {rounds[row]}", file=sys.stderr, flush=True)
            for peer in ALL:
                value = _sample(peer, row)
                taken[peer.title] += [] if value is None else [value]
        for peer in ALL:
            values = taken[peer.title]
            peer.figures[row] = statistics.median(values) if values else None


def _sample(peer: Peer, row: str) -> float | None:
    if peer.problem:
        return None
    if row in MEASURED_BY_PEER:
        return ask(peer, row)
    if row == "dependencies":
        return None if peer is FLOOR or peer.argument else dependencies(peer)
    return measure_process(peer, row)


# --- the table --------------------------------------------------------------------------------------------


def table() -> Iterator[str]:
    yield "| | " + " | ".join(peer.title for peer in ALL) + " |"
    yield "|---|" + "--:|" * len(ALL)
    for row, title in ROWS.items():
        known = [peer.figures[row] for peer in ALL if peer is not FLOOR]
        best = min((value for value in known if value is not None), default=None)
        yield f"| {title} | " + " | ".join(_cell(peer, row, best) for peer in ALL) + " |"


def _cell(peer: Peer, row: str, best: float | None) -> str:
    value = peer.figures[row]
    if value is None:
        return "–"
    text = f"{value:,.1f}" if value < 10 and row != "dependencies" else f"{value:,.0f}"
    return f"**{text}**" if value == best and peer is not FLOOR else text


def remarks() -> Iterator[str]:
    for peer in ALL:
        if peer.problem:
            yield f"- {peer.title}: {peer.problem}."
        for row, remark in peer.remarks.items():
            yield f"- {peer.title}, {_short(ROWS[row])}: {remark}."


def _short(title: str) -> str:
    """The title of a row without its unit."""
    return title.rpartition(", ")[0] or title


def faster() -> Iterator[str]:
    """Where a peer is faster than ours, and by how much."""
    for row, title in ROWS.items():
        ours = OURS.figures[row]
        ahead = [
            (peer.figures[row], peer.title)
            for peer in ALL
            if peer not in (FLOOR, OURS)
            and not peer.argument
            and (peer.figures[row] or ours or 0) < (ours or 0)
        ]
        if ours and ahead:
            names = ", ".join(f"{name} ({value / ours:.2f} ×)" for value, name in sorted(ahead) if value)
            yield f"- {_short(title)}: {names}"


def page() -> str:
    pins = [
        pin
        for peer in ALL
        for pin in (peer.requirements.read_text().split() if peer.packages else ())
        if pin.split("==")[0] in peer.packages
    ]
    values = {
        "versions": ", ".join(f"{name} {number}" for name, number in (pin.split("==") for pin in pins)),
        "ours": version("strands-cli"),
        "machine": f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "table": "\n".join(table()),
        "faster": "\n".join(faster()) or "- nowhere",
        "remarks": "\n".join(remarks()),
    }
    text = (PEERS / "page.md").read_text()
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text.rstrip() + "\n"


def main(arguments: list[str]) -> int:
    is_quick = "--quick" in arguments
    for peer in ALL:
        if not peer.is_ours:
            install(peer)
        if not peer.problem:
            start(peer)
    try:
        measure(QUICK_ROUNDS if is_quick else ROUNDS)
    finally:
        for peer in ALL:
            if peer.process is not None:
                peer.process.kill()
                peer.process.wait()
    print("\n".join([*table(), "", "Faster than strands-cli:", *faster(), "", *remarks()]))
    if not is_quick:
        PAGE.write_text(page())
        print(f"\nWritten: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
