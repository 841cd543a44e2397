"""Spec: a workflow file as a value, made of a document that is valid under the schema."""

from functools import cached_property
from typing import Any

import msgspec

from strands_cli.patterns import PATTERNS
from strands_cli.patterns.pattern import HumanStep, Pattern
from strands_cli.types.sections import BaseSpec


class Spec(BaseSpec, frozen=True, kw_only=True, dict=True):
    pattern: Pattern

    @cached_property
    def asks_humans(self) -> bool:
        """Whether one of its own steps asks a human, or is reviewed by one."""
        places = self.pattern.places(self)
        return self.pattern.has_review or any(isinstance(place.step, HumanStep) for place in places)


def spec_of(document: dict[str, Any]) -> Spec:
    """The Spec of a valid document, whose short forms are brought to the one form that the types have.

    msgspec.ValidationError where a value does not fit its type.
    """
    tools, inputs = document.get("tools") or {}, document.get("inputs") or {}
    python = [{"callable": item} if isinstance(item, str) else item for item in tools.get("python", ())]
    declared = {
        key: {
            name: {"type": item} if isinstance(item, str) else item
            for name, item in inputs.get(key, {}).items()
        }
        for key in ("required", "optional")
    }
    shaped = {**document, "tools": {**tools, "python": python}, "inputs": {**inputs, **declared}}
    return msgspec.convert(shaped, Spec, dec_hook=_decode_pattern)


def _decode_pattern(kind: type, document: dict[str, Any]) -> Pattern:
    pattern = PATTERNS[document["type"]]
    return msgspec.convert(pattern.shape(document["config"]), pattern)
