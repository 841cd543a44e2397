"""The names that files of other runners use in templates: in every pattern, in conditions and in artifacts."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from strands_cli.capability import check_capability
from strands_cli.errors import Paused, StrandsError
from strands_cli.exec.run import run
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import MemoryStore
from strands_cli.types import RunResult
from tests.exec.flows import Flow, steps
from tests.fakes import ScriptedModel, tool_call
from tests.projects import Project


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.chdir(tmp_path)
    return Flow(tmp_path)


def human(prompt: str, **more: Any) -> dict[str, Any]:
    return {"human": {"prompt": prompt}, **more}


def finished(
    flow: Flow, kind: str, config: dict[str, Any], artifact: str, answers: Sequence[str] = (), **more: Any
) -> str:
    """The artifact of a run that pauses at each question, and is resumed with the answer to the last one."""
    outputs = {"artifacts": [{"path": "out.txt", "from": artifact}]}
    spec = flow.spec(kind, config, outputs=outputs, **more)
    assert [issue for issue in check_capability(spec).issues if issue.severity == "error"] == []
    store, given, result = MemoryStore(), iter(answers), RunResult(name="", pattern="", last_response="")
    options = RunOptions(directory=flow.directory, store=store, force=True)
    while not result.name:
        try:
            result = asyncio.run(run(spec, None, options))
        except Paused as paused:
            row = {"at": 1, "by": "resume", "text": next(given)}
            fence = store.take(paused.run_id)
            store.put(paused.run_id, fence, {f"{paused.questions[-1].key}/answer": json.dumps(row).encode()})
            store.release(paused.run_id, fence)
            options = RunOptions(directory=flow.directory, store=store, force=True, resume=paused.run_id)
    assert next(given, None) is None
    return (flow.directory / "out.txt").read_text()


def asked(model: ScriptedModel) -> list[str]:
    return [request.prompt for request in model.requests]


COMMON = "{{ name }} {{ runtime.provider }} {{ context_policy.notes }} {{ timestamp[:2] }} {{ cumulative_tokens }} "


# --- Each pattern -----------------------------------------------------------------------------------------


def test_names_in_a_chain(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue("two")
    config = {
        "steps": [
            *steps("first, after [{{ hitl_response }}]"),
            human("Is {{ steps[0].response }} good?"),
            *steps(
                "{{ hitl_response }}: {% for s in steps %}{{ s.index }}{{ s.type }}{{ s.status }} {% endfor %}"
            ),
        ]
    }
    artifact = COMMON + (
        "{{ hitl_response }} {{ steps[1].prompt }} {{ steps[0].tokens_estimated }} {{ steps[2].index }} "
        "{{ execution_context.last_response }} {{ execution_context.steps[1].response }} {{ execution_context.name }}"
    )
    assert finished(flow, "chain", config, artifact, ["yes"]) == (
        "flow ollama  20 20 yes Is one good? 10 2 two yes flow"
    )
    assert asked(model) == ["first, after []", "yes: 0agentsuccess 1hitlsuccess"]


def test_names_in_a_workflow_of_tasks(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue("two")
    config = {
        "tasks": [
            {"id": "a", "agent": "worker", "input": "begin"},
            human("Good?", id="ask", needs=["a"]),
            {
                "id": "b",
                "agent": "worker",
                "input": "{{ hitl_response }}{% for k, t in tasks.items() %} {{ k }}:{{ t.type }}{% endfor %}",
                "needs": ["ask"],
            },
        ]
    }
    artifact = COMMON + "{{ tasks.a.status }} {{ tasks.ask.type }} {{ tasks.ask.prompt }} {{ tasks.b.index }}"
    text = finished(flow, "workflow", config, artifact, ["fine"])
    assert text == "flow ollama  20 20 success hitl Good? 2"
    assert asked(model) == ["begin", "fine a:agent ask:hitl"]


def test_names_in_routes(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", route="short", reason="r")).enqueue("done")
    config = {
        "router": {"agent": "chooser", "input": "which"},
        "routes": {"short": {"steps": steps("{{ router.chosen_route }} {{ router.response }}")}},
    }
    artifact = (
        COMMON + "{{ router.chosen_route }} {{ chosen_route }} {{ router_agent }} {{ steps[0].status }}"
    )
    assert finished(flow, "routing", config, artifact) == "flow ollama  20 20 short short chooser success"
    assert asked(model)[1] == 'short {"reason": "r", "route": "short"}'


def test_names_of_branches(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue("two").enqueue("all")
    template = "{% for b in branches.values() %}{{ b.status }} {{ b.tokens_estimated }} {{ b.step_history | length }}{% endfor %}"
    config = {
        "branches": [{"id": "x", "steps": steps("a", "b {{ steps[0].agent }}")}],
        "reduce": {"agent": "worker", "input": template},
    }
    artifact = COMMON + "{{ branches.x.step_history[0].response }} {{ branches.x.response }}"
    assert finished(flow, "parallel", config, artifact) == "flow ollama  20 30 one two"
    assert asked(model)[2] == "success 10 2"


def test_names_of_an_evaluator(flow: Flow, model: ScriptedModel) -> None:
    for draft, score in (("d1", 40), ("d2", 60), ("d3", 90)):
        model.enqueue(draft).enqueue(tool_call("answer", score=score, feedback=f"f{score}"))
    review = (
        "{{ iteration_index }} {{ current_draft }} {{ current_evaluation.score }}"
        "{% for i in iterations %} {{ i.iteration }}:{{ i.score }}:{{ i.issues[0] }}:{{ i.draft_preview }}{% endfor %}"
    )
    config = {
        "producer": {"agent": "writer", "input": "write"},
        "evaluator": {"agent": "critic", "input": "{{ draft }}", "review": {"prompt": review}},
        "revise": "iteration {{ iteration }}: {{ evaluation.score }} after [{{ hitl_response }}]",
        "min_score": 85,
        "max_iters": 4,
    }
    artifact = COMMON + (
        "{{ iterations }} {{ final_score }} {{ min_score }} {{ max_iters }} {{ last_evaluation.feedback }} "
        "{% for h in history %}{{ h.iteration }}{{ h.draft }}{{ h.evaluation.score }} {% endfor %}"
    )
    text = finished(flow, "evaluator_optimizer", config, artifact, ["yes", "continue"])
    assert text == "flow ollama  20 60 3 90 85 4 f90 1d140 2d260 3d390 "
    assert asked(model)[2::2] == ["iteration 2: 40 after [yes]", "iteration 3: 60 after [continue]"]


def test_what_a_reviewer_of_drafts_is_shown(flow: Flow, model: ScriptedModel) -> None:
    questions = []

    async def answer(question: str) -> str:
        questions.append(question.partition("\n")[0])
        return "yes"

    for draft, score in (("d1", 40), ("d2", 60), ("d3", 90)):
        model.enqueue(draft).enqueue(tool_call("answer", score=score, feedback=f"f{score}"))
    review = (
        "{{ iteration_index }} {{ current_draft }} {{ current_evaluation.score }}"
        "{% for i in iterations %} {{ i.iteration }}:{{ i.score }}:{{ i.issues[0] }}:{{ i.draft_preview }}{% endfor %}"
    )
    config = {
        "producer": {"agent": "writer"},
        "evaluator": {"agent": "critic", "review": {"prompt": review}},
    }
    flow.run_spec(flow.spec("evaluator_optimizer", config), ask_human=answer)
    assert questions == ["0 d1 40 1:40:f40:d1", "1 d2 60 1:40:f40:d1 2:60:f60:d2"]


def test_a_round_has_feedback_where_the_evaluator_gave_issues_only(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("d1").enqueue(tool_call("answer", score=90, issues=["dry", "long"]))
    config = {"producer": {"agent": "writer"}, "evaluator": {"agent": "critic"}}
    artifact = (
        "{{ history[0].feedback }} / {{ history[0].evaluation.feedback }} {{ history[0].evaluation.fixes }}"
    )
    assert finished(flow, "evaluator_optimizer", config, artifact) == "dry; long / dry; long []"


def test_names_of_workers(flow: Flow, model: ScriptedModel) -> None:
    questions = []

    async def answer(question: str) -> str:
        questions.append(question.rpartition("\n")[0])
        return "yes"

    model.enqueue(tool_call("answer", tasks=["dig", "fill"])).enqueue("dug").enqueue("filled").enqueue(
        "all done"
    )
    reduce = (
        "{{ num_workers }} {{ round_count }} {{ hitl_response }}"
        "{% for w in workers %} {{ w.task }}:{{ w.response }}:{{ w.status }}:{{ w.tokens }}{% endfor %}"
    )
    planned = "{{ task_count }} {% for t in subtasks %}{{ t.task }},{% endfor %} {{ orchestrator_response }}"
    config = {
        "orchestrator": {"agent": "chief", "review": {"prompt": planned}},
        "worker": {"agent": "worker"},
        "reduce": {
            "agent": "worker",
            "input": reduce,
            "review": {"prompt": "{{ worker_count }} {{ workers[1].task }} {{ last_response }}"},
        },
    }
    artifact = COMMON + (
        "{{ num_workers }} {{ round_count }} {{ workers[1].task }} {{ reduce_response }} [{{ writeup_response }}] "
        "{{ (workers | tojson).count('fill') }}"
    )
    outputs = {"artifacts": [{"path": "out.txt", "from": artifact}]}
    spec = flow.spec("orchestrator_workers", config, outputs=outputs)
    options = RunOptions(directory=flow.directory, ask_human=answer)
    result = asyncio.run(run(spec, None, options))
    assert questions == ['2 dig,fill, [{"task": "dig"}, {"task": "fill"}]', "2 fill all done"]
    assert asked(model)[-1] == "2 1 yes dig:dug:success:10 fill:filled:success:10"
    assert result.artifacts[0].read_text() == "flow ollama  20 40 2 1 fill all done [] 2"


GRAPH = {
    "start": "work",
    "max_visits": 5,
    "nodes": {
        "work": {
            "agent": "worker",
            "input": "{{ nodes.work.iteration | default(0) }} [{{ hitl_response }}]",
        },
        "ask": human("Enough of {{ nodes.work.response }}?"),
        "end": {"agent": "worker", "input": "{{ hitl_response }} {{ nodes | tojson | length > 50 }}"},
    },
    "edges": [
        {"from": "work", "to": "ask"},
        {"from": "ask", "to": "end", "when": "hitl_response.strip().lower() == 'yes' or nodes.work.iteration >= 3"},
        {"from": "ask", "to": "work", "when": "not (hitl_response.strip().lower() == 'yes') and nodes.work.iteration < 3"},
    ],
}  # fmt: skip


def test_names_in_a_graph(flow: Flow, model: ScriptedModel) -> None:
    for text in ("w1", "w2", "w3", "end"):
        model.enqueue(text)
    artifact = COMMON + (
        "{{ terminal_node }} {{ total_steps }} {{ iteration_counts }} {{ nodes.work.iteration }} {{ nodes.ask.type }} "
        "{% for k, v in nodes.items() %}{{ k }}={{ v['response'] }},{% endfor %}"
    )
    text = finished(flow, "graph", GRAPH, artifact, ["no", "no", "no"])
    assert text == ('flow ollama  20 40 end 7 {"work": 3, "ask": 3, "end": 1} 3 hitl work=w3,ask=no,end=end,')
    assert asked(model) == ["0 []", "1 [no]", "2 [no]", "no true"]


def test_names_in_an_inner_workflow_are_those_of_its_own_run(flow: Flow, model: ScriptedModel) -> None:
    for text in ("w1", "w2", "end", "last"):
        model.enqueue(text)
    inner = Flow(flow.directory).document("graph", GRAPH)
    (flow.directory / "inner.yaml").write_text(yaml.safe_dump(inner, sort_keys=False))
    config = {
        "steps": [{"workflow": "./inner.yaml"}, *steps("{{ steps[0].response }} {{ steps[0].status }}")]
    }
    text = finished(flow, "chain", config, "{{ steps[0].index }} {{ last_response }}", ["no", " YES "])
    assert text == "0 last"
    assert asked(model) == ["0 []", "1 [no]", "YES  true", "end success"]


def test_the_latest_answer_is_the_latest_in_time_also_in_a_resumed_run(flow: Flow) -> None:
    config = {
        "tasks": [
            human("First?", id="x"),
            human("Second?", id="y"),
            human("After {{ hitl_response }}?", id="z", needs=["x", "y"]),
        ]
    }
    text = finished(flow, "workflow", config, "{{ tasks.z.prompt }} {{ hitl_response }}", ["y1", "x2", "z3"])
    assert text == "After x2? z3"


# --- What comes first, and what is refused ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["name", "status", "router", "history", "timestamp", "iteration", "workers"])
def test_an_input_of_that_name_comes_first_and_is_no_problem(
    flow: Flow, model: ScriptedModel, name: str
) -> None:
    model.enqueue("done")
    template = f"{{{{ {name} }}}} {{{{ inputs.{name} }}}}"
    outputs = {"artifacts": [{"path": "out.txt", "from": template}]}
    inputs = {"required": {name: "string"}}
    spec = flow.spec("chain", {"steps": steps(template)}, inputs=inputs, outputs=outputs)
    assert check_capability(spec).issues == ()
    result = asyncio.run(run(spec, {name: "mine"}, RunOptions(directory=flow.directory)))
    assert asked(model) == ["mine mine"]
    assert result.artifacts[0].read_text() == "mine mine"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ hitl_response }}", "There is no name 'hitl_response'."),
        ("{{ num_workers }}", "There is no name 'num_workers'."),
        ("{{ timestamp }}", "There is no name 'timestamp'."),
        ("{{ steps[0].prompt }}", "There is no part of a result 'prompt'."),
        ("{{ steps[0].task }}", "There is no part of a result 'task'."),
        ("{{ steps[0].statuss }}", "There is no part of a result 'statuss'."),
    ],
)
def test_a_name_is_unknown_where_it_means_nothing_and_is_never_offered(
    flow: Flow, template: str, reason: str
) -> None:
    (issue,) = check_capability(flow.spec("chain", {"steps": steps("a", template)}, inputs={})).issues
    assert issue.reason == reason
    offered = issue.remediation.partition("Available here: ")[2].rstrip(".").split(", ")
    assert set(offered) <= {"", "inputs", "last_response", "steps", "response", "output", "agent", "id"}


def test_artifacts_of_a_failed_run_do_not_have_what_its_end_decides(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one")
    outputs = {
        "artifacts": [
            {"path": "one.txt", "from": "{{ name }} {{ steps[0].response }}"},
            {"path": "two.txt", "from": "{{ execution_context.last_response }}"},
        ]
    }
    config = {"steps": [*steps("a"), {"tool": "file_read", "arguments": {"path": "gone.txt"}}]}
    spec = flow.spec("chain", config, outputs=outputs, tools={"python": ["file_read"]})
    with pytest.raises(StrandsError) as failed:
        asyncio.run(run(spec, None, RunOptions(directory=flow.directory)))
    assert isinstance(failed.value.kept, RunResult)
    assert [path.read_text() for path in failed.value.kept.artifacts] == ["flow one"]


@pytest.mark.usefixtures("trusting")
def test_the_host_of_a_model_is_shown_without_its_password(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one")
    runtime = {"provider": "ollama", "host": "http://me:s3cret@localhost:11434"}
    text = finished(flow, "chain", {"steps": steps("a")}, "{{ runtime.host }}", runtime=runtime)
    assert text == "http://localhost:11434"


def test_plan_shows_what_is_known_before_a_run(project: Project) -> None:
    spec = Flow(project.root).document("chain", {"steps": steps("{{ hitl_response }}")})
    spec["outputs"] = {"artifacts": [{"path": "{{ name }}-{{ timestamp }}.md", "from": "x"}]}
    project.write("flow.yaml", yaml.safe_dump(spec))
    shown = project.strands("plan", "flow.yaml").out
    assert "flow-{{ timestamp }}.md" in shown
    assert "input  {{ hitl_response }}" in shown
