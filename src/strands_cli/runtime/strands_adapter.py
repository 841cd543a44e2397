"""From a Spec to the SDK: an agent for one step, with fresh memory, under our contract."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast
from uuid import uuid4

import msgspec
from strands import Agent
from strands.agent import AgentResult
from strands.agent.state import AgentState
from strands.hooks import AfterModelCallEvent, MessageAddedEvent
from strands.middleware import InvokeModelStage
from strands.types.agent import AgentInput
from strands.types.content import Messages
from strands.types.exceptions import (
    ContextWindowOverflowException,
    EventLoopException,
    MaxTokensReachedException,
)

from strands_cli.errors import Interrupted, RunError, StrandsError, ToolFailed
from strands_cli.events import Event, Listener, RunNoticed, ToolEvent
from strands_cli.providers.choice import ModelChoice, price_of, summary_model
from strands_cli.runtime.agent_hooks import AskConsent, equip
from strands_cli.runtime.compaction import conversation_manager
from strands_cli.runtime.model_output import message_text
from strands_cli.runtime.model_requests import Reporting, Retrying, invoke_in_slices
from strands_cli.runtime.recorded_requests import RecordStage, ReplayStage
from strands_cli.runtime.resources import RunResources
from strands_cli.runtime.step_log import RememberedAnswers, RememberedMessages, StepLog, numbered
from strands_cli.runtime.structured import Structured
from strands_cli.runtime.tools import agent_tools
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.types.run_results import Usage
from strands_cli.types.sections import Compaction

MAX_TURNS = 300
"""The most turns of a step: a model that has not answered by then never will."""
_USABLE = ("end_turn", "stop_sequence", "interrupt", "cancelled")
_WITHHELD = ("content_filtered", "guardrail_intervened", "refusal")
_TOO_LONG = "Ask for less at a time, set context_policy.compaction, or use a model with a larger window."


class AgentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one step wants of its agent."""

    agent: str
    prompt: str
    """The system prompt, rendered."""
    model: str
    """What people are told of the model."""
    step: str
    title: str
    emit: Listener
    tools: tuple[str, ...] | None = None
    """The declared tools of this step, in place of the agent's."""
    schema: dict[str, Any] | None = None
    """The schema of the answer, if it is data."""
    max_retries: int | None = None
    """How often an answer that does not fit the schema is asked for again."""
    ask_consent: AskConsent | None = None
    ask_human: Callable[[str, Any], Any] | None = None
    log: StepLog | None = None
    """Where what the step does is kept, and what an earlier attempt at it has left."""
    spend: Callable[[Usage, str], None] = lambda usage, stop_reason: None
    """Counts the answers that come from the log."""
    may_ask_model: Callable[[], bool] | None = None
    """Asked before each request to the model."""
    report_refusal: Callable[[str], None] | None = None
    """Told the id of a tool that was not called because nobody could be asked for consent."""


class AgentAnswer(msgspec.Struct, frozen=True):
    text: str
    output: Any = None


class StepAgent:
    """An agent of the SDK's for one step, which goes on with the `messages` of earlier ones."""

    def __init__(
        self, resources: RunResources, request: AgentRequest, messages: Messages | None = None
    ) -> None:
        self._request, self._answers = request, 0
        tools = resources.tools.for_agent(request.agent, request.title, request.tools)
        self._structured: Structured | None = None
        if request.schema is not None:
            taken = [tool.id for tool in tools]
            self._structured = Structured(
                request.schema, taken, name=request.agent, max_retries=request.max_retries
            )
        self.agent = build_agent(
            resources,
            request,
            tools,
            structured=self._structured,
            compaction=resources.spec.context_policy.compaction,
            messages=messages,
        )
        self.agent.add_hook(self._count_answer, AfterModelCallEvent)

    def _count_answer(self, event: AfterModelCallEvent) -> None:
        self._answers += event.exception is None

    async def ask(self, text: str) -> AgentAnswer:
        """What the agent answers; RunError if there is no answer."""
        if self._structured is None:
            return AgentAnswer(message_text((await self._invoke(text)).message).strip())
        value, answer = await self._structured.ask(self._invoke, text)
        return AgentAnswer(answer, value)

    async def _invoke(self, text: str) -> AgentResult:
        result = await invoke_agent(self.agent, text, self._request.step)
        while result.interrupts and self._request.log is not None:
            answers = []
            for interrupt in result.interrupts:
                question = str(interrupt.reason or interrupt.name)
                answer = await self._request.log.ask(f"{self._answers}/{interrupt.id}", question)
                answers.append({"interruptResponse": {"interruptId": interrupt.id, "response": answer}})
            result = await invoke_agent(self.agent, cast(AgentInput, answers), self._request.step)
        if str(result.stop_reason) == "cancelled":
            raise Interrupted("Stopped before the answer was complete.")
        return result


