"""Models that Ollama serves."""

from typing import TYPE_CHECKING, Any

from strands_cli.providers.choice import ModelChoice, Provider
from strands_cli.providers.clients import PATIENT_READ_SECONDS, client_options, set_values

if TYPE_CHECKING:
    from strands.models import Model
    from strands.types.streaming import StreamEvent

_COUNTS = ("prompt_eval_count", "eval_count", "total_duration")


def build(choice: ModelChoice, read_seconds: float = PATIENT_READ_SECONDS) -> "Model":
    from strands.models.ollama import OllamaModel

    class CheckedModel(OllamaModel):
        """The SDK's model, for servers that leave out what they did not count, and answers cut off."""

        def format_chunk(self, event: dict[str, Any]) -> "StreamEvent":
            if event["chunk_type"] != "metadata":
                return super().format_chunk(event)
            last = event["data"]
            if not last.done:
                raise ConnectionResetError("the answer ended before it was complete")
            counted = {name: getattr(last, name) or 0 for name in _COUNTS}
            return super().format_chunk({**event, "data": last.model_copy(update=counted)})

    inference = choice.inference
    return CheckedModel(
        choice.host,
        ollama_client_args=client_options(read_seconds),
        model_id=str(choice.model_id),
        options=set_values(seed=inference.seed),
        **set_values(
            temperature=inference.temperature,
            top_p=inference.top_p,
            max_tokens=inference.max_tokens,
            stop_sequences=list(inference.stop),
        ),
    )


PROVIDER = Provider(
    build=build,
    default_model="llama3.2:3b",
    package="ollama",
    extra="ollama",
    is_local=True,
    errors={
        "server": ("ollama.ResponseError",),  # in the middle of a stream it has no status
        "refused": ("ollama.RequestError",),
    },
    hints={
        "connection": "Is it running? Start it with 'ollama serve', or name another host with --host.",
        "not_found": "Fetch the model: ollama pull {model}",
    },
)
