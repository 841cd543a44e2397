"""Steps without a model: tools, other workflows, and steps for each item of a list."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from strands_cli.errors import (
    BudgetExceeded,
    Paused,
    RunError,
    SpecError,
    StrandsError,
    TrustError,
    UnsupportedError,
)
from strands_cli.events import StepFinished, StepRestored, StepStarted, ToolFinished, ToolStarted
from strands_cli.loader import StoredFiles, load_spec, stored_name
from strands_cli.loader.spec import Spec
from strands_cli.runtime.agent_hooks import PendingCall
from strands_cli.tools import get_registry
from tests.exec.flows import steps
from tests.exec.test_durable import Durable, outage
from tests.fakes import Pause, ScriptedModel
from tests.projects import Project
from tests.sites import serving

TOOLS = {"python": ["echo", "note", "numbers", "broken"]}
NOTE = """def note(text: str, context: ToolContext) -> str:
    \"\"\"Keep a line.

    Args:
        text: The line.
    \"\"\"
    if text == os.environ.get("NOTE_FAILS"):
        raise ToolFailed("The disk is full", code="conflict", hint="Free some room.")
    with open("log.txt", "a") as file:
        file.write(f"{text} {context.key.partition('/')[2].rpartition('/')[0]}\\n")
    return f"noted {text}"
"""
NUMBERS = """def numbers(count: int, names: dict[str, list[int]] | None = None) -> dict[str, object]:
    \"\"\"Count.

    Args:
        count: How far.
        names: Anything.
    \"\"\"
    return {"list": list(range(count)), "names": names}
