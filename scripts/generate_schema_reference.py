"""Writes docs/reference/workflow-schema.md from the JSON Schema of workflows.

With --check, exits with 1 where the page is not current. `render()` and `render_evals()` are pages without
the note at their top, for `generate_reference.py`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
SCHEMAS = REPOSITORY / "src" / "strands_cli" / "schema"
PAGE = REPOSITORY / "docs" / "reference" / "workflow-schema.md"
NOTE = "<!-- Written by scripts/generate_reference.py. Change the code, then run 'make docs'. -->"

INTRODUCTION = """# Workflow files

This page lists every key of a workflow file, from the JSON Schema that `strands schema` prints. A file is
YAML or JSON. The [guide](../guides/workflows.md) builds a file step by step; `examples/` has complete ones.
A key that is unknown or in the wrong place is an error; [other spellings](#other-spellings) of some keys
are understood.

In text values, `${NAME}` and `${NAME:-default}` are replaced with environment variables that the file
declares in `env.variables`; write `$${` for a literal `${`. A *template* may contain `{{ … }}`. An agent may
be `$ref: FILE`, a file with the keys of an agent; keys next to it override those in the file.
"""
EVALS = """# Evaluation files

This page lists every key of a file for `strands eval`, from the JSON Schema that `strands schema eval`
prints. The [guide](../guides/evaluating.md) shows how to write one; `examples/evals/` has complete ones.
"""
# The order of the page; what is left comes last.
ORDER = (
    *("runtime", "inference", "inputs", "input", "tools", "http_executor", "agent", "pattern"),
    *("step", "human", "agent_step", "reviewed_step", "review", "reduce"),
    *("chain", "workflow", "task", "routing", "route", "parallel", "branch", "evaluator_optimizer"),
    *("orchestrator_workers", "graph", "node", "edge", "outputs", "artifact", "env", "secret", "skill"),
    *("context_policy", "telemetry", "security"),
)
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minItems": "at least {}",
    "minProperties": "at least {}",
}

PLURALS = {"text": "texts", "name": "names", "mapping": "mappings", "anything": "values"}

Schema = dict[str, Any]


def render() -> str:
    """The page about workflows as Markdown."""
    lines = _lines(_schema("workflow"), INTRODUCTION, ORDER)
    return "\n".join([*lines, *_other_spellings()]).strip() + "\n"


def render_evals() -> str:
    """The page about evaluations as Markdown."""
    return "\n".join(_lines(_schema("eval"), EVALS)).strip() + "\n"


def _schema(name: str) -> Schema:
    schema: Schema = json.loads((SCHEMAS / f"strands-{name}.schema.json").read_text("utf-8"))
    return schema


def main(arguments: list[str]) -> int:
    text = f"{NOTE}\n\n{render()}"
    if "--check" in arguments:
        is_current = PAGE.is_file() and PAGE.read_text("utf-8") == text
        if not is_current:
            print(f"{PAGE.relative_to(REPOSITORY)} is not current: run 'make docs'.", file=sys.stderr)
        return 0 if is_current else 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, "utf-8")
    return 0


def _lines(schema: Schema, introduction: str, order: tuple[str, ...] = ()) -> Iterator[str]:
    definitions: dict[str, Schema] = schema["$defs"]
    yield introduction
    yield from _section("The file", schema, definitions)
    left = [name for name in definitions if name not in order and "properties" in definitions[name]]
    for name in (*order, *left):
        yield from _section(name, definitions[name], definitions)


def _other_spellings() -> Iterator[str]:
    """Keys that other runners have, from the table by which they are read."""
    from strands_cli.loader.dialect import MOVES, NO_EFFECT

    yield "## Other spellings"
    yield ""
    runners = "[other runners](../guides/other-runners.md)"
    yield f"These keys of {runners} are read as ours. `*` stands for any name or number."
    yield ""
    yield "| key | read as |"
    yield "|---|---|"
    yield from (f"| `{key}` | `{ours}` |" for key, ours in MOVES.items())
    yield from (f"| `{key}` | no effect: {why} |" for key, why in NO_EFFECT.items())
    yield ""


def _section(name: str, schema: Schema, definitions: dict[str, Schema]) -> Iterator[str]:
    """A heading, what it is, its keys; then a section for each mapping that stands in it."""
    yield from (f"## {name}", "")
    if schema.get("description"):
        yield from (schema["description"], "")
    if "examples" in schema:
        yield from (_such_as(schema["examples"]), "")
    long_form = _with_properties(schema)
    if long_form is None:
        return
    yield from _table(name, long_form, definitions)
    if name == "pattern":
        yield from ("The keys of `config` depend on the type:", "")
        yield from (f"- {_link(kind)}: {definitions[kind]['description']}" for kind in _kinds(schema))
        yield ""
    for key, inner in long_form["properties"].items():
        nested = _nested(inner)
        if nested is not None:
            yield from _section(f"{'' if name == 'The file' else name + '.'}{key}", nested, definitions)


def _with_properties(schema: Schema) -> Schema | None:
    found = [one for one in (schema, *schema.get("oneOf", ())) if "properties" in one]
    return found[0] if found else None


def _nested(schema: Schema) -> Schema | None:
    """A mapping with keys of its own that has no name in the schema."""
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict) and "properties" in inner:
        return inner
    return schema if "properties" in schema else None


def _kinds(pattern: Schema) -> list[str]:
    return [rule["if"]["properties"]["type"]["const"] for rule in pattern["allOf"]]


def _table(name: str, schema: Schema, definitions: dict[str, Schema]) -> Iterator[str]:
    yield from ("| key | type | default | meaning |", "|---|---|---|---|")
    required = schema.get("required", ())
    for key, inner in schema["properties"].items():
        default = "(required)" if key in required else _default(inner)
        cells = (
            f"`{key}`",
            _type(inner, definitions, f"{name}.{key}"),
            default,
            _meaning(name, key, inner, definitions),
        )
        yield f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _default(schema: Schema) -> str:
    return f"`{_json(schema['default'])}`" if "default" in schema else ""


def _meaning(name: str, key: str, schema: Schema, definitions: dict[str, Schema]) -> str:
    target = definitions.get(_target(schema), {})
    parts = [schema.get("description", "") or target.get("description", "")]
    parts += [
        phrase.format(schema[word]).capitalize() + "." for word, phrase in LIMITS.items() if word in schema
    ]
    if "examples" in schema:
        parts.append(_such_as(schema["examples"]))
    elif "examples" in schema.get("items", {}):
        parts.append(_such_as([schema["items"]["examples"]]))
    if "pattern" in schema:
        parts.append(f"It matches `{schema['pattern']}`.")
    return " ".join(filter(None, parts))


def _such_as(examples: list[Any]) -> str:
    return f"For example {' or '.join(f'`{_json(example)}`' for example in examples)}."


def _type(schema: Schema, definitions: dict[str, Schema], path: str) -> str:
    """What a key takes, in words, with links to what has a section."""
    target = _target(schema)
    if target:
        return _named(target, definitions)
    if "const" in schema:
        return f"`{_json(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "oneOf" in schema:
        return " or ".join(_type(one, definitions, path) for one in schema["oneOf"])
    if "then" in schema:
        return " or ".join(_type(schema[word], definitions, path) for word in ("else", "then"))
    if schema.get("type") == "array":
        item = _type(schema.get("items", {}), definitions, path)
        return f"list of {PLURALS.get(item, item)}"
    if schema.get("type") == "object":
        return _mapping(schema, definitions, path)
    kinds = schema.get("type", "anything")
    names = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join("text" if name == "string" else name for name in names)


def _mapping(schema: Schema, definitions: dict[str, Schema], path: str) -> str:
    inner = schema.get("additionalProperties")
    if "properties" in schema:
        keys = list(schema["properties"])
        return (
            f"`{{{keys[0]}: …}}`"
            if len(keys) == 1 and keys[0] == "callable"
            else _link(path.removeprefix("The file."))
        )
    if isinstance(inner, dict):
        nested = _link(path) if "properties" in inner else _type(inner, definitions, path)
        return f"mapping of names to {nested}"
    return "mapping"


def _named(name: str, definitions: dict[str, Schema]) -> str:
    plain = {"template": "template", "name": "name", "id": "name"}
    if name in plain:
        return plain[name]
    schema = definitions[name]
    if "properties" in schema or name in ORDER:
        return _link(name)
    return _type(schema, definitions, name)


def _target(schema: Schema) -> str:
    return str(schema.get("$ref", "")).removeprefix("#/$defs/")


def _link(heading: str) -> str:
    kept = "".join(letter for letter in heading.lower() if letter.isalnum() or letter in " -_")
    return f"[{heading}](#{kept.replace(' ', '-')})"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
