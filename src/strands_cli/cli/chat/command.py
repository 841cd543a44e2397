"""`strands chat`"""

import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import (
    ProviderName,
    complete_tools,
    grant_all,
    load_workflow,
    var_option,
    yes_option,
)
from strands_cli.cli.output import can_ask, count_text, print_warning, redact_logs, tool_output_aside
from strands_cli.cli.terminal import is_live, wrapped_text
from strands_cli.errors import Interrupted, ToolError, UsageError, did_you_mean
from strands_cli.loader.spec import Spec
from strands_cli.patterns.chain import Chain
from strands_cli.patterns.pattern import Step
from strands_cli.providers.choice import require_models, with_model_options
from strands_cli.settings import cache_directory
from strands_cli.templates import TemplateError, render
from strands_cli.toolkit.info import missing_requirements
from strands_cli.types import AgentSpec
from strands_cli.types.sections import PythonTool, Runtime, Security

if TYPE_CHECKING:
    from strands_cli.runtime.resources import RunResources
    from strands_cli.tools.registry import ToolRegistry

HISTORY = "chat-history"
"""The file, in the user's cache directory, that keeps what was typed."""
DEFAULT_PROVIDER = "local"
DEFAULT_PROMPT = "You are a helpful assistant. Answer briefly and in plain text."
OWN_TOOLS, ALL_TOOLS, NO_TOOLS = "project", "all", "none"
"""What `--tools` takes besides names: the project's and the plugins' tools, every one, not one."""
_AGENT = "assistant"


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--agent", metavar="NAME", help="The agent of FILE to talk to.")
@click.option(
    "--tools",
    "tools",
    multiple=True,
    shell_complete=complete_tools,
    metavar="TOOL,…",
    help="Tools, plugins or patterns, separated by commas. Can be repeated.",
)
@click.option(
    "--provider",
    type=ProviderName(),
    help=f"The provider of the model. Default: FILE's provider, or {DEFAULT_PROVIDER}.",
)
@click.option("--model", help="The model, instead of FILE's or the provider's default.")
@click.option("--host", help="The address of the provider.")
@click.option("--system", metavar="TEXT", help="The system prompt, instead of FILE's.")
@var_option
@yes_option
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
    """Chat with a model that can use your tools, or with an agent of the workflow FILE.

    On a terminal, Ctrl-C cancels an answer, Ctrl-D leaves, and /help lists the commands. Elsewhere, each line
    of standard input is a message, and standard output contains only the answers.
    """
    from strands_cli.capability import check_capability
    from strands_cli.exec.run import prepare

    added = _tool_references(tools or ((OWN_TOOLS,) if file is None else ()))
    if file is None:
        for option, value in (("--agent", agent), ("--var", pairs)):
            if value:
                reason = f"{option} needs a workflow, and no file is given."
                raise UsageError(reason, hint="Name the file: strands chat FILE")
        runtime = Runtime(provider=DEFAULT_PROVIDER)
        unnamed = () if tools else added
        name, spec = _AGENT, _chat_workflow(runtime, DEFAULT_PROMPT if system is None else system, unnamed)
    else:
        spec = load_workflow(file, pairs)
        name = _chosen_agent(spec, agent)
    spec = with_model_options(spec, provider=provider, model=model, host=host)
    spec = _with_tools(spec, name, added)
    if file is None:  # there is no 'validate' for it, which would warn
        for issue in check_capability(spec).warnings:
            print_warning(f"{issue.reason} {issue.remediation}".strip())
    resources = prepare(spec, with_artifacts=False).resources
    require_models(spec, [name])
    prompt = _rendered_prompt(spec, name, resources.inputs) if system is None else system
    return run_async(_run_chat(resources, name, prompt, yes=yes), reads_in_loop=True)


def _tool_references(tools: Iterable[str]) -> tuple[str, ...]:
    """The tools of `--tools a,b --tools c`: names, files of this directory, groups and patterns."""
    from strands_cli.tools import get_registry
    from strands_cli.tools.sources.modules import is_file_reference

    registry, found = get_registry(), dict[str, None]()
    for part in filter(None, (part.strip() for text in tools for part in text.split(","))):
        members = [] if registry.get_by_import_path(part) else _group_members(part, registry)
        if not members and part not in (OWN_TOOLS, ALL_TOOLS, NO_TOOLS):
            registry.require(part)
            members = [str(Path.cwd() / part) if is_file_reference(part) else part]
        found |= dict.fromkeys(members)
    return tuple(found)


