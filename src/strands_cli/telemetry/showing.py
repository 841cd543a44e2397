"""What of a run may be shown to outsiders, and how much of it."""

import json
from typing import Any

from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.types.spec import Redact

LONGEST_VALUE = 10_000
LONGEST_TEXT = 300
_LARGEST_OUTPUT = 1_000_000
"""Bytes. Larger outputs, which one tool may give to another, would take long to search for secrets."""


class Shown:
    """Texts without secrets; inputs and outputs of tools only where they may be shown."""

    def __init__(self, redact: Redact, redactor: Redactor = NOTHING_SECRET) -> None:
        self._redact = redact
        self._redactor = redactor

    def text(self, text: str) -> str:
        return encodable(self._redactor.text(text))[:LONGEST_TEXT]

    def reason(self, error: str) -> str:
        """The first line of an error: what follows may quote anything."""
        return self.text(error.strip().partition("\n")[0])

    def inputs(self, arguments: object) -> str | None:
        """What a call sent, as JSON of any length; None where it is to be left out."""
        return None if self._redact.tool_inputs else self._json(arguments)

    def outputs(self, content: object, size: int) -> str | None:
        """The blocks of a result, likewise; None also where a call has come to none."""
        if self._redact.tool_outputs or content is None:
            return None
        return self._json(content if size <= _LARGEST_OUTPUT else f"({size} bytes, too many to be shown)")

    def _json(self, value: object) -> str:
        """As JSON before secrets are looked for, so that those in objects' own texts are seen too."""
        try:
            plain = json.loads(json.dumps(value, default=_stand_in))
        except (TypeError, ValueError, RecursionError):  # odd keys, cycles
            plain = "(cannot be shown as JSON)"
        return encodable(json.dumps(self._redactor.value(plain), ensure_ascii=False))


def encodable(text: str) -> str:
    """The text without lone surrogates, for which a collector would lose the whole batch."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _stand_in(value: Any) -> str:
    return f"({len(value)} bytes)" if isinstance(value, bytes | bytearray) else str(value)
