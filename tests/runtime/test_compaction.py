"""Compaction: a conversation that grows too long goes on with a summary in the place of its older part."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import pytest
from strands import Agent
from strands.agent.conversation_manager import NullConversationManager
from strands.middleware import InvokeModelStage
from strands.types.content import Message
from strands.types.exceptions import ContextWindowOverflowException

from strands_cli import CallContext, tool
from strands_cli.events import ContextCompacted, Event, Listener, ModelFinished, ModelText
from strands_cli.runtime.agent_hooks import equip
from strands_cli.runtime.compaction import SUMMARY_HEADING, Prepare, conversation_manager
from strands_cli.runtime.model_output import message_text
from strands_cli.runtime.model_requests import Reporting, invoke_in_slices
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types.sections import Compaction
from tests.fakes import Call, Part, Pause, Request, ScriptedModel, history_problems, tool_call
from tests.runtime.agents import Setting, spec

LIMIT = 1000


@tool(spec=spec("look", {"at": {"type": "integer"}}), blocking=False)
def look(at: int = 0) -> str:
    """Some 250 tokens."""
    return f"[{at}]" + "x" * 1000


@dataclass
class CountingModel(ScriptedModel):
    """A scripted model that counts its input as long as it is, and refuses what is too long.

    What it answers when it is asked for a summary is scripted apart.
    """

    window: int = 1_000_000
    cuts_summaries: bool = False
    summaries: deque[list[Part]] = field(default_factory=deque)

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **rest: Any
    ) -> Any:
        self.tokens = tokens(messages)
        if self.tokens > self.window:
            self.requests.append(Request(messages, tool_specs or [], system_prompt))
            raise ContextWindowOverflowException("too long")
        stream: AsyncIterator[Any] = super().stream(messages, tool_specs, system_prompt, **rest)
        async for chunk in stream:
            is_cut = self.cuts_summaries and is_for_summary(self.requests[-1]) and "messageStop" in chunk
            yield {"messageStop": {"stopReason": "max_tokens"}} if is_cut else chunk

    def _next(self) -> list[Part]:
        if is_for_summary(self.requests[-1]):
            return self.summaries.popleft() if self.summaries else ["a summary"]
        return super()._next()


def is_for_summary(request: Request) -> bool:
    return "summarise" in str(request.system_prompt)


def tokens(messages: list[Message]) -> int:
    return len(str([message["content"] for message in messages])) // 4


def report(agent: Agent, emit: Listener, names: object) -> None:
    agent.add_middleware(InvokeModelStage, Reporting(emit, "steps/0", "acme one").report)


class Talk:
    """An agent whose conversation grows by some 270 tokens a turn, and what it came to."""

    def __init__(
        self,
        policy: Compaction | None,
        *summaries: str,
        window: int = 1_000_000,
        prepare: Prepare | None = None,
        cancel: Cancellation | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.model = CountingModel(window=window, summaries=deque([text] for text in summaries))
        manager = conversation_manager(
            policy, emit=self.events.append, step="steps/0", prepare=prepare or report
        )
        self.setting = Setting(look, context=CallContext(cancel=cancel), conversation_manager=manager)
        self.agent = self.setting.agent
        self.agent.model = self.model

    def looks(self, *numbers: int) -> "Talk":
        """It looks that often, and is done."""
        for number in numbers:
            self.model.enqueue(Call("look", {"at": number}, id=f"look-{number}"))
        self.model.enqueue("done")
        return self

    def run(self, prompt: str = "Look around.", turns: int = 25) -> str:
        result = asyncio.run(invoke_in_slices(self.agent, prompt, turns=turns))
        assert history_problems(self.agent.messages) == []
        assert [
            problem for request in self.model.requests for problem in history_problems(request.messages)
        ] == []
        return message_text(result.message)

    @property
    def compactions(self) -> list[tuple[int, int]]:
        return [(event.before, event.after) for event in self.events if isinstance(event, ContextCompacted)]

    @property
    def summaries(self) -> list[Request]:
        return [request for request in self.model.requests if is_for_summary(request)]


def policy(keep: int = 2, over: int = LIMIT) -> Compaction:
    return Compaction(when_tokens_over=over, preserve_recent_messages=keep)


def test_older_messages_give_way_to_a_summary_within_one_invocation() -> None:
    talk = Talk(policy(), "saw 1 to 3")
    assert talk.looks(1, 2, 3, 4, 5).run() == "done"
    assert talk.compactions == [(9, 3)]
    first, *rest = talk.agent.messages
    assert first["content"] == [{"text": "Look around."}, {"text": f"{SUMMARY_HEADING}\nsaw 1 to 3"}]
    uses = [
        block["toolUse"]["toolUseId"]
        for message in rest
        for block in message["content"]
        if "toolUse" in block
    ]
    assert uses == ["look-4", "look-5"]


def test_the_same_model_writes_the_summary_without_tools_from_all_that_goes() -> None:
    talk = Talk(policy())
    talk.looks(1, 2, 3, 4).run()
    (request,) = talk.summaries
    assert request.tool_specs == []
    text = message_text(request.messages[0])
    assert "Look around." in text
    assert all(f'calls look with {{"at": {number}}}' in text for number in (1, 2, 3))
    assert all(f"[{number}]" in text for number in (1, 2, 3))
    assert "[4]" not in text


def test_a_conversation_is_compacted_again_with_what_was_summarised_before() -> None:
    talk = Talk(policy(), "first summary", "second summary")
    talk.looks(*range(8)).run(turns=3)
    assert len(talk.compactions) == 2
    assert "first summary" in message_text(talk.summaries[1].messages[0])
    assert message_text(talk.agent.messages[0]) == f"Look around.\n{SUMMARY_HEADING}\nsecond summary"


def test_what_a_summary_costs_is_told_and_its_text_is_not() -> None:
    talk = Talk(policy())
    talk.looks(1, 2, 3, 4).run()
    (spent,) = [event for event in talk.events if isinstance(event, ModelFinished)]
    assert spent.step == "steps/0"
    assert spent.usage.total_tokens > 500
    assert not any(isinstance(event, ModelText) for event in talk.events)


def test_who_prepares_the_writer_of_the_summary_reports_for_it() -> None:
    prepared: list[Agent] = []

    def prepare(agent: Agent, emit: Any, names: object) -> None:
        prepared.append(agent)
        emit(ModelText("steps/0", "a piece of the summary"))

    talk = Talk(policy(), prepare=prepare)
    talk.looks(1, 2, 3, 4).run()
    assert len(prepared) == 1
    assert [type(event) for event in talk.events] == [ContextCompacted]


@pytest.mark.parametrize("keep", [2, 3, 4, 5])
def test_the_last_messages_stay_and_no_call_loses_its_result(keep: int) -> None:
    talk = Talk(policy(keep, over=1500))
    talk.looks(1, 2, 3, 4, 5, 6).run()
    ((before, after),) = talk.compactions
    assert before == 13
    assert keep <= after - 1 <= keep + 1


def test_a_conversation_below_the_limit_stays_as_it_is() -> None:
    talk = Talk(policy(over=100_000))
    talk.looks(1, 2, 3, 4).run()
    assert (talk.compactions, len(talk.agent.messages)) == ([], 10)


def test_where_too_little_can_be_won_nothing_is_summarised() -> None:
    talk = Talk(policy(keep=8))
    talk.looks(1, 2, 3, 4).run()
    assert talk.compactions == []


def test_a_conversation_that_the_model_refuses_is_compacted_and_goes_on() -> None:
    talk = Talk(policy(keep=2, over=100_000), window=1400)
    assert talk.looks(1, 2, 3, 4, 5).run() == "done"
    assert talk.compactions == [(11, 3)]


def test_fewer_messages_are_kept_where_the_model_refuses_all_the_same() -> None:
    talk = Talk(policy(keep=8, over=100_000), window=900)
    assert talk.looks(1, 2, 3, 4).run() == "done"
    assert talk.compactions == [(9, 5)]


def test_a_prompt_that_is_too_long_by_itself_ends_in_the_models_own_error() -> None:
    talk = Talk(policy(), window=100)
    with pytest.raises(ContextWindowOverflowException):
        talk.run("x" * 5000)
    assert talk.summaries == []


def test_without_a_policy_nothing_is_dropped_in_silence() -> None:
    for none in (None, Compaction(enabled=False)):
        talk = Talk(none, window=1000)
        assert isinstance(talk.agent.conversation_manager, NullConversationManager)
        talk.looks(1, 2, 3, 4)
        with pytest.raises(ContextWindowOverflowException):
            talk.run()
        assert len(talk.agent.messages) == 9


@pytest.mark.parametrize("answer", [" ", tool_call("look", at=1)])
def test_a_summary_that_says_nothing_changes_nothing(answer: Part) -> None:
    talk = Talk(policy())
    talk.model.summaries.append([answer])
    assert talk.looks(1, 2, 3, 4).run() == "done"
    assert (talk.compactions, len(talk.agent.messages), len(talk.summaries)) == ([], 10, 1)


def test_a_summary_that_is_cut_at_its_limit_of_tokens_is_taken_as_far_as_it_goes() -> None:
    talk = Talk(policy(), "- saw 1")
    talk.model.cuts_summaries = True
    assert talk.looks(1, 2, 3, 4).run() == "done"
    assert message_text(talk.agent.messages[0]).endswith("- saw 1")
    (spent,) = [event for event in talk.events if isinstance(event, ModelFinished)]
    assert spent.stop_reason == "max_tokens"


def test_a_run_that_is_stopped_while_a_summary_is_written_stops() -> None:
    talk: Talk

    def prepare(agent: Agent, emit: Any, names: object) -> None:
        talk.setting.equipment.stop()

    talk = Talk(policy(), prepare=prepare)
    talk.looks(1, 2, 3, 4)

    async def stopped() -> str:
        return str((await invoke_in_slices(talk.agent, "go")).stop_reason)

    assert asyncio.run(stopped()) == "cancelled"
    assert talk.compactions == []
    assert history_problems(talk.agent.messages) == []


def test_a_stop_does_not_wait_for_a_summary_that_does_not_come() -> None:
    cancel = Cancellation()

    def prepare(agent: Agent, emit: Any, names: object) -> None:
        equip(agent, context=CallContext(cancel=cancel))
        asyncio.get_running_loop().call_later(0.1, cancel.set)

    talk = Talk(policy(), prepare=prepare, cancel=cancel)
    talk.model.summaries.append([Pause(30), "too late"])
    talk.looks(1, 2, 3, 4)
    started = monotonic()
    result = asyncio.run(invoke_in_slices(talk.agent, "go"))
    assert (str(result.stop_reason), talk.compactions) == ("cancelled", [])
    assert monotonic() - started < 10


def test_a_model_that_counts_no_tokens_is_estimated() -> None:
    talk = Talk(policy())
    talk.agent.messages.extend(
        [
            {"role": "user", "content": [{"text": "Begin."}]},
            {"role": "assistant", "content": [{"text": "y" * 3000}]},
            {"role": "user", "content": [{"text": "Go on."}]},
            {"role": "assistant", "content": [{"text": "z" * 3000}]},
        ]
    )
    talk.looks().run("And now?")
    assert talk.compactions == [(5, 3)]


def test_many_turns_in_slices_stay_near_the_limit() -> None:
    talk = Talk(policy(keep=4, over=2000))
    assert talk.looks(*range(60)).run(turns=7) == "done"
    assert len(talk.compactions) == len(talk.summaries) > 5
    assert max(tokens(request.messages) for request in talk.model.requests) < 2600
