"""`${NAME}` and `${NAME:-default}` in the values of a workflow."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from strands_cli.documents.problems import JsonPath

_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")

Missing = Callable[[JsonPath, str], None]


def expand_variables(
    value: Any, missing: Missing, environment: Mapping[str, str] = os.environ, path: JsonPath = ()
) -> Any:
    """The value with its variables filled in (`$${` stands for `${`); `missing` hears of those not set."""
    if isinstance(value, dict):
        return {
            key: expand_variables(inner, missing, environment, (*path, key)) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [expand_variables(inner, missing, environment, (*path, i)) for i, inner in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value

    def fill(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        text = environment.get(match[2]) or match[3]
        if text is None:
            missing(path, match[2])
            return match[0]
        return text

    return _VARIABLE.sub(fill, value)
