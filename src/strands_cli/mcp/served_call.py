"""One call of a served tool: its questions to the user go through the client, its progress too.

A question ends the call; it goes out, and the call is made again with the answer. In the handshake era the
client answers a request of ours; since 2026-07-28 it sends the call again. Only a body that makes calls which
need consent waits for the answer: it may have done something already.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.events import Event, ToolProgress
from strands_cli.mcp.tool_content import call_answer
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.cancellation import Cancellation, call_in_loop
from strands_cli.toolkit.context import NO_CONTEXT, CallContext, InterruptRequested, uncapped
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.info import ToolFields
from strands_cli.toolkit.results import ToolResult, ToolUse, failure_result

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp_types import CallToolRequestParams

_LOG = logging.getLogger("strands_cli.mcp")
_MOST_QUESTIONS = 100
"""In one call."""
_MOST_UNSENT_PROGRESS = 100

_CONSENT = "consent"
"""The name of the question whether a call may be made."""
CONSENT_FORM = {
    "type": "object",
    "properties": {"allow": {"type": "boolean", "title": "Allow this call"}},
    "required": ["allow"],
}
"""A required answer without a default: a client that accepts every question by itself does not consent."""
_ANSWER_FORM = {
    "type": "object",
    "properties": {"answer": {"type": "string", "title": "Answer"}},
    "required": ["answer"],
}

_ELICITATION_HINT = "Use a client that supports elicitation."

DescribeCall = Callable[[Tool, dict[str, Any], tuple[str, ...]], str]
"""The text of the question whether a call may be made; with the protected paths that it writes."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that are served at one moment. Calls in flight keep theirs."""

    tools: Mapping[str, ToolFields]
    """By name: what is known of each without loading it."""
    load: Callable[[str], Tool]
    """Loads one of them; ToolError if it cannot be."""
    context: CallContext = NO_CONTEXT
    """What calls get. The client is asked for consent, unless this has a `permit`."""
    own_contexts: Mapping[str, CallContext] = {}
    """What the calls of some tools get instead."""


class _Question(msgspec.Struct, frozen=True):
    """What the client has to ask its user, as an elicitation."""

    name: str
    message: str
    form: dict[str, Any]
    takes_form: bool = False
    """Whether the tool wants the whole form, not the one answer in it."""


