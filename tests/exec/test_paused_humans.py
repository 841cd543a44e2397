"""Runs with humans where nobody watches: they pause at every question, and go on with the answers."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from strands_cli.errors import Paused, RunError
from strands_cli.events import StepFinished
from strands_cli.exec.run import run
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import MemoryStore
from strands_cli.loader.spec import Spec
from strands_cli.types import RunResult
from tests.exec.flows import Flow, steps
from tests.fakes import Call, ObligingModel, Part, fitting, installed

HOUR = 3600.0


class Echoing(ObligingModel):
    """Answers a text with that text, and never finds a draft good enough."""

    def _next(self) -> list[Part]:
        request = self.requests[-1]
        answer = next((spec for spec in request.tool_specs if spec["name"] == "answer"), None)
        if answer is None:
            return [f"<{request.messages[-1]['content'][0]['text']}>"]
        given = fitting(answer["inputSchema"]["json"])
        return [Call("answer", {**given, "score": 10} if "score" in given else given)]


@pytest.fixture
def echo() -> Iterator[Echoing]:
    with installed(Echoing()) as model:
        yield model


class Unwatched(Flow):
    """A workflow with a journal, and nobody to be asked."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.store = MemoryStore()
        self.run_id = ""
        self.asked: list[tuple[str, str]] = []

    def go(self, spec: Spec, **options: Any) -> RunResult:
        given = RunOptions(directory=self.directory, store=self.store, resume=self.run_id, **options)
        try:
            return asyncio.run(run(spec, None, given))
        except Paused as paused:
            self.run_id = paused.run_id
            self.asked += [(question.key, question.text) for question in paused.questions]
            raise
        except RunError as failed:
            self.run_id = failed.run_id
            raise

    def rows(self) -> dict[str, Any]:
        return {key: json.loads(row) for key, row in self.store.load(self.run_id).items()}

    def put(self, rows: Mapping[str, Any]) -> None:
        fence = self.store.take(self.run_id)
        self.store.put(self.run_id, fence, {key: json.dumps(row).encode() for key, row in rows.items()})
        self.store.release(self.run_id, fence)

    def answer_keys(self, answers: Mapping[str, str]) -> None:
        row = {"at": time.time(), "by": "resume"}
        self.put({f"{key}/answer": {**row, "text": text} for key, text in answers.items()})

    def go_to_end(self, spec: Spec, answers: Mapping[str, str]) -> RunResult:
        """Answers what is asked, one pause after the other."""
        while True:
            before = len(self.asked)
            try:
                return self.go(spec)
            except Paused:
                self.answer_keys({key: answers[key] for key, _ in self.asked[before:]})


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unwatched:
    monkeypatch.chdir(tmp_path)
    return Unwatched(tmp_path)


def human(prompt: str, **more: Any) -> dict[str, Any]:
    return {"human": {"prompt": prompt}, **more}


def review(prompt: str, **more: Any) -> dict[str, Any]:
    return {"review": {"prompt": prompt, **more}}


