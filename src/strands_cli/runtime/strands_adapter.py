"""From a Spec to the SDK: an agent for one step, with fresh memory, under our contract."""

import logging
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from strands import Agent
from strands.agent import AgentResult
from strands.agent.state import AgentState
from strands.middleware import InvokeModelContext, InvokeModelStage, MiddlewareNext
from strands.types.agent import AgentInput
from strands.types.content import Messages
from strands.types.events import TypedEvent
from strands.types.exceptions import (
    ContextWindowOverflowException,
    EventLoopException,
    MaxTokensReachedException,
)

from strands_cli.errors import Interrupted, RunError, StrandsError, ToolFailed
from strands_cli.events import Event, Listener, RunNoticed, ToolFinished, ToolProgress, ToolStarted
from strands_cli.loader.run_values import read_secrets
from strands_cli.providers.choice import PROVIDERS, ModelChoice, build_model, model_of, with_default
from strands_cli.runtime.compaction import conversation_manager
from strands_cli.runtime.declared import DeclaredTools
from strands_cli.runtime.equipment import equip
from strands_cli.runtime.notes import NotesFile
from strands_cli.runtime.reporting import Reporting
from strands_cli.runtime.retrying import Retrying
from strands_cli.runtime.skills import skill_tools, skills_prompt
from strands_cli.runtime.slices import invoke_in_slices
from strands_cli.runtime.stopping import stopped_answer
from strands_cli.runtime.structured import Structured, text_of
from strands_cli.runtime.tools import agent_tools
from strands_cli.runtime.turns import AskConsent
from strands_cli.secrets import Redactor
from strands_cli.settings import Settings
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.workspace import Workspace, current_directory
from strands_cli.tools import get_registry
from strands_cli.types import AgentSpec, Spec
from strands_cli.types.spec import Compaction, Skill

if TYPE_CHECKING:
    from strands.models import Model

_NOWHERE = logging.NullHandler()
_SHORTEST_KEY = 12
"""What is shorter is no key, but a word such as `none` for a server that wants any."""
MOST_TURNS = 300
"""Turns in which a step must come to an answer: a model that has not by then never will."""
_USABLE = ("end_turn", "stop_sequence", "interrupt", "cancelled")
_WITHHELD = ("content_filtered", "guardrail_intervened", "refusal")
_TOO_LONG = "Ask for less at once, set context_policy.compaction, or take a model with a larger window."


class Surroundings:
    """What all agents of a run share: models, tools, secrets, the workspace, the wish to stop."""

    def __init__(self, spec: Spec, *, inputs: Mapping[str, Any], directory: Path) -> None:
        # Events tell what the SDK logs. Where nobody listens to logs, it would go to standard error as it is.
        logging.getLogger("strands").addHandler(_NOWHERE)
        self.spec = spec
        self.cancel = Cancellation()
        secrets = read_secrets(spec)
        self.redactor = Redactor([*secrets.values(), *provider_keys(spec)])
        self.settings = _settings(spec)
        self.workspace = _workspace(spec, self.settings)
        scope = {**inputs, "inputs": inputs, "secrets": secrets}
        self.tools = DeclaredTools(spec, scope, self.redactor)
        notes = spec.context_policy.notes
        self.notes = NotesFile(notes, directory, redact=self.redactor.text) if notes else None
        self._models: dict[ModelChoice, Model] = {}

    def choice(self, agent: str) -> ModelChoice:
        choice = model_of(self.spec, agent)
        assert choice is not None, "that the agents of steps exist is checked before a run"
        return with_default(choice)

    def model(self, agent: str) -> "Model":
        """The model of an agent; agents that ask the same one share it, since it keeps no conversation."""
        choice = self.choice(agent)
        if choice not in self._models:
            self._models[choice] = build_model(choice)
        return self._models[choice]


def provider_keys(spec: Spec) -> Iterator[str]:
    """The keys of the providers that a workflow asks, which some of them repeat when they refuse one."""
    choices = (model_of(spec, agent) for agent in spec.agents)
    names = {name for choice in choices if choice for name in PROVIDERS[choice.provider].credentials}
    values = (os.environ.get(name, "") for name in sorted(names))
    return (value for value in values if len(value) >= _SHORTEST_KEY)


