"""`strands chat`"""

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strands_cli.cli.chat.partner import DEFAULT_PROVIDER, Partner, choose_partner
from strands_cli.cli.loops import run_async
from strands_cli.cli.options import ProviderName, ToolReference, var_option
from strands_cli.cli.output import count
from strands_cli.cli.terminal import can_ask, is_live
from strands_cli.cli.text import wrapped
from strands_cli.errors import Interrupted
from strands_cli.settings import cache_directory

if TYPE_CHECKING:
    from strands_cli.cli.chat.screen import Screen
    from strands_cli.cli.chat.session import ChatSession

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
    type=ProviderName(),
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
    partner = choose_partner(
        file,
        agent=agent,
        tools=tools,
        system=system,
        pairs=pairs,
        provider=provider,
        model=model,
        host=host,
    )
    return run_async(_chat(partner, yes=yes), reads_in_loop=True)


async def _chat(partner: Partner, *, yes: bool) -> int:
    from strands_cli.cli.chat.screen import Screen

    live = bool(sys.stdin and sys.stdin.isatty() and is_live(sys.stdout))
    session = _session(partner, Screen(sys.stdout, sys.stderr, live=live), yes=yes)
    if live:
        from strands_cli.cli.chat.prompt import Prompt

        read = Prompt(cache_directory() / HISTORY).next
    else:
        read = InputLines("> " if can_ask() else "").next
    while (line := await read()) is not None and await session.take(line):
        pass
    return 0 if live else session.exit_code


class InputLines:
    """The messages of a user without a terminal: each line of standard input, to its end."""

    def __init__(self, prompt: str) -> None:
        """`prompt` is shown before each line, on standard error, to someone who types."""
        self._prompt = prompt
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")

    async def next(self) -> str | None:
        """The next message; None at the end, Interrupted after Ctrl-C.

        Nothing else goes on meanwhile, so the loop may wait too.
        """
        if sys.stdin is None:
            return None
        if self._prompt:
            click.echo(self._prompt, nl=False, err=True)
        try:
            return sys.stdin.readline() or None
        except KeyboardInterrupt:  # which a loop does not survive in a task
            raise Interrupted("Interrupted.") from None


def _session(partner: Partner, screen: "Screen", *, yes: bool) -> "ChatSession":
    from strands_cli.cli.chat.session import ChatQuestions, ChatSession
    from strands_cli.cli.questions import consent_for
    from strands_cli.exec.steps import Emitter
    from strands_cli.runtime.conversation import Conversation
    from strands_cli.runtime.resources import RunResources

    resources = RunResources(partner.spec, inputs=partner.inputs, directory=Path())
    resources.load_tools()
    resources.model(partner.agent)  # what is missing is reported now, not after the first question
    questions = ChatQuestions(screen, lambda: resources.cancel) if can_ask() else None
    conversation = Conversation(
        resources,
        partner.agent,
        partner.prompt,
        emit=Emitter((screen,), resources.redactor),
        ask_consent=consent_for(resources.settings, yes=yes, questions=questions),
        ask_person=questions.ask if questions else None,
    )
    if screen.is_live:
        tools = count(len(conversation.tools), "tool")
        banner = f"{conversation.model}, {tools}. /help lists the commands, Ctrl-D leaves."
        screen.note("\n".join(wrapped(banner, screen.width - 1)))
    return ChatSession(conversation, screen, resources.redactor)
