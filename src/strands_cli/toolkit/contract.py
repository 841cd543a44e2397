"""Tool: the one form that every kind of tool takes before it can be called."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from strands_cli.documents.subschemas import OPENING_KEYWORDS
from strands_cli.errors import Issue, ToolError, did_you_mean
from strands_cli.schema.validator import SchemaInvalid, Validator
from strands_cli.toolkit.arguments import Shape, shape_of
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.effects import Effects, parse_effects
from strands_cli.toolkit.info import (
    Requires,
    ToolCategory,
    bare_schema,
    name_problem,
    version_problem,
)
from strands_cli.toolkit.requirements import requirements_problem

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_MAX_OUTPUT_BYTES = 100_000

Invoke = Callable[[dict[str, Any], ToolContext], Any]
"""Runs the body with validated arguments; returns its value, or a coroutine where the tool is async."""

JSON_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


_FIELD_KINDS: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "description": (str,),
    "version": (str,),
    "input_schema": (dict,),
    "timeout": (int, float),
    "max_output": (int,),
    "retries": (int,),
    "annotations": (Mapping,),
}


class Tool(msgspec.Struct, kw_only=True, dict=True, eq=False):
    """Identity, schemas, limits and a body. Whatever is wrong with one is said when it is made."""

    id: str
    description: str
    input_schema: dict[str, Any]
    invoke: Invoke
    is_async: bool = False

    output_schema: dict[str, Any] | None = None
    family: str = ""
    version: str = "0.0.0"
    category: ToolCategory | None = None
    origin: str = ""

    timeout: float = DEFAULT_TIMEOUT_SECONDS
    max_output: int = DEFAULT_MAX_OUTPUT_BYTES
    """Bytes of an answer that a model gets; what is longer goes to a file. 0 means no limit."""
    retries: int = 0
    """How often a retryable failure is tried again; taken for idempotent or read-only tools only."""
    blocking: bool = True
    """Whether a sync body runs in a worker thread; false for a quick pure function, which runs inline."""
    isolate: Literal["process"] | None = None
    place: Any = None
    """Where a child process finds the body (`isolation.Place`); set where the tool is isolated."""
    effects: Effects | None = None
    annotations: Mapping[str, bool] = {}

    requires_consent: bool = False
    deprecated: bool = False
    replaced_by: str = ""
    requires: Requires | None = None

    accepted_input: Validator = msgspec.field(default=None)  # type: ignore[assignment]  # made below
    accepted_output: Validator | None = None
    shape: Shape | None = None
    runs_inline: bool = False
    """Whether the body runs in the caller's own thread, with no deadline: it is quick by declaration."""

    def __post_init__(self) -> None:
        if isinstance(self.input_schema, dict):
            self.input_schema = bare_schema(self.input_schema)
        self.runs_inline = not (self.is_async or self.blocking or self.isolate)
        for problem in self._problems():
            if problem:
                raise self._refusal(problem)
        if isinstance(self.category, str):
            self.category = ToolCategory(self.category)
        self.accepted_input = self._compile(closed_schema(self.input_schema), "input")
        self.shape = shape_of(self.input_schema)
        if self.output_schema is not None:
            self.output_schema = bare_schema(self.output_schema)
            self.accepted_output = self._compile(self.output_schema, "output")
        if self.effects is not None:
            self.effects = parse_effects(self.effects, self.input_schema)

    def _problems(self) -> Iterator[str]:
        """One after the other: what comes later rests on what was right before."""
        yield self._types_problem()
        yield name_problem(self.id)
        yield version_problem(self.version)
        yield requirements_problem(self.requires)
        yield self._limits_problem()
        yield self._properties_problem()
        yield self._category_problem()
        yield self._annotations_problem()

    def _properties_problem(self) -> str:
        """A default that is plainly of another type, or a required name that no call may give.

        A default of null is how many write that there is none.
        """
        known = self.input_schema.get("properties", {})
        is_closed = closed_schema(self.input_schema).get("additionalProperties") is False
        for name in self.input_schema.get("required", ()) if is_closed else ():
            if name not in known:
                hint = did_you_mean(name, known)
                return f"it requires {name!r}, which is not among its properties. {hint}".strip()
        for name, part in self.input_schema.get("properties", {}).items():
            named = part.get("type") if isinstance(part, dict) else None
            kind = JSON_KINDS.get(named) if isinstance(named, str) else None
            default = part.get("default") if kind else None
            if kind and default is not None and not isinstance(default, kind):
                return f"the default of {name!r} is {default!r}, which is no {part['type']}"
        return ""

    def _types_problem(self) -> str:
        for name, kinds in _FIELD_KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                return f"its {name} is {value!r}, which is no {' or '.join(kind.__name__ for kind in kinds)}"
        return ""

    def _limits_problem(self) -> str:
        if self.input_schema.get("type", "object") != "object":
            return "its input schema is not of type object"
        if not self.timeout > 0 or self.max_output < 0 or self.retries < 0:
            return "its timeout must be greater than zero, its max_output and retries not below zero"
        if self.isolate not in (None, "process"):
            return f"isolate is {self.isolate!r}; it may be 'process'"
        if self.retries and self.runs_inline:
            return "retries are for bodies that can fail in time: it is declared quick (blocking=False)"
        if self.retries and not self.is_repeatable:
            return "retries are for tools with the annotation idempotentHint or readOnlyHint"
        return ""

    def _category_problem(self) -> str:
        known = [item.value for item in ToolCategory]
        if self.category is None or self.category in known:
            return ""
        suggestion = did_you_mean(str(self.category), known)
        return f"its category {self.category!r} is none of {', '.join(known)}. {suggestion}".strip()

    def _annotations_problem(self) -> str:
        for name, value in self.annotations.items():
            if name not in HINTS or not isinstance(value, bool):
                return f"its annotation {name!r} is not one of {', '.join(HINTS)} with True or False"
        return ""

    @property
    def is_repeatable(self) -> bool:
        """Whether doing it twice does no more than doing it once."""
        return bool(self.annotations.get("idempotentHint") or self.annotations.get("readOnlyHint"))

    def _compile(self, schema: dict[str, Any], side: str) -> Validator:
        try:
            return Validator(schema)
        except SchemaInvalid as error:
            raise self._refusal(f"its {side} schema is not a JSON Schema: {error}") from None

    def _refusal(self, reason: str) -> ToolError:
        issue = Issue(reason=reason, remediation="Correct the tool's definition.", file=self.origin)
        return ToolError(f"Tool {self.id!r} is refused: {reason}", code="unavailable", issue=issue)


_COMPOSES = frozenset({"allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "dependentSchemas"})


def closed_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as it is enforced: an undeclared argument is a mistake, unless the schema says more."""
    if "properties" not in schema or any(keyword in schema for keyword in OPENING_KEYWORDS):
        return schema
    keyword = "unevaluatedProperties" if _COMPOSES & schema.keys() else "additionalProperties"
    return {**schema, keyword: False}
