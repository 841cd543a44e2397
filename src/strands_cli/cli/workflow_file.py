"""The workflow file that a command is about, with the inputs of the command line."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click

from strands_cli.cli.options import Command, read_variables
from strands_cli.cli.output import count, print_warning
from strands_cli.errors import Issue
from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import PROVIDERS, ModelChoice, model_of, with_default
from strands_cli.settings import marked_project


def file_argument(command: Command) -> Command:
    return click.argument("file", type=click.Path(path_type=Path))(command)


def load_workflow(file: Path, pairs: Iterable[str] = ()) -> Spec:
    """The workflow with the inputs of the command line, in its own project."""
    use_project_of(file)
    return load_spec(file, read_variables(pairs))


def use_project_of(file: Path) -> None:
    """A workflow's tools are those of its own project, even if it is named from outside of it."""
    elsewhere: Path | None = None
    with suppress(OSError, RuntimeError, ValueError):  # why the file cannot be reached is the loader's to say
        project = marked_project(file.resolve().parent)
        elsewhere = project if project and not Path.cwd().is_relative_to(project) else None
    if elsewhere or "strands_cli.tools.registry" in sys.modules:  # else nothing was looked for before
        from strands_cli.tools.registry import ToolRegistry

        ToolRegistry.use_project(elsewhere)


def resolved_model(spec: Spec, agent: str) -> ModelChoice | None:
    """The model that an agent asks, by its name, even if the file leaves it to the provider."""
    choice = model_of(spec, agent)
    return with_default(choice) if choice is not None and choice.provider in PROVIDERS else choice


def problems_of(spec: Spec) -> tuple[Issue, ...]:
    """What would keep the workflow from running here."""
    from strands_cli.capability import check_capability

    return check_capability(spec).errors


def note_problems(spec: Spec) -> None:
    """Warns that a workflow could not run: what is shown may not be what is meant."""
    found = problems_of(spec)
    if found:
        print_warning(
            f"{count(len(found), 'problem')} in this workflow: 'strands validate {spec.file}' says more."
        )
