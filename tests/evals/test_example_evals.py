"""The evaluations of the examples pass with their recordings, and with the embedded model that they were made with."""

from pathlib import Path

import pytest

from strands_cli.evals.cases import load_eval
from tests.projects import Project

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((REPOSITORY / "examples/evals").glob("*.yaml"))
LOCAL = sorted((REPOSITORY / "benchmarks/local_evals").glob("*.yaml"))
MODELINE = "# yaml-language-server: $schema=../../src/strands_cli/schema/strands-eval.schema.json\n"
IGNORED = {"local-three-tools": ("current_time", "file_list")}
"""Tools whose results change with the day and with the examples' files."""
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)


@pytest.mark.parametrize("file", [*EXAMPLES, *LOCAL], ids=lambda file: file.stem)
def test_an_evaluation_is_valid_and_tells_editors_its_schema(file: Path) -> None:
    assert load_eval(file).cases
    assert load_eval(file).description
    assert file.read_text("utf-8").startswith(MODELINE)


@each_example
def test_an_example_passes_with_its_recorded_answers(
    example: Path, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    recordings = example.parent / "recordings" / example.stem
    replay = ["--replay", str(recordings)] if recordings.is_dir() else []
    ignored = [part for tool in IGNORED.get(example.stem, ()) for part in ("--replay-ignore", tool)]
    arguments = ["eval", str(example.relative_to(REPOSITORY)), *replay, *ignored]
    outcome = project.here(capsys, *arguments, cwd=REPOSITORY)
    assert outcome.exit_code == 0, outcome
    assert bool(replay) == (load_eval(example).target != "tool")


@pytest.mark.long
@pytest.mark.timeout(1800)
@each_example
def test_an_example_passes_with_the_embedded_model(
    example: Path, project: Project, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Path(project.environment["XDG_CACHE_HOME"]) / "strands-cli"
    own.mkdir(parents=True)
    (own / "models").symlink_to(weights.parent)
    project.environment["STRANDS_LOCAL_THREADS"] = "1"  # more are slower where tests run side by side
    outcome = project.here(capsys, "eval", str(example), "--jobs", "1", cwd=REPOSITORY)
    assert outcome.exit_code == 0, outcome