BRANCHES = [
    {"id": name, "steps": [*steps(f"begin {name}"), human(f"{name}: {{{{ last_response }}}}?"), *steps(name)]}
    for name in ("a", "b", "c")
]
CASES: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "chain": (
        "chain",
        {"steps": [*steps("one"), human("First?"), human("Then {{ last_response }}?"), *steps("two")]},
        {"steps/1": "yes", "steps/2": "no"},
    ),
    "tasks": (
        "workflow",
        {
            "tasks": [
                {"id": "x", "agent": "worker", "input": "x"},
                human("Is {{ tasks.x.response }} good?", id="good", needs=["x"]),
                human("And you?", id="you"),
                {"id": "end", "agent": "worker", "needs": ["good", "you"]},
            ]
        },
        {"tasks/1": "good", "tasks/2": "fine"},
    ),
    "nodes": (
        "graph",
        {
            "nodes": {"draft": {"agent": "worker"}, "look": human("Good? {{ nodes.draft.response }}")},
            "edges": [
                {"from": "draft", "to": "look"},
                {"from": "look", "to": "draft", "when": "nodes.look.response != 'yes'"},
            ],
            "start": "draft",
        },
        {"nodes/look": "again", "nodes/look#2": "and again", "nodes/look#3": "yes"},
    ),
    "branches and reduce": (
        "parallel",
        {"branches": BRANCHES, "reduce": human("Which of {{ branches | length }}?")},
        {**{f"branches/{index}/steps/1": f"answer {index}" for index in range(3)}, "reduce": "the last"},
    ),
    "route": (
        "routing",
        {
            "router": {"agent": "router", **review("Take {{ route }}?")},
            "routes": {"a": {"steps": steps("a")}, "b": {"steps": [human("In {{ route }}?"), *steps("b")]}},
        },
        {"router/review#1": "c", "router/review#2": "b", "routes/b/steps/0": "yes"},
    ),
    "drafts": (
        "evaluator_optimizer",
        {
            "producer": {"agent": "writer", "input": "write"},
            "evaluator": {"agent": "critic", **review("Round {{ round }}, {{ draft }}?")},
            "max_iters": 4,
        },
        {"evaluator/review#1": "yes", "evaluator/review#2": "more owls", "evaluator/review#3": "accept"},
    ),
    "tasks of workers": (
        "orchestrator_workers",
        {
            "orchestrator": {"agent": "lead", **review("Do {{ plan | join }}?")},
            "worker": {"agent": "worker"},
            "reduce": {"agent": "editor", **review("Fine: {{ last_response }}?")},
        },
        {
            "orchestrator/review#1": "others",
            "orchestrator/review#2": "ok",
            "reduce/review#1": "shorter",
            "reduce/review#2": "yes",
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_pauses_at_every_question_ends_like_one_that_does_not(
    flow: Unwatched, echo: Echoing, case: str
) -> None:
    kind, config, answers = CASES[case]
    spec = flow.spec(kind, config)
    paused = flow.go_to_end(spec, answers)
    assert sorted(key for key, _ in flow.asked) == sorted(answers)
    requests = len(echo.requests)

    left = [answers[key] for key, _ in flow.asked]
    questions = [text for _, text in flow.asked]

    async def person(question: str) -> str:
        index = questions.index(question)
        del questions[index]
        return left.pop(index)

    watched = flow.run_spec(spec, ask_human=person)
    assert [(step.key, step.response) for step in paused.steps] == [
        (step.key, step.response) for step in watched.steps
    ]
    assert paused.last_response == watched.last_response
    assert len(echo.requests) == 2 * requests, "what was asked before a pause is not asked again"


def test_the_questions_of_an_inner_workflow_pause_the_whole(flow: Unwatched, echo: Echoing) -> None:
    kind, config, answers = CASES["route"]
    inner = flow.document(kind, config)
    (flow.directory / "inner.yaml").write_text(yaml.safe_dump(inner, sort_keys=False))
    spec = flow.spec("chain", {"steps": [{"workflow": "inner.yaml"}, human("And {{ last_response }}?")]})
    with pytest.raises(Paused) as paused:
        flow.go(spec)
    (question,) = paused.value.questions
    assert question.kind == "review"
    prefix = question.key.removesuffix("router/review#1")
    assert prefix not in ("", question.key)
    flow.answer_keys({question.key: answers["router/review#1"]})
    result = flow.go_to_end(
        spec, {f"{prefix}{key}": text for key, text in answers.items()} | {"steps/1": "ok"}
    )
    assert result.last_response == "ok"
    assert ("steps/1", "And <b>?") in flow.asked
    assert len(echo.requests) == 2


def test_all_that_wait_are_named_at_once(flow: Unwatched, echo: Echoing) -> None:
    spec = flow.spec("parallel", {"branches": BRANCHES})
    with pytest.raises(Paused) as paused:
        flow.go(spec)
    assert [question.key for question in paused.value.questions] == [
        f"branches/{index}/steps/1" for index in range(3)
    ]
    flow.answer_keys({"branches/1/steps/1": "yes"})
    with pytest.raises(Paused) as still:
        flow.go(spec)
    assert [question.key for question in still.value.questions] == [
        "branches/0/steps/1",
        "branches/2/steps/1",
    ]
    assert "branches/1/steps/2/result" in flow.rows()


def test_a_step_that_waits_has_not_failed(flow: Unwatched, echo: Echoing) -> None:
    spec = flow.spec("chain", {"steps": [human("Go?")]}, agents={"worker": {"prompt": "x"}})
    with pytest.raises(Paused):
        flow.go(spec, listeners=(flow.events.append,))
    (ended,) = flow.heard(StepFinished)
    assert (ended.error, ended.waiting) == ("", True)
    assert "steps/0/failed" not in flow.rows()


def test_a_question_says_what_it_is(flow: Unwatched, echo: Echoing) -> None:
    kind, config, _ = CASES["route"]
    with pytest.raises(Paused) as paused:
        flow.go(flow.spec(kind, config))
    (question,) = paused.value.questions
    assert (question.kind, question.title) == ("review", "route review")
    assert question.text == "Take a?\n(yes: take this route; no: stop the run; or the name of a route: a, b)"


def test_a_reviewer_who_has_rejected_is_asked_again_when_the_run_is_resumed(
    flow: Unwatched, echo: Echoing
) -> None:
    kind, config, _ = CASES["route"]
    spec = flow.spec(kind, config)
    with pytest.raises(RunError, match="rejected the route"):
        flow.go_to_end(spec, {"router/review#1": "no"})
    assert flow.go_to_end(spec, {"router/review#1": "yes"}).last_response == "<a>"
    assert len(echo.requests) == 2


def test_a_reviewer_who_has_asked_for_too_much_can_still_approve(flow: Unwatched, echo: Echoing) -> None:
    config = {
        "branches": [{"id": "a", "steps": steps("a")}],
        "reduce": {"agent": "editor", **review("Fine?")},
    }
    spec = flow.spec("parallel", config)
    gates = [f"reduce/review#{number}" for number in range(1, 7)]
    with pytest.raises(RunError, match="changes of the result 5 times, the limit"):
        flow.go_to_end(spec, dict.fromkeys(gates, "shorter"))
    assert flow.go_to_end(spec, {gates[-1]: "yes"}).steps[-1].key == gates[-1]


def test_a_node_that_is_called_review_is_no_review(flow: Unwatched, echo: Echoing) -> None:
    nodes = {"draft": steps("x")[0], "review": {"human": {"prompt": "?"}}}
    back = {"from": "review", "to": "draft", "when": "last_response == 'again'"}
    config = {"nodes": nodes, "edges": [{"from": "draft", "to": "review"}, back], "start": "draft"}
    spec = flow.spec("graph", config)
    flow.go_to_end(spec, {"nodes/review": "again", "nodes/review#2": "fine"})
    asked = [row for key, row in flow.rows().items() if key.endswith("/question")]
    assert [row["kind"] for row in asked] == ["human", "human"]


def test_an_answer_that_is_not_one_of_the_choices_pauses_again(flow: Unwatched, echo: Echoing) -> None:
    spec = flow.spec("chain", {"steps": [{"human": {"prompt": "?", "choices": ["a", "b"]}}, *steps("x")]})
    with pytest.raises(Paused):
        flow.go(spec)
    assert flow.rows()["steps/0/question"]["choices"] == ["a", "b"]
    flow.answer_keys({"steps/0": "c"})
    with pytest.raises(Paused, match="'c' is not one of the answers"):
        flow.go(spec)
    flow.answer_keys({"steps/0": "B"})
    assert flow.go(spec).steps[0].response == "b"


# --- Defaults and time limits -----------------------------------------------------------------------------


def asking(**more: Any) -> dict[str, Any]:
    return {"steps": [{"human": {"prompt": "Go?", **more}}, *steps("{{ last_response }}")]}


def test_a_default_without_a_limit_is_taken_at_once(flow: Unwatched, echo: Echoing) -> None:
    result = flow.go(flow.spec("chain", asking(default="yes")))
    assert [step.response for step in result.steps] == ["yes", "<yes>"]


def test_a_default_is_taken_when_the_time_is_over(flow: Unwatched, echo: Echoing) -> None:
    spec = flow.spec("chain", asking(default="no", timeout_s=HOUR))
    for _ in range(2):
        with pytest.raises(Paused):
            flow.go(spec)
    move_back(flow, "steps/0", 2 * HOUR)
    assert flow.go(spec).steps[0].response == "no"
    assert flow.rows()["steps/0/answer"]["by"] == "default"


def test_with_a_time_of_zero_the_run_waits_for_an_answer_in_spite_of_a_default(
    flow: Unwatched, echo: Echoing
) -> None:
    spec = flow.spec("chain", asking(default="no", timeout_s=0))
    with pytest.raises(Paused):
        flow.go(spec)
    move_back(flow, "steps/0", 100 * HOUR)
    with pytest.raises(Paused):
        flow.go(spec)
    flow.answer_keys({"steps/0": "yes"})
    assert flow.go(spec).steps[0].response == "yes"


def test_an_answer_in_time_counts_even_if_the_run_goes_on_later(flow: Unwatched, echo: Echoing) -> None:
    spec = flow.spec("chain", asking(default="no", timeout_s=HOUR))
    with pytest.raises(Paused):
        flow.go(spec)
    flow.answer_keys({"steps/0": "yes"})
    move_back(flow, "steps/0", 2 * HOUR)
    assert flow.go(spec).steps[0].response == "yes"


def test_without_a_default_the_end_of_the_time_ends_the_run(flow: Unwatched, echo: Echoing) -> None:
    spec = flow.spec("chain", asking(timeout_s=HOUR))
    with pytest.raises(Paused):
        flow.go(spec)
    move_back(flow, "steps/0", 2 * HOUR)
    with pytest.raises(RunError, match="No answer within 3600 s: Go"):
        flow.go(spec)
    assert echo.requests == []


def test_a_gate_takes_its_default_when_the_time_is_over(flow: Unwatched, echo: Echoing) -> None:
    kind, config, _ = CASES["route"]
    router = {"agent": "router", **review("Take {{ route }}?", default="yes", timeout_s=HOUR)}
    spec = flow.spec(kind, {**config, "router": router})
    with pytest.raises(Paused):
        flow.go(spec)
    move_back(flow, "router/review#1", 2 * HOUR)
    assert flow.go(spec).last_response == "<a>"


def move_back(flow: Unwatched, key: str, seconds: float) -> None:
    """As if a question had been asked earlier."""
    row = flow.rows()[f"{key}/question"]
    flow.put({f"{key}/question": {**row, "at": row["at"] - seconds}})
