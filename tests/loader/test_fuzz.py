"""Whatever a workflow file holds, the answer is a workflow or issues with their places, and it comes soon."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from strands_cli.capability import check_capability
from strands_cli.cli.app import COMMANDS, run_command_line
from strands_cli.errors import Issue
from strands_cli.loader import examine_workflow
from tests.fuzzing import MAX_CPU_SECONDS
from tests.mutations import EXAMPLES, mutated
from tests.projects import Project

CHUNK = 500
CHUNKS = 40
FEW = 200
"""For the tests that every run of the suite has."""
KNOWN_EXITS = {0, 3, 18}


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The examples' own neighbours (agents, skills) in a directory of their own."""
    shutil.copytree(EXAMPLES, tmp_path / "flows")
    monkeypatch.chdir(tmp_path / "flows")
    return tmp_path / "flows"


def wrongs(seeds: range, directory: Path) -> Iterator[str]:
    """What goes wrong with the files of these seeds, each with what is needed to see it again."""
    file = directory / "mutated.yaml"
    for seed in seeds:
        data = mutated(seed)
        file.write_bytes(data)
        started = time.process_time()
        try:
            problem = answer(file)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what this test looks for
            problem = f"{type(error).__name__}: {error}"
        seconds = time.process_time() - started
        if seconds > MAX_CPU_SECONDS:
            problem = f"{problem} took {seconds:.1f} s"
        if problem:
            yield f"mutated({seed}): {problem}\n{data[:3000]!r}"


def answer(file: Path) -> str:
    """What is wrong with the answer about a file; nothing where it is as it should be."""
    spec, issues = examine_workflow(file)
    if spec is None and not issues:
        return "neither a workflow nor an issue"
    if spec is not None:
        issues = [*issues, *check_capability(spec).issues]
    return next((problem for problem in map(unfit, issues) if problem), "")


def unfit(issue: Issue) -> str:
    msgspec.json.encode(issue)
    if not issue.reason or not issue.remediation:
        return f"an issue without a reason or a remedy: {issue}"
    if not issue.file or issue.line < 0 or issue.column < 0:
        return f"an issue without a place: {issue}"
    if issue.pointer and not issue.pointer.startswith("/"):
        return f"no JSON pointer: {issue}"
    return ""


def test_two_hundred_mutated_workflows_get_an_answer(surroundings: Path) -> None:
    assert [*wrongs(range(FEW), surroundings)][:5] == []


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_twenty_thousand_mutated_workflows_get_an_answer(chunk: int, surroundings: Path) -> None:
    assert [*wrongs(range(chunk * CHUNK, (chunk + 1) * CHUNK), surroundings)][:5] == []


def test_the_same_seed_gives_the_same_file() -> None:
    assert [mutated(seed) for seed in range(50)] == [mutated(seed) for seed in range(50)]


def test_the_mutations_reach_every_depth(surroundings: Path) -> None:
    """Some are not YAML, some no workflow, some a workflow with other values: not all fail at the first gate."""
    unread = invalid = valid = 0
    for seed in range(FEW):
        (surroundings / "mutated.yaml").write_bytes(mutated(seed))
        _, issues = examine_workflow(surroundings / "mutated.yaml")
        unread += bool(issues) and not issues[0].pointer
        invalid += bool(issues) and bool(issues[0].pointer)
        valid += not issues
    assert min(unread, invalid, valid) > FEW / 10, (unread, invalid, valid)


