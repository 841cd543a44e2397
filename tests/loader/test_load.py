"""`load_spec`: from a file to a Spec, with the place of everything that is wrong with it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from strands_cli.errors import Issue, SpecError
from strands_cli.loader import StoredFiles, examine_workflow, load_spec, stored_name
from strands_cli.loader.run_values import resolve_inputs
from strands_cli.loader.spec import Spec
from strands_cli.patterns.chain import Chain
from strands_cli.patterns.graph import Edge, Graph
from strands_cli.patterns.pattern import HumanStep

GOOD: dict[str, Any] = {
    "version": 0,
    "name": "good",
    "runtime": {"provider": "ollama"},
    "agents": {"a": {"prompt": "Hello"}},
    "pattern": {"type": "chain", "config": {"steps": [{"agent": "a", "input": "hi"}]}},
}
TEXT = """\
version: 0
name: good
runtime:
  provider: ollama
agents:
  a:
    prompt: Hello
pattern:
  type: chain
  config:
    steps:
      - agent: a
        input: hi
"""


def load(tmp_path: Path, text: str | bytes, name: str = "flow.yaml", **variables: Any) -> Spec:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_spec(tmp_path / name, variables)


def refused(tmp_path: Path, text: str | bytes, **variables: Any) -> tuple[Issue, ...]:
    with pytest.raises(SpecError) as caught:
        load(tmp_path, text, **variables)
    assert caught.value.exit_code == 3
    return caught.value.issues


def test_a_workflow_is_read_with_the_place_of_each_value(tmp_path: Path) -> None:
    spec = load(tmp_path, TEXT)
    assert isinstance(spec.pattern, Chain)
    assert (spec.name, spec.agents["a"].prompt, spec.pattern.steps[0].id) == ("good", "Hello", "")
    file = str(tmp_path / "flow.yaml")
    assert spec.file == Path(file)
    assert spec.position("/agents/a/prompt") == (file, 7, 5)
    assert spec.position("/pattern/config/steps/0/input") == (file, 13, 9)
    assert spec.position("/pattern/config/steps/0/gone/deep") == (file, 12, 9)


def test_json_is_read_too_with_tabs_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = json.dumps(GOOD, indent="\t")
    spec = load(tmp_path, b"\xef\xbb\xbf" + text.encode(), "flow.json")
    assert spec.agents["a"].prompt == "Hello"
    assert spec.position("/runtime/provider")[1:] == (5, 3)
    assert load(tmp_path, b"\xef\xbb\xbf" + TEXT.encode()).name == "good"


@pytest.mark.parametrize(
    ("text", "line", "column", "reason", "remedy"),
    [
        (
            TEXT + "name: again\n",
            14,
            1,
            "The key 'name' is used twice; the first is on line 2.",
            "Keep",
        ),
        (TEXT.replace("  a:", "\ta:"), 6, 1, "Invalid YAML", "Indent with spaces."),
        (TEXT + "tags: [a\n", 15, 1, "Invalid YAML", "Correct the line."),
        (
            TEXT + "tags: *gone\n",
            14,
            7,
            "There is no anchor &gone before this alias.",
            "Put the anchor first.",
        ),
        (TEXT + "tags: !python/object:os.system x\n", 14, 7, "Unsupported tag", "Leave it out."),
        (TEXT + "---\n" + TEXT, 14, 1, "The file contains more than one document.", "Keep one workflow"),
        ("- a list\n", 1, 0, "A workflow is a mapping", "'strands schema' prints"),
        ("", 1, 0, "A workflow is a mapping", ""),
        (TEXT.replace("name: good\n", ""), 1, 1, "The key 'name' is missing.", ""),
        (TEXT.replace("prompt", "promt"), 7, 5, "There is no key 'promt' here.", "Did you mean 'prompt'?"),
        (TEXT.replace("ollama", "olama"), 4, 3, "'provider' must be one of", "Did you mean 'ollama'?"),
        (TEXT.replace("type: chain", "type: chian"), 9, 3, "'type' must be one of", "Did you mean 'chain'?"),
        (TEXT.replace("input: hi", "input: [hi]"), 13, 9, "'input' must be a string", ""),
        ("a: " + "[" * 200 + "]" * 200, 1, 54, "The file is nested more than 50 levels deep.", "Flatten it."),
        (b"name: \xff", 0, 0, "The file is not UTF-8 text: byte 6 is 0xff.", "Give a YAML or JSON file"),
        (b"\0", 0, 0, "Invalid YAML", ""),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, text: str | bytes, line: int, column: int, reason: str, remedy: str
) -> None:
    issues = refused(tmp_path, text)
    issue = next(issue for issue in issues if issue.reason.startswith(reason))
    assert (issue.file, issue.line, issue.column) == (str(tmp_path / "flow.yaml"), line, column)
    assert issue.remediation.startswith(remedy)


def test_a_file_that_is_not_there_or_too_large_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "huge.yaml").write_bytes(b"a: b\n" * 10_000_000)
    started = time.monotonic()
    for name, reason in (
        ("huge.yaml", "The file has 50000000 bytes"),
        ("gone.yaml", "gone.yaml not found"),
    ):
        with pytest.raises(SpecError, match=reason):
            load_spec(tmp_path / name)
    with pytest.raises(SpecError, match="cannot be read"):
        load_spec(tmp_path / "null\0byte")
    assert time.monotonic() - started < 1


def test_an_alias_bomb_is_refused_before_it_goes_off(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    started = time.process_time()
    (issue,) = refused(tmp_path, "\n".join(rows))
    assert issue.reason == "The file contains more than 20000 values."
    assert issue.line > 1
    assert time.process_time() - started < 2


def test_anchors_and_merge_keys_work(tmp_path: Path) -> None:
    agents = "agents:\n  base: &base {prompt: Hello, model_id: m}\n  a: {<<: *base, prompt: Mine}\n"
    spec = load(tmp_path, TEXT.replace("agents:\n  a:\n    prompt: Hello\n", agents))
    assert (spec.agents["a"].prompt, spec.agents["a"].model_id) == ("Mine", "m")


def test_text_that_looks_like_something_else_is_text(tmp_path: Path) -> None:
    values = "inputs: {values: {a: yes, b: 12:30, c: 2026-01-01, d: 0x1f, e: 1e3, f: '1', g: ~, h: 007}}\n"
    assert load(tmp_path, TEXT + values).inputs.values == {
        "a": "yes",
        "b": "12:30",
        "c": "2026-01-01",
        "d": "0x1f",
        "e": 1000.0,
        "f": "1",
        "g": None,
        "h": 7.0,
    }


def test_a_whole_number_may_be_written_with_a_point(tmp_path: Path) -> None:
    text = TEXT.replace("version: 0", "version: 0.0").replace(
        "provider: ollama", "provider: ollama\n  max_parallel: 4.0"
    )
    spec = load(tmp_path, text + "inputs: {values: {share: 0.5}}\n")
    assert (spec.version, spec.runtime.max_parallel, spec.inputs.values) == (0, 4, {"share": 0.5})


def test_agents_may_stand_in_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "a.yaml").write_text("prompt: From the file\nmodel_id: m\n", "utf-8")
    text = TEXT.replace("    prompt: Hello\n", "    $ref: agents/a.yaml\n    model_id: other\n")
    spec = load(tmp_path, text)
    assert (spec.agents["a"].prompt, spec.agents["a"].model_id) == ("From the file", "other")
    assert spec.position("/agents/a/prompt") == (str(tmp_path / "agents" / "a.yaml"), 1, 1)
    (tmp_path / "agents" / "a.yaml").write_text("promt: x\n", "utf-8")
    issue = next(issue for issue in refused(tmp_path, text) if "promt" in issue.reason)
    assert (issue.file, issue.line) == (str(tmp_path / "agents" / "a.yaml"), 1)
    (issue,) = refused(tmp_path, text.replace("a.yaml", "gone.yaml"))
    assert (issue.pointer, issue.line) == ("/agents/a/$ref", 7)


def test_a_workflow_is_loaded_from_stored_texts_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDS_TEST_NAME", "tea")
    (tmp_path / "agents").mkdir()
    agent = "prompt: About ${STRANDS_TEST_NAME} {{ topic }}\n"
    (tmp_path / "agents" / "a.yaml").write_text(agent, "utf-8")
    text = DECLARED.replace("    prompt: Hello\n", "    $ref: ./agents/a.yaml\n") + INPUTS_OF_TOPIC
    before = load(tmp_path, text, topic="green")
    assert before.texts == {
        str(tmp_path / "flow.yaml"): text,
        str(tmp_path / "agents" / "a.yaml"): agent,
    }
    monkeypatch.setenv("STRANDS_TEST_NAME", "coffee")
    (tmp_path / "flow.yaml").unlink()
    (tmp_path / "agents" / "a.yaml").write_text("prompt: changed\n", "utf-8")
    files = {stored_name(path, tmp_path): text for path, text in before.texts.items()}
    assert list(files) == ["flow.yaml", "agents/a.yaml"]
    stored = StoredFiles(directory=tmp_path, files=files, environment={"STRANDS_TEST_NAME": "tea"})
    assert load_spec(tmp_path / "flow.yaml", {"topic": "green"}, stored=stored) == before
    other = StoredFiles(directory=tmp_path, files={"flow.yaml": text}, environment={})
    with pytest.raises(SpecError, match=r"agents/a.yaml: The run has no copy of this file"):
        load_spec(tmp_path / "flow.yaml", stored=other)


INPUTS_OF_TOPIC = "inputs: {required: {topic: string}}\n"
DECLARED = TEXT + "env: {variables: [STRANDS_TEST_NAME, STRANDS_TEST_GONE]}\n"


def test_variables_of_the_environment_are_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRANDS_TEST_NAME", "tea")
    monkeypatch.delenv("STRANDS_TEST_GONE", raising=False)
    prompt = "${STRANDS_TEST_NAME} ${STRANDS_TEST_GONE:-none} $${KEPT} $5"
    spec = load(tmp_path, DECLARED.replace("Hello", prompt))
    assert spec.agents["a"].prompt == "tea none ${KEPT} $5"
    used = [(use.name, use.place, use.is_whole) for use in spec.environment]
    place = "agents.a.prompt"
    assert used == [("STRANDS_TEST_NAME", place, False), ("STRANDS_TEST_GONE", place, False)]
    (issue,) = refused(tmp_path, DECLARED.replace("Hello", "${STRANDS_TEST_GONE}"))
    assert (issue.pointer, issue.line) == ("/agents/a/prompt", 7)
    assert issue.reason == "The environment variable STRANDS_TEST_GONE is not set."
    assert issue.remediation == "Set it, or give a default: ${STRANDS_TEST_GONE:-…}."


def test_a_variable_that_the_file_does_not_declare_is_refused_with_the_line_to_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDS_TEST_OTHER", "from the environment")
    text = DECLARED.replace("Hello", "${STRANDS_TEST_OTHER} ${LAST:-x}").replace("hi", "${FIRST}")
    issues = refused(tmp_path, text)
    assert [(issue.pointer, issue.line) for issue in issues] == [
        ("/agents/a/prompt", 7),
        ("/agents/a/prompt", 7),
        ("/pattern/config/steps/0/input", 13),
    ]
    reason = "The file uses the environment variable STRANDS_TEST_OTHER, but does not declare it."
    assert issues[0].reason == reason
    names = "STRANDS_TEST_NAME, STRANDS_TEST_GONE, STRANDS_TEST_OTHER, LAST, FIRST"
    assert {issue.remediation for issue in issues[1:]} == {f"Declare it: env: {{variables: [{names}]}}"}
    assert "from the environment" not in repr(examine_workflow(tmp_path / "flow.yaml"))


def test_the_file_of_an_agent_uses_what_the_workflow_declares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDS_TEST_NAME", "tea")
    (tmp_path / "a.yaml").write_text(
        "env: {variables: [HOME]}\nprompt: ${STRANDS_TEST_NAME} ${HOME}\n", "utf-8"
    )
    text = DECLARED.replace("    prompt: Hello\n", "    $ref: a.yaml\n")
    issues = refused(tmp_path, text)
    assert {(issue.file, issue.line) for issue in issues} == {(str(tmp_path / "a.yaml"), at) for at in (1, 2)}
    assert "variable HOME" in issues[0].reason
    (tmp_path / "a.yaml").write_text("prompt: ${STRANDS_TEST_NAME}\n", "utf-8")
    spec = load(tmp_path, text)
    assert spec.agents["a"].prompt == "tea"
    assert [use.pointer for use in spec.environment] == ["/agents/a/prompt"]


EXECUTOR = """\
env: {secrets: [{name: shop, key: SHOP_TOKEN}]}
tools: {http_executors: [{id: shop, base_url: "https://x.example", headers: {X: "Bearer ${SHOP_TOKEN}"}}]}
"""


def test_a_secret_is_never_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2-and-more")
    spec = load(tmp_path, TEXT + EXECUTOR)
    assert spec.tools.http_executors[0].headers == {"X": "Bearer {{ secrets.shop }}"}
    assert "hunter2" not in repr(spec)
    (issue,) = refused(tmp_path, TEXT.replace("Hello", "${SHOP_TOKEN}") + EXECUTOR)
    assert issue.reason.startswith("SHOP_TOKEN is a secret: it is for the headers of HTTP executors")
    assert "{{ secrets.shop }}" in issue.remediation
    (issue,) = refused(tmp_path, TEXT + EXECUTOR.replace("${SHOP_TOKEN}", "${SHOP_TOKEN:-x}"))
    assert issue.reason == "SHOP_TOKEN is a secret, and a secret has no default."
    (issue,) = refused(tmp_path, TEXT.replace("Hello", "${SHOP_TOKEN}"))
    assert issue.remediation.startswith("Declare it as a secret, env: {secrets: [{name: SHOP_TOKEN}]}")


INPUTS = """\
inputs:
  required:
    topic: {type: string, description: What about}
    count: integer
  optional:
    tone: {type: string, enum: [plain, formal], default: plain}
    extra: object
  values: {count: 3}