def _settings(spec: Spec) -> Settings:
    settings = get_registry().settings
    if not spec.security.http_allow:
        return settings
    http = msgspec.structs.replace(settings.http, allow=(*settings.http.allow, *spec.security.http_allow))
    return msgspec.structs.replace(settings, http=http)


def _workspace(spec: Spec, settings: Settings) -> Workspace:
    """The directories of the workflow's own `security.workspace`, from its file on, else the settings'."""
    base = current_directory()
    if spec.security.workspace is None:
        return Workspace(settings.workspace, base)
    roots = tuple((spec.file.parent / root).resolve() for root in spec.security.workspace)
    is_inside = any(base.is_relative_to(root) for root in roots)
    return Workspace(roots, base if is_inside or not roots else roots[0])


class AgentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one step wants of its agent."""

    agent: str
    prompt: str
    """The system prompt, rendered."""
    step: str
    title: str
    emit: Listener
    schema: dict[str, Any] | None = None
    """What the answer has to fit, where it is data."""
    ask_consent: AskConsent | None = None
    ask_human: Callable[[str, Any], Any] | None = None
    before_request: Callable[[], object] | None = None
    """Called before each request to the model; it may set the wish to stop, and the request is not made."""


class Answer(msgspec.Struct, frozen=True):
    text: str
    output: Any = None


class StepAgent:
    """An agent of the SDK's for one step. It remembers nothing of other steps."""

    def __init__(self, around: Surroundings, request: AgentRequest) -> None:
        self._request = request
        self._structured = _structured(request, tools_of(around, request))
        self.agent = build_agent(
            around, request, structured=self._structured, compaction=around.spec.context_policy.compaction
        )

    async def ask(self, text: str) -> Answer:
        """What the agent answers; RunError where it comes to none."""
        if self._structured is None:
            return Answer(text_of((await self._invoke(text)).message).strip())
        value, said = await self._structured.ask(self._invoke, text)
        return Answer(said, value)

    async def _invoke(self, text: str) -> AgentResult:
        result = await invoke(self.agent, text, self._request.step)
        if str(result.stop_reason) == "cancelled":
            raise Interrupted("Stopped before the answer was complete.")
        return result


def build_agent(
    around: Surroundings,
    request: AgentRequest,
    *,
    structured: Structured | None = None,
    compaction: Compaction | None = None,
    messages: Messages | None = None,
    state: AgentState | None = None,
) -> Agent:
    """An agent of the SDK's under our contract; `messages` and `state` are those of an earlier one."""
    tools = tools_of(around, request)
    attend = partial(_attend, around, request)
    agent = Agent(
        model=around.model(request.agent),
        tools=agent_tools([*tools, structured.tool] if structured else tools),
        system_prompt=_prompt(around, request, structured) or None,
        messages=messages,
        state=state,
        name=request.agent,
        callback_handler=None,
        conversation_manager=conversation_manager(
            compaction, emit=request.emit, step=request.step, prepare=attend
        ),
        retry_strategy=None,  # ours honours the workflow's failure_policy
    )
    context = _context(around, request)
    attend(agent, request.emit, partial(equip, agent, context=context, ask_consent=request.ask_consent))
    if structured:
        structured.attach(agent)
    return agent


async def invoke(agent: Agent, prompt: AgentInput, step: str) -> AgentResult:
    """What an invocation comes to, also where it is stopped; RunError where there is no answer to use."""

    def failed(what: str, hint: str) -> RunError:
        return RunError(f"The answer of {agent.name} {what}.", hint=hint, step=step)

    try:
        result = await invoke_in_slices(agent, prompt, limits={"turns": MOST_TURNS})
    except MaxTokensReachedException:
        raise failed(
            "was cut off at its limit of tokens", "Raise inference.max_tokens, or ask for a shorter answer."
        ) from None
    except ContextWindowOverflowException:
        raise failed(
            "did not come: the conversation is too long for the model",
            _TOO_LONG,
        ) from None
    except EventLoopException as wrapped:  # as the SDK passes on what happens after a tool was called
        if isinstance(wrapped.original_exception, StrandsError):
            raise wrapped.original_exception from wrapped.original_exception.__cause__
        raise
    reason = str(result.stop_reason)
    if reason == "limit_turns":
        raise failed(
            f"did not come in {MOST_TURNS} turns: the model called tools all the time",
            "Say in the prompt when it is done, or divide the step.",
        )
    if reason not in _USABLE:
        raise failed(*_unusable(reason))
    return result


