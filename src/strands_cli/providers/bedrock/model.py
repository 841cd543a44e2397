"""Models of Amazon Bedrock. Its credentials and its region come from wherever AWS tools look for them."""

from botocore.config import Config  # type: ignore[import-untyped]
from strands.models import Model
from strands.models.bedrock import BedrockModel

from strands_cli.providers import clients
from strands_cli.providers.choice import ModelChoice


def build(choice: ModelChoice, read_seconds: float = clients.READ_SECONDS) -> Model:
    inference = choice.inference
    return BedrockModel(
        region_name=choice.region,
        endpoint_url=choice.host,
        boto_client_config=Config(
            connect_timeout=clients.CONNECT_SECONDS,
            read_timeout=read_seconds,
            retries={"total_max_attempts": 1, "mode": "standard"},
        ),
        model_id=str(choice.model_id),
        **clients.said(
            temperature=inference.temperature,
            top_p=inference.top_p,
            max_tokens=inference.max_tokens,
            stop_sequences=list(inference.stop),
        ),
    )
