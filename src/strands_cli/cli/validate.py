"""`strands validate`"""

import os
import re
from codecs import BOM_UTF8
from collections.abc import Container
from pathlib import Path
from typing import Any

import click
import msgspec

from strands_cli.cli.options import json_option, log_option, read_variables, var_option
from strands_cli.cli.output import (
    count_text,
    issue_document,
    print_columns,
    print_issues,
    print_json,
    print_note,
)
from strands_cli.documents.files import Outside, read_regular_file
from strands_cli.documents.reader import MAX_BYTES
from strands_cli.errors import Issue, SpecError, UnsupportedError, UsageError

_SUFFIXES = (".yaml", ".yml", ".json")
_SCHEMA_SUFFIX = ".schema.json"
_SKIPPED = frozenset({"node_modules", "__pycache__"})
_YAML_KEY = re.compile(rb"""^["']?(pattern|agents|runtime|<<)["']?[ \t]*:""", re.MULTILINE)
_BROKEN_KEY = re.compile(
    rb"""^\s*["']?(?:(?:pattern|agents|runtime)["']?[ \t]*:|version["']?[ \t]*:[ \t]*0\b)""", re.MULTILINE
)
_FLOW_KEY = re.compile(rb"[{,]\s*(?:pattern|agents|runtime)\s*:")
_JSON_KEY = re.compile(rb'"(pattern|agents|runtime)"\s*:')


class Checked(msgspec.Struct, frozen=True):
    """One file, and what is wrong with it."""

    file: Path
    invalid: tuple[Issue, ...]
    """Why it is not a workflow."""
    found: tuple[Issue, ...]
    """What keeps it from running, and warnings."""
    scope: str = "the syntax and the keys"
    """What was checked."""

    @property
    def issues(self) -> list[Issue]:
        return sorted((*self.invalid, *self.found), key=lambda issue: (issue.file, issue.line, issue.column))

    def exit_code(self, strict: bool) -> int:
        if self.invalid:
            return SpecError.exit_code
        fails = any(strict or issue.severity == "error" for issue in self.found)
        return UnsupportedError.exit_code if fails else 0

    def verdict(self, strict: bool) -> str:
        return {SpecError.exit_code: "invalid", 0: "good"}.get(self.exit_code(strict), "cannot run")


