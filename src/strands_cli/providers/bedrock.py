"""Models of Amazon Bedrock. Its credentials and its region come from wherever AWS tools look for them."""

from typing import TYPE_CHECKING

from strands_cli.providers.choice import ModelChoice, Provider
from strands_cli.providers.clients import CONNECT_SECONDS, READ_SECONDS, set_values

if TYPE_CHECKING:
    from strands.models import Model


def build(choice: ModelChoice, read_seconds: float = READ_SECONDS) -> "Model":
    from botocore.config import Config  # type: ignore[import-untyped]
    from strands.models.bedrock import BedrockModel

    inference = choice.inference
    return BedrockModel(
        region_name=choice.region,
        endpoint_url=choice.host,
        boto_client_config=Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=read_seconds,
            retries={"total_max_attempts": 1, "mode": "standard"},
        ),
        model_id=str(choice.model_id),
        **set_values(
            temperature=inference.temperature,
            top_p=inference.top_p,
            max_tokens=inference.max_tokens,
            stop_sequences=list(inference.stop),
        ),
    )


PROVIDER = Provider(
    build=build,
    default_model="global.anthropic.claude-sonnet-4-6",
    places=("host", "region"),
    ignores=("seed",),
    errors={
        "trust": ("botocore.SSLError",),
        "credentials": (
            "botocore.CredentialRetrievalError",
            "botocore.InvalidConfigError",
            "botocore.NoAuthTokenError",
            "botocore.NoCredentialsError",
            "botocore.PartialCredentialsError",
            "botocore.ProfileNotFound",
            "botocore.SSOError",
            "botocore.TokenRetrievalError",
            "botocore.UnauthorizedSSOTokenError",
        ),
        "timeout": (
            "botocore.ConnectTimeoutError",
            "botocore.ReadTimeoutError",
            "urllib3.ReadTimeoutError",
        ),
        "answer": ("botocore.ResponseParserError",),
        "connection": (
            "botocore.ConnectionError",
            "botocore.HTTPClientError",
            "botocore.IncompleteReadError",
            "urllib3.HTTPError",
        ),
        "refused": ("botocore.BotoCoreError", "botocore.ClientError"),
    },
    hints={
        "credentials": "Check the AWS credentials (aws sts get-caller-identity), "
        "and that the account may use the model."
    },
)
