"""The JSON Schema of workflows and the types are one contract, and an editor can explain every key of it."""

import json
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from strands_cli.loader.spec import Spec
from strands_cli.patterns import PATTERNS, pattern
from strands_cli.patterns.chain import Chain
from strands_cli.patterns.evaluator_optimizer import EvaluatorOptimizer
from strands_cli.patterns.graph import Edge, Graph
from strands_cli.patterns.orchestrator_workers import OrchestratorWorkers
from strands_cli.patterns.parallel import Branch, Parallel
from strands_cli.patterns.pattern import AnyStep, HumanStep, Step, ToolStep, WorkflowStep
from strands_cli.patterns.routing import Route, Routing
from strands_cli.patterns.workflow import Task, Workflow
from strands_cli.schema.validator import published_schema, schema_text
from strands_cli.types import sections as nouns
from strands_cli.types.servers import ServerFiles, ServerOAuth, WorkflowServer

SCHEMA: dict[str, Any] = json.loads(schema_text("workflow"))
DEFINITIONS: dict[str, Any] = SCHEMA["$defs"]

# Where the types have it otherwise than the file: the whole list.
ONLY_IN_TYPES = {
    Spec: {
        "file",
        "positions",
        "origins",
        "remarks",
        "variables",
        "environment",
        "model_given",
        "texts",
        "is_foreign",
        "is_imported",
        "unnamed_tools",
        "workflows",
        "tool_outputs",
    },  # about the file, not in it
    Step: {"foreach"},  # not where only an agent can be
    # In the file, a review is a key of its step.
    Routing: {"router_review", "max_retries"},
    EvaluatorOptimizer: {"evaluator_review"},
    OrchestratorWorkers: {"orchestrator_review", "reduce_review"},
    Parallel: {"reduce_review"},
}
REVIEWED = {"evaluator", "orchestrator"}
ONLY_IN_FILES = {
    nouns.AgentSpec: {"$ref"},  # followed when the file is read
}
SHORT_FORMS = {  # places of the schema that the types have in their long form only
    "/$defs/tools/properties/python/items": "a string is {callable: …}",
    "/$defs/input": "a string is {type: …}",
    "/$defs/edge/properties/to": "a string is a list of one",
    "/$defs/foreach": "a string is a template that comes to a list",
    "/$defs/mcp_server/properties/env": "names, or a table of values",
    "/$defs/agent": "a $ref stands for the prompt in its file",
}
UNCHECKED_BY_TYPES = {  # enumerations that the types leave to the schema
    ("Runtime", "provider"),
    ("AgentSpec", "provider"),
    ("Input", "type"),
    ("AgentSpec", "input_schema"),
    ("AgentSpec", "output_schema"),  # the loader reads the file that a path names
}
SELF_EVIDENT = {
    "agent",  # the name of an agent
    "config",  # described by the pattern's own definition
    "default",
    "description",
    "enabled",
    "from",
    "to",
    "id",
    "input_type",
    "host",
    "model_id",
    "region",
    "type",
    "prompt",
    "tool_inputs",
    "tool_outputs",
}

