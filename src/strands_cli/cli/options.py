"""Options and arguments that several commands share, and what they stand for.

What only workflows need is imported where it is used: listing tools and calling one must be quick.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strands_cli.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from strands_cli.loader.spec import Spec
    from strands_cli.runtime.agent_hooks import PendingCall


def complete_tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The ids of tools, for the shell."""
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
        from strands_cli.providers.choice import BUILT_IN

        super().__init__(BUILT_IN)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from strands_cli.providers.choice import PROVIDERS

        return value if value in PROVIDERS else super().convert(value, param, ctx)


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
var_option = click.option(
    "--var",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an input; NAME=@FILE reads it from a file. Can be repeated.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Consent to every tool that asks.")
file_argument = click.argument("file", type=click.Path(path_type=Path))


async def permit_all(tool: object, arguments: dict[str, Any]) -> None:
    """What --yes means for the call of one tool."""


async def grant_all(calls: "Sequence[PendingCall]") -> Sequence[str]:
    """What --yes means for the calls of agents: the ids of those that may be made."""
    return [call.call_id for call in calls]


def read_variables(pairs: Iterable[str]) -> dict[str, Any]:
    """The values of `--var` by their names, as texts: the workflow's inputs say what they are to be."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            hint = "Write --var topic=tea or --var topic=@FILE."
            raise UsageError(f"{pair!r} is not NAME=VALUE.", hint=hint)
        if text.startswith("@"):
            text = file_text(text[1:], where=f"--var {name}: ", hint="Write '@' and the path of a text file.")
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


# --- The workflow file that a command is about --------------------------------------------------------------


def load_workflow(file: Path, pairs: Iterable[str] = ()) -> "Spec":
    """The workflow with the inputs of the command line."""
    from strands_cli.loader import load_spec

    return load_spec(file, read_variables(pairs))