"""


def test_inputs_come_from_the_file_and_from_the_caller(tmp_path: Path) -> None:
    spec = load(tmp_path, TEXT + INPUTS, topic="tea")
    assert resolve_inputs(spec) == {"topic": "tea", "count": 3, "tone": "plain", "extra": None}
    assert resolve_inputs(spec, {"count": 4, "tone": "formal"})["count"] == 4
    with pytest.raises(SpecError, match="The input 'topic' is missing: What about") as caught:
        resolve_inputs(load(tmp_path, TEXT + INPUTS))
    assert caught.value.hint == "Give it with --var topic=…"


def test_texts_become_what_their_inputs_ask_for(tmp_path: Path) -> None:
    spec = load(tmp_path, TEXT + INPUTS, topic="7", count="7", extra='{"a": [1]}')
    assert spec.variables == {"topic": "7", "count": 7, "extra": {"a": [1]}}


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"count": "many"}, "The input 'count' is not valid: expected integer, got string 'many'."),
        ({"count": True}, "The input 'count' is not valid: expected integer, got true."),
        (
            {"tone": "loud"},
            "The input 'tone' is not valid: expected one of 'plain', 'formal', got string 'loud'.",
        ),
        ({"tpic": "x"}, "There is no input 'tpic'."),
    ],
)
def test_a_value_that_no_input_takes_is_refused(
    tmp_path: Path, variables: dict[str, Any], reason: str
) -> None:
    (issue,) = refused(tmp_path, TEXT + INPUTS, **variables)
    assert issue.reason == reason


def test_an_unknown_name_is_refused_where_the_file_gives_its_inputs_values(tmp_path: Path) -> None:
    text = TEXT + "inputs: {values: {topic: tea}}\n"
    (issue,) = refused(tmp_path, text, topik="x")
    assert (issue.reason, issue.remediation) == ("There is no input 'topik'.", "Did you mean 'topic'?")
    with pytest.raises(SpecError, match="There is no input 'topik'"):
        resolve_inputs(load(tmp_path, text), {"topik": "x"})
    assert resolve_inputs(load(tmp_path, text, topic="bats")) == {"topic": "bats"}


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("runtime: {provider: ollama}", "runtime: ollama", "Write runtime: {provider: ollama}"),
        ("agents: {a: {prompt: Hello}}", "agents: {a: Hello there}", "Write a: {prompt: Hello there}"),
        ("", "inputs: {required: [text, count]}", "Write required: {text: string, count: string}"),
        ("", "tools: {python: echo}", "Write python: [echo]"),
        ("", "tags: 7", "'strands schema' prints the format."),
    ],
)
def test_a_value_of_another_form_is_written_out_as_it_was_meant(
    tmp_path: Path, old: str, new: str, hint: str
) -> None:
    text = (
        "version: 0\nname: x\nruntime: {provider: ollama}\nagents: {a: {prompt: Hello}}\n"
        "pattern: {type: chain, config: {steps: [{agent: a}]}}\n"
    )
    (issue,) = refused(tmp_path, text.replace(old, new) if old else f"{text}{new}\n")
    assert issue.remediation == hint


def test_an_emoji_that_json_escapes_in_two_halves_is_read(tmp_path: Path) -> None:
    text = json.dumps({**GOOD, "description": "A smile: 😀"})
    assert "\\ud83d\\ude00" in text
    assert load(tmp_path, text, "flow.json").description == "A smile: 😀"


def test_short_forms_are_one_form(tmp_path: Path) -> None:
    config = {
        "nodes": {"x": {"agent": "a"}, "y": {"agent": "a"}},
        "edges": [{"from": "x", "to": "y"}, {"from": "y", "to": ["x"]}],
        "start": "x",
    }
    pattern = {"type": "graph", "config": config}
    document = {**GOOD, "pattern": pattern, "tools": {"python": ["echo", {"callable": "calculator"}]}}
    spec = load(tmp_path, json.dumps(document), "flow.json")
    assert isinstance(spec.pattern, Graph)
    assert spec.pattern.edges == (Edge(source="x", to=("y",)), Edge(source="y", to=("x",)))
    assert [tool.callable for tool in spec.tools.python] == ["echo", "calculator"]
    steps = [{"agent": "a"}, {"id": "ask", "human": {"prompt": "ok?"}}]
    spec = load(tmp_path, json.dumps({**GOOD, "pattern": {"type": "chain", "config": {"steps": steps}}}))
    assert isinstance(spec.pattern, Chain)
    assert spec.pattern.steps[1] == HumanStep(prompt="ok?", id="ask")


# --- What is left of a file with problems -----------------------------------------------------------------


def left_of(tmp_path: Path, **changes: Any) -> Spec:
    document = {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}
    (tmp_path / "flow.json").write_text(json.dumps(document), "utf-8")
    spec, issues = examine_workflow(tmp_path / "flow.json")
    assert issues
    assert spec is not None
    with pytest.raises(SpecError):
        load_spec(tmp_path / "flow.json")
    return spec


def test_a_file_with_problems_is_read_as_far_as_it_can_be(tmp_path: Path) -> None:
    spec = left_of(
        tmp_path,
        version=7,
        runtime={"provider": 5, "max_parallel": "x", "budgets": []},
        file="mine",
        agents={"a": {"prompt": "Hello", "tools": "echo", "colour": 1}, "b": {}, "c": 5},
        inputs={"required": {"topic": "text", "n": {"type": "integer", "default": []}}},
        tools={"python": [5, "echo", {"callable": 5}]},
        tags="x",
    )
    assert (spec.version, spec.runtime.max_parallel, spec.file.name) == (0, 8, "flow.json")
    assert spec.agents["a"].prompt == "Hello"
    assert spec.agents["a"].tools is None
    assert [*spec.agents] == ["a", "b", "c"]
    assert [*spec.inputs.required] == ["topic", "n"]
    assert [tool.callable for tool in spec.tools.python] == ["", "echo", ""]


def test_what_stands_in_a_list_keeps_its_place(tmp_path: Path) -> None:
    config = {"steps": [5, {"input": "x"}, {"agent": "a", "input": "y"}]}
    spec = left_of(tmp_path, pattern={"type": "chain", "config": config})
    assert isinstance(spec.pattern, Chain)
    assert [getattr(step, "input", None) for step in spec.pattern.steps][1:] == ["x", "y"]


@pytest.mark.parametrize(
    "pattern",
    [
        ...,
        5,
        {},
        {"type": "chain"},
        {"type": "chian", "config": {"steps": []}},
        {"type": "graph", "config": {}},
    ],
)
def test_without_a_pattern_the_rest_is_still_there(tmp_path: Path, pattern: Any) -> None:
    assert left_of(tmp_path, pattern=pattern).agents["a"].prompt == "Hello"


@pytest.mark.parametrize("agents", [[], 5, {"no name!": {"prompt": "x"}}])
def test_without_agents_the_rest_is_still_there(tmp_path: Path, agents: Any) -> None:
    assert isinstance(left_of(tmp_path, agents=agents).pattern, Chain)


def test_an_input_may_be_called_provider(tmp_path: Path) -> None:
    issues = refused(tmp_path, TEXT + "inputs: {optional: {provider: openai}}\n")
    assert [issue.pointer for issue in issues] == ["/inputs/optional/provider"]
