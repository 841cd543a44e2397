"""`strands plan`: what would run, in which order, and how often a model is asked."""

import json

import pytest

from strands_cli.drawing.overview import outline_of
from strands_cli.loader import load_spec
from strands_cli.patterns.outline import Calls
from tests.cli.workflows import HOSTILE_GRAPH, PATTERNS, PEOPLE, workflow
from tests.projects import Project

CALLS = {
    "chain": (3, 3),
    "workflow": (5, 5),
    "routing": (2, 4),
    "parallel": (5, 5),
    "evaluator_optimizer": (2, 8),
    "orchestrator_workers": (2, 13),
    "graph": (5, 15),
}

ORDERS = {
    "chain": [1, 2, 3],
    "workflow": [1, 1, 2, 2, 3],
    "routing": [1, 2, 2, 2, 3, 3, 4],
    "parallel": [1, 1, 2, 2, 3, 4],
    "evaluator_optimizer": [1, 2],
    "orchestrator_workers": [1, 2, 3],
    "graph": [1, 2, 2, 3, 4],
}

PEOPLE_STEPS = {  # the order, the humans, the arrows that leave them, and the model calls
    "human tasks": ([1, 2, 3], {"tasks/1"}, {"tasks/2": ""}, (2, 2)),
    "human nodes": (
        [1, 2],
        {"nodes/look"},
        {"nodes/draft": "nodes.look.response != 'yes'", "end": "otherwise"},
        (1, 10),
    ),
    "human reduce": ([1, 1, 2], {"reduce"}, {"end": ""}, (2, 2)),
    "reviewed route": (
        [1, 2, 3, 3, 4],
        {"router/review"},
        {"routes/billing/steps/0": "billing", "routes/other/steps/0": "other"},
        (2, 3),
    ),
    "reviewed draft": (
        [1, 2, 3],
        {"evaluator/review"},
        {"producer": "until score >= 80, at most 3 times", "end": "accepted"},
        (2, 6),
    ),
    "reviewed tasks": (
        [1, 2, 3, 4, 5],
        {"orchestrator/review", "reduce/review"},
        {
            "worker": "for each task",
            "orchestrator": "changes, at most 5 times",
            "reduce": "changes, at most 5 times",
            "end": "",
        },
        (2, 34),
    ),
    "reviewed result": (
        [1, 1, 2, 3],
        {"reduce/review"},
        {"reduce": "changes, at most 5 times", "end": ""},
        (3, 8),
    ),
}

BESIDE = """\
version: 0
name: flow
runtime: {provider: ollama}
tools: {python: [beside]}
agents: {worker: {prompt: You work.}}
pattern: {type: chain, config: {steps: [{agent: worker, input: go}]}}
"""


def planned(project: Project, text: str, *more: str) -> dict:  # type: ignore[type-arg]
    project.write("flow.yaml", text)
    outcome = project.strands("plan", "flow.yaml", "--json", *more)
    assert outcome.exit_code == 0, outcome
    return outcome.json


@pytest.mark.parametrize("pattern", PEOPLE)
def test_humans_stand_where_they_are_asked(project: Project, pattern: str) -> None:
    order, humans, leaving, calls = PEOPLE_STEPS[pattern]
    outline = outline_of(load_spec(project.write("flow.yaml", workflow(PEOPLE[pattern]))))
    assert [box.stage for box in outline.work] == order
    assert {box.key for box in outline.work if box.kind == "human"} == humans
    assert {arrow.target: arrow.label for arrow in outline.arrows if arrow.source in humans} == leaving
    assert (outline.calls.least, outline.calls.most) == calls


def test_a_plan_tells_what_a_human_can_answer_and_how_long(project: Project) -> None:
    project.write("flow.yaml", workflow(PEOPLE["human tasks"]))
    shown = project.strands("plan", "flow.yaml").out
    assert "2. approval  (after draft; yes, no; within 60 seconds; by default 'no')" in shown
    assert "asks   a human: Publish?" in shown


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_tells_its_order_and_its_model_calls(project: Project, pattern: str) -> None:
    document = planned(project, workflow(PATTERNS[pattern]))
    calls = document["model_calls"]
    assert (calls["at_least"], calls["at_most"]) == CALLS[pattern]
    assert [step["order"] for step in document["steps"]] == ORDERS[pattern]
    assert document["pattern"] == pattern


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_is_told_to_people(project: Project, pattern: str) -> None:
    project.write("flow.yaml", workflow(PATTERNS[pattern]))
    outcome = project.strands("plan", "flow.yaml")
    assert outcome.exit_code == 0, outcome
    least, most = CALLS[pattern]
    assert f"{least} at least, {most} at most; plus one for each round of tool calls" in outcome.out
    assert "./result.md" in outcome.out
    assert "critic, openai gpt-4o-mini\n" in outcome.out


