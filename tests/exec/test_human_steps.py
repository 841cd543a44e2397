"""Humans in every pattern: as steps, tasks, nodes and in place of reduce."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from strands_cli.capability import check_capability
from strands_cli.errors import RunError, SpecError
from strands_cli.loader import examine_workflow
from strands_cli.types import RunResult
from tests.exec.flows import Flow, steps
from tests.fakes import ScriptedModel, tool_call


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.chdir(tmp_path)
    return Flow(tmp_path)


class Human:
    """Answers questions by the words in them, each with its answers one after the other."""

    def __init__(self, **answers: str | list[str]) -> None:
        self.answers = {word: [text] if isinstance(text, str) else text for word, text in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, question: str) -> str:
        self.asked.append(question)
        word = next(word for word in self.answers if word in question)
        return self.answers[word].pop(0)


def human(prompt: str, **more: Any) -> dict[str, Any]:
    return {"human": {"prompt": prompt}, **more}


def run(flow: Flow, kind: str, config: Mapping[str, Any], person: Human, **more: Any) -> RunResult:
    return flow.run_spec(flow.spec(kind, dict(config), **more), ask_human=person)


def texts(model: ScriptedModel) -> list[str]:
    return [request.messages[0]["content"][0]["text"] for request in model.requests]


# --- Every place that takes a step ------------------------------------------------------------------------


def test_a_task_of_a_workflow_may_ask_a_human(flow: Flow, model: ScriptedModel) -> None:
    tasks = [
        {"id": "draft", "agent": "worker", "input": "write"},
        human("Publish? {{ tasks.draft.response }}", id="approval", needs=["draft"]),
        {"id": "publish", "agent": "worker", "input": "{{ tasks.approval.response }}", "needs": ["approval"]},
    ]
    model.enqueue("a draft").enqueue("published")
    person = Human(Publish="yes, today")
    result = run(flow, "workflow", {"tasks": tasks}, person)
    assert person.asked == ["Publish? a draft"]
    assert texts(model) == ["write", "yes, today"]
    assert [(step.key, step.id, step.agent) for step in result.steps] == [
        ("tasks/0", "draft", "worker"),
        ("tasks/1", "approval", "human"),
        ("tasks/2", "publish", "worker"),
    ]


def test_independent_tasks_go_on_while_a_human_thinks(flow: Flow, model: ScriptedModel) -> None:
    config = {"tasks": [human("Which?", id="ask"), {"id": "other", "agent": "worker", "input": "work"}]}
    worked = asyncio.Event()
    model.enqueue("done")

    class Slow(Human):
        async def __call__(self, question: str) -> str:
            await asyncio.wait_for(worked.wait(), 30)
            return await super().__call__(question)

    spec = flow.spec("workflow", config, runtime={"provider": "ollama", "max_parallel": 1})
    flow.events = Watched(worked)  # type: ignore[assignment]
    result = flow.run_spec(spec, ask_human=Slow(Which="this"))
    assert [step.response for step in result.steps] == ["this", "done"]


class Watched(list[Any]):
    """Tells when the agent's step has finished."""

    def __init__(self, finished: asyncio.Event) -> None:
        super().__init__()
        self._finished = finished

    def append(self, event: Any) -> None:
        super().append(event)
        if type(event).__name__ == "StepFinished" and event.agent == "worker":
            self._finished.set()


def test_a_node_of_a_graph_may_ask_a_human_again_and_again(flow: Flow, model: ScriptedModel) -> None:
    config = {
        "nodes": {
            "draft": {"agent": "worker", "input": "{{ last_response | default('begin') }}"},
            "review": human("Good? {{ nodes.draft.response }}"),
        },
        "edges": [
            {"from": "draft", "to": "review"},
            {"from": "review", "to": "draft", "when": "nodes.review.response != 'yes'"},
        ],
        "start": "draft",
    }
    model.enqueue("one").enqueue("two")
    person = Human(Good=["shorter", "yes"])
    result = run(flow, "graph", config, person)
    assert person.asked == ["Good? one", "Good? two"]
    assert texts(model) == ["begin", "shorter"]
    keys = [step.key for step in result.steps]
    assert keys == ["nodes/draft", "nodes/review", "nodes/draft#2", "nodes/review#2"]
    assert result.last_response == "yes"


