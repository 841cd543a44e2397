"""What a run began from: written as rows, and made again from them."""

from pathlib import Path

import msgspec
import pytest

from strands_cli.errors import SessionError
from strands_cli.exec.run_records import (
    changes_since,
    run_head,
    spec_files,
    stored_options,
    stored_spec,
)
from strands_cli.exec.steps import RunOptions
from strands_cli.loader import Spec, load_spec
from strands_cli.providers.choice import with_model_options

FLOW = """\
version: 0
name: news
runtime: {provider: ollama}
env: {variables: [STRANDS_TEST_STYLE]}
inputs: {required: {topic: string}}
agents: {a: {$ref: agents/a.yaml}}
pattern: {type: chain, config: {steps: [{agent: a, input: "{{ topic }}"}]}}
"""


def test_a_run_is_made_again_from_its_rows_though_everything_around_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STRANDS_TEST_STYLE", "plain")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "a.yaml").write_text("prompt: Write ${STRANDS_TEST_STYLE} text.\n", "utf-8")
    (tmp_path / "flow.yaml").write_text(FLOW, "utf-8")
    spec = load_spec("flow.yaml", {"topic": "tea"})
    spec = with_model_options(spec, provider="openai", model="small", host="http://localhost:1")
    options = RunOptions(directory=Path("out"), force=True, trace=True, allow_write=(tmp_path / ".github",))
    head = run_head(spec, options, id="abcd1234")
    assert (head["file"], head["directory"]) == (str(tmp_path / "flow.yaml"), str(tmp_path))
    assert head["variables"] == {"topic": "tea"}
    assert head["environment"] == {"STRANDS_TEST_STYLE": "plain"}
    assert list(spec_files(spec)) == ["flow.yaml", "agents/a.yaml"]
    rows = msgspec.json.decode(msgspec.json.encode({"head": head, "spec": {"files": spec_files(spec)}}))

    monkeypatch.setenv("STRANDS_TEST_STYLE", "purple")
    (tmp_path / "flow.yaml").unlink()
    (tmp_path / "agents" / "a.yaml").unlink()
    assert stored_spec(rows) == spec
    assert stored_options(rows["head"]) == options


def test_a_run_that_a_program_has_started_with_a_spec_of_its_own_is_resumed_by_that_program(
    tmp_path: Path,
) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW.replace("{$ref: agents/a.yaml}", "{prompt: x}"), "utf-8")
    loaded = load_spec(tmp_path / "flow.yaml")
    own = Spec(version=0, name="own", runtime=loaded.runtime, agents=loaded.agents, pattern=loaded.pattern)
    assert spec_files(own) == {}
    rows = {"head": run_head(own, RunOptions(), id="abcd1234"), "spec": {"files": {}}}
    with pytest.raises(SessionError, match="a program started it") as caught:
        stored_spec(rows)
    assert (caught.value.exit_code, "RunOptions(resume=" in caught.value.hint) == (17, True)


def test_what_has_changed_in_the_files_of_a_workflow_is_told_with_its_lines(tmp_path: Path) -> None:
    agent, flow = tmp_path / "agents" / "a.yaml", tmp_path / "flow.yaml"
    agent.parent.mkdir()
    agent.write_text("prompt: Write.\ntools: []\n", "utf-8")
    flow.write_text(FLOW.replace("agents/a.yaml", "./agents/a.yaml"), "utf-8")
    spec = load_spec(flow, {"topic": "tea"})
    rows = {"head": run_head(spec, RunOptions(), id="abcd1234"), "spec": {"files": spec_files(spec)}}
    flow.write_text("# a comment\n" + FLOW.replace("agents/a.yaml", "./agents/a.yaml"), "utf-8")
    assert changes_since(rows) == []
    agent.write_text("prompt: Write well.\nmodel_id: m\n", "utf-8")
    changed = flow.read_text().replace("steps: [", "steps: [{agent: a}, ").replace("news", "more")
    flow.write_text(changed, "utf-8")
    assert changes_since(rows) == [
        "flow.yaml:3 name",
        "flow.yaml pattern.config.steps.0.input is gone",
        "flow.yaml:8 pattern.config.steps.1",
        "agents/a.yaml:1 prompt",
        "agents/a.yaml:2 model_id",
        "agents/a.yaml tools is gone",
    ]
    agent.write_text("a: [", "utf-8")
    assert changes_since(rows)[-1] == "agents/a.yaml cannot be read"
    agent.unlink()
    assert changes_since(rows)[-1] == "agents/a.yaml is gone"
    flow.unlink()
    assert changes_since(rows) == []
