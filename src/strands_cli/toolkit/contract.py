"""Tool: the one form that every kind of tool takes before it can be called."""

import re
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, Self

import msgspec

from strands_cli.documents.problems import OPENING_KEYWORDS, describe_value, member_schemas, schema_branches
from strands_cli.errors import Issue, ToolError, did_you_mean
from strands_cli.schema.validator import SchemaInvalid, Validator
from strands_cli.toolkit.arguments import NO_ALIASES, Convert, Shape, shape_of
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.info import DEFAULTS, FIELDS, ToolCategory, ToolFields, bare_schema

Invoke = Callable[[dict[str, Any], ToolContext], Any]
"""Runs the body with validated arguments; returns its value, or a coroutine where the tool is async."""


_JSON_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool touches, as templates over its validated input.

    `{path}` is an argument and `{options.path}` a part of one; a list stands for each of its items. Where the
    argument is missing or null the template drops out, so one that means something when it is left out needs
    a `default` in the schema. Text without a placeholder is a resource too.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    exclusive: bool = False


class Tool(ToolFields, kw_only=True, dict=True, eq=False):
    """A tool: its fields and its body. Creating a tool with mistakes raises ToolError."""

    input_schema: dict[str, Any]
    invoke: Invoke
    is_async: bool = False
    origin: str = ""
    effects: Effects | None = None
    place: Any = None
    """Where a child process finds the body (`isolation.Place`); set where the tool is isolated."""
    check: Convert | None = None
    """Finds text that is invalid only when it is converted, such as dates."""
    aliases: Mapping[str, str] = NO_ALIASES
    """Other names of arguments, which callers may use although the schema does not show them."""

    accepted_input: Validator = msgspec.field(default=None)  # type: ignore[assignment]  # made below
    accepted_output: Validator | None = None
    shape: Shape | None = None
    runs_inline: bool = False
    """Whether the body runs in the caller's own thread, with no deadline: it is quick by declaration."""

    def __post_init__(self) -> None:
        if isinstance(self.input_schema, dict):
            self.input_schema = bare_schema(self.input_schema)
        self._take(ToolFields.__struct_fields__)
        self.accepted_input = self._compile(closed_schema(self.input_schema), "input")
        problem = self._properties_problem()
        if problem:
            raise self._refusal(problem)
        self.shape = shape_of(self.input_schema)

    def with_fields(self, **fields: Any) -> Self:
        """Returns the same tool with other fields. The input schema stays and is not compiled again."""
        changed = copy(self)
        for name, value in fields.items():
            setattr(changed, name, value)
        changed._take(fields)
        return changed

    def _take(self, names: Collection[str]) -> None:
        """Holds the named fields against their rules, and keeps what follows from them up to date."""
        for name in names:
            value = getattr(self, name)
            if name in FIELDS and (value is not None or name not in _OPTIONAL):
                problem = FIELDS[name].problem(value)
                if problem:
                    raise self._refusal(problem.replace("{key}", name), FIELDS[name].remedy_for(value))
        self.runs_inline = not (self.is_async or self.blocking or self.isolate)
        if self.retries and self.runs_inline:
            reason = "retries are for bodies that can fail in time: it is declared quick (blocking=False)"
            raise self._refusal(reason)
        if self.retries and not self.is_repeatable:
            raise self._refusal("retries are for tools with the annotation idempotentHint or readOnlyHint")
        if isinstance(self.category, str):
            self.category = ToolCategory(self.category)
        if self.output_schema is not None and "output_schema" in names:
            self.output_schema = bare_schema(self.output_schema)
            self.accepted_output = self._compile(self.output_schema, "output")
        if self.effects is not None and "effects" in names:
            self.effects = parse_effects(self.effects, self.input_schema)

    def _properties_problem(self) -> str:
        """A default that is plainly of another type, or a required name that no call may give.

        Many write null for "no default".
        """
        known = self.input_schema.get("properties", {})
        is_closed = closed_schema(self.input_schema).get("additionalProperties") is False
        for name in self.input_schema.get("required", ()) if is_closed else ():
            if name not in known:
                hint = did_you_mean(name, known)
                return f"it requires {name!r}, which is not among its properties. {hint}".strip()
        for name, part in known.items():
            said = part if isinstance(part, dict) else {}
            kind, default = said.get("type"), said.get("default")
            accepted = _JSON_KINDS.get(kind) if isinstance(kind, str) else None
            if accepted and default is not None and not isinstance(default, accepted):
                return f"the default of {name!r} is {default!r}, which is not of type {kind}"
        return ""

    @property
    def is_repeatable(self) -> bool:
        """Whether calling it twice has the same effect as calling it once."""
        return bool(self.annotations.get("idempotentHint") or self.annotations.get("readOnlyHint"))

    def _compile(self, schema: dict[str, Any], side: str) -> Validator:
        try:
            return Validator(schema)
        except SchemaInvalid as error:
            raise self._refusal(f"its {side} schema is not a valid JSON Schema: {error}") from None

    def _refusal(self, reason: str, remedy: str = "Fix the tool's definition.") -> ToolError:
        issue = Issue(reason=reason, remediation=remedy, file=self.origin)
        return ToolError(f"Tool {self.id!r} is invalid: {reason}", code="unavailable", issue=issue)


