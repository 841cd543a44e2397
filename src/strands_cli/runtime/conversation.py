"""A conversation: questions to one agent, which remembers all of it."""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, Never, cast

import msgspec
from strands import Agent
from strands.agent import AgentResult
from strands.agent.state import AgentState
from strands.types.agent import AgentInput
from strands.types.content import Message, Messages

from strands_cli.errors import StrandsError, ToolFailed
from strands_cli.events import Event, Listener, ModelFinished, ModelStarted, ModelText
from strands_cli.runtime.agent_hooks import AskConsent
from strands_cli.runtime.model_output import message_text
from strands_cli.runtime.model_requests import STOPPED_TEXT
from strands_cli.runtime.resources import RunResources
from strands_cli.runtime.step_log import StepLog
from strands_cli.runtime.strands_adapter import AgentRequest, build_agent, invoke_agent
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.contract import Tool
from strands_cli.types.run_results import Usage
from strands_cli.types.sections import Compaction

STEP = "chat"
"""The step that the events of a conversation name."""

AskPerson = Callable[[str], Awaitable[str]]
"""Puts a tool's question to the person who talks to the agent."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question; of one that was stopped, the partial text."""

    text: str
    is_stopped: bool
    usage: Usage
    seconds: float


class Conversation:
    """Asks one agent, one question at a time.

    Each question is put to an agent that is built anew and takes over the messages: so a stop is a stop of
    that question alone, and what a question that fails has left behind is only kept where it is whole.
    """

    def __init__(
        self,
        resources: RunResources,
        agent: str,
        prompt: str,
        *,
        emit: Listener,
        ask_consent: AskConsent | None = None,
        ask_person: AskPerson | None = None,
    ) -> None:
        self._resources = resources
        self._emit = emit
        self._ask_person = ask_person
        self._request = AgentRequest(
            agent=agent,
            prompt=prompt,
            model=str(resources.choice(agent)),
            step=STEP,
            title=STEP,
            emit=self._on_event,
            ask_consent=ask_consent,
            ask_human=None if ask_person else _refuse_question,
        )
        self._compaction = resources.spec.context_policy.compaction or Compaction()
        self._messages: Messages = []
        self._state = AgentState()
        self._partial = ""
        self._usage = Usage()

    @property
    def messages(self) -> Messages:
        """The whole conversation, as the model gets it with the next question."""
        return self._messages

    @property
    def tools(self) -> list[Tool]:
        return self._resources.tools.for_agent(self._request.agent, self._request.title)

    @property
    def model(self) -> str:
        """The provider, the model and where it is."""
        return self._request.model

    @property
    def cancel(self) -> Cancellation:
        """Set to stop the question that is being answered."""
        return self._resources.cancel

    def stop(self) -> None:
        """Ends the answer that is on its way, from any thread; the conversation can go on."""
        self._resources.cancel.set()

    def clear(self) -> None:
        """Begins anew: the agent has forgotten everything."""
        self._messages, self._state = [], AgentState()

    def restore(self, messages: Messages) -> None:
        """Goes on with an earlier conversation."""
        self._messages = messages

    @property
    def facts(self) -> dict[str, Any]:
        """What answers rest on, for the record."""
        request, ids = self._request, [tool.id for tool in self.tools]
        return {"agent": request.agent, "model": request.model, "prompt": request.prompt, "tools": ids}

    async def ask(self, text: str, log: StepLog | None = None) -> Reply:
        """What the agent answers; StrandsError if it does not; the next question can still be asked.

        With a `log`, what the agent does is kept there, and what is kept there is not done again.
        """
        self._resources.cancel = Cancellation()
        self._partial, self._usage = "", Usage()
        started = perf_counter()
        agent = build_agent(
            self._resources,
            msgspec.structs.replace(self._request, log=log),
            self.tools,
            compaction=self._compaction,
            messages=list(self._messages),
            state=self._state,
        )
        try:
            result = await self._answered(agent, text)
        except StrandsError as error:
            self._messages = _kept_messages(agent.messages, error) or self._messages
            raise
        is_stopped = str(result.stop_reason) == "cancelled"
        if is_stopped:
            _keep_partial(agent.messages, self._partial)
        self._messages = agent.messages
        answer = self._resources.redactor.text(self._partial if is_stopped else message_text(result.message))
        seconds = perf_counter() - started
        return Reply(text=answer.strip(), is_stopped=is_stopped, usage=self._usage, seconds=seconds)

    async def _answered(self, agent: Agent, text: str) -> AgentResult:
        """The agent's answer; what its tools want to know from a person is asked in between."""
        result = await invoke_agent(agent, text, STEP)
        while result.interrupts:
            assert self._ask_person is not None, "without ask_person no tool can ask"
            responses = []
            for interrupt in result.interrupts:
                answer = await self._ask_person(str(interrupt.reason or interrupt.name))
                responses.append({"interruptResponse": {"interruptId": interrupt.id, "response": answer}})
            result = await invoke_agent(agent, cast(AgentInput, responses), STEP)
        return result

    def _on_event(self, event: Event) -> None:
        match event:
            case ModelStarted():
                self._partial = ""
            case ModelText():
                self._partial += event.text
            case ModelFinished():
                self._usage += event.usage
                if event.stop_reason == "tool_use":  # it is a message of its own by now
                    self._partial = ""
        self._emit(event)


def _refuse_question(name: str, reason: object) -> Never:
    raise ToolFailed(
        f"A person is asked ({reason or name}), and nobody can be asked here",
        code="denied",
        hint="Go on without it, and say what you could not do.",
    )


def _keep_partial(messages: Messages, partial: str) -> None:
    """Keeps the partial answer of a stopped model, for its next turn."""
    last = messages[-1]
    if last["role"] == "assistant" and message_text(last) == STOPPED_TEXT and partial.strip():
        last["content"] = [{"text": f"{partial.rstrip()}\n\n({STOPPED_TEXT})"}]


def _kept_messages(messages: Messages, error: StrandsError) -> Messages | None:
    """What is kept of a question without an answer: tool calls that were made, and a cut-off answer.

    None if that would be the question alone, or a call without its result: no provider takes these.
    """
    blocks = {kind for block in messages[-1]["content"] for kind in block} if messages else set()
    if not messages or "toolUse" in blocks:
        return None
    if messages[-1]["role"] == "assistant":
        return messages
    if "toolResult" not in blocks:
        return None
    closing: Message = {"role": "assistant", "content": [{"text": f"(There was no answer: {error.message})"}]}
    return [*messages, closing]
