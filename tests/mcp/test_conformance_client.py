"""Our client against the official conformance suite: what both eras of the protocol require of one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.mcp.node import node_modules, node_program

REPOSITORY = Path(__file__).resolve().parents[2]
CLIENT = Path(__file__).with_name("conformance_client.py")
BASELINE = Path(__file__).with_name("conformance_client_baseline.yml")
REQUIRED = {"2025-11-25": 18, "2026-07-28": 32}
"""How many scenarios a revision requires of a client."""
REFUSED = {
    "auth/scope-retry-limit",
    "auth/resource-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
}
"""Scenarios whose server must not be used."""
LISTED_ONLY = {"json-schema-ref-no-deref": "Method not found"}
"""Scenarios whose server lists a tool and knows no calls, with what it says to one."""

pytestmark = pytest.mark.long


def required_scenarios(revision: str) -> list[str]:
    package = node_modules() / "@modelcontextprotocol" / "conformance"
    document = yaml.safe_load((package / "requirements" / f"{revision}.yaml").read_text("utf-8"))
    return list(document["client"])


def conformance(tmp_path: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Runs the suite against our client, with a home of its own; results are in `tmp_path / "results"`."""
    places = {name: str(tmp_path / name) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    command = ("--command", f"{sys.executable} {CLIENT}", "--timeout", "120000")
    return subprocess.run(
        node_program(
            "conformance", "client", *arguments, *command, "--output-dir", str(tmp_path / "results")
        ),
        cwd=tmp_path,
        env={**os.environ, **places, "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=560,
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("revision", REQUIRED)
def test_the_client_does_all_that_a_revision_requires(revision: str, tmp_path: Path) -> None:
    done = conformance(tmp_path, "--requirements", revision, "--expected-failures", str(BASELINE))
    summary = done.stdout[done.stdout.find("=== SUITE SUMMARY") :] or done.stdout[-5000:]
    assert done.returncode == 0, summary + done.stderr[-3000:]
    required = required_scenarios(revision)
    assert len(required) == REQUIRED[revision]
    ended = {name: last_word(tmp_path / "results", name) for name in required}
    for name in LISTED_ONLY.keys() & ended.keys():
        assert LISTED_ONLY[name] in ended.pop(name)
    assert {name: words for name, words in ended.items() if words != "done" and name not in REFUSED} == {}
    assert {name for name, words in ended.items() if words == "done" and name in REFUSED} == set()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("revision", REQUIRED)
def test_a_person_may_take_their_time_to_sign_in(revision: str, tmp_path: Path) -> None:
    """Longer than the limits of the handshake, which are for programs."""
    scenario = "auth/metadata-default"
    asked = ("--scenario", scenario, "--spec-version", revision)
    done = conformance(tmp_path, *asked, STRANDS_TEST_SIGN_IN_SECONDS="15")
    assert last_word(tmp_path / "results", scenario) == "done", done.stdout[-3000:] + done.stderr[-3000:]
    assert done.returncode == 0


def last_word(results: Path, scenario: str) -> str:
    """What our client said at the end of a scenario."""
    place = results / scenario
    (found,) = place.parent.glob(f"{place.name}-20*/stdout.txt")
    return found.read_text("utf-8").strip()


def test_the_baseline_excuses_nothing_that_is_required() -> None:
    excused = {entry.split(":")[0] for entry in yaml.safe_load(BASELINE.read_text("utf-8"))["client"]}
    for revision in REQUIRED:
        assert excused & {*required_scenarios(revision)} == set()
