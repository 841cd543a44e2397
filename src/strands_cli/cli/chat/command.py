"""`strands chat`"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strands_cli.cli.chat.choosing import DEFAULT_PROVIDER, Partner, Wanted, choose
from strands_cli.cli.loops import run_async
from strands_cli.cli.options import ToolReference, var_option
from strands_cli.cli.output import count
from strands_cli.cli.terminal import is_live
from strands_cli.cli.text import wrapped
from strands_cli.providers.choice import PROVIDERS
from strands_cli.settings import cache_directory

if TYPE_CHECKING:
    from strands_cli.cli.chat.lines import Lines
    from strands_cli.cli.chat.rendering import Screen
    from strands_cli.cli.chat.talking import Talk
    from strands_cli.cli.chat.terminal import Prompt

HISTORY = "chat-history"
"""The file, in the user's cache directory, that keeps what was typed."""


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--agent", metavar="NAME", help="Which agent of FILE, where it has several.")
@click.option(
    "--tools",
    "tools",
    multiple=True,
    type=ToolReference(),
    metavar="TOOL,…",
    help="Tools that the model gets, by any of their names. May be given many times.",
)
@click.option(
    "--provider",
    type=click.Choice(sorted(PROVIDERS)),
    help=f"Who has the model: FILE's provider, else {DEFAULT_PROVIDER}.",
)
@click.option("--model", help="Another model than FILE's, or than the provider's default.")
@click.option("--host", help="Where the provider listens.")
@click.option("--system", metavar="TEXT", help="The system prompt, in place of FILE's.")
@var_option
@click.option("--yes", "-y", is_flag=True, help="Give consent to whatever asks for it.")
def chat(
    *,
    file: Path | None,
    agent: str | None,
    tools: tuple[str, ...],
    provider: str | None,
    model: str | None,
    host: str | None,
    system: str | None,
    pairs: tuple[str, ...],
    yes: bool,
) -> int:
    """Talk to a model that has your tools, or to an agent of the workflow FILE.

    On a terminal, Ctrl-C stops an answer, Ctrl-D leaves, and /help lists the commands. Elsewhere each line
    of standard input is a message, and standard output has the answers and nothing else.
    """
    wanted = Wanted(
        file=file,
        agent=agent,
        tools=tools,
        system=system,
        pairs=pairs,
        provider=provider,
        model=model,
        host=host,
    )
    return run_async(_chat(choose(wanted), yes=yes))


async def _chat(partner: Partner, *, yes: bool) -> int:
    from strands_cli.cli.chat.rendering import Screen

    live = bool(sys.stdin and sys.stdin.isatty() and is_live(sys.stdout))
    screen = Screen(sys.stdout, sys.stderr, live=live)
    talk = _talk(partner, screen, yes=yes)
    source = _source(live=live)
    while (said := await source.next()) is not None and await talk.take(said):
        pass
    return 0 if live else talk.exit_code


def _source(*, live: bool) -> "Prompt | Lines":
    """Where the user's words come from."""
    if live:
        from strands_cli.cli.chat.terminal import Prompt

        return Prompt(cache_directory() / HISTORY)
    from strands_cli.cli.asking import can_ask
    from strands_cli.cli.chat.lines import Lines

    return Lines("> " if can_ask() else "")


def _talk(partner: Partner, screen: "Screen", *, yes: bool) -> "Talk":
    from strands_cli.cli.asking import can_ask, grant_all
    from strands_cli.cli.chat.asking import Asking, confirm
    from strands_cli.cli.chat.slash import Commands
    from strands_cli.cli.chat.talking import Talk
    from strands_cli.exec.emitting import Emitter
    from strands_cli.runtime.conversation import Conversation
    from strands_cli.runtime.strands_adapter import Surroundings

    around = Surroundings(partner.spec, inputs=partner.inputs, directory=Path())
    around.model(partner.agent)  # what is missing is said now, and not after the first question
    asking = Asking(screen, lambda: around.cancel) if can_ask() else None
    ask_consent = asking.consent if asking else None
    conversation = Conversation(
        around,
        partner.agent,
        partner.prompt,
        emit=Emitter((screen,), around.redactor),
        ask_consent=grant_all if yes or around.settings.bypass_consent else ask_consent,
        ask_person=asking.ask if asking else None,
    )
    if screen.is_live:
        has = count(len(conversation.tools), "tool")
        banner = f"{conversation.model}, {has}. /help lists the commands, Ctrl-D leaves."
        screen.note("\n".join(wrapped(banner, screen.width - 1)))
    commands = Commands(conversation, screen, around.redactor, confirm if asking else None)
    return Talk(conversation, commands, screen)
