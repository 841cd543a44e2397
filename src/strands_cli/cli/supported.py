"""`strands list-supported`: what this version can do, from the tables that the code itself uses."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, get_args

import click

from strands_cli import __version__
from strands_cli.cli.options import json_option, log_option
from strands_cli.cli.output import Styled, print_columns, print_json, print_line
from strands_cli.cli.tool import first_sentence
from strands_cli.loader.run_values import SECRET_SOURCES
from strands_cli.patterns import PATTERNS
from strands_cli.patterns.pattern import AnyStep
from strands_cli.providers.choice import BUILT_IN, PROVIDERS
from strands_cli.schema.validator import schema_text
from strands_cli.tools.registry import SOURCES, ToolRegistry
from strands_cli.tools.sources.modules import Native

Rows = dict[str, str]

_SOURCES = {
    "env": "an environment variable",
    "file": "a file",
    "native": "part of strands-cli",
    "package": "installed packages",
    "plugin": "plugins, in any language",
    "mcp": "MCP servers",
    "project": "the directory tools/ of the project",
    "callable": "functions that your settings allow",
}


@click.command()
@json_option
@log_option
def list_supported(as_json: bool) -> None:
    """List what workflows can use: patterns, providers, kinds of steps, tools, secrets and keys."""
    schema = json.loads(schema_text("workflow"))
    native = (info for info in ToolRegistry.to_look_at().list_all() if info.source == Native.name)
    sections: dict[str, Rows] = {
        "patterns": {kind: schema["$defs"][kind].get("description", "") for kind in PATTERNS},
        "providers": {name: _provider_text(name) for name in BUILT_IN},
        "steps": {kind.__struct_config__.tag: _first_line(kind) for kind in get_args(AnyStep)},
        "secrets": _described(SECRET_SOURCES),
        "tool_sources": _described(source.name for source in SOURCES),
        "native_tools": {
            info.id: f"{first_sentence(info.description)}."
            for info in sorted(native, key=lambda info: info.id)
        },
        "keys": {name: ", ".join(_keys_of(part, schema)) for name, part in schema["properties"].items()},
    }
    if as_json:
        print_json({"version": __version__, **sections})
        return
    print_line(Styled(f"strands-cli {__version__}"))
    for name, rows in sections.items():
        print_line()
        print_line(Styled(name.replace("_", " ").capitalize()))
        print_columns([*rows.items()])


def _provider_text(name: str) -> str:
    provider = PROVIDERS[name]
    facts = [f"default model {provider.default_model}"] if provider.default_model else []
    facts += [f"needs {' or '.join(provider.credentials)}"] if provider.credentials else []
    facts += [f"needs the extra {provider.extra}"] if provider.extra else []
    return "; ".join(facts)


def _described(names: Iterable[str]) -> Rows:
    return {name: _SOURCES.get(name, "") for name in names}


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]


def _keys_of(part: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    """The keys of a section, or of each item where it is a list or has names of its own."""
    while reference := part.get("$ref") or part.get("items", {}).get("$ref"):
        part = schema["$defs"][reference.rpartition("/")[2]]
    named = part.get("additionalProperties")
    if isinstance(named, dict):
        yield from _keys_of(named, schema)
    yield from part.get("properties", {})