@click.command()
@click.argument("paths", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Also fail on warnings.")
@var_option
@click.option("--verbose", "-v", is_flag=True, help="Also list every file, with what was checked in it.")
@json_option
@log_option
def validate(
    paths: tuple[Path, ...], strict: bool, pairs: tuple[str, ...], verbose: bool, as_json: bool
) -> int:
    """Find errors in workflow files and show how to fix them.

    In a directory, every workflow is checked. Nothing is run, and no model is asked. The exit code is 3 if
    a file is not a valid workflow, and 18 if a valid one cannot run here.
    """
    variables = read_variables(pairs)
    listings = [workflow_files(path) for path in paths]
    checked = [_check_workflow(file, variables) for files, _ in listings for file in files]
    skipped = sum(number for _, number in listings)
    codes = [item.exit_code(strict) for item in checked]
    if as_json:
        files = [
            {
                "file": str(item.file),
                "valid": not item.invalid,
                "supported": item.exit_code(strict=False) == 0,
                **({"checked": item.scope} if verbose else {}),
                "issues": [issue_document(issue) for issue in item.issues],
            }
            for item in checked
        ]
        print_json({"valid": not any(codes), "skipped": skipped, "files": files})
    else:
        issues = [issue for item in checked for issue in item.issues]
        print_issues(issues, err=False)
        if verbose:
            rows = [(str(item.file), item.verdict(strict), f"checked {item.scope}") for item in checked]
            print_columns(rows, indent="")
        errors = sum(issue.severity == "error" for issue in issues)
        counts = f"{count_text(errors, 'error')}, {count_text(len(issues) - errors, 'warning')}"
        others = f" {count_text(skipped, 'other file')} skipped: no workflow." if skipped else ""
        print_note(f"{count_text(len(checked), 'file')} checked, {codes.count(0)} good: {counts}.{others}")
    return SpecError.exit_code if SpecError.exit_code in codes else max(codes)


def workflow_files(path: Path) -> tuple[list[Path], int]:
    """The file itself, or every workflow below a directory; and how many other files were skipped."""
    if not path.is_dir():
        return [path], 0
    candidates: list[Path] = []
    for place, directories, names in os.walk(path):
        directories[:] = [name for name in directories if name[0] != "." and name not in _SKIPPED]
        candidates += (
            Path(place, name)
            for name in names
            if name.endswith(_SUFFIXES) and not name.endswith(_SCHEMA_SUFFIX)
        )
    candidates.sort()
    root = path.resolve()
    files = [file for file in candidates if looks_like_a_workflow(file, root)]
    if not files:
        raise UsageError(f"There is no workflow in {path}.", hint="A workflow has the key 'pattern'.")
    return files, len(candidates) - len(files)


def looks_like_a_workflow(file: Path, root: Path) -> bool:
    """Whether a file is meant as one: by the keys at its top, and by any of them if it cannot be read.

    A directory may hold many large files that are something else, so YAML is parsed only where its lines
    leave the question open.
    """
    try:
        content = read_regular_file(file, MAX_BYTES, [root]).removeprefix(BOM_UTF8)
    except Outside:
        return False
    except PermissionError:
        return True  # what cannot be looked into is reported, not passed over
    except (OSError, ValueError):
        return False
    return _is_json_workflow(content) if content.lstrip()[:1] == b"{" else _is_yaml_workflow(content)


def _is_json_workflow(content: bytes) -> bool:
    """Of a text that begins with a brace, and so may be YAML or a template too."""
    try:
        return _are_workflow_keys(msgspec.json.decode(content, type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, RecursionError):
        pass
    if _FLOW_KEY.search(content) and (document := _parsed_yaml(content)) is not None:
        return _are_workflow_keys(document)
    # Broken JSON is reported if it looks like a workflow, and not if it may be anything else.
    return len(set(_JSON_KEY.findall(content))) > 1


def _is_yaml_workflow(content: bytes) -> bool:
    keys = {key.decode() for key in _YAML_KEY.findall(content)}
    if _are_workflow_keys(keys):
        return True
    may_be_broken = _BROKEN_KEY.search(content) is not None
    if not may_be_broken and "<<" not in keys:
        return False
    document = _parsed_yaml(content)
    return may_be_broken if document is None else _are_workflow_keys(document)


def _are_workflow_keys(keys: Container[str]) -> bool:
    return "pattern" in keys or ("agents" in keys and "runtime" in keys)


def _parsed_yaml(content: bytes) -> dict[str, Any] | None:
    """The mapping that a text is, an empty one for any other value; None where it is not YAML."""
    from strands_cli.documents.reader import read_document

    document = read_document(content.decode("utf-8", "replace"), "")
    if document.value is None and document.issues:
        return None
    return document.value if isinstance(document.value, dict) else {}


def _check_workflow(file: Path, variables: dict[str, Any]) -> Checked:
    from strands_cli.capability import check_capability
    from strands_cli.capability.agent_checks import missing_for_models
    from strands_cli.loader import examine_workflow
    from strands_cli.tools.registry import ToolRegistry
    from strands_cli.tools.toolset import ToolSet

    spec, issues = examine_workflow(file, variables)
    if spec is None:
        return Checked(file, tuple(issues), ())
    tools = ToolSet(spec, ToolRegistry.to_look_at(file))
    found = [*tools.registry.settings.issues, *check_capability(spec, issues, tools=tools).issues]
    if not issues:  # what a broken file has as its provider may not be what it means
        found += [issue for one in spec.family for issue in missing_for_models(one)]
        if spec.telemetry.otlp_endpoint is not None:
            from strands_cli.telemetry import missing_exporter

            at = "/telemetry/otlp_endpoint"
            missing = missing_exporter(spec.telemetry)
            found += [spec.issue(at, reason, remedy, "warning") for reason, remedy in missing]
    counts = [
        (sum(1 for place in spec.pattern.places(spec) if place.step), "step"),
        (len(spec.agents), "agent"),
        (len(tools.declared), "tool"),
        (len(spec.family) - 1, "other workflow"),
    ]
    scope = ", ".join(["the syntax", "the keys", *(count_text(*count) for count in counts if count[0])])
    return Checked(file, tuple(issues), tuple(found), scope)
