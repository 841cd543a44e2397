"""From what a server says of its tools to tools of ours: names, repaired schemas, and what was refused.

Servers are other people's: one bad tool must hide no other. What a schema of theirs means is kept where that
is possible; where it is not, the part is left out, and said so.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from strands_cli.documents.problems import shorten_text, value_at
from strands_cli.documents.reader import is_nested_deeper
from strands_cli.errors import ToolError
from strands_cli.schema.validator import SchemaInvalid, Validator
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.info import HINTS, ToolInfo, version_problem
from strands_cli.types.servers import DeclaredServer

SOURCE = "mcp"
RawTool = dict[str, Any]

MAX_TOOLS = 1000
LONGEST_NAME = 64
LONGEST_OWN_NAME = 500
"""Of what a server calls a tool."""
LONGEST_DESCRIPTION = 10_000
MAX_SCHEMA_BYTES = 200_000
_DEEPEST = 64
_SHOWN_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What a model or a user may see of a tool, and what decides how it is called."""
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_JSON_KINDS: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_CHARACTERS_PER_TOKEN = 4


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a server, as it can be used here."""

    name: str
    """What the server calls it."""
    info: ToolInfo | None = None
    """None where it is refused."""
    repairs: tuple[str, ...] = ()
    refusal: str = ""
    tokens: int = 0
    """About what its definition costs in every request to a model."""


def listed_tools(declared: DeclaredServer, tools: Iterable[RawTool], version: str = "") -> list[ListedTool]:
    """The tools of a server that its declaration takes."""
    listed: list[ListedTool] = []
    tools = [*tools]
    named = {raw["name"]: _plain_id(declared.name, raw["name"]) for raw in tools if _has_name(raw)}
    ids = Counter(named.values())
    for raw in tools:
        name = raw["name"] if _has_name(raw) else ""
        if not name:
            listed.append(ListedTool(name="", refusal="it has no name"))
        elif not declared.server.takes(name):
            continue
        elif len(name) > LONGEST_OWN_NAME:
            reason = f"its name has {len(name):,} characters; the limit is {LONGEST_OWN_NAME}"
            listed.append(ListedTool(name=shorten_text(name, LONGEST_NAME), refusal=reason))
        elif any(one.name == name for one in listed):
            listed.append(ListedTool(name=name, refusal="the server has another tool of this name"))
        else:
            listed.append(_listed_tool(declared, raw, name, version, ids))
    return listed


def _listed_tool(
    declared: DeclaredServer, raw: RawTool, name: str, version: str, ids: Mapping[str, int]
) -> ListedTool:
    tool_id = _tool_id(declared.name, name, ids)
    tokens = len(msgspec.json.encode([raw.get(key) for key in _SHOWN_FIELDS[:4]])) // _CHARACTERS_PER_TOKEN
    repairs: list[str] = []
    try:
        fields: dict[str, Any] = {
            "id": tool_id,
            "description": _description(raw, repairs),
            "input_schema": _input_schema(raw.get("inputSchema"), repairs),
            "output_schema": _output_schema(raw.get("outputSchema"), repairs),
            "annotations": _annotations(raw.get("annotations")),
            "version": version if version and not version_problem(version) else "0.0.0",
            "family": declared.name,
            "timeout": declared.server.start_seconds + declared.server.timeout,
        }
        hints = fields["annotations"]
        fields["requires_consent"] = hints.get("destructiveHint", False) and not hints.get("readOnlyHint")
        Tool(**fields, invoke=lambda _arguments, _context: None)
    except _Refused as refused:
        return ListedTool(name=name, refusal=str(refused), tokens=tokens)
    except ToolError as error:
        reason = error.issue.reason if error.issue else error.message
        return ListedTool(name=name, refusal=reason, tokens=tokens)
    info = ToolInfo(
        **fields,
        callable_name=name,
        source=SOURCE,
        origin=f"MCP server {declared.name}",
        file=declared.file,
        line=declared.line,
    )
    return ListedTool(name=name, info=info, repairs=tuple(repairs), tokens=tokens)


class _Refused(Exception):
    """Why a tool cannot be used."""


def _has_name(raw: RawTool) -> bool:
    return isinstance(raw.get("name"), str) and bool(raw["name"])


def _plain_id(server: str, name: str) -> str:
    return f"{server}__{re.sub('[^a-zA-Z0-9_-]', '_', name)}"


def _tool_id(server: str, name: str, ids: Mapping[str, int]) -> str:
    """`server__tool`, in the characters that providers take; `ids` counts the tools that would have an id.

    Of several, the one that is called so keeps it, whatever the order: an id must not lead to another tool.
    """
    plain = _plain_id(server, name)
    if len(plain) <= LONGEST_NAME and (ids[plain] == 1 or plain == f"{server}__{name}"):
        return plain
    mark = sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{plain[: LONGEST_NAME - len(mark) - 1]}_{mark}"


def _description(raw: RawTool, repairs: list[str]) -> str:
    text = raw.get("description") or raw.get("title") or ""
    if not isinstance(text, str):
        repairs.append("its description is not text, and is left out")
        return ""
    if len(text) > LONGEST_DESCRIPTION:
        repairs.append(f"its description has {len(text):,} characters, and is cut")
        text = shorten_text(text, LONGEST_DESCRIPTION)
    return text


def _annotations(raw: object) -> dict[str, bool]:
    given = raw if isinstance(raw, dict) else {}
    return {name: given[name] for name in HINTS if isinstance(given.get(name), bool)}


def _output_schema(raw: object, repairs: list[str]) -> dict[str, Any] | None:
    if raw is None:
        return None
    try:
        schema = _repaired(raw, repairs, "output")
        Validator(schema)
    except (_Refused, SchemaInvalid) as error:
        repairs.append(f"its output schema cannot be used, so answers are not checked: {error}")
        return None
    return schema


def _input_schema(raw: object, repairs: list[str]) -> dict[str, Any]:
    if raw is None:
        repairs.append("it has no input schema, so any arguments are passed on")
        return {"type": "object"}
    schema = _repaired(raw, repairs, "input")
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise _Refused("its input schema is not of type object")
    schema = {**schema, "type": "object"}
    known = schema.get("properties")
    missing = [name for name in schema.get("required", ()) if known is not None and name not in known]
    if missing and known is not None:
        repairs.append(f"it requires {', '.join(missing)}, which its schema does not describe")
        schema["properties"] = {**known, **{name: {} for name in missing}}
    return schema


# --- Schemas ------------------------------------------------------------------------------------------------


def _repaired(raw: object, repairs: list[str], side: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise _Refused(f"its {side} schema is not an object")
    if is_nested_deeper(raw, _DEEPEST):
        raise _Refused(f"its {side} schema is nested more than {_DEEPEST} levels deep")
    if len(msgspec.json.encode(raw)) > MAX_SCHEMA_BYTES:
        raise _Refused(f"its {side} schema is larger than {MAX_SCHEMA_BYTES:,} bytes")
    made: dict[str, Any] = _Repair(raw, repairs, side).schema(raw, "")
    return made


_SCHEMA_KEYS = (
    *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
    *("unevaluatedProperties", "unevaluatedItems", "contentSchema"),
)
_LIST_KEYS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAP_KEYS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_TEXT_KEYS = ("description", "title", "$comment", "format", "$schema", "contentEncoding", "contentMediaType")
_NUMBER_KEYS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNT_KEYS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")


class _Repair:
    """One schema, made into valid JSON Schema 2020-12 that needs nothing from elsewhere."""

    def __init__(self, root: dict[str, Any], repairs: list[str], side: str) -> None:
        self._root, self._repairs, self._side = root, repairs, side

    def _say(self, at: str, what: str) -> None:
        self._repairs.append(f"{self._side} schema{at and f', {at}'}: {what}")

    def schema(self, value: object, at: str) -> Any:
        if isinstance(value, bool):
            return value if at else {}
        if not isinstance(value, dict):
            self._say(at, "is not a schema, and is left out")
            return {}
        made = {key: part for key, part in value.items() if part is not None or key in ("const", "default")}
        made = self._modern(made)
        for key in (key for key in _SCHEMA_KEYS if key in made):
            made[key] = self.schema(made[key], f"{at}/{key}")
        for key in (key for key in _LIST_KEYS if key in made):
            self._repair_list(made, key, at)
        for key in (key for key in _MAP_KEYS if key in made):
            self._repair_map(made, key, at)
        self._repair_words(made, at)
        self._repair_type(made, at)
        self._repair_reference(made, at)
        self._repair_default(made, at)
        return made

    def _modern(self, made: dict[str, Any]) -> dict[str, Any]:
        """Forms of older drafts, which many write without saying which draft they mean."""
        if not str(made.get("$schema", "")).startswith("https://json-schema.org/draft/2020-12"):
            made.pop("$schema", None)
        for limit in ("Minimum", "Maximum"):
            exclusive, plain = f"exclusive{limit}", limit.lower()
            if isinstance(made.get(exclusive), bool) and made.pop(exclusive) and plain in made:
                made[exclusive] = made.pop(plain)
        if isinstance(made.get("items"), list):
            made["prefixItems"] = made.pop("items")
            if "additionalItems" in made:
                made["items"] = made.pop("additionalItems")
        needed = made.pop("dependencies", None)
        for name, part in needed.items() if isinstance(needed, dict) else ():
            kind = "dependentRequired" if isinstance(part, list) else "dependentSchemas"
            made.setdefault(kind, {})[name] = part
        if isinstance(made.get("required"), bool):  # of draft 3, where it was a key of each property
            made.pop("required")
        for key in ("$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary"):
            made.pop(key, None)
        return made

    def _repair_list(self, made: dict[str, Any], key: str, at: str) -> None:
        parts = made[key]
        if isinstance(parts, list) and parts:
            made[key] = [self.schema(part, f"{at}/{key}/{index}") for index, part in enumerate(parts)]
        else:
            made.pop(key)
            self._say(at, f"{key!r} is not a list of schemas, and is left out")

    def _repair_map(self, made: dict[str, Any], key: str, at: str) -> None:
        parts = made[key]
        if not isinstance(parts, dict):
            made.pop(key)
            self._say(at, f"{key!r} is not an object, and is left out")
            return
        if key == "patternProperties":
            for pattern in [pattern for pattern in parts if not _is_pattern(pattern)]:
                self._say(at, f"the pattern {shorten_text(pattern, 60)!r} is not one that can be checked")
                parts = {name: part for name, part in parts.items() if name != pattern}
        made[key] = {name: self.schema(part, f"{at}/{key}/{name}") for name, part in parts.items()}

    def _repair_words(self, made: dict[str, Any], at: str) -> None:
        """Keywords whose values have a type of their own."""
        rules: Mapping[str, tuple[tuple[str, ...], Any]] = {
            "text": (_TEXT_KEYS, lambda part: isinstance(part, str)),
            "a number": (_NUMBER_KEYS, _is_number),
            "a count": (_COUNT_KEYS, lambda part: _is_number(part) and part >= 0 and part == int(part)),
            "a list": (("enum", "examples"), lambda part: isinstance(part, list) and part),
            "true or false": (("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag),
            "a list of names": (("required",), _is_names),
            "a table of names": (
                ("dependentRequired",),
                lambda part: isinstance(part, dict) and all(map(_is_names, part.values())),
            ),
        }
        for kind, (keys, fits) in rules.items():
            for key in keys:
                if key in made and not fits(made[key]):
                    made.pop(key)
                    self._say(at, f"{key!r} is not {kind}, and is left out")
        if "required" in made:
            made["required"] = list(dict.fromkeys(made["required"]))
        if "pattern" in made and not _is_pattern(made["pattern"]):
            pattern = shorten_text(str(made.pop("pattern")), 60)
            self._say(at, f"the pattern {pattern!r} is not one that can be checked")

    def _repair_type(self, made: dict[str, Any], at: str) -> None:
        kinds = made.get("type")
        if kinds is None:
            return
        given = kinds if isinstance(kinds, list) else [kinds]
        known = list(dict.fromkeys(kind for kind in given if isinstance(kind, str) and kind in _TYPES))
        if not known or len(known) < len(given):
            made.pop("type")
            if known:
                made["type"] = known
            if given != ["any"]:
                wrong = next((kind for kind in given if kind not in known), given)
                self._say(at, f"{wrong!r} is not a type, and is left out")

    def _repair_reference(self, made: dict[str, Any], at: str) -> None:
        reference = made.get("$ref")
        if reference is None or (isinstance(reference, str) and _is_resolvable(reference, self._root)):
            return
        made.pop("$ref")
        self._say(at, f"the reference {shorten_text(str(reference), 80)!r} leads nowhere, and is left out")

    def _repair_default(self, made: dict[str, Any], at: str) -> None:
        kind, default = made.get("type"), made.get("default")
        wanted = _JSON_KINDS.get(kind) if isinstance(kind, str) else None
        if default is None or wanted is None:
            return
        if not isinstance(default, wanted) or (isinstance(default, bool) and kind != "boolean"):
            made.pop("default")
            shown = shorten_text(repr(default), 60)
            self._say(at, f"the default {shown} is not of type {kind}, and is left out")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_pattern(pattern: object) -> bool:
    if not isinstance(pattern, str):
        return False
    try:
        Validator({"pattern": pattern})
    except SchemaInvalid:
        return False
    return True


def _is_resolvable(reference: str, root: dict[str, Any]) -> bool:
    """Whether a reference leads to a schema of the same document."""
    is_local = reference == "#" or reference.startswith("#/")
    return is_local and isinstance(value_at(root, reference[1:]), dict | bool)


# --- What has changed ---------------------------------------------------------------------------------------


def shown_part(raw: RawTool) -> RawTool:
    """What a user accepts of a tool: names, descriptions, schemas and hints."""
    return {key: raw[key] for key in _SHOWN_FIELDS if raw.get(key) is not None}


def is_same_listing(
    declared: DeclaredServer, accepted: Iterable[RawTool], offered: Iterable[RawTool]
) -> bool:
    """Whether the tools that the declaration takes are those that the user accepted."""
    before, now = (
        sorted(_encoded(shown_part(tool)) for tool in tools if declared.server.takes(str(tool.get("name"))))
        for tools in (accepted, offered)
    )
    return before == now


def newly_accepted(
    declared: DeclaredServer, accepted: Iterable[RawTool], offered: Iterable[RawTool]
) -> tuple[RawTool, ...]:
    """What counts as accepted once the user agrees to what is offered.

    Tools that the declaration leaves out are not shown, so they stay as they were.
    """
    takes = declared.server.takes
    left_out = (tool for tool in accepted if not takes(str(tool.get("name"))))
    return (*(tool for tool in offered if takes(str(tool.get("name")))), *left_out)


def listing_difference(
    declared: DeclaredServer, accepted: Iterable[RawTool], offered: Iterable[RawTool]
) -> Iterator[tuple[str, str, str, str]]:
    """Yields each change: tool, field, old text and new text. A text may be empty."""
    before, now = (_by_name(declared, tools) for tools in (accepted, offered))
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name, {}), now.get(name, {})
        for field in _SHOWN_FIELDS[1:] if old and new else ("",):
            texts = [_text(tool.get(field) if field else shown_part(tool) or None) for tool in (old, new)]
            if texts[0] != texts[1]:
                yield name, field, texts[0], texts[1]


def _by_name(declared: DeclaredServer, tools: Iterable[RawTool]) -> dict[str, RawTool]:
    found: dict[str, RawTool] = {}
    for tool in (tool for tool in tools if declared.server.takes(str(tool.get("name")))):
        name = str(tool.get("name"))
        while name in found:  # a second one of its name is refused, and shown all the same
            name += "'"
        found[name] = shown_part(tool)
    return found


def _encoded(tool: RawTool) -> bytes:
    return msgspec.json.encode(tool, order="sorted")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