def test_mutated_workflows_never_end_the_command_with_a_bug(project: Project) -> None:
    if "validate" not in COMMANDS:
        pytest.skip("there is no command 'strands validate' yet")
    shutil.copytree(EXAMPLES, project.root / "flows")
    for seed in range(10):
        project.write("flows/mutated.yaml", mutated(seed))
        outcome = project.strands("validate", "flows/mutated.yaml", "--json")
        assert outcome.exit_code in KNOWN_EXITS, f"mutated({seed}): {outcome}"
        json.loads(outcome.out)


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [("plan",), ("explain",), *(("graph", "--format", form) for form in ("mermaid", "dot", "svg"))],
    ids=" ".join,
)
def test_mutated_workflows_never_end_the_commands_that_show_them_with_a_bug(
    command: tuple[str, ...], surroundings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if command[0] not in COMMANDS:
        pytest.skip(f"there is no command 'strands {command[0]}' yet")
    file = surroundings / "mutated.yaml"
    for seed in range(CHUNK):
        file.write_bytes(mutated(seed))
        exit_code = run_command_line([command[0], str(file), *command[1:]])
        said = capsys.readouterr().err
        assert exit_code in KNOWN_EXITS, f"mutated({seed}): {said[-1500:]}"


# --- Files that a mutation would not hit upon -------------------------------------------------------------

WORKFLOW = """\
version: 0
name: probe
runtime: {provider: ollama}
agents: {a: {prompt: x}}
pattern: {type: chain, config: {steps: [{agent: a}]}}
"""

ARTIFACT = "outputs: {artifacts: [{path: a.txt, from: '{{ branches.a.output.b }}{{ steps[0].response }}'}]}\n"


def with_line(line: str) -> str:
    key = line.partition(":")[0]
    kept = [one for one in WORKFLOW.splitlines(keepends=True) if not one.startswith(f"{key}:")]
    return "".join([*kept, line + "\n"])


HOSTILE = {
    "a reference with a null byte": with_line(r'agents: {a: {$ref: "a\0b"}}'),
    "a whole number with a point": with_line("runtime: {provider: ollama, max_parallel: 4.0}"),
    "a whole number with an exponent": with_line("runtime: {provider: ollama, inference: {max_tokens: 1e3}}"),
    "a version with a point": with_line("version: 0.0"),
    "a number without end": with_line("runtime: {provider: ollama, budgets: {max_duration_s: 1e999}}"),
    "a number of 5000 digits": with_line("inputs: {values: {a: " + "9" * 5000 + "}}"),
    "thirty thousand wrong tools": with_line("tools: {python: [" + "5, " * 30_000 + "5]}"),
    "twenty thousand unknown keys": WORKFLOW + "".join(f"key{i}: 1\n" for i in range(20_000)),
    "twenty thousand times the same key": WORKFLOW + "name: x\n" * 20_000,
    "long keys in each other": WORKFLOW + "x: " + ('{"' + "a" * 1000 + '": ') * 45 + "[" + "1," * 20_000 + "]" + "}" * 45,
    "merged mappings": WORKFLOW + "x0: &x0 {" + ", ".join(f"k{i}: 1" for i in range(3000)) + "}\nx1: {<<: [*x0, *x0]}",
    "a million comments": "#\n" * 900_000 + WORKFLOW,
    "sixty thousand open brackets": "[" * 60_000,
    "a file that refers to itself": with_line("agents: {a: {$ref: probe.yaml}}"),
    "a template with a text for a number": with_line("agents: {a: {prompt: \"{{ a[-'x'] }}\"}}"),
    "a template that makes a gigabyte": with_line("agents: {a: {prompt: \"{{ '%999999999d' | format(1) }}\"}}"),
    "a template that makes much text": with_line("agents: {a: {prompt: \"{{ 'x' | center(400000000) }}\"}}"),
    "a condition with a number of 400 digits": with_line(
        "pattern: {type: graph, config: {nodes: {a: {agent: a}, b: {agent: a}}, edges: "
        "[{from: a, to: b, when: \"nodes[" + "9" * 400 + "]\"}]}}"
    ),
    "a branch without steps": with_line("pattern: {type: parallel, config: {branches: [{id: a, steps: []}]}}") + ARTIFACT,
    "a parallel without branches": with_line("pattern: {type: parallel, config: {branches: []}}") + ARTIFACT,
    "a route without steps": with_line("pattern: {type: routing, config: {router: {agent: a}, routes: {b: {steps: []}}}}") + ARTIFACT,
    "a routing without routes": with_line("pattern: {type: routing, config: {router: {agent: a}, routes: {}}}") + ARTIFACT,
    "a chain without steps": with_line("pattern: {type: chain, config: {steps: []}}") + ARTIFACT,
    "a graph without nodes": with_line("pattern: {type: graph, config: {nodes: {}, edges: []}}") + ARTIFACT,
    "a workflow without tasks": with_line("pattern: {type: workflow, config: {tasks: []}}") + ARTIFACT,
    "two thousand files of one long name": WORKFLOW + "outputs:\n  artifacts:\n  - &one {path: \"" + "{{ a " * 8000
    + "\", from: x}\n" + "  - *one\n" * 2500,
    "nothing": "",
    "a control character": WORKFLOW + "description: \x07\n",
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_gets_an_answer(text: str, surroundings: Path) -> None:
    file = surroundings / "probe.yaml"
    file.write_text(text, "utf-8")
    started = time.process_time()
    assert answer(file) == ""
    assert time.process_time() - started < MAX_CPU_SECONDS


def test_a_path_that_no_file_can_have_is_an_issue() -> None:
    assert answer(Path("a\0b")) == ""


PROBE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from strands_cli.loader import examine_workflow
print(examine_workflow(sys.argv[1])[1][0].reason)
"""


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there are no devices here")
@pytest.mark.parametrize("kind", ["device", "pipe"])
@pytest.mark.parametrize("way", ["named", "referred to"])
def test_what_is_no_file_is_not_read(kind: str, way: str, surroundings: Path) -> None:
    """A device has no end, and a pipe may never begin."""
    path = "/dev/zero"
    if kind == "pipe":
        path = str(surroundings / "pipe")
        os.mkfifo(path)
    if way == "referred to":
        (surroundings / "probe.yaml").write_text(with_line(f"agents: {{a: {{$ref: {path}}}}}"), "utf-8")
        path = "probe.yaml"
    done = subprocess.run(
        [sys.executable, "-c", PROBE, path], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.strip()