# Every type that a file is read into, and the schema of the same thing.
COUNTERPARTS: dict[type, dict[str, Any]] = {
    Spec: SCHEMA,
    nouns.Runtime: DEFINITIONS["runtime"],
    nouns.Inference: DEFINITIONS["inference"],
    nouns.Budgets: DEFINITIONS["runtime"]["properties"]["budgets"],
    nouns.FailurePolicy: DEFINITIONS["runtime"]["properties"]["failure_policy"],
    nouns.Input: DEFINITIONS["input"]["oneOf"][1],
    nouns.Inputs: DEFINITIONS["inputs"],
    nouns.Secret: DEFINITIONS["secret"],
    nouns.Env: DEFINITIONS["env"],
    nouns.Telemetry: DEFINITIONS["telemetry"],
    nouns.Redact: DEFINITIONS["telemetry"]["properties"]["redact"],
    nouns.ContextPolicy: DEFINITIONS["context_policy"],
    nouns.Compaction: DEFINITIONS["context_policy"]["properties"]["compaction"],
    nouns.Notes: DEFINITIONS["context_policy"]["properties"]["notes"],
    nouns.Retrieval: DEFINITIONS["context_policy"]["properties"]["retrieval"],
    nouns.Guardrails: DEFINITIONS["security"]["properties"]["guardrails"],
    nouns.Skill: DEFINITIONS["skill"],
    nouns.Tools: DEFINITIONS["tools"],
    nouns.PythonTool: DEFINITIONS["tools"]["properties"]["python"]["items"]["oneOf"][1],
    nouns.HttpExecutor: DEFINITIONS["http_executor"],
    WorkflowServer: DEFINITIONS["mcp_server"],
    ServerFiles: DEFINITIONS["mcp_server"]["properties"]["files"],
    ServerOAuth: DEFINITIONS["mcp_server"]["properties"]["oauth"],
    nouns.AgentSpec: DEFINITIONS["agent"],
    nouns.Artifact: DEFINITIONS["artifact"],
    nouns.Outputs: DEFINITIONS["outputs"],
    nouns.Security: DEFINITIONS["security"],
    Step: DEFINITIONS["agent_step"],
    HumanStep: DEFINITIONS["human"],
    Chain: DEFINITIONS["chain"],
    Workflow: DEFINITIONS["workflow"],
    Task: DEFINITIONS["task"],
    Routing: DEFINITIONS["routing"],
    Route: DEFINITIONS["route"],
    Parallel: DEFINITIONS["parallel"],
    Branch: DEFINITIONS["branch"],
    EvaluatorOptimizer: DEFINITIONS["evaluator_optimizer"],
    OrchestratorWorkers: DEFINITIONS["orchestrator_workers"],
    Graph: DEFINITIONS["graph"],
    Edge: DEFINITIONS["edge"],
}
OUTSIDE = {HumanStep: {"id"}, Task: {"step"}}  # stands beside 'human', not in it; the step is the task's rest
KINDS = {  # of steps, each with the keys that it has beside its id; steps, tasks and nodes take all of them
    Step: {"agent", "input", "conversation", "vars", "tools", "foreach"},
    HumanStep: {"human"},
    ToolStep: {"tool", "arguments", "foreach"},
    WorkflowStep: {"workflow", "inputs", "foreach"},
}
KEYS_OF_STEPS = set[str]().union(*KINDS.values())
PLACES_OF_STEPS = {
    "step": {"id"},
    "task": {"id", "description", "needs"},
    "node": set[str](),
    "reduce": {"id", "review"},
}
PAIRS = pytest.mark.parametrize(
    ("kind", "schema"), COUNTERPARTS.items(), ids=lambda one: getattr(one, "__name__", "")
)


