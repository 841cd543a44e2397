"""The schema that a model's provider gets: a plain object, since some take nothing else at the top.

Only what is advertised changes, and it may say less than the tool's own schema, which stays what is enforced.
"""

from collections.abc import Callable, Iterator
from typing import Any

from strands_cli.documents.problems import local_reference_target

Schema = dict[str, Any]

MAX_INLINED = 500
"""References that are replaced by their target; a schema that has more of them keeps the rest as they are."""

ASKED = "$asked"
"""A keyword of ours, at the top of a schema: properties that a model must give, while input without them fits
too. A small model leaves out whatever it may."""
_DROPPED = frozenset({"definitions", "unevaluatedProperties", "unevaluatedItems"})
"""Beside all that begins with a dollar sign."""
_COMPOSING = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_DROPPED_AT_TOP = _COMPOSING | {"enum", "const", "dependentRequired", "propertyNames"}
_TYPE_KEYS = ("type", "$ref", "anyOf", "oneOf", "allOf", "not")
_WITH_SUBSCHEMA = frozenset(
    {"items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"}
)
_WITH_LIST = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_WITH_NAMES = frozenset({"properties", "patternProperties", "dependentSchemas"})
_FOR_READERS = frozenset({"title", "description", "default", "examples"})

_TYPE_NAMES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
_ANYTHING: tuple[Schema, ...] = (
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object"},
    {"type": "array", "items": {}},
    {"type": "null"},
)


def provider_schema(schema: Schema) -> Schema:
    """A schema of `type: object` with `properties` and `required`; only recursive references are left."""
    rewriter = _SchemaRewriter(schema)
    top = _flat_schema(rewriter.rewrite(schema, ()))
    advertised = {key: value for key, value in top.items() if key not in _DROPPED_AT_TOP}
    advertised["type"] = "object"
    advertised["properties"] = {
        name: part for name, part in top.get("properties", {}).items() if part is not False
    }
    advertised["required"] = list(dict.fromkeys([*top.get("required", []), *schema.get(ASKED, [])]))
    definitions = rewriter.definitions()
    return advertised | ({"$defs": definitions} if definitions else {})


class _SchemaRewriter:
    """Rewrites one document: references inlined, what providers do not know dropped."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._kept: dict[str, str] = {}
        """The references that stay, and the names that their targets get."""
        self._inlined = 0

    def definitions(self) -> Schema:
        definitions: Schema = {}
        while missing := [reference for reference, name in self._kept.items() if name not in definitions]:
            for reference in missing:
                target = _resolved_reference(self._root, reference)
                definitions[self._kept[reference]] = self.rewrite(target, (reference,))
        return definitions

    def rewrite(self, schema: Any, above: tuple[str, ...]) -> Any:
        if not isinstance(schema, dict):
            return schema
        reference = schema.get("$ref")
        beside = self._rewritten({key: value for key, value in schema.items() if key != "$ref"}, above)
        if not isinstance(reference, str) or not reference.startswith("#"):
            return beside
        return _joined_reference(self._target(reference, above), beside)

    def _target(self, reference: str, above: tuple[str, ...]) -> Any:
        if reference in above or self._inlined >= MAX_INLINED:
            return {"$ref": f"#/$defs/{self._name(reference)}"}
        self._inlined += 1
        return self.rewrite(_resolved_reference(self._root, reference), (*above, reference))

    def _name(self, reference: str) -> str:
        if reference not in self._kept:
            label = reference.rpartition("/")[2].strip("#") or "root"
            is_taken = label in self._kept.values()
            self._kept[reference] = f"{label}_{len(self._kept)}" if is_taken else label
        return self._kept[reference]

    def _rewritten(self, schema: Schema, above: tuple[str, ...]) -> Schema:
        rewritten: Schema = {}
        for key, value in schema.items():
            if key in _WITH_SUBSCHEMA:
                rewritten[key] = self.rewrite(value, above)
            elif key in _WITH_LIST and isinstance(value, list):
                rewritten[key] = [self.rewrite(part, above) for part in value]
            elif key in _WITH_NAMES and isinstance(value, dict):
                typed = _typed_property if key == "properties" else lambda part: part
                rewritten[key] = {name: typed(self.rewrite(part, above)) for name, part in value.items()}
            elif not key.startswith("$") and key not in _DROPPED:
                rewritten[key] = value
        return rewritten


def _resolved_reference(root: Schema, reference: str) -> Any:
    """What a local reference points at; where it points at nothing, a schema that takes anything."""
    target = local_reference_target(reference, root)
    return target if isinstance(target, dict | bool) else {}


def _typed_property(schema: Any) -> Any:
    """A property that says its type: the SDK takes one that does not for a string."""
    if schema is True:
        schema = {}
    if not isinstance(schema, dict) or any(key in schema for key in _TYPE_KEYS):
        return schema
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    names = {_TYPE_NAMES.get(type(value), "") for value in values or ()}
    if not names or "" in names:
        return {**schema, "anyOf": list(_ANYTHING)}
    return {**schema, "type": sorted(names) if len(names) > 1 else names.pop()}


def _joined_reference(target: Any, beside: Schema) -> Any:
    """A reference's target together with the keywords that stand beside the reference."""
    if not beside or not isinstance(target, dict):
        return target
    if (target.keys() & beside.keys()) - _FOR_READERS:
        return {"allOf": [target, beside]}
    return {**target, **beside}


