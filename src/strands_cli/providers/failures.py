"""What a provider's failure means: one clear sentence, what helps, and whether trying again may."""

import errno
import socket
from typing import Literal

import msgspec

from strands_cli.providers.choice import ModelChoice
from strands_cli.providers.evidence import Evidence, evidence_of, origin_of
from strands_cli.providers.table import PROVIDERS, with_default

Kind = Literal[
    "overflow",
    "throttled",
    "busy",
    "server",
    "connection",
    "timeout",
    "answer",
    "trust",
    "credentials",
    "not_found",
    "refused",
    "unknown",
]
RETRYABLE: frozenset[Kind] = frozenset({"throttled", "busy", "server", "connection", "timeout", "answer"})

_TOO_DEEP = frozenset({"builtins.RecursionError"})
"""What reading JSON ends with that is nested without end."""

# Classes of the clients, as `package.Name`, each with all that is derived from it. The first kind counts.
CLASSES: dict[Kind, frozenset[str]] = {
    "overflow": frozenset({"strands.ContextWindowOverflowException"}),
    "trust": frozenset({"ssl.SSLCertVerificationError", "botocore.SSLError"}),
    "credentials": frozenset(
        {
            "botocore.CredentialRetrievalError",
            "botocore.InvalidConfigError",
            "botocore.NoAuthTokenError",
            "botocore.NoCredentialsError",
            "botocore.PartialCredentialsError",
            "botocore.ProfileNotFound",
            "botocore.SSOError",
            "botocore.TokenRetrievalError",
            "botocore.UnauthorizedSSOTokenError",
        }
    ),
    "refused": frozenset({"httpx.InvalidURL", "httpx.UnsupportedProtocol", "httpx.TooManyRedirects"}),
    "timeout": frozenset(
        {
            "anthropic.APITimeoutError",
            "botocore.ConnectTimeoutError",
            "botocore.ReadTimeoutError",
            "builtins.TimeoutError",
            "httpx.TimeoutException",
            "openai.APITimeoutError",
            "urllib3.ReadTimeoutError",
        }
    ),
    "answer": frozenset(
        {
            "anthropic.APIResponseValidationError",
            "httpx.DecodingError",
            "json.JSONDecodeError",
            "openai.APIResponseValidationError",
            "pydantic_core.ValidationError",
            "botocore.ResponseParserError",
            *_TOO_DEEP,
        }
    ),
    "connection": frozenset(
        {
            "anthropic.APIConnectionError",
            "botocore.ConnectionError",
            "botocore.HTTPClientError",
            "botocore.IncompleteReadError",
            "builtins.ConnectionError",
            "http.HTTPException",
            "httpx.StreamError",
            "httpx.TransportError",
            "openai.APIConnectionError",
            "socket.gaierror",
            "urllib3.HTTPError",
        }
    ),
    "throttled": frozenset({"strands.ModelThrottledException"}),
}
# Whatever else these raise is a refusal of theirs.
CLIENTS = frozenset(
    {
        "anthropic.AnthropicError",
        "botocore.BotoCoreError",
        "botocore.ClientError",
        "google.APIError",
        "google.FunctionInvocationError",
        "google.UnknownApiResponseError",
        "google.UnknownFunctionCallArgumentError",
        "google.UnsupportedFunctionError",
        "httpx.CookieConflict",
        "httpx.HTTPError",
        "ollama.RequestError",
        "ollama.ResponseError",
        "openai.OpenAIError",
        "strands.ProviderTokenCountError",
    }
)
_STATUSES: dict[int, Kind] = {
    401: "credentials",
    403: "credentials",
    404: "not_found",
    408: "timeout",
    409: "busy",
    425: "busy",
    429: "throttled",
}
_OVERFLOWING = (
    "context length",
    "context size",
    "context window",
    "exceeds the maximum number of tokens",
    "prompt is too long",
    "too many tokens",
)
_NO_SUCH_MODEL = ("model identifier is invalid", "model not found", "no such model")
_START = {
    "llamacpp": "Is it running? Start llama-server, or name another host with --host.",
    "ollama": "Is it running? Start it with 'ollama serve', or name another host with --host.",
}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    message: str
    """One sentence: who failed, and how."""
    hint: str = ""
    retryable: bool = False
    retry_after_seconds: float | None = None
    """How long the provider asks to wait before the next attempt."""

    @property
    def overflow(self) -> bool:
        """The conversation is longer than the model can read."""
        return self.kind == "overflow"


def failure_of(error: BaseException, choice: ModelChoice | None = None) -> Failure:
    """What a failed request to a model means; of the kind `unknown` where it is no failure of a provider."""
    evidence = evidence_of(error)
    kind = _kind(evidence)
    if choice is not None and choice.provider in PROVIDERS:
        choice = with_default(choice)
    return Failure(
        kind=kind,
        message=_message(kind, evidence, _subject(evidence, choice)),
        hint=_hint(kind, evidence, choice),
        retryable=kind in RETRYABLE and not _is_for_good(evidence),
        retry_after_seconds=evidence.retry_after_seconds,
    )