def _unusable(reason: str) -> tuple[str, str]:
    """What became of an answer that the provider has ended for a reason of its own, and what helps."""
    if reason in _WITHHELD:
        return f"was withheld by the provider ({reason})", "Change the prompt or the input."
    if reason == "model_context_window_exceeded":
        return "was cut off: the model can read and say no more than it has", _TOO_LONG
    return f"cannot be used: the provider ended it with {reason!r}", "Try again, or change the prompt."


def _attend(
    around: Surroundings,
    request: AgentRequest,
    agent: Agent,
    emit: Listener,
    between: Callable[[], object] = lambda: None,
) -> None:
    """Requests to the model are repeated and told of: the one outside, the other inside of all else."""
    choice = around.choice(request.agent)
    retrying = Retrying(around.spec.runtime.failure_policy, emit, request.step, around.cancel, choice)
    agent.add_middleware(InvokeModelStage, retrying.retry)
    if request.before_request is not None:
        agent.add_middleware(InvokeModelStage, _unless_stopped(around.cancel, request.before_request))
    between()
    agent.add_middleware(InvokeModelStage, Reporting(emit, request.step, str(choice)).report)


def _unless_stopped(cancel: Cancellation, before_request: Callable[[], object]) -> Any:
    async def ask(
        context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        before_request()
        if cancel.is_set():
            yield stopped_answer()
            return
        async for event in next_fn(context):
            yield event

    return ask


def _structured(request: AgentRequest, tools: list[Tool]) -> Structured | None:
    if request.schema is None:
        return None
    return Structured(request.schema, [tool.id for tool in tools], name=request.agent)


def tools_of(around: Surroundings, request: AgentRequest) -> list[Tool]:
    """All that the agent may call: what the workflow gives it, and what comes with skills and notes."""
    own = around.spec.agents[request.agent]
    tools = around.tools.for_agent(own)
    taken = [tool.id for tool in tools]
    tools += skill_tools(_skills(around, own), around.spec.file.parent, taken)
    if around.notes:
        tools.append(around.notes.tool(request.title, [tool.id for tool in tools]))
    return tools


def _skills(around: Surroundings, own: AgentSpec) -> list[Skill]:
    return [skill for skill in around.spec.skills if own.skills is None or skill.id in own.skills]


def _prompt(around: Surroundings, request: AgentRequest, structured: Structured | None) -> str:
    own = around.spec.agents[request.agent]
    taken = [tool.id for tool in around.tools.for_agent(own)]
    parts = [
        request.prompt,
        skills_prompt(_skills(around, own), around.spec.file.parent, taken),
        around.notes.prompt() if around.notes else "",
        structured.instruction if structured else "",
    ]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _context(around: Surroundings, request: AgentRequest) -> CallContext:
    def emit(event: Event) -> None:
        if isinstance(event, ToolStarted | ToolProgress | ToolFinished):
            event = msgspec.structs.replace(event, step=request.step)
        request.emit(event)

    async def permit(tool: Tool, arguments: dict[str, Any]) -> None:
        if around.tools.rule(tool) == "deny":
            raise ToolFailed(f"This workflow does not allow {tool.id}", code="denied", hint="Do without it.")
        if tool.requires_consent and request.ask_consent is None and not around.settings.bypass_consent:
            request.emit(RunNoticed(f"{tool.id} needs consent; --yes gives it beforehand.", request.step))
            raise ToolFailed(
                f"{tool.id} needs the consent of a person, and nobody can be asked",
                code="consent_required",
                hint="Do without it, and say what you could not do.",
            )

    return CallContext(
        emit=emit,
        permit=permit,
        interrupt=request.ask_human,
        cancel=around.cancel,
        settings=around.settings,
        workspace=around.workspace,
        resolve=get_registry().load,
        key=request.step,
    )