"""
HEADER = "import os\nfrom strands_cli import ToolContext, ToolFailed, tool\n\n@tool{}\n{}"


@pytest.fixture
def flow(inside: Project) -> Durable:
    for name, text, options in (
        ("note", NOTE, ""),
        ("numbers", NUMBERS, ""),
        ("broken", NOTE.replace("def note", "def broken"), "(requires_consent=True)"),
    ):
        inside.write(f"tools/{name}.py", HEADER.format(options, text))
    get_registry().refresh()
    return Durable(inside.root)


def note(text: str, **more: Any) -> dict[str, Any]:
    return {"tool": "note", "arguments": {"text": text}, **more}


def chain(flow: Durable, *listed: dict[str, Any], **more: Any) -> Spec:
    return flow.spec("chain", {"steps": list(listed)}, **{"tools": TOOLS, **more})


def logged(flow: Durable) -> list[str]:
    file = flow.directory / "log.txt"
    return file.read_text().splitlines() if file.exists() else []


def inner(flow: Durable, name: str, *listed: dict[str, Any], **more: Any) -> Path:
    """Another workflow, beside the one with the steps."""
    document = flow.document("chain", {"steps": list(listed)}, **{"tools": TOOLS, **more})
    file = flow.directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({**document, "name": file.stem}, sort_keys=False))
    return file


# --- Tools ------------------------------------------------------------------------------------------------


def test_a_tool_step_hands_values_to_its_tool_and_its_answer_to_others(flow: Durable) -> None:
    given = {"count": "{{ n + 1 }}", "names": {"a": ["{{ n }}", 7], "b": "{{ [n] }}"}}
    result = flow.run(
        "chain",
        {
            "steps": [
                {"id": "count", "tool": "numbers", "arguments": given},
                {"tool": "echo", "arguments": {"message": "{{ steps.count.output.list[2] }}!"}},
            ]
        },
        {"n": 2},
        tools=TOOLS,
        inputs={"required": {"n": "integer"}},
    )
    assert result.last_response == "2!"
    first, second = result.steps
    assert first.output == {"list": [0, 1, 2], "names": {"a": [2, 7], "b": [2]}}
    assert json.loads(first.response) == first.output
    assert (second.output, second.agent, second.usage.total_tokens) == ("2!", "echo", 0)
    [started, _] = flow.heard(ToolStarted)
    assert (started.step, started.arguments["count"]) == ("steps/0", 3)


def tool_step(text: str = "x") -> dict[str, Any]:
    return {"tool": "echo", "arguments": {"message": text}}


PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "task": ("workflow", {"tasks": [{"id": "a", **tool_step()}]}),
    "branch": ("parallel", {"branches": [{"id": "a", "steps": [tool_step()]}]}),
    "reduce": (
        "parallel",
        {
            "branches": [{"id": "a", "steps": [tool_step("x")]}],
            "reduce": tool_step("{{ branches.a.response }}"),
        },
    ),
    "node": ("graph", {"nodes": {"a": tool_step()}, "edges": []}),
    "visits": (
        "graph",
        {
            "nodes": {"a": tool_step(), "b": tool_step("{{ nodes.a.response }}")},
            "edges": [{"from": "a", "to": "b"}],
        },
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_tool_may_stand_wherever_a_step_may(place: str, flow: Durable) -> None:
    kind, config = PLACES[place]
    expected = "Branch a:\nx" if place == "branch" else "x"
    assert flow.run(kind, config, tools=TOOLS).last_response == expected


def test_a_tool_that_reduces_is_called_again_with_what_the_review_says(flow: Durable) -> None:
    reduce = tool_step("{{ branches.a.response }}{{ review }}") | {"review": {"prompt": "Good?"}}
    config = {"branches": [{"id": "a", "steps": [tool_step("x")]}], "reduce": reduce}
    answers = iter(["more", "approve"])

    async def ask(question: str) -> str:
        return next(answers)

    spec = flow.spec("parallel", config, tools=TOOLS)
    assert flow.run_spec(spec, ask_human=ask).last_response == "xmore"


def test_a_tool_may_stand_in_a_route(flow: Durable, model: ScriptedModel) -> None:
    model.enqueue('{"route": "a"}')
    routes = {"a": {"steps": [tool_step("{{ route }}")]}, "b": {"steps": steps("go")}}
    config = {"router": {"agent": "worker", "input": "which"}, "routes": routes}
    assert flow.run("routing", config, tools=TOOLS).last_response == "a"


def test_a_tool_that_fails_ends_the_run_with_its_code(flow: Durable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTE_FAILS", "b")
    spec = chain(flow, note("a"), note("b", id="second"), note("c"))
    with pytest.raises(RunError, match="second: note: The disk is full") as failed:
        flow.go(spec)
    assert (failed.value.code, failed.value.hint, failed.value.exit_code) == (
        "conflict",
        "Free some room.",
        10,
    )
    assert [step.response for step in failed.value.kept.steps] == ["noted a"]
    monkeypatch.delenv("NOTE_FAILS")
    assert flow.go(spec).last_response == "noted c"
    assert [line.partition(" ")[0] for line in logged(flow)] == ["a", "b", "c"]
    assert [event.step for event in flow.heard(StepRestored)] == ["steps/0"]


def test_a_value_that_does_not_fit_is_refused_before_the_call(flow: Durable) -> None:
    spec = chain(
        flow,
        {"id": "a", **tool_step("x")},
        {"tool": "numbers", "arguments": {"count": "{{ steps.a.output }}"}},
    )
    with pytest.raises(RunError, match="/count must be an integer, got string 'x'") as failed:
        flow.run_spec(spec)
    assert failed.value.code == "input_invalid"


def test_what_was_called_is_in_the_journal_and_has_a_key(flow: Durable) -> None:
    flow.go(chain(flow, note("a"), note("b")))
    rows = flow.row_keys()
    assert rows[3:] == [
        *(f"steps/0/{name}" for name in ("begun", "tool/1/0", "result")),
        *(f"steps/1/{name}" for name in ("begun", "tool/1/0", "result")),
    ]
    assert logged(flow) == ["a steps/0/1/0", "b steps/1/1/0"]
    begun = json.loads(flow.store.load(flow.run_id)["steps/0/begun"])
    assert (begun["kind"], begun["agent"], begun["tools"], begun["input"]) == (
        "tool",
        "note",
        ["note"],
        '{"text": "a"}',
    )
    again = flow.go(chain(flow, note("a"), note("b")))
    assert again.last_response == "noted b"
    assert len(logged(flow)) == 2


def test_with_accepted_changes_a_changed_call_is_made_again(flow: Durable) -> None:
    flow.go(chain(flow, note("a"), note("b")))
    changed = chain(flow, note("a"), note("new"))
    assert flow.go(changed, accept_changes=True).last_response == "noted new"
    assert [line.partition(" ")[0] for line in logged(flow)] == ["a", "b", "new"]


@pytest.mark.usefixtures("trusting")
def test_an_http_executor_may_be_called_by_a_step(flow: Durable) -> None:
    with serving() as api:
        executors = {"http_executors": [{"id": "api", "base_url": api.url}], "python": ["echo"]}
        asking = {"id": "ask", "tool": "api", "arguments": {"path": "/x"}}
        config = {"steps": [asking, tool_step("{{ steps.ask.output.body }}")]}
        assert flow.run("chain", config, tools=executors).last_response == "hello"
        assert [request.path for request in api.seen] == ["/x"]
        config = {
            "steps": [{**asking, "arguments": {"pth": "/x"}}, tool_step("{{ steps.ask.output.boddy }}")]
        }
        with pytest.raises(UnsupportedError) as refused:
            flow.run("chain", config, tools=executors)
        reasons = [issue.reason for issue in refused.value.issues]
        assert reasons[:2] == [
            "The argument 'path' of the tool 'api' is missing.",
            "The tool 'api' has no argument 'pth'.",
        ]
        assert reasons[2].startswith("There is no output key 'boddy'")
        assert len(api.seen) == 1


CONSENT = {"tool": "broken", "arguments": {"text": "a"}}


def test_consent_to_a_call_is_not_consent_to_what_it_is_changed_into(flow: Durable) -> None:
    shown: list[Any] = []

    async def ask(calls: Any) -> set[str]:
        shown.extend(call.arguments["text"] for call in calls)
        return {call.call_id for call in calls}

    assert flow.go(chain(flow, CONSENT), ask_consent=ask).last_response == "noted a"
    changed = chain(flow, {**CONSENT, "arguments": {"text": "b"}})
    assert flow.go(changed, accept_changes=True, ask_consent=ask).last_response == "noted b"
    assert shown == ["a", "b"]


@pytest.mark.parametrize("is_granted", [True, False])
def test_consent_is_asked_for_a_tool_step(is_granted: bool, flow: Durable) -> None:
    asked: list[PendingCall] = []

    async def ask(calls: Any) -> set[str]:
        asked.extend(calls)
        return {call.call_id for call in calls} if is_granted else set()

    spec = chain(flow, CONSENT)
    if is_granted:
        assert flow.run_spec(spec, ask_consent=ask).last_response == "noted a"
    else:
        with pytest.raises(RunError, match="The user refused the call to broken") as failed:
            flow.run_spec(spec, ask_consent=ask)
        assert failed.value.code == "denied"
    assert [(call.tool.id, call.arguments) for call in asked] == [("broken", {"text": "a"})]
    assert len(logged(flow)) == is_granted


@pytest.mark.parametrize("rule", ["allow", "deny"])
@pytest.mark.usefixtures("trusting")
def test_the_rules_of_the_workflow_hold_for_a_tool_step(rule: str, flow: Durable) -> None:
    spec = chain(flow, CONSENT, security={"consent": {"broken": rule}})
    if rule == "allow":
        assert flow.run_spec(spec).last_response == "noted a"
    else:
        with pytest.raises(RunError, match="does not allow broken"):
            flow.run_spec(spec)


def test_without_anybody_to_ask_a_tool_step_is_not_done(flow: Durable) -> None:
    with pytest.raises(Paused, match="step 1: broken needs consent") as paused:
        flow.run_spec(chain(flow, CONSENT))
    assert paused.value.exit_code == 19


def test_a_journalled_run_waits_for_consent_and_goes_on_with_it(flow: Durable) -> None:
    spec = chain(flow, note("first"), CONSENT)
    with pytest.raises(Paused) as paused:
        flow.go(spec)
    [question] = paused.value.questions
    assert (question.key, question.kind) == ("steps/1/consent/1", "consent")
    assert 'broken {"text": "a"}' in question.text
    answer(flow, "steps/1/consent/1", "yes")
    assert flow.go(spec).last_response == "noted a"
    assert [line.partition(" ")[0] for line in logged(flow)] == ["first", "a"]


def test_a_refused_tool_step_is_asked_about_again_when_the_run_is_resumed(flow: Durable) -> None:
    spec = chain(flow, CONSENT)
    for said in ("no", "yes"):
        with pytest.raises(Paused) as paused:
            flow.go(spec)
        assert [question.key for question in paused.value.questions] == ["steps/0/consent/1"]
        answer(flow, "steps/0/consent/1", said)
        if said == "no":
            with pytest.raises(RunError, match="The user refused the call to broken"):
                flow.go(spec)
    assert flow.go(spec).last_response == "noted a"
    assert "steps/0/tried/1/consent/1/answer" in flow.row_keys()


def test_consent_at_the_terminal_is_not_consent_to_the_call_as_it_was_changed(
    flow: Durable, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def ask(calls: Any) -> set[str]:
        asked.extend(call.arguments for call in calls)
        return {call.call_id for call in calls}

    monkeypatch.setenv("NOTE_FAILS", "a")
    with pytest.raises(RunError, match="The disk is full"):
        flow.go(chain(flow, CONSENT), ask_consent=ask)
    changed = chain(flow, {"tool": "broken", "arguments": {"text": "b"}})
    with pytest.raises(Paused, match='"text": "b"'):
        flow.go(changed, accept_changes=True)
    assert flow.go(changed, accept_changes=True, ask_consent=ask).last_response == "noted b"
    assert asked == [{"text": "a"}, {"text": "b"}]


def answer(flow: Durable, key: str, text: str) -> None:
    put_row(flow, f"{key}/answer", {"at": 0, "text": text, "by": "resume"})


def put_row(flow: Durable, key: str, row: dict[str, Any]) -> None:
    fence = flow.store.take(flow.run_id)
    flow.store.put(flow.run_id, fence, {key: json.dumps(row).encode()})
    flow.store.release(flow.run_id, fence)


def test_a_tool_that_asks_a_person_gets_the_answer(flow: Durable, inside: Project) -> None:
    body = (
        'def asking(context: ToolContext) -> str:\n    """Ask."""\n'
        "    first = context.interrupt('name', 'Which name?')\n"
        "    return first + context.interrupt('age', 'Which age?')\n"
    )
    inside.write("tools/asking.py", HEADER.format("", body))
    get_registry().refresh()
    spec = chain(flow, {"tool": "asking"}, tools={"python": ["asking"]})
    asked = []

    async def ask(question: str) -> str:
        asked.append(question)
        return "Ann" if "name" in question else "7"

    assert flow.run_spec(spec, ask_human=ask).last_response == "Ann7"
    assert asked == ["Which name?", "Which age?"]
    with pytest.raises(Paused) as paused:
        flow.go(spec)
    assert [question.key for question in paused.value.questions] == ["steps/0/ask/1"]
    answer(flow, "steps/0/ask/1", "Bea")
    with pytest.raises(Paused):
        flow.go(spec)
    answer(flow, "steps/0/ask/2", "8")
    assert flow.go(spec).last_response == "Bea8"


def test_a_tool_step_counts_as_a_step_and_costs_no_tokens(flow: Durable) -> None:
    runtime = {"budgets": {"max_steps": 2, "max_tokens": 1}}
    with pytest.raises(BudgetExceeded, match="its limit of 2 steps") as ended:
        flow.run_spec(chain(flow, note("a"), note("b"), note("c"), runtime=runtime))
    assert [step.response for step in ended.value.kept.steps] == ["noted a", "noted b"]
    assert ended.value.kept.usage.total_tokens == 0


def test_a_workflow_without_agents_needs_no_model(flow: Durable) -> None:
    text = (
        "version: 0\nname: plain\ntools: {python: [echo]}\n"
        "pattern: {type: chain, config: {steps: [{tool: echo, arguments: {message: hi}}]}}\n"
    )
    (flow.directory / "plain.yaml").write_text(text)
    assert flow.run_spec(load_spec(flow.directory / "plain.yaml")).last_response == "hi"
    (flow.directory / "agents.yaml").write_text(text + "agents: {a: {prompt: x}}\n")
    with pytest.raises(SpecError, match="The key 'runtime' is missing"):
        load_spec(flow.directory / "agents.yaml")


# --- Each item --------------------------------------------------------------------------------------------


def test_a_step_is_done_for_each_item_in_order(flow: Durable) -> None:
    spec = chain(
        flow,
        {"id": "count", "tool": "numbers", "arguments": {"count": 3}},
        note("{{ index }}={{ item * 10 }}", id="all", foreach="{{ steps.count.output.list }}"),
        tool_step("{{ steps.all.output[2] }}"),
    )
    result = flow.go(spec)
    assert result.last_response == "noted 2=20"
    every = next(step for step in result.steps if step.key == "steps/1")
    assert every.output == ["noted 0=0", "noted 1=10", "noted 2=20"]
    assert every.response == "noted 0=0\n\nnoted 1=10\n\nnoted 2=20"
    keys = ["steps/0", "steps/1", "steps/1/each/0", "steps/1/each/1", "steps/1/each/2", "steps/2"]
    assert [step.key for step in result.steps] == keys
    assert sorted(logged(flow))[1] == "1=10 steps/1/each/1/1/0"
    titles = {event.step: event.title for event in flow.heard(StepStarted)}
    assert titles["steps/1/each/0"] == "all 1/3"


def test_items_run_at_the_same_time_as_far_as_the_run_allows(flow: Durable, inside: Project) -> None:
    body = (
        'async def slow(number: int) -> int:\n    """Wait.\n\n    Args:\n        number: Any.\n    """\n'
        "    import asyncio\n    await asyncio.sleep(0.01)\n    return number\n"
    )
    inside.write("tools/slow.py", HEADER.format("", body))
    get_registry().refresh()
    step = {"tool": "slow", "arguments": {"number": "{{ item }}"}, "foreach": list(range(9))}
    spec = chain(flow, step, tools={"python": ["slow"]}, runtime={"provider": "ollama", "max_parallel": 3})
    result = flow.run_spec(spec)
    assert result.output == list(range(9))
    most = running = 0
    for event in flow.events:
        running += isinstance(event, ToolStarted)
        running -= isinstance(event, ToolFinished)
        most = max(most, running)
    assert most == 3


def test_no_items_are_an_empty_list(flow: Durable) -> None:
    result = flow.run_spec(
        chain(flow, note("x", id="a", foreach=[]), tool_step("{{ steps.a.output | length }}"))
    )
    assert (result.steps[0].output, result.steps[0].response, result.last_response) == ([], "", "0")


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ("{{ n }}", "'foreach' needs a list, got integer 5000."),
        ("{{ range(n) }}", "'foreach' has 5000 items; the limit is 1000."),
        ("{{ {'a': n} }}", "'foreach' needs a list, got object with 1 key."),
    ],
)
def test_what_is_not_a_short_list_is_refused_with_its_place(items: str, reason: str, flow: Durable) -> None:
    spec = chain(flow, note("x", foreach=items), inputs={"values": {"n": 5000}})
    with pytest.raises(RunError, match=r"flow.yaml:\d+:\d+  /pattern/config/steps/0/foreach") as failed:
        flow.run_spec(spec)
    assert failed.value.message.endswith(reason)


def test_an_agent_is_asked_about_each_item_in_a_conversation_of_its_own(
    flow: Durable, model: ScriptedModel
) -> None:
    model.enqueue("one").enqueue("two")
    runtime = {"provider": "ollama", "max_parallel": 1}
    spec = chain(flow, {"agent": "worker", "foreach": ["tea", {"a": 1}]}, runtime=runtime, tools={})
    result = flow.run_spec(spec)
    assert result.output == ["one", "two"]
    asked = [[message["content"][0]["text"] for message in request.messages] for request in model.requests]
    assert asked == [["tea"], ["a: 1"]]
    assert result.usage.total_tokens == 20 == sum(step.usage.total_tokens for step in result.steps)


def test_items_that_are_done_are_not_done_again(flow: Durable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTE_FAILS", "b")
    runtime = {"provider": "ollama", "max_parallel": 1}
    spec = chain(flow, note("{{ item }}", foreach=["a", "b", "c"]), runtime=runtime)
    with pytest.raises(RunError, match="The disk is full") as failed:
        flow.go(spec)
    assert failed.value.step == "steps/0/each/1"
    monkeypatch.delenv("NOTE_FAILS")
    assert flow.go(spec).output == ["noted a", "noted b", "noted c"]
    assert sorted(line.partition(" ")[0] for line in logged(flow)) == ["a", "b", "c"]


def test_a_finished_run_with_items_answers_from_its_journal_alone(flow: Durable) -> None:
    inner(flow, "inner.yaml", note("{{ item }}"), inputs={"required": {"item": "string"}})
    step = {"workflow": "inner.yaml", "inputs": {"item": "{{ item }}"}, "foreach": ["a", "b"]}
    spec = chain(flow, step, note("c"))
    once, rows = flow.go(spec), flow.store.load(flow.run_id)
    flow.events.clear()
    again = flow.go(spec)
    assert (again.steps, again.last_response) == (once.steps, once.last_response)
    assert len(logged(flow)) == 3
    assert not flow.heard(StepStarted)
    restored = {event.step for event in flow.heard(StepRestored)}
    assert restored == {step.key for step in once.steps}
    kept = flow.store.load(flow.run_id)
    assert {key: row for key, row in kept.items() if key.startswith("steps/")} == {
        key: row for key, row in rows.items() if key.startswith("steps/")
    }


# --- Workflows --------------------------------------------------------------------------------------------


def test_a_step_runs_another_workflow_with_its_own_agents_and_inputs(
    flow: Durable, model: ScriptedModel
) -> None:
    agents = {"worker": {"prompt": "You know {{ topic }}.", "output_schema": {"type": "object"}}}
    inner(
        flow,
        "parts/inner.yaml",
        *steps("about {{ topic }}, {{ count + 1 }}"),
        agents=agents,
        tools={},
        inputs={"required": {"topic": "string", "count": "integer"}},
    )
    model.enqueue('{"a": 1}').enqueue("end")
    given = {"topic": "{{ inputs.what }}!", "count": "{{ 41 }}"}
    spec = chain(
        flow,
        {"id": "sub", "workflow": "parts/inner.yaml", "inputs": given},
        *steps("so {{ steps.sub.output.a }}"),
        inputs={"values": {"what": "tea"}},
        tools={},
    )
    result = flow.go(spec)
    assert result.last_response == "end"
    assert [request.messages[0]["content"][0]["text"] for request in model.requests] == [
        "about tea!, 42",
        "so 1",
    ]
    assert model.requests[0].system_prompt.startswith("You know tea!.")
    assert [step.key for step in result.steps] == ["steps/0", "steps/0/workflow/steps/0", "steps/1"]
    assert sum(step.usage.total_tokens for step in result.steps) == result.usage.total_tokens == 20
    finished = {event.step: event.title for event in flow.heard(StepFinished)}
    assert finished["steps/0/workflow/steps/0"] == "sub: step 1"
    begun = json.loads(flow.store.load(flow.run_id)["steps/0/begun"])
    assert (begun["kind"], begun["agent"]) == ("workflow", "inner")


def test_an_inner_workflow_goes_on_where_it_was(flow: Durable, model: ScriptedModel) -> None:
    inner(flow, "inner.yaml", note("once"), *steps("one", "two"))
    spec = chain(flow, {"workflow": "inner.yaml"}, *steps("three"))
    model.enqueue("first").enqueue(outage())
    with pytest.raises(StrandsError) as failed:
        flow.go(spec)
    assert failed.value.step == "steps/0/workflow/steps/2"
    model.enqueue("second").enqueue("third")
    result = flow.go(spec)
    assert [step.response for step in result.steps] == ["second", "noted once", "first", "second", "third"]
    assert result.usage.total_tokens == 30
    assert logged(flow) == ["once steps/0/workflow/steps/0/1/0"]
    restored = [event.step for event in flow.heard(StepRestored)]
    assert restored == ["steps/0/workflow/steps/0", "steps/0/workflow/steps/1"]


def test_a_question_of_an_inner_workflow_is_answered_by_its_key(flow: Durable) -> None:
    inner(
        flow,
        "inner.yaml",
        {"human": {"prompt": "Which of {{ item }}?"}},
        inputs={"required": {"item": "string"}},
    )
    step = {"workflow": "inner.yaml", "inputs": {"item": "{{ item }}"}, "foreach": ["a", "b"]}
    spec = chain(flow, step)
    with pytest.raises(Paused) as paused:
        flow.go(spec)
    keys = [f"steps/0/each/{index}/workflow/steps/0" for index in (0, 1)]
    assert {question.key: question.text for question in paused.value.questions} == {
        keys[0]: "Which of a?",
        keys[1]: "Which of b?",
    }
    answer(flow, keys[0], "x")
    answer(flow, keys[1], "y")
    assert flow.go(spec).output == ["x", "y"]


def test_an_inner_workflow_spends_the_budget_of_the_run_and_its_own(flow: Durable) -> None:
    inner(flow, "inner.yaml", note("a"), note("b"), runtime={"budgets": {"max_steps": 1}})
    with pytest.raises(BudgetExceeded, match="its limit of 1 step"):
        flow.run_spec(chain(flow, {"workflow": "inner.yaml"}))
    inner(flow, "inner.yaml", note("a"), note("b"))
    with pytest.raises(BudgetExceeded, match="its limit of 2 steps"):
        flow.run_spec(
            chain(flow, {"workflow": "inner.yaml"}, note("c"), runtime={"budgets": {"max_steps": 2}})
        )


def test_the_seconds_of_an_inner_workflow_count_on_when_it_is_resumed(
    flow: Durable, model: ScriptedModel
) -> None:
    ask = {"human": {"prompt": "Which?"}}
    runtime = {"provider": "ollama", "budgets": {"max_duration_s": 60}}
    inner(flow, "inner.yaml", *steps("one"), ask, *steps("two"), runtime=runtime)
    spec = chain(flow, {"workflow": "inner.yaml"}, {"human": {"prompt": "Why?"}})
    model.enqueue(Pause(0.2), "first")
    with pytest.raises(Paused) as paused:
        flow.go(spec)
    assert 0.2 <= json.loads(flow.store.load(flow.run_id)["steps/0/spent"])["seconds"] < 60
    answer(flow, paused.value.questions[0].key, "x")
    put_row(flow, "steps/0/spent", {"seconds": 59.99})
    model.enqueue(Pause(30), "second")
    with pytest.raises(BudgetExceeded, match="its limit of 60 seconds"):
        flow.go(spec)
    inner(flow, "inner.yaml", *steps("one"), ask, *steps("two"), runtime={"provider": "ollama"})
    model.enqueue("second")
    with pytest.raises(Paused, match="Why"):
        flow.go(chain(flow, {"workflow": "inner.yaml"}, {"human": {"prompt": "Why?"}}), accept_changes=True)


def test_an_inner_workflow_that_is_done_has_all_the_time_to_be_read_again(flow: Durable) -> None:
    each = note("{{ item }}", foreach=["a", "b"])
    inner(flow, "inner.yaml", each, note("c"), runtime={"budgets": {"max_duration_s": 60}})
    spec = chain(flow, {"workflow": "inner.yaml"}, {"human": {"prompt": "Which?"}})
    with pytest.raises(Paused):
        flow.go(spec)
    put_row(flow, "steps/0/spent", {"seconds": 60})
    answer(flow, "steps/1", "x")
    assert flow.go(spec).last_response == "x"


def test_inner_steps_wait_for_a_slot_of_the_whole_run(flow: Durable) -> None:
    inner(flow, "inner.yaml", note("{{ item }}"), inputs={"required": {"item": "integer"}})
    step = {"workflow": "inner.yaml", "inputs": {"item": "{{ item }}"}, "foreach": "{{ range(6) }}"}
    spec = chain(flow, step, runtime={"max_parallel": 1})
    assert len(flow.run_spec(spec).output) == 6


def test_workflows_that_run_each_other_are_refused_with_the_way_round(flow: Durable) -> None:
    inner(flow, "b.yaml", {"workflow": "flow.yaml"})
    inner(flow, "a.yaml", {"workflow": "b.yaml"})
    with pytest.raises(SpecError) as refused:
        chain(flow, {"workflow": "a.yaml"})
    [issue] = refused.value.issues
    assert issue.reason == "This workflow would run itself: flow.yaml -> a.yaml -> b.yaml -> flow.yaml."
    assert (Path(issue.file).name, issue.pointer) == ("b.yaml", "/pattern/config/steps/0/workflow")
    assert issue.line > 1
    with pytest.raises(SpecError, match=r"would run itself: flow.yaml -> flow.yaml"):
        chain(flow, {"workflow": "flow.yaml"})


def test_workflows_are_not_nested_without_end(flow: Durable) -> None:
    for number in range(9):
        inner(flow, f"w{number}.yaml", {"workflow": f"w{number + 1}.yaml"})
    inner(flow, "w9.yaml", note("x"))
    with pytest.raises(SpecError, match="nested more than 8 deep"):
        chain(flow, {"workflow": "w0.yaml"})
    # What is known from a place where it is allowed counts as deep as it is elsewhere.
    inner(flow, "w8.yaml", note("x"))
    with pytest.raises(SpecError, match="nested more than 8 deep"):
        chain(flow, {"workflow": "w7.yaml"}, {"workflow": "w0.yaml"})
    inner(flow, "w7.yaml", note("deep"))
    assert flow.run_spec(chain(flow, {"workflow": "w0.yaml"})).last_response == "noted deep"


def test_the_problems_of_an_inner_workflow_are_told_with_its_own_lines(flow: Durable) -> None:
    file = inner(flow, "inner.yaml", note("x"))
    file.write_text(file.read_text().replace("arguments", "argumets"))
    with pytest.raises(SpecError) as refused:
        chain(flow, {"workflow": "inner.yaml"})
    [issue] = refused.value.issues
    assert (issue.file, issue.pointer) == (str(file), "/pattern/config/steps/0/argumets")
    inner(flow, "inner.yaml", {"tool": "ecko"})
    with pytest.raises(UnsupportedError) as unsupported:
        flow.run_spec(chain(flow, {"workflow": "inner.yaml"}))
    [issue] = unsupported.value.issues
    assert (issue.file, issue.pointer) == (str(file), "/pattern/config/steps/0/tool")
    assert "Did you mean 'echo'?" in issue.remediation


@pytest.mark.parametrize("reference", ["gone.yaml", "../outside.yaml", "tools", "nul\0.yaml"])
def test_a_file_that_cannot_be_run_is_an_issue_of_the_step(reference: str, flow: Durable) -> None:
    (flow.directory.parent / "outside.yaml").write_text("secret: 1\n")
    with pytest.raises(SpecError) as refused:
        chain(flow, {"workflow": reference})
    [issue] = refused.value.issues
    assert issue.pointer == "/pattern/config/steps/0/workflow"
    assert issue.file == str(flow.directory / "flow.yaml")
    assert "secret" not in issue.reason


def test_the_files_of_inner_workflows_belong_to_what_a_run_stores(flow: Durable) -> None:
    inner(flow, "parts/b.yaml", note("deep"))
    inner(flow, "parts/a.yaml", {"workflow": "b.yaml"})
    spec = chain(flow, {"workflow": "parts/a.yaml"})
    flow.go(spec)
    kept = json.loads(flow.store.load(flow.run_id)["spec"])["files"]
    assert list(kept) == ["flow.yaml", "parts/a.yaml", "parts/b.yaml"]
    for name in kept:
        (flow.directory / name).unlink()
    stored = StoredFiles(directory=flow.directory, files=kept, environment={})
    assert stored_name(spec.file, flow.directory) == "flow.yaml"
    assert flow.go(load_spec(spec.file, stored=stored)).last_response == "noted deep"
    assert len(logged(flow)) == 1


def test_what_an_inner_workflow_asks_for_is_asked_with_the_outer_one(flow: Durable) -> None:
    inner(flow, "inner.yaml", CONSENT, security={"consent": {"broken": "allow"}})
    spec = chain(flow, {"workflow": "inner.yaml"})
    with pytest.raises(TrustError, match="broken"):
        flow.run_spec(spec)


def test_secrets_of_an_inner_workflow_are_hidden_everywhere(
    flow: Durable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INNER_SECRET", "hunter22222")
    inner(flow, "inner.yaml", note("pass hunter22222"), env={"secrets": [{"name": "INNER_SECRET"}]})
    result = flow.go(chain(flow, {"workflow": "inner.yaml"}, tool_step("{{ last_response }}")))
    assert "hunter22222" not in result.last_response
    assert not any(b"hunter22222" in row for row in flow.store.load(flow.run_id).values())


def test_the_model_of_the_command_line_is_meant_for_inner_workflows_too(
    flow: Durable, inside: Project
) -> None:
    runtime = {"provider": "openai", "failure_policy": {"retries": 0}}
    inner(flow, "inner.yaml", *steps("go"), tools={}, runtime=runtime)
    chain(flow, {"workflow": "inner.yaml"}, tools={})
    outcome = inside.strands("plan", "flow.yaml")
    assert "1 at least, 1 at most" in outcome.out
    outcome = inside.strands("run", "flow.yaml", "--provider", "ollama", "--host", "http://localhost:1")
    assert outcome.exit_code != 0
    assert "localhost:1" in outcome.err
    assert "step 1: step 1: " in outcome.err