class ServedCall:
    """A call from a client, until it has its answer; since 2026-07-28 that may take several requests."""

    def __init__(self, offer: Offer, name: str, key: str, describe: DescribeCall) -> None:
        """ToolError if the tool cannot be loaded."""
        self.key = key
        self._offer, self._name, self._describe = offer, name, describe
        self._tool = offer.load(name)
        self._answers: dict[str, dict[str, Any] | None] = {}
        """The forms that the user sent back, by the names of the questions; None for a refusal."""
        self._asked = ""
        """The question that is with the client."""
        self._loop = asyncio.get_running_loop()
        self._attempt: asyncio.Task[ToolResult] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._inner_question: _Question | None = None
        self._inner_changed = asyncio.Event()

    async def answer(
        self, ctx: "ServerRequestContext[Any, Any]", params: "CallToolRequestParams"
    ) -> "tuple[HandlerResult, bool]":
        """The answer to a request; and whether it is a question, so that the client sends the call again."""
        self._ctx, self._can_ask, self._is_modern = ctx, _can_ask(ctx), _is_modern(ctx)
        self._take_answers(params)
        use: ToolUse = {"toolUseId": self.key, "name": self._tool.id, "input": params.arguments or {}}
        for _ in range(_MOST_QUESTIONS):
            try:
                result = await (self._attempt_beside(use) if self._is_modern else self._result(use))
            except InterruptRequested as interrupted:
                question = _question_of(interrupted)
            else:
                if isinstance(result, _Question):
                    return self._input_required(result), True
                return call_answer(result, self._tool), False
            if self._is_modern:
                return self._input_required(question), True
            await self._ask_client(question)
        failed = ToolFailed(f"{self._tool.id} asked {_MOST_QUESTIONS} questions, which is too many.")
        return call_answer(failure_result(self.key, failed), None), False

    def _take_answers(self, params: "CallToolRequestParams") -> None:
        """Consent counts only as the answer to a question that was asked; what a tool asks may also be
        answered in advance.
        """
        from mcp_types import ElicitResult

        for name, answer in (params.input_responses or {}).items():
            if isinstance(answer, ElicitResult) and (name == self._asked or not name.startswith(_CONSENT)):
                self._answers[name] = (answer.content or {}) if answer.action == "accept" else None

    async def _attempt_beside(self, use: ToolUse) -> "ToolResult | _Question":
        """The result, or the question of a call inside the call, which waits for its answer meanwhile."""
        if self._attempt is None:
            self._attempt = self._loop.create_task(self._result(use))
        elif self._inner_question is not None and self._inner_question.name in self._answers:
            self._inner_question = None
            self._inner_changed.set()
        asked = self._loop.create_task(self._until_asked())
        try:
            await asyncio.wait({self._attempt, asked}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.abandon()
            raise
        finally:
            asked.cancel()
        if not self._attempt.done() and self._inner_question is not None:
            return self._inner_question
        attempt, self._attempt, self._inner_question = self._attempt, None, None
        return await attempt

    async def _until_asked(self) -> None:
        while self._inner_question is None:
            self._inner_changed.clear()
            await self._inner_changed.wait()

    def abandon(self) -> None:
        """Ends what waits for an answer that will not come."""
        if self._attempt is not None:
            self._attempt.cancel()

    async def _result(self, use: ToolUse) -> ToolResult:
        cancel = Cancellation()
        with _reported(self) as progress:
            try:
                result = await call_tool(self._tool, use, self._context(progress, cancel))
            except asyncio.CancelledError:
                cancel.set()
                raise
            if progress is not None:
                await progress.flush()
            return result

    def _context(self, progress: "_Progress | None", cancel: Cancellation) -> CallContext:
        base = self._offer.own_contexts.get(self._name, self._offer.context)
        if self._tool.output_schema is not None:  # which a preview instead of the answer would not fit
            base = uncapped(base)
        listeners = [one for one in (base.emit, progress.emit if progress else None) if one is not None]
        return msgspec.structs.replace(
            base,
            emit=_joined(listeners),
            permit=base.permit or self._permit,
            permit_protected=self._permit,
            interrupt=self._interrupt,
            cancel=cancel,
            offered=self._offered,
            key=self.key,
        )

    def _offered(self, reference: str) -> Tool:
        if reference not in self._offer.tools:
            raise ToolFailed(f"No tool {reference!r} is served here.", code="unknown_tool")
        return self._offer.load(reference)

    async def _permit(self, tool: Tool, arguments: dict[str, Any], protected: tuple[str, ...] = ()) -> None:
        if not (tool.requires_consent or protected):
            return
        if not self._can_ask:
            raise ToolFailed(
                f"{tool.id} needs consent to run, and this client cannot ask its user",
                code="consent_required",
                hint=f"{_ELICITATION_HINT} To allow all calls: strands mcp serve --yes",
            )
        name = _CONSENT
        if is_inner := tool is not self._tool:
            sent = json.dumps(arguments, sort_keys=True, default=str)
            name = f"{_CONSENT}:{tool.id}:{sha256(sent.encode()).hexdigest()[:16]}"
        question = _Question(name, self._describe(tool, arguments, protected), CONSENT_FORM)
        # A body that makes calls may have done something already: it must not run again for the answer. One
        # that holds up the loop is quick and does nothing else, by declaration.
        if is_inner and asyncio.get_running_loop() is self._loop:
            await self._ask_in_place(question)
        form = self._answer_to(question)
        if form is None or form.get("allow") is not True:
            raise ToolFailed(f"The user refused the call of {tool.id}.", code="denied")

    async def _ask_in_place(self, question: _Question) -> None:
        """Asks while the body waits, within its time limit."""
        async with self._one_at_a_time:
            if question.name in self._answers:
                return
            if not self._is_modern:
                await self._ask_client(question)
                return
            self._inner_question = question
            self._inner_changed.set()
            while self._inner_question is not None:
                self._inner_changed.clear()
                await self._inner_changed.wait()

    def _interrupt(self, name: str, reason: Any) -> Any:
        question = _tool_question(name, reason)
        if not self._can_ask:
            reason = f"{self._tool.id} asks a person, and this client cannot ask its user: {question.message}"
            raise ToolFailed(reason, code="consent_required", hint=_ELICITATION_HINT)
        form = self._answer_to(question)
        if form is None:
            raise ToolFailed(f"The user did not answer: {question.message}", code="denied")
        return form if question.takes_form else form.get("answer", "")

    def _answer_to(self, question: _Question) -> dict[str, Any] | None:
        """The form that the user sent back; None for a refusal. Without either, the call ends here."""
        if question.name not in self._answers:
            raise InterruptRequested(question.name, pending=question)
        return self._answers[question.name]

    async def _ask_client(self, question: _Question) -> None:
        """Asks by a request of our own, as before 2026-07-28."""
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        ask, request = self._ctx.session.elicit_form, self._ctx.request_id
        try:
            answer = await ask(question.message, question.form, request)
        except (MCPError, ValidationError) as error:
            _LOG.info("the client could not ask %r: %s", question.name, error)
            self._answers[question.name] = None
            return
        self._answers[question.name] = (answer.content or {}) if answer.action == "accept" else None

    def _input_required(self, question: _Question) -> dict[str, Any]:
        """The question as the result of the call, as since 2026-07-28. The key comes back, sealed."""
        self._asked = question.name
        asked = {"message": question.message, "requestedSchema": question.form}
        return {
            "resultType": "input_required",
            "inputRequests": {question.name: {"method": "elicitation/create", "params": asked}},
            "requestState": self.key,
        }

    async def report_progress(self, value: float, total: float | None, message: str | None) -> None:
        await self._ctx.session.report_progress(value, total, message)

    @property
    def wants_progress(self) -> bool:
        meta = self._ctx.meta
        return bool(meta) and meta.get("progress_token", meta.get("progressToken")) is not None  # type: ignore[union-attr]


# --- questions --------------------------------------------------------------------------------------------


def _is_modern(ctx: "ServerRequestContext[Any, Any]") -> bool:
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _can_ask(ctx: "ServerRequestContext[Any, Any]") -> bool:
    """Whether the client shows forms to its user: one that says nothing more than "elicitation" does."""
    capabilities = ctx.session.client_capabilities
    can = capabilities.elicitation if capabilities is not None else None
    if can is None or (can.form is None and can.url is not None):
        return False
    return _is_modern(ctx) or ctx.session.can_send_request


def _tool_question(name: str, reason: Any) -> _Question:
    """What a tool asks: a text, or a form of its own as `{"message": …, "requestedSchema": …}`."""
    if isinstance(reason, dict) and isinstance(reason.get("requestedSchema"), dict):
        return _Question(name, str(reason.get("message", name)), reason["requestedSchema"], takes_form=True)
    text = reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False, default=str)
    return _Question(name, text if reason not in (None, "") else name, _ANSWER_FORM)