def test_an_agents_own_provider_does_not_get_the_models_of_another(project: Project) -> None:
    steps = {step["agent"]: step for step in planned(project, workflow(PATTERNS["chain"]))["steps"]}
    assert steps["critic"]["model"] == {
        "provider": "openai", "model_id": "gpt-4o-mini", "host": None, "region": None,
    }  # fmt: skip
    assert steps["writer"]["model"]["host"] == "http://localhost:11434"
    assert steps["writer"]["tools"] == ["echo"]
    assert steps["critic"]["tools"] == []
    assert len(steps["helper"]["tools"]) == 4


def test_a_budget_of_steps_caps_the_model_calls(project: Project) -> None:
    text = workflow(PATTERNS["evaluator_optimizer"]).replace(
        "max_parallel: 2", "max_parallel: 2\n  budgets: {max_steps: 3}"
    )
    assert planned(project, text)["model_calls"] == {
        "at_least": 2, "at_most": 3, "plus_one_per_tool_round": True, "capped_by_max_steps": True,
    }  # fmt: skip


def test_max_parallel_breaks_what_could_run_together_into_stages(project: Project) -> None:
    tasks = "".join(f"      - {{id: t{index}, agent: writer}}\n" for index in range(5))
    document = planned(project, workflow(f"  type: workflow\n  config:\n    tasks:\n{tasks}"))
    assert [step["order"] for step in document["steps"]] == [1, 1, 2, 2, 3]


def test_tasks_that_wait_for_each_other_never_run_and_that_is_said(project: Project) -> None:
    project.write(
        "flow.yaml",
        workflow("""
  type: workflow
  config:
    tasks: [{id: a, agent: writer, needs: [b]}, {id: b, agent: writer, needs: [a]}, {id: c, agent: nobody}]
"""),
    )
    outcome = project.strands("plan", "flow.yaml")
    assert outcome.exit_code == 18, outcome
    assert outcome.out.count("never reached") == 2
    assert "nobody, which the file does not declare" in outcome.out
    assert "2 problems in this workflow: 'strands validate flow.yaml' says more." in outcome.err


def test_inputs_are_told_with_where_they_come_from(project: Project) -> None:
    declared = """inputs:
  required: {topic: string, count: integer}
  optional: {tone: {type: string, default: calm}}
pattern:"""
    text = workflow(PATTERNS["chain"]).replace("pattern:", declared, 1)
    project.write("topic.txt", "owls\nand more")
    document = planned(project, text, "--var", "topic=@topic.txt", "--var", "count=3")
    assert document["inputs"] == {"topic": "owls …", "count": "3", "tone": "calm (by default)"}
    assert "to be given: --var topic=…" in project.strands("plan", "flow.yaml").out
    wrong = project.strands("plan", "flow.yaml", "--var", "count=many")
    assert (wrong.exit_code, "expected integer" in wrong.err) == (3, True)


@pytest.mark.parametrize(
    ("given", "words"), [("topic", "is not NAME=VALUE"), ("topic=@nowhere", "nowhere cannot be read")]
)
def test_a_var_that_cannot_be_read_is_a_usage_error(project: Project, given: str, words: str) -> None:
    project.write("flow.yaml", workflow(PATTERNS["chain"]))
    outcome = project.strands("plan", "flow.yaml", "--var", given)
    assert (outcome.exit_code, words in outcome.err) == (2, True), outcome


@pytest.mark.parametrize("command", ["plan", "explain", "graph"])
def test_a_file_with_mistakes_is_told_with_all_of_them(project: Project, command: str) -> None:
    project.write("flow.yaml", "version: 2\nname: x\nruntime: {provider: cloud}\nagents: {a: {prompt: p}}\n")
    outcome = project.strands(command, "flow.yaml")
    assert (outcome.exit_code, outcome.out) == (3, "")
    for place in ("flow.yaml:1:1  /version", "/runtime/provider", "The key 'pattern' is missing."):
        assert place in outcome.err
    missing = project.strands(command, "nowhere.yaml")
    assert (missing.exit_code, "nowhere.yaml" in missing.err) == (3, True)


def test_nothing_that_a_file_says_reaches_the_terminal_as_a_command(project: Project) -> None:
    text = workflow(HOSTILE_GRAPH, description=r'"\e[2J red"').replace("llama3.2:3b", r'"\e[2J"')
    project.write("flow.yaml", text.replace('input: "', r'input: "\e[2J').replace("[echo]", r'["\e[2J"]'))
    for command in ("plan", "explain", "graph"):
        outcome = project.strands(command, "flow.yaml")
        assert outcome.exit_code == (18 if command == "plan" else 0), outcome
        assert "\x1b" not in outcome.out


