"""Models of Amazon Bedrock. Its credentials and its region come from wherever AWS tools look for them."""

from typing import TYPE_CHECKING

from strands_cli.providers.choice import CONNECT_SECONDS, READ_SECONDS, ModelChoice, Provider

if TYPE_CHECKING:
    from strands.models import Model


def build(choice: ModelChoice, read_seconds: float = READ_SECONDS) -> "Model":
    from botocore.config import Config  # type: ignore[import-untyped]
    from strands.models.bedrock import BedrockModel

    return BedrockModel(
        region_name=choice.region,
        endpoint_url=choice.host,
        boto_client_config=Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=read_seconds,
            retries={"total_max_attempts": 1, "mode": "standard"},
        ),
        model_id=str(choice.model_id),
        **choice.options(stop="stop_sequences", seed=""),
    )


PROVIDER = Provider(
    build=build,
    default_model="global.anthropic.claude-sonnet-4-6",
    secrets=("AWS_BEARER_TOKEN_BEDROCK", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    # Not all of amazonaws.com: others have buckets and functions there.
    hosts=(r"bedrock-runtime(-fips)?\.[a-z]{2,4}(-[a-z]+)+-\d\.amazonaws\.com(\.cn)?",),
    host_variables=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"),
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
