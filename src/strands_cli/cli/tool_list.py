"""`strands list-tools`, which is also `strands tool list`."""

from typing import Any

import click

from strands_cli.cli.arguments import json_option
from strands_cli.cli.output import count, issue_document, print_columns, print_issues, print_json, print_note
from strands_cli.toolkit.info import ToolCategory, ToolInfo
from strands_cli.toolkit.requirements import missing_requirements
from strands_cli.tools import get_registry

_UNGROUPED = "other"


@click.command("list-tools")
@click.option(
    "--category",
    type=click.Choice([*(item.value for item in ToolCategory), "other"]),
    help="Only this category.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show every tool's file and what could not be read.")
@json_option
def list_tools(category: str | None, verbose: bool, as_json: bool) -> None:
    """List every tool, its origin and whether it is available. No tool's code is run."""
    registry = get_registry()
    infos = [info for info in registry.list_all() if category in (None, group_of(info))]
    if as_json:
        problems = [issue_document(issue) for issue in registry.problems]
        print_json({"tools": [info_document(info) for info in infos], "problems": problems})
        return
    for group in [item.value for item in ToolCategory] + [_UNGROUPED]:
        _print_group(group, [info for info in infos if group_of(info) == group], verbose)
    problems_found = count(len(registry.problems), "problem")
    if verbose:
        print_issues(registry.problems, err=True)
    elif registry.problems:
        print_note(f"{problems_found} not shown: 'strands list-tools --verbose' shows them.")


def group_of(info: ToolInfo) -> str:
    return info.category.value if info.category else _UNGROUPED


def _print_group(group: str, infos: list[ToolInfo], verbose: bool) -> None:
    if not infos:
        return
    click.secho(group, bold=True)
    print_columns([_row(info, verbose) for info in sorted(infos, key=lambda info: info.id)])


def _row(info: ToolInfo, verbose: bool) -> tuple[str, ...]:
    place = f"{info.file}:{info.line}" if verbose and info.file else info.origin
    return (info.id, info.version, place, " ".join([*remarks(info), first_sentence(info.description)]))


def first_sentence(text: str) -> str:
    return text.strip().split("\n")[0].partition(". ")[0].removesuffix(".")


def remarks(info: ToolInfo) -> list[str]:
    """What a user should know before calling a tool."""
    notes = [
        f"[unavailable: {'; '.join(reasons)}]" for reasons in [missing_requirements(info.requires)] if reasons
    ]
    if info.unread:
        notes.append(f"[unread: {info.unread}]")
    if info.deprecated:
        notes.append(f"[deprecated, use {info.replaced_by}]" if info.replaced_by else "[deprecated]")
    return notes


def info_document(info: ToolInfo) -> dict[str, Any]:
    """All that is known of a tool without loading it."""
    document = {name: getattr(info, name) for name in ToolInfo.__struct_fields__}
    document["category"] = info.category.value if info.category else None
    document["import_path"] = info.import_path
    document["unavailable"] = missing_requirements(info.requires)
    return document