@pytest.mark.parametrize("command", ["plan", "explain", "run --dry-run"])
def test_the_tools_beside_a_workflow_are_found_from_any_directory(project: Project, command: str) -> None:
    (project.root / "strands.toml").unlink()
    project.tool("beside", "def beside(tool, **kw): return ''")
    project.write("flow.yaml", BESIDE)
    away = project.root.parent / "away"
    away.mkdir()
    outcome = project.strands(*command.split(), "../project/flow.yaml", cwd=away)
    assert outcome.exit_code == 0, outcome
    assert outcome.err == ""


@pytest.mark.parametrize("command", ["plan", "plan --json", "plan --format md"])
def test_a_workflow_that_could_not_run_is_shown_and_exits_with_18(project: Project, command: str) -> None:
    project.write("flow.yaml", BESIDE.replace("beside", "nowhere"))
    outcome = project.strands(*command.split(), "flow.yaml")
    assert outcome.exit_code == 18, outcome
    assert "nowhere" in outcome.out


BRIEF = """\
version: 0
name: brief
runtime: {provider: ollama}
inputs:
  required: {topic: string}
  optional: {tone: {type: string, default: plain}}
agents:
  writer: {prompt: "You write in a {{ tone }} tone.{% if tone == 'plain' %} Be short.{% endif %}"}
pattern:
  type: chain
  config:
    steps:
      - {id: draft, agent: writer, input: "Write about {{ topic }}."}
      - agent: writer
        input: |
          Find a title, not {{ topic | upper }}:
          {{ steps.draft.response }}
          {% for step in steps %}{{ step.response }}{% endfor %}
          {% for n in range(99999) %}{% for m in range(99999) %}x{% endfor %}{% endfor %}
"""


@pytest.mark.parametrize("command", ["plan", "run --dry-run"])
def test_prompts_are_shown_as_they_would_be_sent_and_what_steps_will_answer_as_it_is_written(
    project: Project, command: str
) -> None:
    project.write("brief.yaml", BRIEF)
    outcome = project.strands(*command.split(), "brief.yaml", "--var", "topic=owls", "--json")
    first, second = outcome.json["steps"]
    assert first["prompt"] == "You write in a plain tone. Be short."
    assert first["input"] == "Write about owls."
    lines = second["input"].splitlines()
    assert lines[:3] == [
        "Find a title, not OWLS:",
        "{{ steps.draft.response }}",
        "{% for step in steps %}{{ step.response }}{% endfor %}",
    ]
    assert "range(99999)" in lines[3]  # what could take long is not computed
    said = project.strands(*command.split(), "brief.yaml", "--var", "topic=owls").out
    assert "   prompt You write in a plain tone. Be short.\n   input  Write about owls.\n" in said
    assert "   input  Find a title, not OWLS:\n          {{ steps.draft.response }}\n" in said


def test_the_paths_of_artifacts_are_shown_as_the_variables_give_them(project: Project) -> None:
    text = BRIEF + 'outputs: {artifacts: [{path: "{{ topic }}/{{ last_response }}.txt", from: x}]}\n'
    project.write("brief.yaml", text)
    outcome = project.strands("plan", "brief.yaml", "--var", "topic=owls", "--json")
    assert outcome.json["artifacts"] == ["owls/{{ last_response }}.txt"], outcome


def test_an_input_that_is_not_given_stays_a_placeholder(project: Project) -> None:
    assert planned(project, BRIEF)["steps"][0]["input"] == "Write about {{ topic }}."


def test_the_prompt_of_a_router_has_its_routes(project: Project) -> None:
    router = planned(project, workflow(PATTERNS["routing"]))["steps"][0]
    assert (
        router["prompt"]
        == "You judge.\n\nChoose one of these routes:\n- billing: Money\n- technical: Machines\n- other"
    )


def test_a_graph_counts_what_is_certain_and_what_is_possible(inside: Project) -> None:
    text = """
  type: graph
  config:
    max_visits: 7
    nodes: {a: {agent: writer}, b: {agent: writer}, c: {agent: writer}, d: {agent: writer}, lost: {agent: writer}}
    start: a
    edges:
      - {from: a, to: [b, c]}
      - {from: b, to: d, when: "nodes.b.response contains 'x'"}
      - {from: c, to: d, when: "nodes.c.response contains 'x'"}
"""
    spec = load_spec(inside.write("flow.yaml", workflow(text)))
    outline = outline_of(spec)
    calls = {box.title: box.calls for box in outline.work}
    assert calls == {
        "a": Calls(1, 1), "b": Calls(1, 1), "c": Calls(1, 1), "d": Calls(0, 2), "lost": Calls(0, 0),
    }  # fmt: skip
    assert outline.calls == Calls(3, 5)
    assert outline.work[-1].title == "lost"