def _is_for_good(evidence: Evidence) -> bool:
    """Whether trying again would only come to the same, in spite of the kind."""
    return "insufficient_quota" in evidence.words or evidence.is_any(_TOO_DEEP)


def _kind(evidence: Evidence) -> Kind:
    if evidence.is_any(CLASSES["overflow"]):
        return "overflow"
    if evidence.status is not None:
        return _kind_of_status(evidence.status, evidence.text.lower())
    found = next((kind for kind, names in CLASSES.items() if evidence.is_any(names)), None)
    if found is not None:
        return found
    if evidence.is_any(frozenset({"ollama.ResponseError"})):
        return "server"  # an error in the middle of a stream has no status there
    return "refused" if evidence.is_any(CLIENTS) else "unknown"


def _kind_of_status(status: int, text: str) -> Kind:
    if status >= 500:
        return "server"
    if status in _STATUSES:
        return _STATUSES[status]
    if any(part in text for part in _OVERFLOWING):
        return "overflow"
    if any(part in text for part in _NO_SUCH_MODEL):
        return "not_found"
    return "credentials" if "api key" in text else "refused"


def _subject(evidence: Evidence, choice: ModelChoice | None) -> str:
    name = choice.provider if choice else "the model's provider"
    origin = origin_of(choice.host if choice else None) or evidence.origin
    return f"{name} at {origin}" if origin else name


def _message(kind: Kind, evidence: Evidence, subject: str) -> str:
    status = f" ({evidence.status})" if evidence.status else ""
    text = "it is nested too deeply" if evidence.is_any(_TOO_DEEP) else evidence.text.rstrip(".")
    begun = subject[0].upper() + subject[1:] if subject.startswith("the ") else subject
    said = {
        "overflow": f"The conversation is too long for {subject}: {text}.",
        "throttled": f"{begun} asks to slow down{status}: {text}.",
        "busy": f"{begun} is busy{status}: {text}.",
        "server": f"{begun} failed{status}: {text}.",
        "connection": _lost(evidence, subject),
        "timeout": f"{begun} did not answer in time{status}.",
        "answer": f"{begun} sent an answer that makes no sense: {text}.",
        "trust": f"{begun} has a certificate that is not trusted: {text}.",
        "credentials": f"{begun} does not let this key in{status}: {text}.",
        "not_found": f"{begun} does not have it{status}: {text}.",
        "refused": f"{begun} refused the request{status}: {text}.",
        "unknown": f"{type(evidence.chain[0]).__name__}: {text}.",
    }
    return said[kind]


def _lost(evidence: Evidence, subject: str) -> str:
    system = [error for error in evidence.chain if isinstance(error, OSError)]
    if any(isinstance(error, socket.gaierror) for error in system):
        return f"No connection to {subject}: there is no host of that name."
    if any(error.errno == errno.ECONNREFUSED for error in system):
        return f"No connection to {subject}: nothing listens there."
    if evidence.is_any(frozenset({"httpx.ConnectError", "botocore.EndpointConnectionError"})):
        return f"No connection to {subject}: {evidence.text.rstrip('.')}."
    reason = str(evidence.chain[-1]).rstrip(".") or type(evidence.chain[-1]).__name__
    return f"The connection to {subject} broke: {reason}."


def _hint(kind: Kind, evidence: Evidence, choice: ModelChoice | None) -> str:
    if choice is None:
        return ""
    if kind == "credentials":
        return _credentials(choice)
    if kind == "not_found":
        if choice.provider == "ollama":
            return f"Fetch the model: ollama pull {choice.model_id}"
        return f"Is {choice.model_id!r} the right model_id, and the host the right one?"
    if kind == "connection":
        return _START.get(choice.provider, "Check the network, and the host if you gave one.")
    if "insufficient_quota" in evidence.words:
        return "The account has no credit left."
    if kind == "throttled":
        return "Try later, or allow more with runtime.failure_policy."
    return _FIXED_HINTS.get(kind, "")


def _credentials(choice: ModelChoice) -> str:
    names = PROVIDERS[choice.provider].credentials if choice.provider in PROVIDERS else ()
    if names:
        return f"Check {' or '.join(names)}."
    if choice.provider == "bedrock":
        return (
            "Check the AWS credentials (aws sts get-caller-identity), and that the account may use the model."
        )
    return "Check the key that the host asks for."


_FIXED_HINTS: dict[Kind, str] = {
    "overflow": "Set context_policy.compaction, give shorter inputs, or take a model that reads more.",
    "trust": "Set SSL_CERT_FILE to the certificates that you trust, if the host has one of your own.",
}