_OPTIONAL = {name for name, default in DEFAULTS.items() if default is None} - {"input_schema"}
_COMPOSES = frozenset({"allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "dependentSchemas"})


def closed_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as it is enforced: an undeclared argument is a mistake, unless the schema says otherwise."""
    if "properties" not in schema or any(keyword in schema for keyword in OPENING_KEYWORDS):
        return schema
    keyword = "unevaluatedProperties" if _COMPOSES & schema.keys() else "additionalProperties"
    return {**schema, keyword: False}


# --- effects ----------------------------------------------------------------------------------------------

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def parse_effects(value: object, schema: dict[str, Any]) -> Effects:
    """What a tool declares, checked against its input schema; ToolError says what is wrong with it."""
    if isinstance(value, Effects):
        value = "exclusive" if value.exclusive else {"reads": value.reads, "writes": value.writes}
    if value == "exclusive":
        return Effects(exclusive=True)
    if not isinstance(value, dict):
        raise _effects_refusal(
            f"they are {describe_value(value)}", 'Write {"reads": ["file:{path}"]}, or "exclusive".'
        )
    for key in value:
        if key not in ("reads", "writes"):
            hint = did_you_mean(str(key), ("reads", "writes")) or "The keys are reads and writes."
            raise _effects_refusal(f"they have the unknown key {key!r}", hint)
    root = bare_schema(schema)
    return Effects(
        reads=_effect_templates("reads", value.get("reads", ()), root),
        writes=_effect_templates("writes", value.get("writes", ()), root),
    )


def _effect_templates(side: str, value: object, root: dict[str, Any]) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
        raise _effects_refusal(
            f"{side} is {describe_value(value)}, not a list of strings", "Write a list of templates."
        )
    for template in value:
        for name in PLACEHOLDER.findall(template):
            _check_placeholder(f"{side}: {template!r}", name, root)
        if set("{}") & set(PLACEHOLDER.sub("", template)):
            raise _effects_refusal(f"{side}: {template!r} has a brace that belongs to no placeholder", "")
    return tuple(value)


def _check_placeholder(where: str, name: str, root: dict[str, Any]) -> None:
    parts = schema_branches(root, root)
    for word in name.split("."):
        parts += member_schemas(parts, 0, root)  # a list stands for each of its items
        # What is not a valid schema is refused as such, when it is compiled.
        named = [part["properties"] for part in parts if isinstance(part.get("properties"), dict)]
        known = dict.fromkeys(key for properties in named for key in properties)
        takes_others = any(part.get(keyword) for part in parts for keyword in OPENING_KEYWORDS)
        if word not in known and (known or not word) and not takes_others:
            hint = did_you_mean(word, known) or f"The properties are {', '.join(known)}."
            raise _effects_refusal(f"{where} names {word!r}, which the input schema does not have", hint)
        parts = member_schemas(parts, word, root)


def _effects_refusal(reason: str, hint: str) -> ToolError:
    return ToolError(f"The tool's effects are invalid: {reason}", code="unavailable", hint=hint)