def test_a_human_may_reduce_branches(flow: Flow, model: ScriptedModel) -> None:
    branches = [{"id": "a", "steps": steps("a")}, {"id": "b", "steps": [human("And b?")]}]
    config = {
        "branches": branches,
        "reduce": human("Which: {{ branches.a.response }}, {{ branches.b.response }}?"),
    }
    model.enqueue("first")
    person = Human(And="second", Which="the second")
    result = run(flow, "parallel", config, person)
    assert person.asked[-1] == "Which: first, second?"
    assert (result.last_response, result.steps[-1].key) == ("the second", "reduce")


def test_a_human_may_reduce_the_work_of_workers(flow: Flow, model: ScriptedModel) -> None:
    config = {
        "orchestrator": {"agent": "lead", "input": "divide"},
        "worker": {"agent": "worker"},
        "reduce": human("Best of: {{ tasks | join(', ') }}"),
    }
    model.enqueue(tool_call("answer", tasks=["x", "y"]))
    model.default_answer = "done"
    person = Human(Best="the first")
    result = run(flow, "orchestrator_workers", config, person)
    assert person.asked == ["Best of: done, done"]
    assert result.last_response == "the first"
    assert result.steps[-1].key == "reduce"


def test_a_human_in_a_route_sees_the_route(flow: Flow, model: ScriptedModel) -> None:
    config = {
        "router": {"agent": "router", "input": "which"},
        "routes": {"a": {"steps": [human("Route {{ route }}?")]}},
    }
    model.enqueue(tool_call("answer", route="a"))
    assert run(flow, "routing", config, Human(Route="fine")).last_response == "fine"


# --- Choices ----------------------------------------------------------------------------------------------

CHOICES = {"human": {"prompt": "Publish?", "choices": ["now", "Later"]}}


def test_an_answer_that_is_not_one_of_the_choices_is_asked_for_again(
    flow: Flow, model: ScriptedModel
) -> None:
    person = Human(Publish=["maybe", "", " later "])
    result = run(flow, "chain", {"steps": [CHOICES]}, person, agents={"worker": {"prompt": "x"}})
    assert result.last_response == "Later"
    assert person.asked[0] == "Publish?\n(now, Later)"
    assert person.asked[1] == "'maybe' is not one of the answers. Publish?\n(now, Later)"


def test_a_choice_is_not_asked_for_for_ever(flow: Flow, model: ScriptedModel) -> None:
    with pytest.raises(RunError, match="now, Later"):
        run(flow, "chain", {"steps": [CHOICES]}, Human(Publish=["?"] * 9), agents={"worker": {"prompt": "x"}})


def test_a_default_is_one_of_the_choices(flow: Flow) -> None:
    steps = [{"human": {**CHOICES["human"], "default": "latre"}}, {"agent": "worker"}]
    (issue,) = check_capability(flow.spec("chain", {"steps": steps})).issues
    assert issue.pointer == "/pattern/config/steps/0/human/default"
    assert "Later" in issue.remediation


# --- Review gates -----------------------------------------------------------------------------------------


def review(prompt: str, **more: Any) -> dict[str, Any]:
    return {"review": {"prompt": prompt, **more}}


ROUTES = {name: {"steps": steps(f"do {name}")} for name in ("alpha", "beta")}
ROUTING = {
    "router": {"agent": "router", "input": "which", **review("Take {{ route }}, because {{ reason }}?")},
    "routes": ROUTES,
}


