"""`strands tool check`"""

from pathlib import Path

import click

from strands_cli.cli.arguments import json_option
from strands_cli.cli.output import count, issue_document, print_issues, print_json, print_note
from strands_cli.errors import Issue, SpecError, ToolError, UsageError
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools import get_registry


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--load", is_flag=True, help="Import the tools too, and make each of them.")
@json_option
def check(path: Path | None, load: bool, as_json: bool) -> int:
    """Find everything that registration would refuse, with file and line.

    PATH is a tool's file or a directory of tools; without it, everything that this project sees is checked.
    """
    from strands_cli.tools._discovery.checking import schema_issues
    from strands_cli.tools._discovery.sources import read_path

    if path is None:
        registry = get_registry()
        infos, issues = registry.list_all(), registry.problems
    elif not path.exists():
        raise UsageError(f"There is nothing at {path}.", hint="Give a tool's file or a directory of tools.")
    else:
        reading = read_path(path)
        infos, issues = list(reading.infos), list(reading.issues)
    issues += [issue for info in infos for issue in schema_issues(info)]
    if load:
        issues += [issue for info in infos for issue in _load_issues(info)]
    return _report(infos, issues, as_json)


def _load_issues(info: ToolInfo) -> list[Issue]:
    try:
        get_registry().load(info)
    except ToolError as error:
        return [
            error.issue or Issue(reason=error.message, remediation=error.hint, file=info.file, line=info.line)
        ]
    return []


def _report(infos: list[ToolInfo], issues: list[Issue], as_json: bool) -> int:
    errors = [issue for issue in issues if issue.severity == "error"]
    if as_json:
        print_json(
            {"tools": [info.reference for info in infos], "issues": [issue_document(i) for i in issues]}
        )
    else:
        print_issues(issues, err=False)
        print_note(f"{count(len(infos), 'tool')} checked, {count(len(issues), 'issue')}.")
    return SpecError.exit_code if errors else 0
