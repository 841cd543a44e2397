"""`strands tool call`"""

import json
import sys
from math import isnan
from pathlib import Path
from typing import Any

import click

from strands_cli.cli.arguments import ToolReference, json_option
from strands_cli.cli.consent import permit_for
from strands_cli.cli.loops import run_async
from strands_cli.cli.output import print_failure, print_json, print_text, print_warning, tool_output_aside
from strands_cli.errors import UsageError
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.results import ToolResult, code_row, error_of
from strands_cli.toolkit.workspace import Workspace, current_directory
from strands_cli.tools import get_registry


@click.command()
@click.argument("reference", metavar="TOOL", type=ToolReference())
@click.argument("given", metavar="[JSON | - | @FILE | KEY=VALUE…]", nargs=-1)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that replace the tool's limit."
)
@click.option("--yes", "-y", is_flag=True, help="Give consent to whatever asks for it.")
@json_option
def call(reference: str, given: tuple[str, ...], timeout: float | None, yes: bool, as_json: bool) -> int:
    """Call a tool with validated input.

    The input is one JSON object, '-' to read it from standard input, '@FILE' to read it from a file, or
    KEY=VALUE pairs, typed by the tool's schema. KEY=@FILE takes a value from a file; KEY=@@… is a text that
    begins with '@'.
    """
    if timeout is not None and isnan(timeout):
        raise UsageError("--timeout is not a number.", hint="Give seconds, such as --timeout 5.")
    registry = get_registry()
    info = registry.require(reference)
    if info.deprecated:
        instead = f"; use {info.replaced_by}" if info.replaced_by else ""
        print_warning(f"{info.id} {info.version} is deprecated{instead}.")
    with tool_output_aside():
        tool = registry.load(info)
    context = CallContext(
        permit=permit_for(registry.settings, yes=yes),
        timeout=timeout,
        max_output=0,
        settings=registry.settings,
        workspace=Workspace(registry.settings.workspace, current_directory()),
        resolve=registry.load,
    )
    sent = _input(given, tool.input_schema)
    with tool_output_aside():
        result = run_async(call_tool(tool, {"toolUseId": "call-1", "name": tool.id, "input": sent}, context))
    return _print_result(result, as_json)


def _input(given: tuple[str, ...], schema: dict[str, Any]) -> object:
    """What the command line gives as input: pairs become an object, all else the contract judges."""
    if not given:
        return {}
    if len(given) == 1 and (given[0] == "-" or given[0][:1] in ("{", "[", "@") or "=" not in given[0]):
        return _text(given[0])
    return dict(_pair(item, schema) for item in given)


def _text(argument: str) -> str:
    if argument == "-":
        if sys.stdin is None:
            raise UsageError("Standard input is closed.", hint="Pass the JSON as an argument, or @FILE.")
        return sys.stdin.read()
    return _file_text(argument[1:], "Give '@' and a JSON file.") if argument.startswith("@") else argument


def _file_text(file: str, hint: str) -> str:
    try:
        return Path(file).read_text("utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.", hint=hint) from None


def _pair(item: str, schema: dict[str, Any]) -> tuple[str, object]:
    key, separator, text = item.partition("=")
    if not separator or not key:
        raise UsageError(
            f"{item!r} is not KEY=VALUE.", hint="Write pairs such as message=hi, or one JSON object."
        )
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        text = _file_text(text[1:], f"{key}=@FILE reads a file; {key}=@@… is a text that begins with '@'.")
    return key, _typed(text, schema.get("properties", {}).get(key))


def _typed(text: str, part: Any) -> object:
    """A value as its property asks for it; what does not parse stays text, for validation to refuse."""
    kinds = part.get("type") if isinstance(part, dict) else None
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print_result(result: ToolResult, as_json: bool) -> int:
    error = error_of(result)
    if as_json:
        print_json({"toolUseId": result["toolUseId"], "status": "error", "error": error} if error else result)
    elif error:
        print_failure(f"{error['message']} [{error['code']}]", error.get("hint", ""))
    else:
        for block in result["content"]:
            print_text(_block_text(block))
    return code_row(error["code"]).exit_code if error else 0


def _block_text(block: dict[str, Any]) -> str:
    if "text" in block:
        return str(block["text"])
    if "json" in block:
        return json.dumps(block["json"], indent=2, ensure_ascii=False)
    kind = next(iter(block), "block")
    return f"[{kind}: shown with --json]"
