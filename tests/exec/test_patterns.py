"""What makes each pattern that pattern."""

import json
from pathlib import Path
from typing import Any

import pytest

from strands_cli.capability import check_capability
from strands_cli.errors import AnswerError, RunError, StrandsError
from strands_cli.events import RunNoticed, StepStarted
from strands_cli.types import RunResult
from tests.exec.flows import AGENT, Flow, steps
from tests.fakes import Pause, ScriptedModel, tool_call


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    return Flow(tmp_path)


def asked(model: ScriptedModel) -> list[str]:
    """What the model was asked last in each of its conversations."""
    return [request.prompt for request in model.requests]


def responses(result: RunResult) -> list[str]:
    return [step.response for step in result.steps]


# --- Chain ------------------------------------------------------------------------------------------------


def test_each_step_of_a_chain_sees_what_came_before(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue("two").enqueue("three")
    config = {
        "steps": [
            {"id": "first", "agent": "worker", "input": "Begin with {{ topic }}"},
            {"agent": "worker", "input": "Then {{ last_response }}"},
            {
                "agent": "worker",
                "input": "{{ steps.first.response }} {{ steps[1].response }} {{ steps[-1].response }}",
            },
        ]
    }
    result = flow.run("chain", config, {"topic": "owls"}, inputs={"required": {"topic": "string"}})
    assert asked(model) == ["Begin with owls", "Then one", "one two two"]
    assert result.last_response == "three"
    assert [(step.key, step.id, step.agent) for step in result.steps] == [
        ("steps/0", "first", "worker"),
        ("steps/1", "step 2", "worker"),
        ("steps/2", "step 3", "worker"),
    ]
    assert result.usage.total_tokens == 30
    assert result.duration > 0


def test_a_step_without_input_goes_on_with_what_came_before(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue("two")
    flow.run("chain", {"steps": [{"agent": "worker"}, {"agent": "worker"}]})
    assert asked(model) == ["Begin.", "one"]


def test_prompts_are_templates_too(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue("two")
    agents = {
        "worker": {"prompt": "You write about {{ topic }}. {{ last_response | default('Nothing yet.') }}"}
    }
    flow.run(
        "chain",
        {"steps": steps("a", "b")},
        {"topic": "owls"},
        agents=agents,
        inputs={"required": {"topic": "string"}},
    )
    assert [request.system_prompt for request in model.requests] == [
        "You write about owls. Nothing yet.",
        "You write about owls. one",
    ]


# --- Workflow ---------------------------------------------------------------------------------------------


def test_a_task_begins_when_what_it_needs_is_done(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("facts").enqueue("left").enqueue("right").enqueue("both")
    tasks = [
        {
            "id": "sum",
            "agent": "worker",
            "input": "{{ tasks.left.response }}+{{ tasks.right.response }}",
            "needs": ["left", "right"],
        },
        {"id": "left", "agent": "worker", "input": "left of {{ last_response }}", "needs": ["facts"]},
        {
            "id": "right",
            "agent": "worker",
            "input": "right of {{ tasks.facts.response }}",
            "needs": ["facts"],
        },
        {"id": "facts", "agent": "worker", "input": "facts"},
    ]
    result = flow.run("workflow", {"tasks": tasks})
    assert asked(model) == ["facts", "left of facts", "right of facts", "left+right"]
    assert result.last_response == "both"
    assert [step.id for step in result.steps] == ["sum", "left", "right", "facts"]


def test_no_more_agents_work_at_once_than_the_runtime_allows(flow: Flow, model: ScriptedModel) -> None:
    for _ in range(6):
        model.enqueue(Pause(0.05), "done")
    tasks = [{"id": f"t{number}", "agent": "worker", "input": "x"} for number in range(6)]
    flow.run("workflow", {"tasks": tasks}, runtime={"provider": "ollama", "max_parallel": 2})
    running = most = 0
    for event in flow.events:
        running += {"StepStarted": 1, "StepFinished": -1}.get(type(event).__name__, 0)
        most = max(most, running)
    assert most == 2


# --- Routing ----------------------------------------------------------------------------------------------

ROUTES: dict[str, Any] = {
    "router": {"agent": "router", "input": "Where to?"},
    "routes": {
        "maths": {
            "description": "Numbers",
            "steps": steps("Calculate on {{ route }}", "Check {{ last_response }}"),
        },
        "other": {"steps": steps("Anything")},
    },
}


def test_the_router_chooses_a_route_with_a_decision_that_is_checked(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", route="poetry")).enqueue(tool_call("answer", route="maths"))
    model.enqueue("4").enqueue("it is 4")
    result = flow.run("routing", ROUTES)
    assert result.last_response == "it is 4"
    assert "expected" in str(model.requests[1].results[0])
    assert "- maths: Numbers\n- other" in str(model.requests[0].system_prompt)
    assert [step.key for step in result.steps] == ["router", "routes/maths/steps/0", "routes/maths/steps/1"]
    assert result.scope["route"] == "maths"
    assert asked(model)[-2:] == ["Calculate on maths", "Check 4"]


def test_a_router_that_answers_in_text_is_understood(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue('I choose {"route": "other"}, since it fits.').enqueue("done")
    assert flow.run("routing", ROUTES).last_response == "done"


def test_a_router_that_names_no_route_leads_to_the_default(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("hm").enqueue("hm").enqueue("hm").enqueue("by default")
    result = flow.run("routing", {**ROUTES, "default": "other"})
    assert result.last_response == "by default"
    assert "other is taken" in flow.heard(RunNoticed)[0].text


def test_a_router_that_names_no_route_ends_the_run_where_there_is_no_default(
    flow: Flow, model: ScriptedModel
) -> None:
    model.default_answer = "hm"
    with pytest.raises(AnswerError, match="router"):
        flow.run("routing", ROUTES)


@pytest.mark.parametrize("answer", ["hm", tool_call("answer", route="poetry")])
@pytest.mark.parametrize("retries", [0, 1, 4])
def test_a_router_is_asked_again_as_often_as_the_file_says(
    flow: Flow, model: ScriptedModel, retries: int, answer: Any
) -> None:
    for _ in range(1 + retries):
        model.enqueue(answer)
    router = {**ROUTES["router"], "max_retries": retries}
    with pytest.raises(AnswerError):
        flow.run("routing", {**ROUTES, "router": router})
    assert len(model.requests) == 1 + retries


# --- Parallel ---------------------------------------------------------------------------------------------


def test_branches_run_at_once_and_are_reduced_in_the_order_of_the_file(
    flow: Flow, model: ScriptedModel
) -> None:

    model.enqueue(Pause(0.2), "slow").enqueue("quick").enqueue("all")
    config = {
        "branches": [
            {"id": "a", "steps": steps("A")},
            {"id": "b", "steps": steps("B")},
        ],
        "reduce": {
            "agent": "worker",
            "input": "{% for b in branches.values() %}{{ b.response }} {% endfor %}",
        },
    }
    result = flow.run("parallel", config)
    assert asked(model)[-1].strip() == "slow quick"
    assert responses(result) == ["slow", "quick", "all"]


DATA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_branches_that_nothing_reduces_are_the_result_sorted_by_their_ids(
    flow: Flow, model: ScriptedModel
) -> None:
    model.enqueue("one").enqueue(Pause(0.05), "two\nlines")
    branches = [{"id": "z", "steps": steps("x")}, {"id": "a", "steps": steps("y")}]
    result = flow.run("parallel", {"branches": branches})
    assert result.last_response == "Branch a:\ntwo\nlines\n\n---\n\nBranch z:\none"
    assert result.output is None
    assert [step.key for step in result.steps] == ["branches/0/steps/0", "branches/1/steps/0"]
    assert list(result.scope["branches"]) == ["z", "a"]


def test_the_outputs_of_all_branches_are_the_output(flow: Flow, model: ScriptedModel) -> None:
    agents = {"worker": {**AGENT, "output_schema": DATA}}
    model.enqueue(tool_call("answer", n=1)).enqueue(tool_call("answer", n=2))
    branches = [{"id": "z", "steps": steps("x")}, {"id": "a", "steps": steps("y")}]
    result = flow.run("parallel", {"branches": branches}, agents=agents)
    assert result.output == {"a": {"n": 2}, "z": {"n": 1}}
    model.enqueue(tool_call("answer", n=3))
    alone = flow.run("parallel", {"branches": branches[:1]}, agents=agents)
    assert (alone.last_response, alone.output) == ('Branch z:\n{"n": 3}', {"z": {"n": 3}})


def test_a_branch_that_fails_ends_the_others_cleanly(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(Pause(20), "never").enqueue(ConnectionRefusedError("refused"))
    branches = [{"id": "slow", "steps": steps("x")}, {"id": "bad", "steps": steps("y")}]
    with pytest.raises(StrandsError) as failed:
        flow.run("parallel", {"branches": branches})
    assert failed.value.exit_code == 10
    assert failed.value.kept.steps == ()
    assert failed.value.kept.duration < 10


# --- Evaluator and optimizer ------------------------------------------------------------------------------

JUDGED: dict[str, Any] = {
    "producer": {"agent": "writer", "input": "Write."},
    "evaluator": {"agent": "judge", "input": "Judge {{ draft }}"},
    "revise": "{{ evaluation.feedback }}: {{ draft }} ({{ evaluation.score }})",
    "min_score": 80,
    "max_iters": 3,
}


def test_a_draft_is_revised_until_it_is_good_enough(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("bad").enqueue(tool_call("answer", score=40, feedback="shorter"))
    model.enqueue("good").enqueue(tool_call("answer", score=90, feedback="fine"))
    result = flow.run("evaluator_optimizer", JUDGED)
    assert result.last_response == "good"
    assert asked(model) == ["Write.", "Judge bad", "shorter: bad (40)", "Judge good"]
    assert [step.key for step in result.steps] == ["producer#1", "evaluator#1", "producer#2", "evaluator#2"]
    assert result.scope["evaluation"] == {"score": 90, "feedback": "fine", "issues": ["fine"], "fixes": []}


def test_an_evaluator_may_answer_with_issues_and_fixes(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("bad").enqueue(
        tool_call("answer", score=40, issues=["too long", "dull"], fixes=["cut", "joke"])
    )
    model.enqueue("good").enqueue('{"score": 90, "issues": []}')
    config = {name: part for name, part in JUDGED.items() if name != "revise"}
    result = flow.run("evaluator_optimizer", config)
    assert asked(model)[2] == "bad\n\nImprove it: too long; dull\n\nProposals:\n- cut\n- joke"
    assert result.scope["evaluation"] == {"score": 90, "feedback": "", "issues": [], "fixes": []}


def test_without_fixes_the_producer_gets_the_feedback_alone(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("bad").enqueue(tool_call("answer", score=40, feedback="shorter"))
    model.enqueue("good").enqueue(tool_call("answer", score=90, feedback=""))
    config = {name: part for name, part in JUDGED.items() if name != "revise"}
    assert flow.run("evaluator_optimizer", config).scope["evaluation"]["issues"] == []
    assert asked(model)[2] == "bad\n\nImprove it: shorter"


def test_a_score_alone_is_asked_for_again(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("good").enqueue(tool_call("answer", score=90)).enqueue(
        tool_call("answer", score=90, feedback="x")
    )
    flow.run("evaluator_optimizer", JUDGED)
    assert "feedback" in str(model.requests[2].results[0])
    (spec,) = model.requests[1].tool_specs
    assert spec["inputSchema"]["json"]["required"] == ["score", "feedback"]
    assert list(spec["inputSchema"]["json"]["properties"]) == ["issues", "fixes", "score", "feedback"]


def test_issues_may_have_the_form_that_the_evaluators_schema_gives_them(
    flow: Flow, model: ScriptedModel
) -> None:
    issue = {"type": "object", "properties": {"line": {"type": "integer"}}, "required": ["line"]}
    own = {"type": "object", "properties": {"issues": {"type": "array", "items": issue}}}
    agents = {"writer": AGENT, "judge": {**AGENT, "output_schema": own}}
    config = {**JUDGED, "revise": "{% for one in evaluation.issues %}{{ one.line }} {% endfor %}"}
    assert check_capability(flow.spec("evaluator_optimizer", config, agents=agents)).issues == ()
    model.enqueue("bad").enqueue(tool_call("answer", score=40, issues=[{"line": 1}, {"line": 2}]))
    model.enqueue("good").enqueue(tool_call("answer", score=90, feedback="fine"))
    flow.run("evaluator_optimizer", config, agents=agents)
    assert asked(model)[2] == "1 2"


def test_after_the_last_time_the_draft_stands_and_the_score_is_told(flow: Flow, model: ScriptedModel) -> None:
    for number in range(3):
        model.enqueue(f"draft {number}").enqueue(tool_call("answer", score=10, feedback="no"))
    result = flow.run("evaluator_optimizer", JUDGED)
    assert result.last_response == "draft 2"
    assert "the score is 10, below 80" in flow.heard(RunNoticed)[0].text


# --- Orchestrator and workers -----------------------------------------------------------------------------

ORCHESTRATED: dict[str, Any] = {
    "orchestrator": {"agent": "planner", "input": "Divide."},
    "worker": {"agent": "worker", "input": "Do {{ task }}"},
    "reduce": {"agent": "editor", "input": "{% for done in tasks %}{{ done.response }};{% endfor %}"},
    "max_tasks": 3,
}


def test_workers_do_the_tasks_that_the_orchestrator_makes(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", tasks=["a", "b", "c", "d"])).enqueue(
        tool_call("answer", tasks=["a", "b"])
    )
    model.enqueue(Pause(0.1), "A").enqueue("B").enqueue("sum")
    result = flow.run("orchestrator_workers", ORCHESTRATED)
    assert asked(model)[2:] == ["Do a", "Do b", "A;B;"]
    assert result.last_response == "sum"
    assert [step.key for step in result.steps] == ["orchestrator#1", "worker/0#1", "worker/1#1", "reduce"]


def test_the_orchestrator_may_make_more_tasks_when_it_has_seen_the_answers(
    flow: Flow, model: ScriptedModel
) -> None:
    model.enqueue(tool_call("answer", tasks=["a"])).enqueue("A")
    model.enqueue(tool_call("answer", tasks=["b"])).enqueue("B")
    model.enqueue(tool_call("answer", tasks=[])).enqueue("sum")
    result = flow.run("orchestrator_workers", {**ORCHESTRATED, "max_rounds": 5})
    assert "The workers have answered:\n\nA" in str(model.requests[2].system_prompt)
    assert asked(model)[-1] == "A;B;"
    assert len(result.steps) == 6


def test_workers_whose_answers_nothing_reduces_are_the_result(flow: Flow, model: ScriptedModel) -> None:
    config = {name: step for name, step in ORCHESTRATED.items() if name != "reduce"}
    model.enqueue(tool_call("answer", tasks=["a", "b"])).enqueue("A").enqueue("B")
    result = flow.run("orchestrator_workers", config)
    assert (result.last_response, result.output) == ("Worker 1: A\n\nWorker 2: B", None)
    agents = {
        name: {**AGENT, "output_schema": DATA} if name == "worker" else AGENT
        for name in ("planner", "worker")
    }
    model.enqueue(tool_call("answer", tasks=["a", "b"])).enqueue(tool_call("answer", n=1)).enqueue(
        tool_call("answer", n=2)
    )
    assert flow.run("orchestrator_workers", config, agents=agents).output == [{"n": 1}, {"n": 2}]


def test_an_orchestrator_without_an_input_gets_all_inputs(flow: Flow, model: ScriptedModel) -> None:
    config = {**ORCHESTRATED, "orchestrator": {"agent": "planner"}}
    model.enqueue(tool_call("answer", tasks=[])).enqueue("none")
    flow.run("orchestrator_workers", config)
    inputs = {"required": {"topic": "string"}, "optional": {"parts": {"type": "integer", "default": 3}}}
    model.enqueue(tool_call("answer", tasks=[])).enqueue("none")
    flow.run("orchestrator_workers", config, {"topic": "Löwen <&>"}, inputs=inputs)
    bare, _, full, _ = asked(model)
    assert bare == "Begin."
    assert full.startswith("Divide this work into tasks:")
    assert json.loads(full.partition("\n\n")[2]) == {"topic": "Löwen <&>", "parts": 3}
    assert "Löwen <&>" in full


def test_no_more_workers_work_at_once_than_the_file_allows(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", tasks=list("abcdef")))
    for _ in range(6):
        model.enqueue(Pause(0.03), "done")
    config = {**ORCHESTRATED, "max_tasks": 6, "max_workers": 2}
    model.default_answer = "sum"
    flow.run("orchestrator_workers", config)
    running = most = 0
    for event in flow.events:
        if getattr(event, "step", "").startswith("worker/"):
            running += {"StepStarted": 1, "StepFinished": -1}.get(type(event).__name__, 0)
            most = max(most, running)
    assert most == 2


WRITEUP = {"agent": "author", "input": "{{ reduce_response }} of {{ tasks | length }}"}


def test_a_writeup_works_on_the_answer_of_reduce(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", tasks=["a", "b"])).enqueue("A").enqueue("B").enqueue("sum").enqueue(
        "text"
    )
    result = flow.run("orchestrator_workers", {**ORCHESTRATED, "writeup": WRITEUP})
    assert asked(model)[-1] == "sum of 2"
    assert result.last_response == "text"
    assert [step.key for step in result.steps][-2:] == ["reduce", "writeup"]
    assert (result.scope["reduce_response"], result.scope["writeup_response"]) == ("sum", "text")


def test_a_writeup_may_be_a_human_and_an_agent_without_input_gets_the_answer_of_reduce(
    flow: Flow, model: ScriptedModel
) -> None:
    model.enqueue(tool_call("answer", tasks=["a"])).enqueue("A").enqueue("sum")
    human = {"human": {"prompt": "{{ last_response }}?", "default": "fine"}}
    assert flow.run("orchestrator_workers", {**ORCHESTRATED, "writeup": human}).last_response == "fine"
    model.enqueue(tool_call("answer", tasks=["a"])).enqueue("A").enqueue("sum").enqueue("text")
    flow.run("orchestrator_workers", {**ORCHESTRATED, "writeup": {"agent": "author"}})
    assert asked(model)[-1] == "sum"


def test_a_writeup_needs_a_reduce_and_its_names_are_checked(flow: Flow) -> None:
    artifacts = {"artifacts": [{"path": "a.txt", "from": "{{ reduce_response }}{{ writeup_response }}"}]}
    spec = flow.spec("orchestrator_workers", {**ORCHESTRATED, "writeup": WRITEUP}, outputs=artifacts)
    assert check_capability(spec).issues == ()
    bare = {name: step for name, step in ORCHESTRATED.items() if name != "reduce"}
    (issue,) = check_capability(flow.spec("orchestrator_workers", {**bare, "writeup": WRITEUP})).errors
    assert (issue.pointer, "'reduce'" in issue.reason) == ("/pattern/config/writeup", True)


def test_an_orchestrator_may_make_no_tasks(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", tasks=[])).enqueue("nothing to do")
    assert flow.run("orchestrator_workers", ORCHESTRATED).last_response == "nothing to do"


# --- Graph ------------------------------------------------------------------------------------------------


def graph(nodes: dict[str, str], *edges: tuple[str, Any, str | None], **more: Any) -> dict[str, Any]:
    return {
        "nodes": {name: {"agent": "worker", "input": text} for name, text in nodes.items()},
        "edges": [
            {"from": source, "to": to} | ({"when": when} if when else {}) for source, to, when in edges
        ],
        **more,
    }


def test_edges_are_taken_where_their_condition_holds(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("approved").enqueue("published")
    config = graph(
        {"review": "Review", "publish": "Publish {{ last_response }}", "revise": "Revise"},
        ("review", "publish", "nodes.review.response contains 'approved'"),
        ("review", "revise", "not (nodes.review.response contains 'approved')"),
    )
    result = flow.run("graph", config)
    assert asked(model) == ["Review", "Publish approved"]
    assert result.last_response == "published"


def test_a_graph_fans_out_and_a_node_that_several_lead_to_runs_once(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("go").enqueue(Pause(0.1), "logs").enqueue("status").enqueue("judged")
    config = graph(
        {
            "start": "Start",
            "logs": "Logs",
            "status": "Status",
            "judge": "{{ nodes.logs.response }}/{{ nodes.status.response }}",
        },
        ("start", ["logs", "status"], None),
        ("logs", "judge", None),
        ("status", "judge", None),
    )
    result = flow.run("graph", config)
    assert asked(model)[-1] == "logs/status"
    assert responses(result) == ["go", "logs", "status", "judged"]


def test_a_loop_ends_at_its_cap_and_says_so(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "again"
    config = graph({"a": "A", "b": "B"}, ("a", "b", None), ("b", "a", None), start="a", max_visits=3)
    result = flow.run("graph", config)
    assert [step.key for step in result.steps] == [
        "nodes/a",
        "nodes/b",
        "nodes/a#2",
        "nodes/b#2",
        "nodes/a#3",
        "nodes/b#3",
    ]
    assert "a has run 3 times" in flow.heard(RunNoticed)[0].text


def test_a_condition_that_compares_what_cannot_be_compared_names_its_place(
    flow: Flow, model: ScriptedModel
) -> None:
    model.enqueue("many")
    config = graph({"a": "A", "b": "B"}, ("a", "b", "nodes.a.response < 3"))
    with pytest.raises(RunError, match=r"flow\.yaml:\d+:\d+  /pattern/config/edges/0/when"):
        flow.run("graph", config)


# --- All of them ------------------------------------------------------------------------------------------


def test_a_template_that_fails_while_it_runs_names_its_place(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one")
    config = {"steps": [*steps("a"), {"agent": "worker", "input": "{{ steps[0].output.missing }}"}]}
    with pytest.raises(StrandsError, match=r"flow\.yaml:\d+:\d+  /pattern/config/steps/1/input"):
        flow.run("chain", config)


def test_a_run_tells_of_its_steps_with_their_titles_and_models(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    branches = [{"id": "a", "steps": steps("x")}, {"id": "b", "steps": steps("x", "y")}]
    flow.run("parallel", {"branches": branches}, agents={"worker": {**AGENT, "model_id": "tiny"}})
    told = [(event.step, event.title, event.model) for event in flow.heard(StepStarted)]
    assert sorted(told) == [
        ("branches/0/steps/0", "a", "ollama tiny"),
        ("branches/1/steps/0", "b: step 1", "ollama tiny"),
        ("branches/1/steps/1", "b: step 2", "ollama tiny"),
    ]
