"""Options and arguments that several commands share."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from strands_cli.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])


class ToolReference(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """A tool, by any of its names; the shell completes ids."""

    name = "tool"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        from strands_cli.tools import get_registry

        return [
            CompletionItem(info.id, help=info.description)
            for info in get_registry().list_all()
            if info.id.startswith(incomplete)
        ]


class ProviderName(click.Choice):  # type: ignore[type-arg]  # generic in newer releases only
    """One of our providers, which help and the shell name, or one of an installed package."""

    def __init__(self) -> None:
        from strands_cli.providers.choice import PROVIDERS

        super().__init__(sorted(PROVIDERS))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from strands_cli.providers.choice import PROVIDERS

        return value if value in PROVIDERS else super().convert(value, param, ctx)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def var_option(command: Command) -> Command:
    return click.option(
        "--var",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Give an input its value; NAME=@FILE takes it from a file. May be given many times.",
    )(command)


def read_variables(pairs: Iterable[str]) -> dict[str, Any]:
    """The values of `--var` by their names, as texts: the workflow's inputs say what they are to be."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise UsageError(
                f"{pair!r} is not NAME=VALUE.", hint="Write --var topic=tea or --var topic=@FILE."
            )
        if text.startswith("@"):
            text = file_text(text[1:], where=f"--var {name}: ", hint="Give '@' and a text file.")
        values[name] = text
    return values


def file_text(file: str, *, where: str = "", hint: str) -> str:
    """What is in a file that the command line names; UsageError if it cannot be read."""
    try:
        return Path(file).read_text("utf-8")
    except OSError as error:
        raise UsageError(f"{where}{file} cannot be read: {error.strerror}.", hint=hint) from None
    except UnicodeDecodeError:
        raise UsageError(f"{where}{file} is not UTF-8 text.", hint=hint) from None
