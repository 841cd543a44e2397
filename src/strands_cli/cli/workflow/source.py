"""The file that a command is about, and the inputs that are given with it."""

import json
from pathlib import Path

import click

from strands_cli.cli.arguments import Command
from strands_cli.cli.output import count, print_warning
from strands_cli.errors import Issue, UsageError
from strands_cli.loader import load_spec
from strands_cli.types import Spec
from strands_cli.types.spec import Input


def file_argument(command: Command) -> Command:
    return click.argument("file", type=click.Path(path_type=Path))(command)


def var_option(command: Command) -> Command:
    return click.option(
        "--var", "given", metavar="KEY=VALUE", multiple=True, help="An input; KEY=@FILE reads it from a file."
    )(command)


def load_given(file: Path, given: tuple[str, ...]) -> Spec:
    """The workflow with the inputs of the command line, each as its declared type asks for it."""
    spec = load_spec(file)
    if not given:
        return spec
    declared = spec.inputs.declared
    texts = dict(_pair(item) for item in given)
    return load_spec(file, {name: _typed(text, declared.get(name, Input())) for name, text in texts.items()})


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


def _pair(item: str) -> tuple[str, str]:
    key, separator, text = item.partition("=")
    if not separator or not key:
        raise UsageError(f"--var {item!r} is not KEY=VALUE.", hint="Write --var topic=owls.")
    return key, _contents(text[1:]) if text.startswith("@") else text


def _contents(name: str) -> str:
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"--var: {name} cannot be read: {reason}", hint="Give '@' and a text file."
        ) from None


def _typed(text: str, declared: Input) -> object:
    """What does not parse stays text, for the loader to refuse with the input's name."""
    if declared.type in (None, "string"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