@pytest.mark.parametrize(
    ("answers", "route"),
    [
        (["yes"], "alpha"),
        ([""], "alpha"),
        (["Approved."], "alpha"),
        (["beta"], "beta"),
        (["route:beta"], "beta"),
        (["BETA"], "beta"),
        (["gamma", "maybe", "beta"], "beta"),
    ],
)
def test_a_reviewer_approves_a_route_or_names_another(
    flow: Flow, model: ScriptedModel, answers: list[str], route: str
) -> None:
    model.enqueue(tool_call("answer", route="alpha", reason="it is first")).enqueue("done")
    person = Human(Take=list(answers))
    result = run(flow, "routing", ROUTING, person)
    assert texts(model)[-1] == f"do {route}"
    assert result.scope["route"] == route
    assert len(person.asked) == len(answers)
    assert person.asked[0].startswith("Take alpha, because it is first?\n(yes: take this route; ")
    for asked in person.asked[1:]:
        assert asked.startswith("That is not one of the answers here.\nTake alpha")
    gates = [step.key for step in result.steps if step.agent == "human"]
    assert gates == [f"router/review#{number}" for number in range(1, len(answers) + 1)]
    assert result.last_response == "done"


@pytest.mark.parametrize("answer", ["no", "Stop!", "reject", "abort"])
def test_a_reviewer_who_rejects_a_route_ends_the_run(flow: Flow, model: ScriptedModel, answer: str) -> None:
    model.enqueue(tool_call("answer", route="alpha"))
    with pytest.raises(RunError, match="rejected the route") as failed:
        run(flow, "routing", ROUTING, Human(Take=answer))
    assert failed.value.step == "router/review#1"
    assert repr(answer) in failed.value.message
    assert isinstance(failed.value.kept, RunResult)
    assert [step.key for step in failed.value.kept.steps] == ["router", "router/review#1"]