def fields(kind: type) -> dict[str, msgspec.structs.FieldInfo]:
    left_out = ONLY_IN_TYPES.get(kind, set()) | OUTSIDE.get(kind, set())
    return {
        field.encode_name: field
        for field in msgspec.structs.fields(kind)
        if field.encode_name not in left_out
    }


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what it refers to; its own words count over those."""
    while "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        target = DEFINITIONS[name]
        schema = {
            "$defs_name": name,
            **target,
            **{key: value for key, value in schema.items() if key != "$ref"},
        }
    return schema


# --- Types and schema -------------------------------------------------------------------------------------


@PAIRS
def test_a_type_has_the_names_of_its_schema(kind: type, schema: dict[str, Any]) -> None:
    in_file = set(schema["properties"]) - ONLY_IN_FILES.get(kind, set())
    assert set(fields(kind)) == (in_file - KEYS_OF_STEPS if kind is Task else in_file)
    assert schema.get("additionalProperties") is False, "an unknown key must be told"


@PAIRS
def test_a_type_requires_what_its_schema_requires(kind: type, schema: dict[str, Any]) -> None:
    required = {name for name, field in fields(kind).items() if field.required}
    first_choice = schema.get("anyOf", [{}])[0]  # an agent has a prompt, or a $ref to a file that has one
    assert required == {*schema.get("required", ()), *first_choice.get("required", ())}


@PAIRS
def test_a_type_has_the_defaults_of_its_schema(kind: type, schema: dict[str, Any]) -> None:
    """What has no default in the schema is empty in the types: nothing is decided where nobody reads it."""
    for name, field in fields(kind).items():
        if field.required:
            continue
        default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        stated = resolved(schema["properties"][name]).get("default", msgspec.UNSET)
        if stated is not msgspec.UNSET:
            assert default == stated, name
        elif isinstance(default, msgspec.Struct):
            assert default == type(default)(), name
        else:
            assert default in (None, "", (), {}, msgspec.UNSET), name


@PAIRS
def test_a_type_takes_the_values_of_its_schema(kind: type, schema: dict[str, Any]) -> None:
    hints = typing.get_type_hints(kind)
    for name, field in fields(kind).items():
        if (kind.__name__, name) not in UNCHECKED_BY_TYPES:
            problems = [*mismatches(hints[field.name], schema["properties"][name], name)]
            assert problems == [], f"{kind.__name__}.{name}: {problems}"


def mismatches(hint: Any, schema: dict[str, Any], name: str) -> Iterator[str]:
    """Why a type and a schema do not take the same values."""
    schema = resolved(schema)
    hint = without_none(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if name == "pattern":
        yield from pattern_mismatches(schema)
    elif hint is Any:
        if "type" in schema:
            yield f"the type takes anything, the schema {schema['type']}"
    elif origin is typing.Literal:
        if set(arguments) != set(schema.get("enum", ())):
            yield f"{sorted(arguments)} and {sorted(schema.get('enum', ()))}"
    elif origin is tuple:
        yield from sequence_mismatches(arguments[0], schema, name)
    elif origin is dict:
        inner = schema.get("additionalProperties", True)
        if schema.get("type") != "object":
            yield f"a mapping, and {schema.get('type')}"
        elif isinstance(inner, dict):
            yield from mismatches(arguments[1], inner, name)
        elif arguments[1] is not Any:
            yield f"values of {arguments[1]}, and any"
    elif hint == str | int | float | bool:
        if schema != {"type": ["string", "number", "boolean"]}:
            yield f"text, a number or a boolean, and {schema}"
    elif hint == tuple[str, ...] | dict[str, str]:
        for part, inner in zip(arguments, schema["anyOf"], strict=True):
            yield from mismatches(part, inner, name)
    elif hint == AnyStep:
        if schema["$defs_name"] not in PLACES_OF_STEPS:
            yield "a step of any kind, and something else"
    elif hint is Step:
        expected = "router" if name == "router" else "reviewed_step" if name in REVIEWED else "agent_step"
        if schema["$defs_name"] != expected:
            yield "a step of an agent, and something else"
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield from struct_mismatches(hint, schema, name)
    elif "enum" in schema:
        yield "the schema has an enumeration, the type has none"
    elif kind_of(schema) != {str: "string", int: "integer", float: "number", bool: "boolean"}[hint]:
        yield f"{hint.__name__}, and {kind_of(schema)}"


def without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, UnionType):
        kept = [part for part in typing.get_args(hint) if part is not type(None)]
        return kept[0] if len(kept) == 1 else typing.Union[tuple(kept)]  # noqa: UP007 - made of parts
    return hint


def sequence_mismatches(item: Any, schema: dict[str, Any], name: str) -> Iterator[str]:
    if name == "to":
        schema = next(one for one in schema["oneOf"] if one["type"] == "array")
    if schema.get("type") != "array":
        yield f"a sequence, and {schema.get('type')}"
    elif "items" not in schema:
        if item is not Any:
            yield f"items of {item}, and any"
    elif name == "python":
        yield from struct_mismatches(item, schema["items"]["oneOf"][1], name)
    elif item == dict[str, Any]:
        if schema["items"] != {"type": "object"}:
            yield "mappings of anything, and something else"
    else:
        yield from mismatches(item, schema["items"], name)


def struct_mismatches(kind: type, schema: dict[str, Any], name: str) -> Iterator[str]:
    """Each pair is compared by itself; here it is seen to be the right pair."""
    if kind is nouns.Input:
        schema = schema["oneOf"][1]
    counterpart = COUNTERPARTS[kind]
    if schema.get("properties") != counterpart["properties"]:
        yield f"{kind.__name__} stands for something else than {name}"


def kind_of(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return {int: "integer", str: "string"}[type(schema["const"])]
    return str(schema.get("type"))


def pattern_mismatches(schema: dict[str, Any]) -> Iterator[str]:
    tags = {pattern.kind: pattern for pattern in PATTERNS.values()}
    if set(tags) != set(schema["properties"]["type"]["enum"]):
        yield f"{sorted(tags)} and {schema['properties']['type']['enum']}"
    for rule in schema["allOf"]:
        tag = rule["if"]["properties"]["type"]["const"]
        config = resolved(rule["then"]["properties"]["config"])
        yield from struct_mismatches(tags.pop(tag), config, tag)
    if tags:
        yield f"without a rule: {sorted(tags)}"


def test_every_type_and_every_definition_is_compared() -> None:
    made = {
        kind
        for module in (nouns, pattern, *(sys.modules[kind.__module__] for kind in PATTERNS.values()))
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
    }
    made |= {WorkflowServer, ServerFiles, ServerOAuth}
    made = made - {nouns.BaseSpec, nouns.VariableUse, pattern.AgentPlace, *KINDS} | {Spec, Step, HumanStep}
    assert made == set(COUNTERPARTS)
    places = [DEFINITIONS[name] for name in (*PLACES_OF_STEPS, "reviewed_step", "router", "review")]
    seen = [*COUNTERPARTS.values(), *places, DEFINITIONS["pattern"], DEFINITIONS["input"]]
    leaves = [name for name, schema in DEFINITIONS.items() if "properties" not in schema]
    missing = [name for name, schema in DEFINITIONS.items() if schema not in seen and name not in leaves]
    assert missing == []
    leaves_known = [
        "arguments",
        "conversation",
        "foreach",
        "id",
        "inner_inputs",
        "inner_workflow",
        "input",
        "input_type",
        "kind_of_step",
        "name",
        "provider",
        "step_tools",
        "steps",
        "template",
        "tool_reference",
        "vars",
    ]
    assert sorted(leaves) == leaves_known


@pytest.mark.parametrize("place", PLACES_OF_STEPS)
def test_every_place_for_a_step_takes_every_kind_of_step(place: str) -> None:
    schema = DEFINITIONS[place]
    assert set(typing.get_args(AnyStep)) == set(KINDS)
    assert set(schema["properties"]) == KEYS_OF_STEPS | PLACES_OF_STEPS[place]
    assert schema["additionalProperties"] is False
    assert schema["$ref"] == "#/$defs/kind_of_step"
    for key in KEYS_OF_STEPS:
        assert schema["properties"][key] == DEFINITIONS["step"]["properties"][key]


def test_a_kind_of_step_has_its_keys() -> None:
    for kind in (Step, ToolStep, WorkflowStep):
        assert {field.name for field in msgspec.structs.fields(kind)} == KINDS[kind] | {"id"}


def test_every_short_form_is_listed() -> None:
    assert {place for place, schema in PARTS.items() if "oneOf" in schema or "anyOf" in schema} == set(
        SHORT_FORMS
    )


# --- The schema by itself ---------------------------------------------------------------------------------


def parts(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema, with its pointer."""
    yield place, schema
    for key in ("properties", "$defs"):
        for name, inner in schema.get(key, {}).items():
            if inner is not False:
                yield from parts(inner, f"{place}/{key}/{name}")
    for key in ("items", "additionalProperties", "propertyNames", "then", "else", "if"):
        if isinstance(schema.get(key), dict):
            yield from parts(schema[key], f"{place}/{key}")
    for key in ("oneOf", "anyOf", "allOf"):
        for index, inner in enumerate(schema.get(key, ())):
            yield from parts(inner, f"{place}/{key}/{index}")


