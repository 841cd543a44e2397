"""Runs the corpus against a host in a process of its own, and tells what came of each attack."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sandbox.attacks.records import Attack
from tests.sandbox.canaries import ENVIRONMENT_NAME, new_secret
from tests.sandbox.targets import Target

REPOSITORY = Path(__file__).resolve().parents[2]
NOBODY = 65534
_ADDRESS_SPACE = 6 << 30
"""What the host and everything below it may map: a bound for the machine's sake, far above the sandbox's own."""
_FILE_SIZE = 64 << 20


@dataclass
class Report:
    """What one run came to."""

    escapes: dict[str, list[str]] = field(default_factory=dict)
    """The attacks that worked, with their traces."""
    answers: dict[str, str] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    """Attacks that were begun and never came to an end: the host did not survive them."""
    left: list[str] = field(default_factory=list)
    """Processes that nobody can be blamed for."""
    is_up: bool = False
    """Whether the host went through all of it and answers as before."""
    level: str = ""
    """What the sandbox as it ships says about its own strength."""
    seconds: float = 0.0
    output: str = ""

    @property
    def stopped(self) -> set[str]:
        return set(self.answers) - set(self.escapes)

    def __str__(self) -> str:
        lines = [
            f"{len(self.answers)} attacks in {self.seconds:.1f} s, {len(self.escapes)} worked {self.level}"
        ]
        lines += [
            f"  {name}: {traces} <- {self.answers[name][:160]}" for name, traces in self.escapes.items()
        ]
        if self.unanswered or self.left or not self.is_up:
            lines.append(f"  unanswered {self.unanswered}, left {self.left}, host up: {self.is_up}")
            lines.append(self.output[-3000:])
        return "\n".join(lines)


@dataclass(frozen=True)
class Interpreter:
    """A Python that can run the host, and as whom."""

    executable: str = sys.executable
    path: str = str(REPOSITORY)
    """What is importable besides its own packages."""
    user: int | None = None
    """The user that the host runs as, where that is not ours."""


def attack_host(
    attacks: Iterable[Attack],
    target: Target = None,
    *,
    seconds: float = 110.0,
    thrown_away: bool = False,
    interpreter: Interpreter | None = None,
) -> Report:
    """Starts a host, has it attacked, and reads its journal. `thrown_away`: in a network of its own too."""
    interpreter = interpreter or Interpreter()
    # Short and directly below: a path of a UNIX socket has 107 characters at most.
    place = Path(tempfile.mkdtemp(prefix="attacked-"))
    try:
        run = _lay_out(place, attacks, target, interpreter.user)
        started = time.monotonic()
        _run_host(place, run, interpreter, seconds, thrown_away)
        report = _read(Path(run["journal"]))
        report.seconds = time.monotonic() - started
        report.output = Path(run["output"]).read_text(errors="replace")
        return report
    finally:
        shutil.rmtree(place)


def _lay_out(place: Path, attacks: Iterable[Attack], target: Target, user: int | None) -> dict[str, Any]:
    place.chmod(0o755)
    for folder, mode in (("canary", 0o755), ("home", 0o700), ("outcome", 0o755)):
        (place / folder).mkdir()
        (place / folder).chmod(mode)
        if user is not None:
            os.chown(place / folder, user, user)
    run = {
        "place": str(place / "canary"),
        "target": target,
        "attacks": [attack.name for attack in attacks],
        "journal": str(place / "outcome" / "journal"),
        "output": str(place / "outcome" / "output"),
        "input": new_secret(),
    }
    (place / "run.json").write_text(json.dumps(run))
    return run


def _run_host(
    place: Path, run: dict[str, Any], interpreter: Interpreter, seconds: float, thrown_away: bool
) -> None:
    host = [
        interpreter.executable,
        "-m",
        "tests.sandbox.attacked_host",
        str(place / "run.json"),
        new_secret(),
    ]
    command = _outside(interpreter.user, thrown_away) + host
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(place / "home"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": interpreter.path,
        "XDG_CACHE_HOME": str(place / "outcome" / "cache"),
        ENVIRONMENT_NAME: new_secret(),
    }
    with Path(run["output"]).open("wb") as output:
        Path(run["output"]).chmod(0o666)
        child = subprocess.Popen(
            command,
            cwd=interpreter.path,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
        )
        try:
            child.communicate(run["input"].encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            output.write(f"\nthe host was ended after {seconds} s\n".encode())
        finally:
            child.kill()
            child.wait()


def _outside(user: int | None, thrown_away: bool) -> list[str]:
    """What stands between the machine and a host that falls: a PID namespace that dies with it, and limits."""
    limits = ["prlimit", f"--as={_ADDRESS_SPACE}", f"--fsize={_FILE_SIZE}"]
    if os.geteuid() != 0:
        return limits
    names = ["--pid", "--fork", "--mount", "--mount-proc", "--kill-child"]
    if thrown_away:
        names += ["--net", "--ipc", "--uts"]
    become = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    # A shell is the first process, so that the host is one like any other.
    return ["unshare", *names, *limits, *become, "sh", "-c", '"$@"; exit $?', "sh"]


def _read(journal: Path) -> Report:
    report = Report()
    begun: dict[str, None] = {}
    for line in journal.read_text().splitlines() if journal.exists() else ():
        entry = json.loads(line)
        name = entry.get("name", "")
        if "started" in entry:
            begun[name] = None
        elif "level" in entry:
            report.level = entry["level"]
        elif "again" in entry:
            report.escapes.pop(name, None)
        elif "traces" in entry:
            begun.pop(name, None)
            report.answers[name], report.took[name] = entry["answer"], entry["took"]
            if entry["traces"]:
                report.escapes[name] = entry["traces"]
        else:
            report.left, report.is_up = entry["left"], entry["answers_as_before"]
    report.unanswered = list(begun)
    return report
