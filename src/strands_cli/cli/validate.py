"""`strands validate`"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli.cli.arguments import json_option
from strands_cli.cli.output import count, issue_document, print_issues, print_json, print_note
from strands_cli.cli.variables import read_variables, var_option
from strands_cli.errors import Issue, SpecError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from strands_cli.types import Spec

_SUFFIXES = (".yaml", ".yml", ".json")
_SKIPPED = frozenset({"node_modules", "__pycache__"})
_YAML_KEY = re.compile(rb"""^(?:["']?)pattern(?:["']?)[ \t]*:""", re.MULTILINE)
_JSON_KEY = re.compile(rb'"(pattern|agents)"\s*:')


class Checked(msgspec.Struct, frozen=True):
    """One file, and what is wrong with it."""

    file: Path
    invalid: tuple[Issue, ...]
    """Why it is no workflow."""
    found: tuple[Issue, ...]
    """What keeps it from running, and warnings."""

    @property
    def issues(self) -> list[Issue]:
        return sorted((*self.invalid, *self.found), key=lambda issue: (issue.file, issue.line, issue.column))

    def exit_code(self, strict: bool) -> int:
        if self.invalid:
            return SpecError.exit_code
        fails = any(strict or issue.severity == "error" for issue in self.found)
        return UnsupportedError.exit_code if fails else 0


@click.command()
@click.argument("paths", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@var_option
@json_option
def validate(paths: tuple[Path, ...], strict: bool, pairs: tuple[str, ...], as_json: bool) -> int:
    """Find every mistake in workflow files, with the place, the reason and the remedy.

    A directory stands for every workflow below it. Nothing is run and no model is asked. Exits with 3 where a
    file is not a workflow, and with 18 where one cannot run here.
    """
    variables = read_variables(pairs)
    checked = [_check(file, variables) for path in paths for file in workflow_files(path)]
    codes = [item.exit_code(strict) for item in checked]
    if as_json:
        print_json(_document(checked, strict))
    else:
        print_issues([issue for item in checked for issue in item.issues], err=False)
        print_note(_summary(checked, sum(code == 0 for code in codes)))
    return SpecError.exit_code if SpecError.exit_code in codes else max(codes)


def workflow_files(path: Path) -> list[Path]:
    """The file itself, or every workflow below a directory."""
    if not path.exists():
        raise UsageError(f"There is nothing at {path}.", hint="Give workflow files, or directories of them.")
    if not path.is_dir():
        return [path]
    files = sorted(file for file in _walk(path) if _looks_like_a_workflow(file))
    if not files:
        raise UsageError(f"There is no workflow in {path}.", hint="A workflow has the key 'pattern'.")
    return files


def _walk(directory: Path) -> Iterator[Path]:
    for place, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if name[0] != "." and name not in _SKIPPED]
        yield from (Path(place, name) for name in names if name.endswith(_SUFFIXES))


def _looks_like_a_workflow(file: Path) -> bool:
    """Whether a file is meant as one: it has the key `pattern` at its top, as far as it can be read."""
    try:
        content = file.read_bytes()
    except OSError:
        return False
    if content.lstrip()[:1] != b"{":
        return _YAML_KEY.search(content) is not None
    try:
        return "pattern" in msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        # Broken JSON is told of where it was to be a workflow, and not where it was to be anything else.
        return {b"pattern", b"agents"} <= {match[1] for match in _JSON_KEY.finditer(content)}


def _check(file: Path, variables: dict[str, Any]) -> Checked:
    from strands_cli.capability import check_capability
    from strands_cli.capability.models import missing_for_models
    from strands_cli.loader import examine

    spec, issues = examine(file, variables)
    if spec is None:
        return Checked(file, tuple(issues), ())
    # What a broken file has as its provider may not be what it means.
    lacking = () if issues else (*missing_for_models(spec), *_missing_for_telemetry(spec))
    return Checked(file, tuple(issues), (*check_capability(spec, issues).issues, *lacking))


def _missing_for_telemetry(spec: "Spec") -> Iterator[Issue]:
    if spec.telemetry.otlp_endpoint is not None:
        from strands_cli.telemetry.exporting import missing_exporter

        for reason, remedy in missing_exporter(spec.telemetry):
            yield spec.issue("/telemetry/otlp_endpoint", reason, remedy, "warning")


def _document(checked: list[Checked], strict: bool) -> dict[str, Any]:
    return {
        "valid": all(item.exit_code(strict) == 0 for item in checked),
        "files": [
            {
                "file": str(item.file),
                "valid": not item.invalid,
                "supported": item.exit_code(strict=False) == 0,
                "issues": [issue_document(issue) for issue in item.issues],
            }
            for item in checked
        ],
    }


def _summary(checked: list[Checked], good: int) -> str:
    issues = [issue for item in checked for issue in item.issues]
    errors = sum(issue.severity == "error" for issue in issues)
    told = [count(errors, "error"), count(len(issues) - errors, "warning")]
    return f"{count(len(checked), 'file')} checked, {good} good: {', '.join(told)}."
