"""Models that Ollama serves."""

from typing import Any

from strands.models import Model
from strands.models.ollama import OllamaModel
from strands.types.streaming import StreamEvent

from strands_cli.providers import clients
from strands_cli.providers.choice import ModelChoice


def build(choice: ModelChoice, read_seconds: float = clients.PATIENT_READ_SECONDS) -> Model:
    inference = choice.inference
    return _Ollama(
        choice.host,
        ollama_client_args=clients.options(read_seconds),
        model_id=str(choice.model_id),
        options=clients.said(seed=inference.seed),
        **clients.said(
            temperature=inference.temperature,
            top_p=inference.top_p,
            max_tokens=inference.max_tokens,
            stop_sequences=list(inference.stop),
        ),
    )


class _Ollama(OllamaModel):
    """The SDK's model, for servers that leave out what they did not count, and answers that are cut off."""

    def format_chunk(self, event: dict[str, Any]) -> StreamEvent:
        if event["chunk_type"] != "metadata":
            return super().format_chunk(event)
        last = event["data"]
        if not last.done:
            raise ConnectionResetError("the answer ended before it was complete")
        counted = {
            name: getattr(last, name) or 0 for name in ("prompt_eval_count", "eval_count", "total_duration")
        }
        return super().format_chunk({**event, "data": last.model_copy(update=counted)})