def test_a_gate_does_not_ask_for_ever(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", route="alpha"))
    person = Human(Take=["?"] * 100)
    with pytest.raises(RunError, match="No usable answer") as failed:
        run(flow, "routing", ROUTING, person)
    assert "alpha, beta" in failed.value.hint
    assert len(person.asked) == 5


def test_a_route_that_is_called_like_an_answer_can_be_chosen(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", route="alpha")).enqueue("done")
    config = {**ROUTING, "routes": {**ROUTES, "stop": {"steps": steps("do stop")}}}
    run(flow, "routing", config, Human(Take="stop"))
    assert texts(model)[-1] == "do stop"


JUDGED = {
    "producer": {"agent": "writer", "input": "write"},
    "evaluator": {
        "agent": "critic",
        **review("Round {{ round }}: {{ draft }} got {{ evaluation.score }}. Again?"),
    },
    "max_iters": 3,
}


def verdict(score: int) -> Any:
    return tool_call("answer", score=score, feedback="longer")


def test_a_reviewer_lets_the_rounds_go_on(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue(verdict(10)).enqueue("two").enqueue(verdict(20))
    model.enqueue("three").enqueue(verdict(30))
    person = Human(Round=["yes", "continue"])
    result = run(flow, "evaluator_optimizer", JUDGED, person)
    assert [asked.splitlines()[0] for asked in person.asked] == [
        "Round 1: one got 10. Again?",
        "Round 2: two got 20. Again?",
    ]
    keys = [step.key for step in result.steps if step.agent == "human"]
    assert keys == ["evaluator/review#1", "evaluator/review#2"]
    assert result.last_response == "three"


def test_nobody_is_asked_about_a_draft_that_is_good_enough(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue(verdict(90))
    person = Human()
    assert run(flow, "evaluator_optimizer", JUDGED, person).last_response == "one"
    assert person.asked == []


@pytest.mark.parametrize("answer", ["accept", "stop", "abort", "End."])
def test_a_reviewer_accepts_a_draft_as_it_is(flow: Flow, model: ScriptedModel, answer: str) -> None:
    model.enqueue("one").enqueue(verdict(10))
    result = run(flow, "evaluator_optimizer", JUDGED, Human(Round=answer))
    assert result.last_response == "one"
    assert result.scope["draft"] == "one"


def test_a_reviewer_rejects_a_draft(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue(verdict(10))
    with pytest.raises(RunError, match="rejected the draft"):
        run(flow, "evaluator_optimizer", JUDGED, Human(Round="reject"))


def test_no_is_asked_again_where_it_may_mean_two_things(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue(verdict(10))
    person = Human(Round=["no", "accept"])
    assert run(flow, "evaluator_optimizer", JUDGED, person).last_response == "one"
    assert len(person.asked) == 2


def test_the_producer_is_given_what_the_reviewer_asks_for(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("one").enqueue(verdict(10)).enqueue("two").enqueue(verdict(90))
    run(flow, "evaluator_optimizer", JUDGED, Human(Round="Mention {{ owls }}"))
    request = model.requests[2]
    assert "A reviewer asks for this:\nMention {{ owls }}" in str(request.system_prompt)
    assert "Improve it: longer" in str(request.messages)


def test_a_template_may_place_what_the_reviewer_asks_for(flow: Flow, model: ScriptedModel) -> None:
    revise = "{{ draft }}{% if review %} and {{ review }}{% endif %}"
    model.enqueue("one").enqueue(verdict(10)).enqueue("two").enqueue(verdict(20))
    model.enqueue("three").enqueue(verdict(90))
    run(flow, "evaluator_optimizer", {**JUDGED, "revise": revise}, Human(Round=["owls", "yes"]))
    assert [request.messages[-1]["content"][0]["text"] for request in model.requests[2::2]] == [
        "one and owls",
        "two",
    ]
    assert "reviewer" not in str(model.requests[2].system_prompt)


DIVIDED = {
    "orchestrator": {"agent": "lead", "input": "divide", **review("Do {{ plan | join(' and ') }}?")},
    "worker": {"agent": "worker"},
}


def test_a_reviewer_approves_the_tasks(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", tasks=["x", "y"])).enqueue("done").enqueue("done")
    person = Human(Do="ok")
    result = run(flow, "orchestrator_workers", DIVIDED, person)
    assert person.asked[0].startswith("Do x and y?")
    assert [step.key for step in result.steps] == [
        "orchestrator#1",
        "orchestrator/review#1",
        "worker/0#1",
        "worker/1#1",
    ]


def test_tasks_are_made_again_as_the_reviewer_asks(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", tasks=["x", "y"])).enqueue(tool_call("answer", tasks=["z"])).enqueue(
        "done"
    )
    person = Human(Do=["Only one", "yes"])
    result = run(flow, "orchestrator_workers", DIVIDED, person)
    prompt = str(model.requests[1].system_prompt)
    assert "A reviewer asks for this:\nOnly one" in prompt
    assert '"x"' in prompt
    assert person.asked[1].startswith("Do z?")
    assert [step.key for step in result.steps] == [
        "orchestrator#1",
        "orchestrator/review#1",
        "orchestrator#2",
        "orchestrator/review#2",
        "worker/0#2",
    ]
    assert texts(model)[-1] == "z"


def test_tasks_that_are_rejected_are_not_done(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", tasks=["x", "y"]))
    with pytest.raises(RunError, match="rejected the tasks"):
        run(flow, "orchestrator_workers", DIVIDED, Human(Do="no"))
    assert len(model.requests) == 1


def test_a_reviewer_cannot_ask_for_other_tasks_for_ever(flow: Flow, model: ScriptedModel) -> None:
    for _ in range(6):
        model.enqueue(tool_call("answer", tasks=["x"]))
    with pytest.raises(RunError, match="asked for other tasks 5 times, the limit"):
        run(flow, "orchestrator_workers", DIVIDED, Human(Do=["again"] * 9))
    assert len(model.requests) == 6


def test_every_round_of_tasks_is_reviewed_and_the_end_is_not(flow: Flow, model: ScriptedModel) -> None:
    config = {**DIVIDED, "max_rounds": 3}
    model.enqueue(tool_call("answer", tasks=["x"])).enqueue("done").enqueue(tool_call("answer", tasks=["y"]))
    model.enqueue("done").enqueue(tool_call("answer", tasks=[]))
    person = Human(Do=["yes", "yes"])
    run(flow, "orchestrator_workers", config, person)
    assert [asked[:5] for asked in person.asked] == ["Do x?", "Do y?"]


REDUCED = {
    "branches": [{"id": "a", "steps": steps("a")}],
    "reduce": {"agent": "editor", "input": "join", **review("Fine: {{ last_response }}?")},
}


def test_a_result_is_made_again_until_the_reviewer_approves(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("a").enqueue("long").enqueue("shorter").enqueue("short")
    person = Human(Fine=["Shorter!", "Even shorter", "yes"])
    result = run(flow, "parallel", REDUCED, person)
    assert [asked.splitlines()[0] for asked in person.asked] == [
        "Fine: long?",
        "Fine: shorter?",
        "Fine: short?",
    ]
    prompt = str(model.requests[2].system_prompt)
    assert "Your last answer was:\nlong" in prompt
    assert "A reviewer asks for this:\nShorter!" in prompt
    assert [step.key for step in result.steps][1:] == [
        *("reduce", "reduce/review#1", "reduce#2", "reduce/review#2", "reduce#3", "reduce/review#3"),
    ]
    assert result.last_response == "short"


def test_a_rejected_result_ends_the_run(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue("a").enqueue("long")
    with pytest.raises(RunError, match="rejected the result"):
        run(flow, "parallel", REDUCED, Human(Fine="no"))


def test_the_work_of_workers_is_reviewed(flow: Flow, model: ScriptedModel) -> None:
    config = {
        "orchestrator": {"agent": "lead"},
        "worker": {"agent": "worker"},
        "reduce": {
            "agent": "editor",
            "input": "join{{ review }}",
            **review("Fine: {{ tasks | length }}, {{ last_response }}?"),
        },
    }
    model.enqueue(tool_call("answer", tasks=["x"])).enqueue("done").enqueue("long").enqueue("short")
    person = Human(Fine=[" shorter", "yes"])
    result = run(flow, "orchestrator_workers", config, person)
    assert person.asked[0].startswith("Fine: 1, long?")
    assert texts(model)[-1] == "joinshorter"
    assert result.last_response == "short"


def test_a_gate_takes_its_default_where_nobody_can_be_asked(flow: Flow, model: ScriptedModel) -> None:
    gate = {"router": {"agent": "router", **review("?", default="beta")}}
    model.enqueue(tool_call("answer", route="alpha")).enqueue("done")
    result = flow.run("routing", {**ROUTING, **gate})
    assert result.scope["route"] == "beta"


# --- What is refused --------------------------------------------------------------------------------------

ASK = {"human": {"prompt": "?"}}
AGENT = {"agent": "worker"}


@pytest.mark.parametrize(
    ("kind", "config", "role"),
    [
        ("routing", {"router": ASK, "routes": {"a": {"steps": [AGENT]}}}, "router"),
        ("evaluator_optimizer", {"producer": ASK, "evaluator": AGENT}, "producer"),
        ("evaluator_optimizer", {"producer": AGENT, "evaluator": ASK}, "evaluator"),
        ("orchestrator_workers", {"orchestrator": ASK, "worker": AGENT}, "orchestrator"),
        ("orchestrator_workers", {"orchestrator": AGENT, "worker": ASK}, "worker"),
    ],
)
def test_a_human_cannot_take_the_place_of_an_agent_whose_answer_has_a_form(
    flow: Flow, kind: str, config: dict[str, Any], role: str
) -> None:
    with pytest.raises(SpecError) as refused:
        flow.spec(kind, config, agents={"worker": {"prompt": "x"}})
    (issue,) = refused.value.issues
    assert issue.pointer == f"/pattern/config/{role}/human"
    assert issue.line > 1
    assert f"Only an agent can be the {role}" in issue.remediation


@pytest.mark.parametrize(
    ("kind", "config", "pointer"),
    [
        ("chain", {"steps": [{**ASK, "input": "x"}]}, "/steps/0/input"),
        ("chain", {"steps": [{**ASK, "agent": "worker"}]}, "/steps/0/agent"),
        ("workflow", {"tasks": [{**ASK, "id": "a", "input": "x"}]}, "/tasks/0/input"),
        ("workflow", {"tasks": [ASK]}, "/tasks/0/id"),
        ("graph", {"nodes": {"a": {**ASK, "id": "a"}}, "edges": []}, "/nodes/a/id"),
        ("graph", {"nodes": {"a": {"human": {}}}, "edges": []}, "/nodes/a/human/prompt"),
        ("parallel", {"branches": [], "reduce": {**ASK, "agent": "worker"}}, "/reduce/agent"),
    ],
)
def test_keys_that_a_human_step_cannot_have_are_found(
    flow: Flow, kind: str, config: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(SpecError) as refused:
        flow.spec(kind, config, agents={"worker": {"prompt": "x"}})
    assert f"/pattern/config{pointer}" in [issue.pointer for issue in refused.value.issues]


def test_a_human_has_no_output(flow: Flow) -> None:
    use = {"id": "b", "agent": "worker", "input": "{{ tasks.ask.output.x }}", "needs": ["ask"]}
    (issue,) = check_capability(flow.spec("workflow", {"tasks": [human("?", id="ask"), use]})).issues
    assert issue.remediation == "A human answers with text: write response."


@pytest.mark.parametrize(
    ("kind", "config", "pointer"),
    [
        ("routing", {**ROUTING, "router": {**AGENT, **review("?", default="gamma")}}, "/router/review/default"),
        (
            "evaluator_optimizer",
            {**JUDGED, "evaluator": {**AGENT, **review("?", default="no")}},
            "/evaluator/review/default",
        ),
        (
            "orchestrator_workers",
            {**DIVIDED, "orchestrator": {**AGENT, **review("?", default="other tasks")}},
            "/orchestrator/review/default",
        ),
        ("parallel", {**REDUCED, "reduce": {**AGENT, **review("?", default="hm")}}, "/reduce/review/default"),
        ("parallel", {**REDUCED, "reduce": {**AGENT, **review("{{ review }}")}}, "/reduce/review/prompt"),
        ("parallel", {**REDUCED, "reduce": {**ASK, **review("?")}}, "/reduce/review"),
        ("parallel", {**REDUCED, "reduce": {**AGENT, "review": {"prompt": "?", "choices": ["a"]}}},
         "/reduce/review/choices"),
        ("parallel", {"branches": REDUCED["branches"], "reduce": {**AGENT, "input": "{{ review }}"}},
         "/reduce/input"),
        ("evaluator_optimizer", {**JUDGED, "max_iters": 1}, "/evaluator/review"),
        ("evaluator_optimizer", {**JUDGED, "producer": {**AGENT, **review("?")}}, "/producer/review"),
        ("orchestrator_workers", {**DIVIDED, "worker": {**AGENT, **review("?")}}, "/worker/review"),
        ("chain", {"steps": [{**AGENT, **review("?")}]}, "/steps/0/review"),
    ],
)  # fmt: skip
def test_gates_that_cannot_work_are_found(
    flow: Flow, kind: str, config: dict[str, Any], pointer: str
) -> None:
    file = flow.directory / "flow.yaml"
    file.write_text(yaml.safe_dump(flow.document(kind, config), sort_keys=False))
    spec, issues = examine_workflow(file)
    assert spec is not None
    found = [*issues, *check_capability(spec, issues).issues]
    assert [issue.pointer for issue in found] == [f"/pattern/config{pointer}"]
