"""Models that Ollama serves."""

from typing import TYPE_CHECKING, Any

from strands_cli.providers.choice import (
    PATIENT_READ_SECONDS,
    ModelChoice,
    Provider,
    client_options,
    takes_images,
)

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

    parameters = choice.options(stop="stop_sequences")
    return CheckedModel(
        choice.host,
        ollama_client_args=client_options(read_seconds),
        model_id=str(choice.model_id),
        options={name: parameters.pop(name) for name in ("seed",) if name in parameters},
        **parameters,
    )


PROVIDER = Provider(
    build=build,
    takes=takes_images,
    default_model="llama3.2:3b",
    package="ollama",
    extra="ollama",
    is_local=True,
    secrets=("OLLAMA_API_KEY",),
    hosts=(r"ollama\.com",),
    host_variables=("OLLAMA_HOST",),
    errors={
        "server": ("ollama.ResponseError",),  # in the middle of a stream it has no status
        "refused": ("ollama.RequestError",),
    },
    hints={
        "connection": "Is it running? Start it with 'ollama serve', or name another host with --host.",
        "not_found": "Fetch the model: ollama pull {model}",
    },
)
