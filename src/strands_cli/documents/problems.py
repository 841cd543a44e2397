"""What is wrong, as a person or a model can act on it: refusals, and validator errors with pointer and hint.

Also the ways through a JSON Schema, behind its local references and into what it is composed of, and what is
left of a document in spite of its problems.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import closest, did_you_mean

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

JsonPath = tuple[str | int, ...]

OPENING_KEYWORDS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
"""Where a schema speaks of properties that it does not name."""

_SHOWN_CHARACTERS = 60
_LONGEST_LINE = 3000
_SHOWN_ALTERNATIVES = 3


class Refusal(Exception):
    """A reason and a remedy, both for people. Whoever catches it knows what they are about, and where."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


_AMOUNTS = frozenset(
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems"]
)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why a value does not fit its schema."""

    path: JsonPath
    keyword: str
    expected: str
    got: str
    hint: str = ""
    facts: dict[str, Any] = {}

    @property
    def pointer(self) -> str:
        return json_pointer(self.path)

    @property
    def requirement(self) -> str:
        """What a value must: `be an integer`, `have at least 1 item`."""
        return f"{'have' if self.keyword in _AMOUNTS else 'be'} {self.expected}"

    @property
    def sentence(self) -> str:
        place = self.pointer or "the whole"
        if self.keyword == "required":
            sentence = f"{place} is missing"
        elif "name" in self.facts:
            sentence = f"{place} is unknown"
        elif self.keyword == "value":
            sentence = f"{place}: {self.expected} (got {self.got})"
        else:
            sentence = f"{place} must {self.requirement}, got {self.got}"
        return f"{sentence} ({self.hint.rstrip('.')})" if self.hint else sentence

    def as_detail(self) -> dict[str, Any]:
        return {"pointer": self.pointer, "expected": self.expected, "got": self.got, "hint": self.hint}


def joined_sentences(problems: Sequence[Problem]) -> str:
    """What is wrong, in one line; where that would be very long, how many more problems there are."""
    told: list[str] = []
    room = _LONGEST_LINE
    for problem in problems:
        sentence = problem.sentence
        room -= len(sentence)
        if room < 0 and told:
            return f"{'; '.join(told)}; and {len(problems) - len(told)} more"
        told.append(sentence)
    return "; ".join(told)


def json_pointer(path: Iterable[str | int]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def pointer_steps(pointer: str) -> list[str]:
    """Returns the keys and indexes of a JSON pointer."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def value_at(value: Any, pointer: str) -> Any:
    """Returns the value at a JSON pointer, or UNSET."""
    for step in pointer_steps(pointer):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return msgspec.UNSET
    return value


def follow_path(value: Any, steps: Iterable[str | int]) -> tuple[JsonPath, Any]:
    """Where these steps lead in a JSON value, and what is there; those that lead nowhere are left out."""
    path: JsonPath = ()
    for step in steps:
        if isinstance(step, int):
            leads_on = isinstance(value, list) and step < len(value)
        else:
            leads_on = isinstance(value, dict) and step in value
        if leads_on:
            path, value = (*path, step), value[step]
    return path, value