def _question_of(interrupted: InterruptRequested) -> _Question:
    if isinstance(interrupted.pending, _Question):
        return interrupted.pending
    return _tool_question(interrupted.name, interrupted.reason)


# --- progress ---------------------------------------------------------------------------------------------


def _joined(listeners: list[Callable[[Event], None]]) -> Callable[[Event], None] | None:
    if len(listeners) < 2:
        return listeners[0] if listeners else None

    def emit(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return emit


@contextmanager
def _reported(call: ServedCall) -> "Iterator[_Progress | None]":
    """Sends progress while the block runs, if the client wants it."""
    if not call.wants_progress:
        yield None
        return
    progress = _Progress(call)
    try:
        yield progress
    finally:
        progress.close()


class _Progress:
    """A listener that sends progress notifications in order, from a task of its own."""

    def __init__(self, call: ServedCall) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[float, float | None, str | None]] = []
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._last = -1.0
        self._task = self._loop.create_task(self._send())

    def emit(self, event: Event) -> None:
        if (said := _progress_of(event)) is not None:
            call_in_loop(self._loop, self._add, *said)

    def _add(self, value: float | None, total: float | None, message: str | None) -> None:
        if value is None:
            value = self._last + 1 if self._last >= 0 else 1
        if value > self._last and len(self._waiting) < _MOST_UNSENT_PROGRESS:  # it must grow
            self._last = value
            self._waiting.append((value, total, message))
            self._idle.clear()
            self._changed.set()

    async def _send(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting:
                await self._call.report_progress(*self._waiting.pop(0))
            self._idle.set()

    async def flush(self) -> None:
        """Returns when all that was reported is sent."""
        await asyncio.sleep(0)  # what came from other threads is added first
        idle = self._loop.create_task(self._idle.wait())
        await asyncio.wait({idle, self._task}, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()

    def close(self) -> None:
        self._task.cancel()


def _progress_of(event: Event) -> tuple[float | None, float | None, str | None] | None:
    """The number, the total and the text of what an event reports; None if it reports no progress."""
    if not isinstance(event, ToolProgress):
        return None
    data = event.data
    if (number := _number(data)) is not None:
        return number, None, None
    if isinstance(data, dict) and (number := _number(data.get("progress"))) is not None:
        message = data.get("message")
        return number, _number(data.get("total")), None if message is None else str(message)
    return None, None, data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return float(value) if is_number else None  # type: ignore[arg-type]
