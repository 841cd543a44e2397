"""The corpus against the sandbox: nothing works under all layers, much works under none, each layer does its part."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from strands_cli.sandbox.profile import ALL_LAYERS
from tests.sandbox.attacks import CORPUS
from tests.sandbox.attacks.records import PROCESS, UID, Attack, Layer, Oracle
from tests.sandbox.harness import Report, attack_host
from tests.sandbox.ordinary_user import missing, ordinary_user

LEAST_ATTACKS = 100
LEAST_WITHOUT_LAYERS = 40
AT_ALL: tuple[Layer, ...] = ("seccomp", "landlock", "namespaces", "rlimits", "uid")
CONFINED = ("full", "seccomp+landlock", "seccomp")
"""The levels at which the kernel holds a process of its own; at another one there is nothing to attack."""
BY_NAME = {attack.name: attack for attack in CORPUS}

IN_THE_HOST = (
    "object walk: every object that the collector knows",
    "object walk: the globals of every module",
    "frames: of all threads",
    "ctypes: a read of address 0",
    "ctypes: the environment of the C library",
    "bytecode: a constant that does not exist",
    "exit: os._exit",
    "exit: os.abort",
    "environment: os.environ",
    "environment: posix.environ",
    "environment: /proc/self/environ",
    "environment: of a child",
    "environment: arguments of the interpreter",
    "descriptor: all that were inherited, read",
    "descriptor: all that were inherited, written",
    "descriptor: all closed",
    "signal: stopped by itself",
    "signal: killed by itself",
    "processor: a sum that never lets go",
    "processor: a power",
    "stack: recursion without a limit",
    "session: builtins changed for those who come after",
    "session: the names of another",
    "session: the names of another, from a call without one",
    "session: the state of another, changed",
    "modules: all gone",
)
"""Attacks that a process of its own stops, and that work where code runs in the host."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the attacks are written for Linux")


def assert_nothing_worked(report: Report, attacks: tuple[Attack, ...]) -> None:
    assert report.is_up, str(report)
    assert not report.escapes, str(report)
    assert not report.unanswered, str(report)
    assert not report.left, str(report)
    assert set(report.answers) == {attack.name for attack in attacks}


def test_the_corpus_is_large_and_each_attack_says_who_stops_it() -> None:
    assert len(CORPUS) >= LEAST_ATTACKS
    assert len(BY_NAME) == len(CORPUS), "two attacks have the same name"
    assert {layer for attack in CORPUS for layer in attack.layers} == {PROCESS, *ALL_LAYERS}
    assert {attack.oracle for attack in CORPUS} == set(Oracle)
    assert all(attack.layers for attack in CORPUS)
    for attack in CORPUS:
        compile(attack.code, attack.name, "exec")


@pytest.mark.timeout(120)  # half a minute where nothing else runs
def test_no_attack_works_and_the_host_stays_up() -> None:
    report = attack_host(CORPUS)
    print(report)
    assert report.level in CONFINED, str(report)
    assert_nothing_worked(report, CORPUS)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_no_attack_works_for_an_ordinary_user() -> None:
    with TemporaryDirectory(prefix="ordinary-") as place:  # pytest's own are for the user's eyes only
        report = attack_host(CORPUS, seconds=150, interpreter=ordinary_user(Path(place)))
    print(report)
    assert report.level in CONFINED, str(report)
    assert_nothing_worked(report, CORPUS)


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("layer", AT_ALL)
def test_a_layer_alone_stops_the_attacks_that_are_its_own(layer: Layer) -> None:
    if layer == UID and os.geteuid() != 0:
        missing("to be root: an ordinary user has nobody to become")
    own = tuple(attack for attack in CORPUS if layer in attack.layers)
    report = attack_host(own, [layer], seconds=150)
    print(layer, report)
    assert_nothing_worked(report, own)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_without_layers_many_attacks_work_and_a_process_of_its_own_still_stops_its_part() -> None:
    require_namespaces()
    left_out = [attack for attack in CORPUS if attack.harmful]
    tried = [attack for attack in CORPUS if not attack.harmful]
    # Apart, since a signal of an attack that works may arrive during the next one.
    stopped = attack_host([attack for attack in tried if PROCESS in attack.layers], [], thrown_away=True)
    report = attack_host([attack for attack in tried if PROCESS not in attack.layers], [], thrown_away=True)
    print(report)
    print("Left out, since they would harm the machine:")
    print(*(f"  {attack.name}: {attack.harmful}" for attack in left_out), sep="\n")
    worked = [BY_NAME[name] for name in report.escapes]
    print(Counter(attack.oracle.name for attack in worked))
    assert len(worked) >= LEAST_WITHOUT_LAYERS, str(report)
    assert {attack.oracle for attack in worked} >= set(Oracle) - {Oracle.FORGED}, "an oracle never fired"
    assert stopped.is_up, str(stopped)
    assert not stopped.escapes, str(stopped)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_what_a_process_of_its_own_stops_works_where_code_runs_in_the_host() -> None:
    require_namespaces()
    seen: dict[str, list[str]] = {}
    for name in IN_THE_HOST:
        assert PROCESS in BY_NAME[name].layers
        report = attack_host([BY_NAME[name]], "exec", seconds=8, thrown_away=True)
        seen[name] = report.escapes.get(name) or (["the host went down"] if name in report.unanswered else [])
    print(*(f"{name}: {traces}" for name, traces in seen.items()), sep="\n")
    assert [name for name, traces in seen.items() if not traces] == []
    assert any("forged" in trace for traces in seen.values() for trace in traces)


def require_namespaces() -> None:
    """Code that nothing confines runs where it can be thrown away, or not at all."""
    command = ["unshare", "--pid", "--fork", "--net", "--mount", "--mount-proc", "true"]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        missing("root, and unshare of util-linux, for a PID and a network namespace to throw away")