def _group_members(name: str, registry: "ToolRegistry") -> list[str]:
    """The ids of the tools that a plugin, a family, a category, a pattern or one of our words stands for.

    Nobody asked for each of them by name, so one that cannot be used is left out with a warning.
    """
    from strands_cli.tools.sources.modules import Project
    from strands_cli.tools.sources.plugins import Plugins

    members = []
    for info in {info.id: info for info in registry.list_all()}.values():
        is_own = name == OWN_TOOLS and info.source in (Project.name, Plugins.name)
        if (
            not is_own
            and name not in (ALL_TOOLS, info.family, info.category)
            and not fnmatchcase(info.id, name)
        ):
            continue
        meant = registry.require(info.id)
        why = "; ".join(missing_requirements(meant.requires))
        try:
            with tool_output_aside():
                why or registry.load(meant)
        except ToolError as error:
            why = error.message
        if why:
            print_warning(f"{info.id} is left out: {why}.")
        else:
            members.append(info.id)
    return members


def _chat_workflow(runtime: Runtime, prompt: str, asked: Iterable[str]) -> Spec:
    """A workflow of one agent that no file declares; the user is asked before tools that nobody named run."""
    return Spec(
        version=0,
        name="chat",
        runtime=runtime,
        agents={_AGENT: AgentSpec(prompt=prompt)},
        pattern=Chain(steps=(Step(agent=_AGENT),)),
        security=Security(consent=dict.fromkeys(asked, "ask")),
        file=Path.cwd() / "chat",
    )


def _chosen_agent(spec: Spec, name: str | None) -> str:
    names = ", ".join(spec.agents)
    if name is None and len(spec.agents) > 1:
        raise UsageError(f"{spec.file} has several agents: {names}.", hint="Choose one with --agent NAME.")
    if name is None:
        name = next(iter(spec.agents))
    if name not in spec.agents:
        hint = did_you_mean(name, spec.agents) or f"The agents are {names}."
        raise UsageError(f"There is no agent {name!r} in {spec.file}.", hint=hint)
    return name


def _with_tools(spec: Spec, agent: str, added: Sequence[str]) -> Spec:
    """The workflow with more tools for one agent."""
    own = spec.agents[agent]
    if own.tools is not None:
        own = msgspec.structs.replace(own, tools=(*own.tools, *added))
    known = {tool.callable for tool in spec.tools.python}
    more = tuple(PythonTool(callable=reference) for reference in added if reference not in known)
    tools = msgspec.structs.replace(spec.tools, python=(*spec.tools.python, *more))
    return msgspec.structs.replace(spec, agents={**spec.agents, agent: own}, tools=tools)


def _rendered_prompt(spec: Spec, agent: str, inputs: dict[str, Any]) -> str:
    prompt, scope = spec.agents[agent].prompt, {**inputs, "inputs": inputs}
    try:
        return render(prompt, scope, spec=spec, pointer=f"/agents/{agent}/prompt")
    except TemplateError as error:
        hint = "A chat has inputs but no earlier steps: give the prompt with --system."
        raise UsageError(error.message, hint=f"{error.hint} {hint}".strip()) from None


async def _run_chat(resources: "RunResources", agent: str, prompt: str, *, yes: bool) -> int:
    from strands_cli.cli.chat.screen import Screen
    from strands_cli.cli.chat.session import ChatQuestions, ChatSession
    from strands_cli.exec.steps import Emitter
    from strands_cli.runtime.conversation import Conversation

    live = bool(sys.stdin and sys.stdin.isatty() and is_live(sys.stdout))
    screen = Screen(sys.stdout, sys.stderr, live=live)
    redact_logs(resources.redactor)
    resources.load_tools()
    resources.model(agent)  # what is missing is reported now, not after the first question
    questions = ChatQuestions(screen, lambda: resources.cancel) if can_ask() else None
    granted = yes or resources.settings.bypass_consent
    conversation = Conversation(
        resources,
        agent,
        prompt,
        emit=Emitter((screen,), resources.redactor),
        ask_consent=grant_all if granted else questions.consent if questions else None,
        ask_person=questions.ask if questions else None,
    )
    session = ChatSession(conversation, screen, resources.redactor)
    if live:
        from strands_cli.cli.chat.prompt import Prompt

        tools = count_text(len(conversation.tools), "tool")
        banner = f"{conversation.model}, {tools}. /help lists the commands, Ctrl-D quits."
        screen.note("\n".join(wrapped_text(banner, screen.width - 1)))
        read = Prompt(cache_directory() / HISTORY).next
    else:
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        read = partial(_read_line, "> " if can_ask() else "")
    while (line := await read()) is not None and await session.take(line):
        pass
    screen.close()
    return 0 if live else session.exit_code


async def _read_line(prompt: str) -> str | None:
    """The next message without a terminal: None at the end, Interrupted after Ctrl-C.

    The prompt is for someone who types. Nothing else goes on meanwhile, so the loop may wait too.
    """
    if sys.stdin is None:
        return None
    if prompt:
        click.echo(prompt, nl=False, err=True)
    try:
        return sys.stdin.readline() or None
    except KeyboardInterrupt:  # which a loop does not survive in a task
        raise Interrupted("Interrupted.") from None
