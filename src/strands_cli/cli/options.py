"""Options and arguments that several commands share, and what they stand for.

What only workflows need is imported where it is used: listing tools and calling one must be quick.
"""

import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strands_cli.cli.output import configure_logging, print_warning
from strands_cli.errors import StrandsError, UsageError
from strands_cli.settings import TRUST_VARIABLE, Settings, load_settings
from strands_cli.types.asks import IGNORED

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from strands_cli.loader.spec import Spec
    from strands_cli.runtime.agent_hooks import AskConsent, PendingCall
    from strands_cli.tools.registry import ToolRegistry


def complete_tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The ids of tools, for the shell."""
    from strands_cli.tools.registry import ToolRegistry

    try:
        infos = ToolRegistry.to_look_at().list_all()
    except StrandsError:  # completion in a shell cannot show errors
        return []
    return completed_words(((info.id, info.description) for info in infos), incomplete)


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The ids of runs, for the shell, the newest first."""
    from strands_cli.exec.history import list_runs
    from strands_cli.exec.stores import open_store

    try:
        store = open_store(load_settings())
        found = list_runs(store.runs())
        store.close()
    except StrandsError:  # completion in a shell cannot show errors
        return []
    return completed_words(((run.id, f"{run.name}, {run.status}") for run in found), incomplete)


def completed_words(found: Iterable[tuple[str, str]], incomplete: str) -> "list[CompletionItem]":
    """Names with descriptions, as the shell may get them: the user runs what it puts into the command line.

    So a name that a shell would not take as one word is left out, and descriptions are harmless lines.
    """
    from click.shell_completion import CompletionItem

    from strands_cli.cli.terminal import cut_text, visible_text

    return [
        CompletionItem(name, help=cut_text(visible_text(" ".join(text[:1000].split())), 200))
        for name, text in found
        if name.startswith(incomplete) and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name)
    ]


OWN_TOOLS, ALL_TOOLS, NO_TOOLS = "project", "all", "none"
"""Words for groups of tools."""


def tool_group_ids(name: str, registry: "ToolRegistry") -> list[str]:
    """The ids of the tools that a family, a category, a pattern or one of our words stands for."""
    from fnmatch import fnmatchcase

    from strands_cli.tools.sources.modules import Project
    from strands_cli.tools.sources.plugins import Plugins

    return [
        info.id
        for info in {info.id: info for info in registry.list_all()}.values()
        if (name == OWN_TOOLS and info.source in (Project.name, Plugins.name))
        or name in (ALL_TOOLS, info.family, info.category)
        or fnmatchcase(info.id, name)
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


def _trust_this_run(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Whatever reads settings or runs a workflow looks into the environment for what the user trusts."""
    if value:
        os.environ[TRUST_VARIABLE] = "1"


trust_option = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_trust_this_run,
    help="Trust everything the project asks for, for this command only.",
)


def _debug_this_run(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """The same as `strands --debug`."""
    if value:
        ctx.find_root().params["debug"] = True
        configure_logging("debug")


_DEBUG: dict[str, Any] = {"is_flag": True, "expose_value": False, "is_eager": True}
debug_option = click.option(
    "--debug",
    **_DEBUG,
    callback=_debug_this_run,
    help="Print every prompt, message, tool call and result to standard error during the run.",
)
log_option = click.option("--debug", **_DEBUG, callback=_debug_this_run, help="The same as strands --debug.")
yes_option = click.option(
    "--yes", "-y", "--bypass-tool-consent", "yes", is_flag=True, help="Consent to every tool that asks."
)
allow_write_option = click.option(
    "--allow-write",
    "allowed",
    multiple=True,
    metavar="PATH",
    callback=lambda _ctx, _param, paths: tuple(map(_protected_path, paths)),
    help="Allow writing to a protected PATH, such as .github. Can be repeated.",
)
file_argument = click.argument("file", type=click.Path(path_type=Path))


def _protected_path(text: str) -> Path:
    """The path of --allow-write; UsageError if it may be written anyway."""
    from strands_cli.documents.files import protected_part

    try:
        real = Path(text).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"--allow-write {text}: {error}", hint="Name a file or a directory.") from None
    if not any(protected_part(real, above) for above in real.parents):
        raise UsageError(
            f"{text} is not protected.",
            hint="Tools can write there. To allow a protected file in it, name that file.",
        )
    return real


def warn_of_untrusted(settings: Settings) -> None:
    """One line about settings that have no effect, since the user has not trusted them."""
    if settings.refused:
        first, more = settings.refused[0], len(settings.refused) - 1
        also = f" (and {more} more)" if more else ""
        effect = "so it is ignored" if first.kind in IGNORED else "which has no effect"
        until = " until you trust it" if first.kind != "unread" else ""
        print_warning(f"{first.place} {first.text}, {effect}{until}{also}: strands trust")


async def permit_all(tool: object, arguments: dict[str, Any]) -> None:
    """What --yes means for the call of one tool."""


def grant_all_but_protected(ask: "AskConsent | None") -> "AskConsent":
    """What --yes means for the calls of agents: only those that write protected paths are asked about."""

    async def grant(calls: "Sequence[PendingCall]") -> Collection[str]:
        protected = [call for call in calls if call.protected]
        granted = await ask(protected) if ask and protected else ()
        return [*granted, *(call.call_id for call in calls if not call.protected)]

    return grant


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