PARTS = dict(parts(SCHEMA))
EXAMPLES = [
    pytest.param(schema, example, id=f"{place or '/'}-{index}")
    for place, schema in PARTS.items()
    for index, example in enumerate(schema.get("examples", ()))
]


def test_the_schema_is_one() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(SCHEMA)


def test_every_reference_in_the_schema_leads_somewhere() -> None:
    for place, schema in PARTS.items():
        if "$ref" in schema:
            assert schema["$ref"].removeprefix("#/$defs/") in DEFINITIONS, place


def test_every_definition_is_used() -> None:
    used = {schema["$ref"].removeprefix("#/$defs/") for schema in PARTS.values() if "$ref" in schema}
    assert set(DEFINITIONS) == used


@pytest.mark.parametrize(("schema", "example"), EXAMPLES)
def test_every_example_in_the_schema_fits_its_own_place(schema: dict[str, Any], example: Any) -> None:
    alone = {"$schema": SCHEMA["$schema"], "$defs": DEFINITIONS, **schema}
    problems = [error.message for error in jsonschema_rs.validator_for(alone).iter_errors(example)]
    assert problems == []


@pytest.mark.parametrize("place", [place for place, schema in PARTS.items() if "default" in schema])
def test_every_default_in_the_schema_fits_its_own_place(place: str) -> None:
    schema = {"$schema": SCHEMA["$schema"], "$defs": DEFINITIONS, **PARTS[place]}
    assert jsonschema_rs.validator_for(schema).is_valid(schema["default"])


def test_an_editor_can_explain_every_key() -> None:
    silent = [
        place
        for place, schema in PARTS.items()
        if place.split("/")[-2:-1] == ["properties"]
        and "/if" not in place
        and "/allOf/" not in place
        and not resolved(schema).get("description")
        and place.rpartition("/")[2] not in SELF_EVIDENT
    ]
    assert silent == []