def _flat_schema(schema: Any) -> Schema:
    """One object schema for a composed one: all of its properties, and what it requires in any case."""
    if not isinstance(schema, dict):
        return {}
    flat = {key: value for key, value in schema.items() if key not in _COMPOSING}
    for part in _flat_schemas(schema.get("allOf")):
        flat = _schema_of_both(flat, part)
    for keyword in ("anyOf", "oneOf"):
        branches = list(_flat_schemas(schema.get(keyword)))
        if branches:
            flat = _schema_of_both(flat, _schema_of_either(branches))
            text = " ".join(part for part in (flat.get("description"), _choice_sentence(branches)) if part)
            flat |= {"description": text} if text else {}
    dependent = schema.get("dependentSchemas", {}).values()
    for part in _flat_schemas([schema.get("then"), schema.get("else"), *dependent]):
        flat["properties"] = part.get("properties", {}) | flat.get("properties", {})
    return flat


def _flat_schemas(schemas: Any) -> Iterator[Schema]:
    return (_flat_schema(part) for part in schemas or () if isinstance(part, dict))


def _schema_of_both(one: Schema, other: Schema) -> Schema:
    """What has to fit two schemas, as one."""
    both = {**other, **one}
    both["properties"] = _merged_properties(one, other, lambda first, second: {"allOf": [first, second]})
    both["required"] = list(dict.fromkeys([*one.get("required", []), *other.get("required", [])]))
    if one.get("additionalProperties") != other.get("additionalProperties"):
        del both["additionalProperties"]  # what the one forbids may be a property of the other
    return both


def _schema_of_either(branches: list[Schema]) -> Schema:
    """What has to fit one of several schemas: all properties, but only what every one of them requires."""
    either: Schema = {"properties": {}}
    for branch in branches:
        either["properties"] = _merged_properties(either, branch, _alternative_property)
    first, *others = (branch.get("required", []) for branch in branches)
    return either | {"required": [name for name in first if all(name in other for other in others)]}


def _merged_properties(one: Schema, other: Schema, conflict: Callable[[Any, Any], Any]) -> Schema:
    merged = dict(one.get("properties", {}))
    for name, part in other.get("properties", {}).items():
        merged[name] = part if name not in merged or merged[name] == part else conflict(merged[name], part)
    return merged


def _alternative_property(first: Any, second: Any) -> Any:
    """Either of two schemas for one property; `const: circle` and `const: square` are an enum of two."""
    if first is False or second is False:
        return second if first is False else first
    listed, more = _listed_values(first), _listed_values(second)
    if listed is None or more is None:
        known = first["anyOf"] if first.keys() == {"anyOf"} else [first]
        return {"anyOf": known if second in known else [*known, second]}
    texts = {key: first[key] for key in ("title", "description") if key in first}
    return _typed_property(texts | {"enum": [*listed, *(value for value in more if value not in listed)]})


def _listed_values(schema: Schema) -> list[Any] | None:
    """The values that a schema allows, where it is nothing but a list of them."""
    if schema.keys() - {"enum", "const", "type"} - _FOR_READERS:
        return None
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _choice_sentence(branches: list[Schema]) -> str:
    """The choice in words, since the merged schema no longer shows it."""
    groups = [", ".join(branch.get("required") or branch.get("properties", {})) for branch in branches]
    named = list(dict.fromkeys(group for group in groups if group))
    return f"Give one of these groups: {'; or '.join(named)}." if len(named) > 1 else ""