def describe_value(value: object) -> str:
    """A short, readable account of a JSON value: its type and how it begins."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"string {shorten_text(value)!r}"
    if isinstance(value, int | float):
        return f"{'integer' if isinstance(value, int) else 'number'} {shorten_text(str(value))}"
    if isinstance(value, dict):
        return f"object with {_counted_noun(len(value), 'key')}"
    if isinstance(value, list | tuple):
        return f"array of {_counted_noun(len(value), 'item')}"
    return type(value).__name__


def shorten_text(text: str, limit: int = _SHOWN_CHARACTERS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def explain_validation_error(error: "ValidationError", schema: dict[str, Any]) -> Iterator[Problem]:
    """What the validator saw, one problem for each thing to correct."""
    keyword = error.kind.name
    path = tuple(error.instance_path)
    facts = error.kind.as_dict()
    if keyword in ("anyOf", "oneOf"):
        yield from _explain_alternatives(error, path, facts, schema)
    elif "unexpected" in facts:
        yield from _explain_unexpected_names(error, path, facts["unexpected"], schema)
    elif keyword == "falseSchema" and path:
        got = describe_value(error.instance)
        yield Problem(
            path=path,
            keyword=keyword,
            expected="nothing here",
            got=got,
            hint="Remove it.",
            facts={"name": path[-1]},
        )
    elif keyword == "required":
        name = facts["property"]
        yield Problem(
            path=(*path, name), keyword=keyword, expected="a value (required)", got="nothing", facts=facts
        )
    else:
        yield Problem(
            path=path,
            keyword=keyword,
            expected=_PHRASES[keyword](facts) if keyword in _PHRASES else error.message,
            got=describe_value(error.instance),
            hint=_problem_hint(keyword, facts, error.instance),
            facts=facts,
        )


def _explain_unexpected_names(
    error: "ValidationError", path: JsonPath, names: Sequence[str], schema: dict[str, Any]
) -> Iterator[Problem]:
    declared = [part.get("properties", {}) for part in schemas_at(schema, *path)]
    known = list(dict.fromkeys(name for names in declared for name in names))
    for name in names:
        match = None if name in known else closest(name, known)
        listed = f"Known: {', '.join(sorted(known))}." if known else "It takes none."
        if name in known:
            listed = "It belongs to another alternative."
        yield Problem(
            path=(*path, name),
            keyword=error.kind.name,
            expected="one of the known names",
            got=describe_value(error.instance.get(name) if isinstance(error.instance, dict) else None),
            hint=f"Did you mean {match!r}?" if match else listed,
            facts={"name": name, "closest": match},
        )


def _explain_alternatives(
    error: "ValidationError", path: JsonPath, facts: dict[str, Any], schema: dict[str, Any]
) -> Iterator[Problem]:
    """anyOf and oneOf: the alternative that was meant, or what all of them would have taken."""
    branches = [
        [problem for error in errors for problem in explain_validation_error(error, schema)]
        for errors in facts["context"]
    ]
    if not all(branches):
        yield Problem(
            path=path,
            keyword=error.kind.name,
            expected="exactly one alternative to fit",
            got="several that do",
        )
        return
    parts: Any = schema
    for step in error.schema_path:
        parts = parts[step]
    meant = _meant_alternatives(path, error.instance, branches, parts, schema)
    first = meant[0]
    if len(meant) == 1:
        yield from first
    elif all(len(branch) == 1 and branch[0].path == first[0].path for branch in meant):
        value = follow_path(error.instance, first[0].path[len(path) :])[1]
        yield _merged_problem([branch[0] for branch in meant], value)
    elif all(problem.keyword == "required" for branch in meant for problem in branch):
        names = [" and ".join(repr(problem.path[-1]) for problem in branch) for branch in meant]
        expected = f"an object with {' or with '.join(names)}"
        yield Problem(path=path, keyword="anyOf", expected=expected, got=describe_value(error.instance))
    else:
        hint = "; or ".join(joined_sentences(branch) for branch in meant[:_SHOWN_ALTERNATIVES])
        yield Problem(
            path=path,
            keyword="anyOf",
            expected=f"one of {len(branches)} alternatives",
            got=describe_value(error.instance),
            hint=hint,
        )


def _meant_alternatives(
    path: JsonPath, value: object, branches: list[list[Problem]], parts: list[Any], schema: dict[str, Any]
) -> list[list[Problem]]:
    """Those that come closest: of the right type, without the tag of another, with most of the keys."""

    def has_other_tag(branch: list[Problem]) -> bool:
        return any(one.keyword == "const" and one.path[:-1] == path for one in branch)

    def distance(branch: list[Problem]) -> tuple[int, int]:
        if not isinstance(value, dict):
            return 0, len(branch)
        index = branches.index(branch)
        known = {
            name for part in schema_branches(parts[index], schema) for name in part.get("properties", {})
        }
        shared = len(known & value.keys())
        return -shared, len(branch) if shared else 0  # without a key in common, none is closer

    def is_of_other_type(problem: Problem) -> bool:
        options = _options_of(problem)
        is_other = not any(type(option) is type(value) for option in options)
        return problem.path == path and (problem.keyword == "type" or bool(options and is_other))

    near = [branch for branch in branches if not any(map(is_of_other_type, branch))]
    if not near:
        return [[one for one in branch if is_of_other_type(one)] for branch in branches]
    tagged = [branch for branch in near if not has_other_tag(branch)]
    if not tagged:
        return [
            [one for one in branch if one.keyword == "const" and one.path[:-1] == path] for branch in near
        ]
    best = min(distance(branch) for branch in tagged)
    return [branch for branch in tagged if distance(branch) == best]


def _options_of(problem: Problem) -> list[Any]:
    """The values that an enum or a const takes."""
    if problem.keyword == "const" and problem.facts:
        return [problem.facts["expected_value"]]
    return list(problem.facts.get("options", ())) if problem.keyword == "enum" else []


def _merged_problem(problems: list[Problem], value: object) -> Problem:
    """One problem for alternatives that all ask for something else in the same place.

    It may be one of others in turn. Where they ask for types and for values, it has no facts.
    """
    keyword: str = problems[0].keyword
    facts: dict[str, Any] = {}
    has_facts = all(one.facts for one in problems)
    if has_facts and all(one.keyword == "type" for one in problems):
        facts = {"types": sorted({name for one in problems for name in one.facts["types"]})}
    elif has_facts and all(one.keyword in ("const", "enum") for one in problems):
        options = {repr(option): option for one in problems for option in _options_of(one)}
        keyword, facts = "enum", {"options": list(options.values())}
    elif all(one.keyword in ("type", "const", "enum") for one in problems):
        keyword = "type"
    asked = [_PHRASES[keyword](facts)] if facts else dict.fromkeys(one.expected for one in problems)
    return msgspec.structs.replace(
        problems[0],
        keyword=keyword,
        expected=" or ".join(asked),
        hint=_problem_hint(keyword, facts, value) if facts else "",
        facts=facts,
    )


# What each keyword asks for. A keyword that is missing here is in the validator's own words.
_PHRASES: dict[str, Callable[[dict[str, Any]], str]] = {
    "type": lambda facts: _one_of_types(facts["types"]),
    "enum": lambda facts: "one of " + ", ".join(repr(option) for option in facts["options"]),
    "const": lambda facts: repr(facts["expected_value"]),
    "minimum": lambda facts: f"at least {facts['limit']}",
    "maximum": lambda facts: f"at most {facts['limit']}",
    "exclusiveMinimum": lambda facts: f"more than {facts['limit']}",
    "exclusiveMaximum": lambda facts: f"less than {facts['limit']}",
    "multipleOf": lambda facts: f"a multiple of {facts['multiple_of']}",
    "minLength": lambda facts: f"at least {_counted_noun(facts['limit'], 'character')}",
    "maxLength": lambda facts: f"at most {_counted_noun(facts['limit'], 'character')}",
    "minItems": lambda facts: f"at least {_counted_noun(facts['limit'], 'item')}",
    "maxItems": lambda facts: f"at most {_counted_noun(facts['limit'], 'item')}",
    "minProperties": lambda facts: f"at least {_counted_noun(facts['limit'], 'key')}",
    "maxProperties": lambda facts: f"at most {_counted_noun(facts['limit'], 'key')}",
    "pattern": lambda facts: f"text that matches {facts['pattern']}",
    "format": lambda facts: f"text in the format {facts['format']!r}",
    "uniqueItems": lambda _: "different items",
    "falseSchema": lambda _: "nothing here",
    "propertyNames": lambda facts: f"keys of another form: {facts['error'].message}",
}


def _problem_hint(keyword: str, facts: dict[str, Any], value: object) -> str:
    if keyword == "enum" and isinstance(value, str):
        return did_you_mean(value, [option for option in facts["options"] if isinstance(option, str)])
    is_json = isinstance(value, str) and value.lstrip().startswith(("{", "["))
    if keyword == "type" and is_json and {"array", "object"} & set(facts["types"]):
        return "Pass the value itself, not a string that contains it."
    return ""


_PLAIN_WORDS = re.compile(r"[\w./@][\w./@ -]*")


def written_form(value: Any, parts: list[dict[str, Any]], root: dict[str, Any]) -> str:
    """A value that stands where a mapping or a list belongs, in the form that was probably meant.

    `local` becomes `{provider: local}`, `[text]` becomes `{text: string}`, `a` becomes `[a]`; empty where
    nothing is probable.
    """
    words = value if isinstance(value, list) else [value]
    if not words or not all(isinstance(word, str) and _PLAIN_WORDS.fullmatch(word) for word in words):
        return ""
    for part in parts:
        required, members = part.get("required", ()), part.get("additionalProperties")
        if part.get("type") == "array" and isinstance(value, str):
            return f"[{value}]"
        if part.get("type", "object") != "object":
            continue
        if isinstance(value, str) and len(required) == 1:
            return f"{{{required[0]}: {value}}}"
        known = schema_branches(members, root)
        example = next(
            (text for one in known for text in one.get("examples", ()) if isinstance(text, str)), ""
        )
        if isinstance(value, list) and example:
            return f"{{{', '.join(f'{word}: {example}' for word in words)}}}"
    return ""


def _one_of_types(names: Sequence[str]) -> str:
    articles = {"null": "null", "array": "an array", "integer": "an integer", "object": "an object"}
    *first, last = (articles.get(name, f"a {name}") for name in names)
    return f"{', '.join(first)} or {last}" if first else last


def _counted_noun(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# --- Ways through a schema --------------------------------------------------------------------------------


def local_reference_target(reference: object, root: dict[str, Any]) -> Any:
    """What a `$ref` into the schema itself points at; None where it points elsewhere, or at nothing."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    target = value_at(root, reference[1:])
    return None if target is msgspec.UNSET else target