def test_every_description_is_a_sentence() -> None:
    for place, schema in PARTS.items():
        text = schema.get("description", "A sentence.")
        if isinstance(text, str):
            assert text[0].isupper() or text[0] in "0123456789'", place
            assert text.endswith("."), f"{place}: {text}"


def test_every_mapping_of_names_says_which_names_it_takes() -> None:
    """A typing mistake in a key is told by the schema, not found in a run."""
    free = [
        place
        for place, schema in PARTS.items()
        if schema.get("type") == "object"
        and schema.get("additionalProperties", True) is True
        and "/if" not in place
    ]
    assert free == [
        "/$defs/inputs/properties/values",  # the inputs' own names
        "/$defs/arguments",  # the tool's own schema knows them
        "/$defs/inner_inputs",  # the other workflow's own inputs
        "/$defs/pattern/properties/config",  # one of the seven, by type
    ]


# --- What it accepts --------------------------------------------------------------------------------------

SMALLEST: dict[str, Any] = {
    "version": 0,
    "name": "smallest",
    "runtime": {"provider": "ollama"},
    "agents": {"a": {"prompt": "x"}},
    "pattern": {"type": "chain", "config": {"steps": [{"agent": "a"}]}},
}


def pointers(document: dict[str, Any]) -> list[str]:
    return [problem.pointer for problem in published_schema("workflow").problems(document)]


def test_the_smallest_workflow_is_accepted() -> None:
    assert pointers(SMALLEST) == []


@pytest.mark.parametrize("version", [1, -1, "0", None, False, True, 0.5, [], {}])
def test_only_version_0_is_a_version(version: Any) -> None:
    assert pointers({**SMALLEST, "version": version}) == ["/version"]


@pytest.mark.parametrize("key", SCHEMA["required"])
def test_a_required_key_that_is_missing_is_told(key: str) -> None:
    assert pointers({name: value for name, value in SMALLEST.items() if name != key}) == [f"/{key}"]


@pytest.mark.parametrize("name", ["", "a" * 201, "a\n", "a\x1b[31m", "a\x7f"])
def test_a_name_that_is_not_one_line_of_text_is_refused(name: str) -> None:
    assert pointers({**SMALLEST, "name": name}) == ["/name"]


@pytest.mark.parametrize("name", ["a b", "-a", ".a", "a/b", "é", "a" * 200, "Weekly report: München (v2)"])
def test_a_name_may_have_any_characters(name: str) -> None:
    assert pointers({**SMALLEST, "name": name}) == []


@pytest.mark.parametrize("tag", DEFINITIONS["pattern"]["properties"]["type"]["enum"])
def test_the_configuration_of_a_pattern_is_checked_by_its_type(tag: str) -> None:
    found = pointers({**SMALLEST, "pattern": {"type": tag, "config": {"nonsense": 1}}})
    required = {f"/pattern/config/{name}" for name in DEFINITIONS[tag]["required"]}
    assert set(found) == {*required, "/pattern/config/nonsense"}


def test_an_unknown_pattern_is_told_once() -> None:
    assert pointers({**SMALLEST, "pattern": {"type": "chian", "config": {}}}) == ["/pattern/type"]


def test_an_agent_may_refer_to_a_file() -> None:
    """Editors validate the file as it is written, before a reference is followed."""
    agents = {"a": {"$ref": "agents/a.yaml"}, "b": {"$ref": "agents/b.yaml", "tools": []}}
    document = {**SMALLEST, "agents": {**agents, "c": {"prompt": "x"}}}
    assert [error.message for error in jsonschema_rs.validator_for(SCHEMA).iter_errors(document)] == []


def test_the_schema_is_published_with_the_package() -> None:
    import strands_cli.schema

    assert (Path(strands_cli.schema.__file__).parent / "strands-workflow.schema.json").is_file()


def test_a_review_is_a_question_to_a_human() -> None:
    human, review = DEFINITIONS["human"]["properties"], DEFINITIONS["review"]["properties"]
    assert set(review) == set(human) - {"choices"}, "its choices are those of its place"
    plain, reviewed = DEFINITIONS["agent_step"], DEFINITIONS["reviewed_step"]
    assert reviewed["properties"] == {**plain["properties"], "review": {"$ref": "#/$defs/review"}}
    assert reviewed["required"] == plain["required"]
    router = DEFINITIONS["router"]["properties"]
    assert {name: part for name, part in router.items() if name != "max_retries"} == reviewed["properties"]
    (own,) = (field for field in msgspec.structs.fields(Routing) if field.name == "max_retries")
    assert router["max_retries"]["default"] == own.default