def test_the_plan_shows_whose_conversation_a_step_goes_on_with(project: Project) -> None:
    steps = [
        {"id": "draft", "agent": "a", "input": "x"},
        {"id": "other", "agent": "b", "input": "x"},
        {"id": "again", "agent": "a", "input": "x"},
        {"id": "anew", "agent": "a", "input": "x", "conversation": "fresh"},
    ]
    document = {
        "version": 0,
        "name": "flow",
        "runtime": {"provider": "ollama"},
        "agents": {"a": {"prompt": "p"}, "b": {"prompt": "p"}},
        "pattern": {"type": "chain", "config": {"steps": steps}},
    }
    project.write("flow.json", json.dumps(document))
    shown = json.loads(project.strands("plan", "flow.json", "--json").out)
    assert [step["remembers"] for step in shown["steps"]] == [None, None, "draft", None]
    assert "memory continues the conversation of draft" in project.strands("plan", "flow.json").out
    assert 'again: a is given "x". It remembers draft.' in project.strands("explain", "flow.json").out


def test_the_vars_and_tools_of_a_step_are_shown(project: Project) -> None:
    project.write(
        "flow.yaml",
        """
        version: 0
        name: flow
        runtime: {provider: ollama}
        tools: {python: [echo, calculator]}
        agents: {a: {prompt: "Be {{ tone }}."}}
        pattern:
          type: chain
          config:
            steps:
              - {agent: a, input: "Say {{ word }}", vars: {tone: dry, word: hi}, tools: [echo]}
              - {agent: a, input: "Say {{ word }}", vars: {tone: warm, word: ho}, tools: []}
        """,
    )
    first, second = json.loads(project.strands("plan", "flow.yaml", "--json").out)["steps"]
    assert (first["prompt"], first["input"], first["tools"]) == ("Be dry.", "Say hi", ["echo"])
    assert (second["prompt"], second["input"], second["tools"]) == ("Be warm.", "Say ho", [])
    told = " ".join(project.strands("explain", "flow.yaml").out.split())
    assert "a asks ollama llama3.2:3b and may call echo." in told
    assert "Here it may call echo." in told
    assert "Here it may call no tools." in told


def test_the_description_of_a_task_is_shown(project: Project) -> None:
    tasks = """
          tasks:
            - {id: find, description: "Looks for facts.", agent: a}
            - {id: ask, description: Somebody has to agree, human: {prompt: "Good?"}, needs: [find]}
    """
    file = project.write("flow.yaml", f"version: 0\nname: flow\nruntime: {{provider: ollama}}\n"
        f"agents: {{a: {{prompt: x}}}}\npattern:\n  type: workflow\n  config:{tasks}")  # fmt: skip
    assert "Looks for facts." in project.strands("plan", str(file)).out
    steps = json.loads(project.strands("plan", str(file), "--json").out)["steps"]
    assert [step["description"] for step in steps] == ["Looks for facts.", "Somebody has to agree"]
    told = " ".join(project.strands("explain", str(file)).out.split())
    assert "find: a goes on with what came before. Looks for facts." in told
    assert 'a human is asked: "Good?" Somebody has to agree.' in told


def test_a_writeup_and_the_limit_of_workers_are_shown(project: Project) -> None:
    project.write(
        "flow.yaml",
        """
        version: 0
        name: flow
        runtime: {provider: ollama, max_parallel: 4}
        inputs: {required: {topic: string}}
        agents: {a: {prompt: x}}
        pattern:
          type: orchestrator_workers
          config:
            orchestrator: {agent: a}
            worker: {agent: a}
            reduce: {agent: a}
            writeup: {agent: a, input: "Write up {{ reduce_response }}"}
            max_workers: 3
        """,
    )
    steps = json.loads(project.strands("plan", "flow.yaml", "--json").out)["steps"]
    assert [(step["key"], step["order"]) for step in steps][-2:] == [("reduce", 3), ("writeup", 4)]
    assert steps[0]["input"] == "Divide this work into tasks: (all inputs as JSON)"
    assert steps[1]["note"] == "up to 8 tasks, 3 at a time"
    told = " ".join(project.strands("explain", "flow.yaml").out.split())
    assert "at most 3 at a time. Then a sums up. Last, a writes it up." in told
    drawn = project.strands("graph", "flow.yaml").out
    assert drawn.count("-->") == 5
