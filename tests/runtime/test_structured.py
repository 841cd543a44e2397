"""Answers as data: through a tool whose input is the answer, or from the text that a model gives instead."""

import asyncio
import json
from typing import Any

import pytest
from strands.agent import AgentResult
from strands.types.content import Message

from strands_cli import ToolContext, tool
from strands_cli.errors import RunError, SpecError
from strands_cli.runtime.model_output import message_text
from strands_cli.runtime.model_requests import invoke_in_slices
from strands_cli.runtime.structured import MAX_REPETITIONS, Structured
from tests.fakes import Part, history_problems, tool_call
from tests.runtime.agents import Setting, add, answers, codes, spec, text_of

VERDICT = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 0}, "why": {"type": "string", "default": ""}},
    "required": ["score"],
}
REPLIES = {"type": "array", "items": {"type": "string"}}


class Asked:
    """An agent of ours that has to answer with data, and what it came to."""

    def __init__(self, schema: dict[str, Any], *tools: Any, turns: int = 25) -> None:
        names = [made.id for made in tools]
        self.structured = Structured(schema, names, name="judge")
        self.setting = Setting(*tools, self.structured.tool, system_prompt=self.structured.instruction)
        self.structured.attach(self.setting.agent)
        self.turns = turns

    def said(self, *answers: list[Part]) -> tuple[Any, str]:
        for parts in answers:
            self.setting.model.enqueue(*parts)
        return asyncio.run(self.ask())

    async def ask(self, prompt: str = "Judge.") -> tuple[Any, str]:
        agent = self.setting.agent

        async def invoke(text: str) -> AgentResult:
            result = await invoke_in_slices(agent, text, turns=self.turns)
            assert result.stop_reason == "end_turn"
            return result

        found = await self.structured.ask(invoke, prompt)
        assert history_problems(agent.messages) == []
        assert not self.setting.model.answers, "all that was scripted has been asked for"
        return found

    @property
    def prompts(self) -> list[str]:
        return [text for message in self.setting.agent.messages if (text := said_by("user", message))]


def said_by(role: str, message: Message) -> str:
    return message_text(message) if message["role"] == role else ""


def test_a_fitting_call_is_the_answer_and_ends_the_loop() -> None:
    asked = Asked(VERDICT)
    value, text = asked.said([tool_call("answer", score=7)])
    assert value == {"score": 7, "why": ""}
    assert json.loads(text) == value
    assert len(asked.setting.model.requests) == 1
    last = asked.setting.agent.messages[-1]
    assert (last["role"], last["content"]) == ("assistant", [{"text": text}])


def test_the_model_is_told_of_the_tool_and_its_schema() -> None:
    asked = Asked(VERDICT)
    asked.said([tool_call("answer", score=7)])
    (request,) = asked.setting.model.requests
    assert "'answer'" in str(request.system_prompt)
    (shown,) = request.tool_specs
    assert shown["inputSchema"]["json"]["properties"].keys() == {"score", "why"}


def test_a_call_that_does_not_fit_goes_back_to_the_model_as_a_coded_error() -> None:
    asked = Asked(VERDICT)
    value, _ = asked.said(
        [tool_call("answer", score=-1)], [tool_call("answer", scores=3)], [tool_call("answer", score=3)]
    )
    assert value["score"] == 3
    requests = asked.setting.model.requests
    assert [codes(request.results) for request in requests[1:]] == [["input_invalid"], ["input_invalid"]]
    assert "score" in text_of(requests[2].results[0])


def test_the_other_calls_of_the_same_turn_still_run() -> None:
    ran: list[str] = []

    @tool(spec=spec("note", {"text": {"type": "string"}}))
    def note(text: str = "") -> str:
        ran.append(text)
        return text

    asked = Asked(VERDICT, note)
    value, _ = asked.said(
        [tool_call("answer", score=1), tool_call("note", text="after"), tool_call("note", text="it")]
    )
    assert (value["score"], sorted(ran)) == (1, ["after", "it"])


def test_an_answer_after_many_turns_comes_through_slices() -> None:
    asked = Asked(VERDICT, add, turns=2)
    turns: list[list[Part]] = [[tool_call("add", a=number)] for number in range(7)]
    value, _ = asked.said(*turns, [tool_call("answer", score=7)])
    assert value["score"] == 7


def test_of_two_fitting_calls_in_one_turn_the_last_counts() -> None:
    value, _ = Asked(VERDICT).said([tool_call("answer", score=1), tool_call("answer", score=2)])
    assert value["score"] == 2


@pytest.mark.parametrize(
    ("taken", "name"),
    [
        ([], "answer"),
        (["answer"], "final_answer"),
        (["answer", "final_answer"], "final_answer_2"),
    ],
)
def test_the_tool_gets_a_name_that_is_free(taken: list[str], name: str) -> None:
    assert Structured(VERDICT, taken).tool.id == name


