"""The file that a command is about, and the inputs that are given with it."""

from collections.abc import Iterable
from pathlib import Path

import click

from strands_cli.cli.arguments import Command
from strands_cli.cli.output import count, print_warning
from strands_cli.cli.variables import read_variables
from strands_cli.errors import Issue
from strands_cli.loader import load_spec
from strands_cli.types import Spec


def file_argument(command: Command) -> Command:
    return click.argument("file", type=click.Path(path_type=Path))(command)


def load_given(file: Path, pairs: Iterable[str]) -> Spec:
    """The workflow with the inputs of the command line."""
    return load_spec(file, read_variables(pairs))


def problems_of(spec: Spec) -> tuple[Issue, ...]:
    """What would keep the workflow from running here."""
    from strands_cli.capability import check_capability

    return check_capability(spec).errors


def note_problems(spec: Spec) -> None:
    """Says so where a workflow is shown that could not run: what is shown may not be what is meant."""
    found = problems_of(spec)
    if found:
        print_warning(
            f"{count(len(found), 'problem')} in this workflow: 'strands validate {spec.file}' says more."
        )