def schema_branches(schema: Any, root: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema and those it is composed of, behind a local `$ref` and in allOf, anyOf, oneOf, then, else."""
    found: list[dict[str, Any]] = []
    waiting = [schema]
    while waiting:
        part = waiting.pop(0)
        if not isinstance(part, dict) or any(part is seen for seen in found):
            continue
        found.append(part)
        waiting += [local_reference_target(part.get("$ref"), root), part.get("then"), part.get("else")]
        for keyword in ("allOf", "anyOf", "oneOf"):
            waiting += listed_in(part, keyword)
    return found


def listed_in(schema: dict[str, Any], keyword: str) -> list[Any]:
    """What a keyword lists, in a schema that may be invalid."""
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def schemas_at(schema: dict[str, Any], *path: str | int) -> list[dict[str, Any]]:
    """What a schema says of a place in its instances, as far as it says so plainly; alternatives included."""
    parts = schema_branches(schema, schema)
    for step in path:
        parts = member_schemas(parts, step, schema)
    return parts


def member_schemas(
    parts: list[dict[str, Any]], step: str | int, root: dict[str, Any]
) -> list[dict[str, Any]]:
    """What schemas of one place say of a member of it."""
    inner: list[Any] = []
    for part in parts:
        named = part.get("properties")
        named = named if isinstance(named, dict) else {}
        if isinstance(step, int):
            inner.append(part.get("items"))
        else:
            inner.append(named[step] if step in named else part.get("additionalProperties"))
    return [found for schema in inner for found in schema_branches(schema, root)]


def relocated_schema(schema: Any, place: str) -> Any:
    """A schema as it reads at another place of a larger one: its references to itself point there."""
    if isinstance(schema, list):
        return [relocated_schema(part, place) for part in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: relocated_schema(part, place) for key, part in schema.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        moved["$ref"] = f"#{place}{reference[1:]}"
    return moved


# --- What is left of a document that has problems ---------------------------------------------------------

_EMPTY: dict[str, Any] = {
    "string": "",
    "integer": 1,
    "number": 1,
    "boolean": False,
    "array": [],
    "object": {},
}
_DEEPEST_EMPTY_VALUE = 8
MAX_REPAIRED = 500
"""With more problems than these, there is no looking for others."""


def repaired_document(
    document: dict[str, Any], problems: Iterable[Problem], schema: dict[str, Any]
) -> dict[str, Any]:
    """A copy in which what has problems is left out where it may be absent, and empty where it may not.

    Nothing is moved: every pointer still means the same place.
    """
    left = deepcopy(document)
    for problem in problems:
        *parents, last = problem.path or ("",)
        reached, holder = follow_path(left, parents)
        if len(reached) < len(parents):
            continue
        known = schemas_at(schema, *parents)
        is_named = any(last in part.get("properties", {}) for part in known)
        is_required = any(last in part.get("required", ()) for part in known)
        if isinstance(holder, dict) and ("name" in problem.facts or (is_named and not is_required)):
            holder.pop(last, None)
        elif isinstance(holder, dict | list):
            holder[last] = _empty_value(schemas_at(schema, *problem.path), schema)  # type: ignore[index]
    return left


def _empty_value(parts: list[dict[str, Any]], schema: dict[str, Any], depth: int = 0) -> Any:
    """Something empty that fits the types."""
    for part in parts:
        if "const" in part:
            return part["const"]
        if "enum" in part:
            return part["enum"][0]
        kind = part["type"][0] if isinstance(part.get("type"), list) else part.get("type")
        if kind == "object" and depth < _DEEPEST_EMPTY_VALUE:
            # What any of the parts requires: a key too many does no harm here.
            required = [name for part in parts for name in part.get("required", ())]
            return {
                name: _empty_value(member_schemas(parts, name, schema), schema, depth + 1)
                for name in required
            }
        if kind in _EMPTY:
            return deepcopy(_EMPTY[kind])
    return None
