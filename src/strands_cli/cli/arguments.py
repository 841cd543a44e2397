"""Arguments that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])


class ToolReference(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """A tool, by any of its names; the shell completes ids."""

    name = "tool"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,
        incomplete: str,
    ) -> list[CompletionItem]:
        from strands_cli.tools import get_registry

        return [
            CompletionItem(info.id, help=info.description)
            for info in get_registry().list_all()
            if info.id.startswith(incomplete)
        ]


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)
