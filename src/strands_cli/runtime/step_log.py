"""How an agent's step uses the journal: it records model answers and tool results, and reuses them on resume.

Recorded requests and calls are answered from the journal instead of the model and the tools, so committed
work is never repeated.
"""

import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from strands.hooks import MessageAddedEvent
from strands.middleware import InvokeModelContext, MiddlewareNext
from strands.types.content import Messages
from strands.types.event_loop import Usage as SdkUsage
from strands.types.events import ModelStopReason, TypedEvent

from strands_cli.types.run_results import Usage
from strands_cli.types.settings_file import Price

if TYPE_CHECKING:
    from strands_cli.runtime.agent_hooks import PendingCall

_WHOLE = frozenset({"end_turn", "stop_sequence", "tool_use"})
"""The stop reasons of complete answers. Other answers are requested again after a resume."""


class StepLog(Protocol):
    """The rows of one step, by their names below the step's key, such as `model/1`."""

    @property
    def place(self) -> str:
        """The run's id and the step's key, unique over all runs."""

    def get(self, name: str) -> Any | None: ...

    def put(self, name: str, value: Any) -> None: ...

    async def committed(self) -> None:
        """Waits until all rows put so far are stored."""

    async def consent(self, name: str, calls: "Sequence[PendingCall]") -> Collection[str]:
        """The ids of the calls that a person allows, or allowed before; Paused if nobody can be asked."""

    async def ask(self, asker: str, question: str) -> str:
        """A person's answer to a tool's question; Paused if nobody can be asked.

        `asker` identifies the call and its question: after a resume, finished calls do not ask again.
        """


class RememberedAnswers:
    """Records and reuses the model's answers. `answer` is the outermost InvokeModelStage middleware."""

    def __init__(
        self,
        log: StepLog,
        names: Iterator[str],
        model: str,
        price: Price | None,
        spend: Callable[[Usage, str], None],
    ) -> None:
        """`names` are the names of the rows; `spend` gets the usage and stop reason of remembered answers."""
        self._log, self._names, self._model, self._price, self._spend = log, names, model, price, spend
        self._name = ""

    async def answer(
        self, context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        self._name = self._name or next(self._names)  # the name of a failed request is used again
        if (row := self._log.get(self._name)) is not None:
            self._name = ""
            self._spend(msgspec.convert(row["usage"], Usage), row["stop_reason"])
            yield ModelStopReason(
                stop_reason=row["stop_reason"],
                message=row["message"],
                usage=_counted(row),
                metrics={"latencyMs": 0},
            )
            return
        began = time.time()
        async for event in next_fn(context):
            if isinstance(event, ModelStopReason) and event["stop"][0] in _WHOLE:
                self._keep(event, began)
            yield event

    def _keep(self, event: ModelStopReason, began: float) -> None:
        reason, message, counted, _ = event["stop"]
        tokens = counted.get("inputTokens") or 0, counted.get("outputTokens") or 0
        row = {
            "at": began,
            "seconds": time.time() - began,
            "model": self._model,
            "message": message,
            "stop_reason": reason,
            "usage": Usage(*tokens, self._price.cost(*tokens) if self._price else None),
        }
        self._log.put(self._name, row)
        self._name = ""


def _counted(row: dict[str, Any]) -> SdkUsage:
    usage = msgspec.convert(row["usage"], Usage)
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
    }


def numbered(kind: str) -> Iterator[str]:
    """The names of rows of one kind: `model/1`, `model/2` and so on."""
    return (f"{kind}/{number}" for number in count(1))


class RememberedMessages:
    """Records each message to the model that is not a tool result: the prompt and follow-up prompts."""

    def __init__(self, log: StepLog) -> None:
        self._log, self._names = log, numbered("user")

    def keep(self, event: MessageAddedEvent) -> None:
        """A hook of the SDK."""
        content = event.message["content"]
        if event.message["role"] != "user" or any("toolResult" in block for block in content):
            return
        if self._log.get(name := next(self._names)) is None:
            self._log.put(name, {"at": time.time(), "content": content})


def conversation_after(before: Messages, rows: Sequence[tuple[str, Any]]) -> Messages:
    """The messages of a conversation after a step, from those before it and the rows of the step in order."""
    messages, turns = [*before], 0
    results = {name: row for name, row in rows if name.startswith("tool/")}
    for name, row in rows:
        kind = name.partition("/")[0]
        if kind == "compaction":
            messages = [*row["messages"]]
        elif kind == "user":
            messages.append({"role": "user", "content": row["content"]})
        elif kind == "model":
            # In the SDK's own form, from which it computes the length of the conversation.
            answer: Any = {**row["message"], "metadata": {"usage": _counted(row)}}
            messages.append(answer)
            calls = sum("toolUse" in block for block in row["message"]["content"])
            if calls:
                turns += 1
                done = (results.get(f"tool/{turns}/{place}") for place in range(calls))
                blocks: Any = [{"toolResult": found["result"]} for found in done if found is not None]
                messages.append({"role": "user", "content": blocks})
        elif kind == "result" and messages and messages[-1]["role"] == "user":
            # The answer was the input of a tool, or data that ended the turn.
            messages.append({"role": "assistant", "content": [{"text": row["response"]}]})
    return messages
