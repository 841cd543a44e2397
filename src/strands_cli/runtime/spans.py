"""Keeping tool inputs, results and messages out of the spans that the SDK itself writes."""

import os
from collections.abc import MutableMapping

_VARIABLE = "OTEL_SEMCONV_STABILITY_OPT_IN"
_TOKEN = "gen_ai_unredacted_attributes="


def redact_sdk_spans(environment: MutableMapping[str, str] = os.environ) -> None:
    """Has the SDK write `[REDACTED]` for what people and models say, unless the user chose what may be shown.

    The SDK reads the variable once, when the process makes its first Agent: call this before.
    """
    tokens = [token for token in environment.get(_VARIABLE, "").split(",") if token.strip()]
    if not any(token.strip().startswith(_TOKEN) for token in tokens):
        environment[_VARIABLE] = ",".join([*tokens, _TOKEN])