@pytest.mark.parametrize(
    "text",
    [
        '{"score": 4}',
        'Here it is:\n```json\n{"score": 4}\n```\nDone.',
        '```\n{"score": 4}\n```',
        'I say {"score": 4}, and [1] is no more than {a guess}.',
        'Not {"points": 1} but {"score": "4"}.',
    ],
)
def test_a_text_that_holds_the_answer_is_taken(text: str) -> None:
    asked = Asked(VERDICT)
    assert asked.said([text]) == ({"score": 4, "why": ""}, text)


def test_a_text_that_does_not_fit_is_asked_for_again_with_the_problems() -> None:
    asked = Asked(VERDICT)
    value, _ = asked.said(['{"score": "high"}'], ["Sorry."], [tool_call("answer", score=9)])
    assert value["score"] == 9
    first, second, third = asked.prompts
    assert first == "Judge."
    assert "/score must be" in second
    assert "'answer'" in second
    assert "no JSON" in third


def test_a_model_that_never_fits_ends_the_step_with_what_is_wrong() -> None:
    asked = Asked(VERDICT)
    with pytest.raises(RunError) as caught:
        asked.said(*[['{"score": "high"}']] * (1 + MAX_REPETITIONS))
    assert caught.value.message.startswith(
        "The answer of agent 'judge' does not fit its output_schema: /score"
    )
    assert "prompt" in caught.value.hint
    assert len(asked.setting.model.requests) == 3


def test_a_later_question_does_not_get_an_earlier_answer() -> None:
    asked = Asked(VERDICT)
    assert asked.said([tool_call("answer", score=1)])[0]["score"] == 1
    assert asked.said(["hm"], [tool_call("answer", score=2)])[0]["score"] == 2


@pytest.mark.parametrize(
    ("schema", "parts", "value"),
    [
        (REPLIES, [tool_call("answer", value=["a", "b"])], ["a", "b"]),
        (REPLIES, ['["a"]'], ["a"]),
        (REPLIES, ['So: {"value": ["a"]}'], ["a"]),
        ({"type": "integer"}, [tool_call("answer", value="5")], 5),
        ({"type": "integer"}, ["5"], 5),
        ({"enum": ["billing", "sales"]}, ["Billing"], "billing"),
        ({"type": "string"}, ['Say {"a": 1} twice'], 'Say {"a": 1} twice'),
        ({"type": ["object", "null"]}, [tool_call("answer", value=None)], None),
        ({"type": ["object", "null"]}, ["null"], None),
    ],
)
def test_answers_need_not_be_objects(schema: dict[str, Any], parts: list[Part], value: Any) -> None:
    assert Asked(schema).said(parts)[0] == value


def test_references_within_a_schema_hold_where_it_is_wrapped() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "anyOf": [{"$ref": "#/$defs/leaf"}, {"type": "array", "items": {"$ref": "#"}}],
        "$defs": {"leaf": {"type": "integer"}},
    }
    asked = Asked(schema)
    value, _ = asked.said([tool_call("answer", value=[1, ["x"]])], [tool_call("answer", value=[1, [2, []]])])
    assert value == [1, [2, []]]
    assert codes(asked.setting.model.requests[1].results) == ["input_invalid"]


def test_text_that_is_no_json_at_all_or_endless_is_refused_and_nothing_breaks() -> None:
    asked = Asked(VERDICT)
    value, _ = asked.said(["{" * 5000], ['{"score": NaN}' + "[" * 3000], ['{"score": 1}'])
    assert value["score"] == 1


def test_a_schema_that_no_answer_can_fit_is_refused_by_name() -> None:
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["scores"]}
    with pytest.raises(SpecError) as caught:
        Structured(schema, [], name="judge")
    assert caught.value.message.startswith(
        "The output_schema of agent 'judge' cannot be used: it requires 'scores'"
    )


def test_an_answer_that_was_accepted_elsewhere_counts() -> None:
    """A journal answers for the body on resuming: what the messages say is what counts."""
    from strands.middleware import ExecuteToolStage
    from strands.types.events import ToolResultEvent

    asked = Asked(VERDICT)

    async def replay(context: Any, _next_fn: Any) -> Any:
        call_id = context.tool_use["toolUseId"]
        yield ToolResultEvent({"toolUseId": call_id, "status": "success", "content": [{"text": "Accepted."}]})

    asked.setting.agent.add_middleware(ExecuteToolStage, replay)
    assert asked.said([tool_call("answer", score=6)])[0]["score"] == 6


def test_an_answer_beside_a_question_to_a_human_waits_for_the_human() -> None:
    @tool(spec=spec("sure"))
    def sure(context: ToolContext) -> str:
        return str(context.interrupt("sure?"))

    asked = Asked(VERDICT, sure)
    agent = asked.setting.agent
    asked.setting.model.enqueue(tool_call("answer", score=5), tool_call("sure"))

    async def invoke(prompt: str) -> AgentResult:
        result = await invoke_in_slices(agent, prompt)
        assert result.stop_reason == "interrupt"
        return await invoke_in_slices(agent, answers(result, "yes"))

    value, _ = asyncio.run(asked.structured.ask(invoke, "Judge."))
    assert value["score"] == 5
    assert len(asked.setting.model.requests) == 1
    assert history_problems(agent.messages) == []