def build_agent(
    resources: RunResources,
    request: AgentRequest,
    tools: list[Tool],
    *,
    structured: Structured | None = None,
    compaction: Compaction | None = None,
    messages: Messages | None = None,
    state: AgentState | None = None,
) -> Agent:
    """An agent of the SDK's under our contract; `messages` and `state` are those of an earlier one."""
    stages = partial(add_request_stages, resources, request)
    summaries = summary_model(resources.choice(request.agent), compaction)
    parts = [request.prompt, *resources.tools.prompts_for(request.agent, request.tools)]
    parts += [structured.instruction] if structured else []
    agent = Agent(
        model=resources.model(request.agent),
        tools=agent_tools([*tools, structured.tool] if structured else tools),
        system_prompt="\n\n".join(part.strip() for part in parts if part.strip()) or None,
        messages=messages,
        state=state,
        name=request.agent,
        callback_handler=None,
        conversation_manager=conversation_manager(
            compaction,
            emit=request.emit,
            step=request.step,
            prepare=partial(stages, choice=summaries),
            log=request.log,
            model=partial(resources.model, request.agent, summaries),
        ),
        retry_strategy=None,  # ours honours the workflow's failure_policy
    )
    context = call_context(resources, request)
    asked, log = request.ask_consent, request.log
    contract = partial(equip, agent, context=context, ask_consent=asked, log=log, is_own=True)
    stages(agent, request.emit, numbered("model"), between=contract)
    if request.log is not None:
        agent.add_hook(RememberedMessages(request.log).keep, MessageAddedEvent)
    if structured:
        structured.attach(agent)
    return agent


async def invoke_agent(agent: Agent, prompt: AgentInput, step: str) -> AgentResult:
    """The result of an invocation, even one that is stopped; RunError if there is no usable answer."""

    def failed(what: str, hint: str) -> RunError:
        return RunError(f"The answer of {agent.name} {what}.", hint=hint, step=step)

    try:
        result = await invoke_in_slices(agent, prompt, limits={"turns": MAX_TURNS})
    except MaxTokensReachedException:
        raise failed(
            "was cut off at its limit of tokens", "Raise inference.max_tokens, or ask for a shorter answer."
        ) from None
    except ContextWindowOverflowException:
        raise failed("did not come: the conversation is too long for the model", _TOO_LONG) from None
    except EventLoopException as wrapped:  # as the SDK passes on what happens after a tool was called
        if isinstance(wrapped.original_exception, StrandsError):
            raise wrapped.original_exception from wrapped.original_exception.__cause__
        raise
    reason = str(result.stop_reason)
    if reason == "limit_turns":
        raise failed(
            f"did not come in {MAX_TURNS} turns: the model kept calling tools",
            "Say in the prompt when to stop, or split the step.",
        )
    if reason in _WITHHELD:
        raise failed(f"was withheld by the provider ({reason})", "Change the prompt or the input.")
    if reason == "model_context_window_exceeded":
        raise failed("was cut off: the model's context window is full", _TOO_LONG)
    if reason not in _USABLE:
        what = f"is unusable: the provider ended it with {reason!r}"
        raise failed(what, "Try again, or change the prompt.")
    return result


def add_request_stages(
    resources: RunResources,
    request: AgentRequest,
    agent: Agent,
    emit: Listener,
    names: Iterator[str],
    *,
    between: Callable[[], object] | None = None,
    choice: ModelChoice | None = None,
) -> None:
    """The stages of a request to the model, the outermost first; `between` adds those of the contract.

    `names` are those of the answers in the log. The agent that writes a summary has no contract, and may have
    a model of its own `choice`.
    """
    model = request.model if choice is None else str(choice)
    choice = choice or resources.choice(request.agent)
    retrying = Retrying(
        resources.spec.runtime.failure_policy,
        emit,
        request.step,
        resources.cancel,
        choice,
        may_ask=request.may_ask_model,
    )
    price = price_of(choice, resources.settings)
    if request.log is not None:
        remembered = RememberedAnswers(request.log, names, model, price, request.spend)
        agent.add_middleware(InvokeModelStage, remembered.answer)
    if resources.recorder is not None:
        agent.add_middleware(InvokeModelStage, RecordStage(resources.recorder, request.step).record)
    agent.add_middleware(InvokeModelStage, retrying.retry)
    if between is not None:
        between()
    is_replayed = resources.recorded is not None
    reporting = Reporting(emit, request.step, model, price, is_replayed=is_replayed)
    agent.add_middleware(InvokeModelStage, reporting.report)
    if resources.recorded is not None:
        agent.add_middleware(InvokeModelStage, ReplayStage(resources.recorded, request.step).replay)


def consent_refusal(names: str) -> ToolFailed:
    return ToolFailed(
        f"{names} needs the consent of a person, and nobody can be asked",
        code="consent_required",
        hint="Go on without it, and say what you could not do.",
    )


def call_context(resources: RunResources, request: AgentRequest) -> CallContext:
    def emit(event: Event) -> None:
        if isinstance(event, ToolEvent):
            event = msgspec.structs.replace(event, step=request.step)
        request.emit(event)

    async def permit(tool: Tool, arguments: dict[str, Any]) -> None:
        if resources.tools.rule(tool) == "deny":
            raise ToolFailed(f"This workflow does not allow {tool.id}", code="denied", hint="Do without it.")
        if tool.requires_consent and request.ask_consent is None and not resources.settings.bypass_consent:
            request.emit(RunNoticed(f"{tool.id} needs consent; --yes gives it in advance.", request.step))
            if request.report_refusal is not None:
                request.report_refusal(tool.id)
            raise consent_refusal(tool.id)

    return CallContext(
        emit=emit,
        permit=permit,
        interrupt=request.ask_human,
        cancel=resources.cancel,
        settings=resources.settings,
        workspace=resources.workspace,
        resolve=resources.tools.load_named,
        redactor=resources.redactor,
        key=request.log.place if request.log else uuid4().hex,
    )
