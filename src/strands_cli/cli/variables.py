"""`--var NAME=VALUE`: the inputs of a workflow on the command line."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from strands_cli.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])


def var_option(command: Command) -> Command:
    return click.option(
        "--var",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Give an input its value; NAME=@FILE takes it from a file. May be given many times.",
    )(command)


def read_variables(pairs: Iterable[str]) -> dict[str, Any]:
    """The values by their names, as texts: the workflow's inputs say what they are to be."""
    return dict(_pair(pair) for pair in pairs)


def _pair(pair: str) -> tuple[str, str]:
    name, separator, text = pair.partition("=")
    if not separator or not name:
        raise UsageError(f"{pair!r} is not NAME=VALUE.", hint="Write --var topic=tea or --var topic=@FILE.")
    return name, _file_text(name, text[1:]) if text.startswith("@") else text


def _file_text(name: str, file: str) -> str:
    try:
        return Path(file).read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"--var {name}: {file} cannot be read: {error.strerror}.", hint="Give '@' and a file."
        ) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"--var {name}: {file} is not UTF-8 text.", hint="Give '@' and a text file."
        ) from None
