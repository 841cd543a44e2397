"""`strands tool show`"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli.cli.arguments import ToolReference, json_option
from strands_cli.cli.output import print_columns, print_json
from strands_cli.cli.tool_list import group_of, info_document, remarks
from strands_cli.toolkit.contract import DEFAULT_TIMEOUT_SECONDS
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools import get_registry

if TYPE_CHECKING:
    from strands_cli.plugins.manifest import CliTool, Manifest


@click.command()
@click.argument("reference", metavar="TOOL", type=ToolReference())
@click.option("--load", is_flag=True, help="Import the tool, to show what only that can tell.")
@json_option
def show(reference: str, load: bool, as_json: bool) -> None:
    """Show a tool: what it does, takes, returns and needs."""
    registry = get_registry()
    info = registry.require(reference)
    if load:
        info = _loaded(info)
    if as_json:
        print_json({**info_document(info), **_access_document(info)})
        return
    click.secho(f"{info.id} {info.version}", bold=True)
    click.echo(info.description.strip())
    for remark in remarks(info):
        click.echo(remark)
    click.echo()
    print_columns([*_facts(info)], indent="")
    _print_arguments(info)


def _loaded(info: ToolInfo) -> ToolInfo:
    tool = get_registry().load(info)
    return msgspec.structs.replace(
        info,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        unread="",
    )


def _facts(info: ToolInfo) -> Iterator[tuple[str, str]]:
    place = f" ({info.file}:{info.line})" if info.file else ""
    yield "origin", f"{info.origin}{place}"
    yield "category", group_of(info)
    yield "family", info.family
    seconds = info.timeout_ms / 1000 if info.timeout_ms else DEFAULT_TIMEOUT_SECONDS
    yield "time limit", f"{seconds:g} s"
    yield "consent", "asked before each call" if info.requires_consent else "not needed"
    if info.requires:
        yield "requires", json.dumps(info.requires)
    yield from (("access", text) for text in _access(info))
    if info.output_schema:
        yield "returns", _kind(info.output_schema)


def plugin_access(info: ToolInfo) -> "tuple[Manifest, CliTool] | None":
    """What the plugin of a tool says of it, where it is one of a plugin: what it asks for is there."""
    if info.source != "plugin":
        return None
    from strands_cli.plugins.finding import declaration_of

    return declaration_of(info)


def _access(info: ToolInfo) -> list[str]:
    declared = plugin_access(info)
    if declared is None:
        return []
    from strands_cli.cli.plugin.access import accesses

    return accesses(*declared)


def _access_document(info: ToolInfo) -> dict[str, Any]:
    declared = plugin_access(info)
    if declared is None:
        return {}
    from strands_cli.cli.plugin.access import access_document

    return {"access": access_document(*declared)}


def _print_arguments(info: ToolInfo) -> None:
    click.echo()
    if info.input_schema is None:
        click.echo(f"Its arguments are known on load: 'strands tool show {info.id} --load' imports it.")
        return
    required = info.input_schema.get("required", [])
    properties: dict[str, Any] = info.input_schema.get("properties", {})
    click.secho("arguments", bold=True)
    rows = [
        (name, _kind(part), _need(name, part, required), _text(part)) for name, part in properties.items()
    ]
    print_columns(rows)
    example = {name: _example(part) for name, part in properties.items() if name in required}
    click.echo(f"\nstrands tool call {info.id} '{json.dumps(example, ensure_ascii=False)}'")


def _kind(part: Any) -> str:
    if not isinstance(part, dict):
        return "any"
    if "enum" in part:
        return "|".join(str(option) for option in part["enum"])
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    options = part.get("anyOf") or part.get("oneOf")
    if options:
        return "|".join(_kind(option) for option in options)
    kind = part.get("type", "any")
    return "|".join(kind) if isinstance(kind, list) else str(kind)


def _need(name: str, part: Any, required: list[str]) -> str:
    if name in required:
        return "required"
    default = part.get("default") if isinstance(part, dict) else None
    return f"default {json.dumps(default)}" if default is not None else "optional"


def _text(part: Any) -> str:
    return str(part.get("description", "")) if isinstance(part, dict) else ""


_EXAMPLES = {"string": "…", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def _example(part: Any) -> object:
    if not isinstance(part, dict):
        return "…"
    if part.get("enum"):
        return part["enum"][0]
    kind = part.get("type", "string")
    return _EXAMPLES.get(kind[0] if isinstance(kind, list) else kind, "…")
