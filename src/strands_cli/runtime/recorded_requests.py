"""The stages of a model request for `--record` and `--replay`.

Recording happens outside the retries, so a recording has the final outcome of a request. A replayed answer
takes the place of the provider's, so it is reported, checked and journalled like any other.
"""

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from strands.middleware import InvokeModelContext, MiddlewareNext
from strands.types.events import ModelStopReason, TypedEvent
from strands.types.exceptions import ContextWindowOverflowException

from strands_cli.errors import ProviderError

Request = dict[str, Any]
"""`system`, `tools` (their names) and `messages`."""
Answer = dict[str, Any]
"""`message`, `stop_reason` and `usage`, or `error` and its `hint`; `overflow` if the request was too long."""


class AnswerRecorder(Protocol):
    def keep(self, step: str, request: Request, answer: Answer) -> None:
        """Records a request and its answer; both are copied."""


class RecordedAnswers(Protocol):
    def answer(self, step: str, request: Request) -> Answer:
        """A copy of the recorded answer; RunError if the request differs from the recorded one."""


class RecordStage:
    """`record` is an InvokeModelStage middleware, outside the retries."""

    def __init__(self, recorder: AnswerRecorder, step: str) -> None:
        self._recorder, self._step = recorder, step

    async def record(
        self, context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        try:
            async for event in next_fn(context):
                if isinstance(event, ModelStopReason) and event.stop_reason != "cancelled":
                    self._keep(
                        context, message=event.message, stop_reason=event.stop_reason, usage=event.usage
                    )
                yield event
        except ContextWindowOverflowException as error:
            self._keep(context, error=str(error), overflow=True)
            raise
        except ProviderError as error:
            self._keep(context, error=error.message, hint=error.hint)
            raise

    def _keep(self, context: InvokeModelContext, **answer: Any) -> None:
        # After the request, not before: images that the provider does not accept are replaced until then.
        self._recorder.keep(self._step, _request_of(context), answer)


class ReplayStage:
    """`replay` is the innermost InvokeModelStage middleware: it answers instead of the model."""

    def __init__(self, recorded: RecordedAnswers, step: str) -> None:
        self._recorded, self._step = recorded, step

    async def replay(
        self, context: InvokeModelContext, next_fn: "MiddlewareNext[InvokeModelContext, TypedEvent]"
    ) -> AsyncGenerator[TypedEvent, None]:
        answer = self._recorded.answer(self._step, _request_of(context))
        if answer.get("overflow"):
            raise ContextWindowOverflowException(answer["error"])
        if "error" in answer:
            raise ProviderError(answer["error"], hint=answer.get("hint", ""))
        for block in answer["message"]["content"]:
            if "text" in block:
                delta = {"contentBlockDelta": {"delta": {"text": block["text"]}}}
                yield TypedEvent({"event": delta})
        yield ModelStopReason(
            stop_reason=answer["stop_reason"],
            message=answer["message"],
            usage=answer["usage"],
            metrics={"latencyMs": 0},
        )


def _request_of(context: InvokeModelContext) -> Request:
    system: Any = context.system_prompt or ""
    if isinstance(system, list) and all(block.keys() == {"text"} for block in system):
        system = "\n".join(block["text"] for block in system)
    return {
        "system": system,
        "tools": [spec["name"] for spec in context.tool_specs],
        "messages": [
            {"role": message["role"], "content": message["content"]} for message in context.messages
        ],
    }
