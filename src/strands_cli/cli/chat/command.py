"""`strands chat`"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli.cli.app import ENDING
from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import (
    ALL_TOOLS,
    NO_TOOLS,
    OWN_TOOLS,
    ProviderName,
    allow_write_option,
    complete_runs,
    complete_tools,
    grant_all_but_protected,
    load_workflow,
    tool_group_ids,
    trust_option,
    var_option,
    warn_of_untrusted,
    yes_option,
)
from strands_cli.cli.output import (
    can_ask,
    count_text,
    hide_secrets,
    own_stream,
    print_line,
    print_warning,
    tool_output_aside,
)
from strands_cli.cli.terminal import is_live, wrapped_text
from strands_cli.errors import Interrupted, SessionError, ToolError, UsageError, did_you_mean
from strands_cli.loader.spec import Spec
from strands_cli.patterns.chain import Chain
from strands_cli.patterns.pattern import Step
from strands_cli.providers.choice import require_models, with_model_options
from strands_cli.settings import cache_directory, load_settings
from strands_cli.templates import TemplateError, render
from strands_cli.toolkit.info import is_deferrable, missing_requirements
from strands_cli.types import AgentSpec
from strands_cli.types.sections import PythonTool, Runtime, Security

if TYPE_CHECKING:
    from strands_cli.exec.chat_journal import ChatJournal
    from strands_cli.exec.steps import RunOptions
    from strands_cli.runtime.agent_hooks import AskConsent
    from strands_cli.runtime.resources import RunResources
    from strands_cli.tools.registry import ToolRegistry

HISTORY = "chat-history"
"""The file, in the user's cache directory, that keeps what was typed."""
DEFAULT_PROVIDER = "local"
DEFAULT_PROMPT = "You are a helpful assistant. Answer briefly and in plain text."
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
    help="Tools, plugins, MCP servers or patterns, separated by commas. Can be repeated.",
)
@click.option(
    "--provider",
    type=ProviderName(),
    help=f"The provider of the model. Default: FILE's provider, or {DEFAULT_PROVIDER}.",
)
@click.option("--model", help="The model, instead of FILE's or the provider's default.")
@click.option("--host", help="The address of the provider.")
@click.option("--system", metavar="TEXT", help="The system prompt, instead of FILE's.")
@click.option(
    "--continue",
    "continued",
    is_flag=False,
    flag_value="",
    metavar="[ID]",
    shell_complete=complete_runs,
    help="Continue a conversation; by default, the latest one in this project.",
)
@click.option(
    "--save-session/--no-save-session",
    "save",
    default=True,
    help="Save the conversation, so you can continue it later. On by default.",
)
@var_option
@yes_option
@allow_write_option
@trust_option
def chat(
    *,
    file: Path | None,
    agent: str | None,
    tools: tuple[str, ...],
    provider: str | None,
    model: str | None,
    host: str | None,
    system: str | None,
    continued: str | None,
    save: bool,
    pairs: tuple[str, ...],
    yes: bool,
    allowed: tuple[Path, ...],
) -> int:
    """Chat with a model that can use your tools, or with an agent of the workflow FILE.

    On a terminal, Ctrl-C cancels an answer, Ctrl-D leaves, and /help lists the commands. Elsewhere, each line
    of standard input is a message, and standard output contains only the answers.
    """
    from strands_cli.capability import check_capability
    from strands_cli.exec.run import prepare
    from strands_cli.exec.steps import RunOptions

    before = _earlier_chat(continued) if continued is not None else None
    chosen = Chosen(file=file, agent=agent, tools=tools, system=system)
    if before is not None:
        if file is not None or pairs:
            what = "FILE" if file is not None else "--var"
            raise UsageError(
                f"{what} cannot be combined with --continue.", hint="The conversation has its own."
            )
        chosen = _earlier_choice(before, chosen)
    file, system = chosen.file, chosen.system
    added = _tool_references(chosen.tools) if chosen.tools or file else tuple(_own_tools())
    name, spec = _chat_spec(chosen, pairs, added, before)
    spec = with_model_options(spec, provider=provider, model=model, host=host, base=Path())
    spec = _with_tools(spec, name, added)
    if file is None:  # there is no 'validate' for it, which would warn
        warn_of_untrusted(load_settings())
        for issue in check_capability(spec).warnings:
            if issue.pointer:  # else it is of the settings
                print_warning(f"{issue.reason} {issue.remediation}".strip())
    options = RunOptions(allow_write=allowed)
    resources = prepare(spec, options=options, with_artifacts=False).resources
    require_models(spec, [name])
    prompt = _rendered_prompt(spec, name, resources.inputs) if system is None else system
    kept = _Kept(chosen, options, before["head"]["id"] if before else "") if save or before else None
    return run_async(_run_chat(resources, name, prompt, kept, yes=yes), reads_in_loop=True)


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation begins with, as its user has chosen it; kept in its head."""

    file: Path | None
    agent: str | None
    tools: tuple[str, ...]
    system: str | None


class _Kept(msgspec.Struct, frozen=True):
    """How a conversation is kept: `run` is the id of an earlier one that goes on."""

    chosen: Chosen
    options: "RunOptions"
    run: str

    def journal(self, resources: "RunResources", ask_consent: "AskConsent | None") -> "ChatJournal":
        """SessionError if it cannot be kept."""
        from strands_cli.exec.chat_journal import ChatJournal
        from strands_cli.exec.run_records import CHAT, run_head, spec_files
        from strands_cli.exec.stores import open_store

        def begin(run: str) -> dict[str, Any]:
            head = run_head(resources.spec, self.options, id=run)
            chosen = msgspec.to_builtins(self.chosen, enc_hook=str)
            files = spec_files(resources.spec)
            return {"head": {**head, "pattern": CHAT, "chat": chosen}, "spec": {"files": files}}

        store = open_store(resources.settings)
        return ChatJournal(store, begin, resources.redactor, ask_consent, run=self.run)


def _earlier_chat(run: str) -> dict[str, Any]:
    """The head of the conversation to continue. Raises SessionError if it does not exist."""
    from strands_cli.cli.resume import enter_directory
    from strands_cli.exec.history import list_runs
    from strands_cli.exec.journal import decode_row
    from strands_cli.exec.run_records import CHAT
    from strands_cli.exec.stores import find_run, open_store

    settings = load_settings()
    store = open_store(settings)
    if run:
        run = find_run(store, run)
    else:
        listed = store.runs()
        for found in sorted(list_runs(listed), key=lambda one: one.updated, reverse=True):
            head = decode_row(listed[found.id].get("head", b"{}"))
            if head.get("pattern") == CHAT and head["project"] == str(settings.project):
                run = found.id
                break
        else:
            raise SessionError(
                "There is no conversation in this project yet.", hint="Start one: strands chat"
            )
    rows = store.load(run)
    store.close()
    before = {key: decode_row(rows[key]) for key in ("head", "spec")}
    if before["head"]["pattern"] != CHAT:
        raise SessionError(f"Run {run} is not a conversation.", hint=f"Resume it: strands resume {run}")
    enter_directory(run, before["head"])
    return before


def _earlier_choice(before: Mapping[str, Any], now: Chosen) -> Chosen:
    """What an earlier conversation began with, unless something else is chosen now."""
    from strands_cli.exec.run_records import workflow_path

    earlier = msgspec.convert(before["head"]["chat"], Chosen, dec_hook=lambda kind, value: kind(value))
    return Chosen(
        file=workflow_path(before["head"]) if before["spec"]["files"] else None,
        agent=now.agent or earlier.agent,
        tools=now.tools or earlier.tools,
        system=earlier.system if now.system is None else now.system,
    )


def _chat_spec(
    chosen: Chosen, pairs: tuple[str, ...], added: tuple[str, ...], before: Mapping[str, Any] | None
) -> tuple[str, Spec]:
    """The agent to talk to, and the workflow that it is in."""
    from strands_cli.exec.run_records import stored_spec, with_stored_models

    if chosen.file is not None:
        spec = load_workflow(chosen.file, pairs) if before is None else stored_spec(before)
        return _chosen_agent(spec, chosen.agent), spec
    for option, value in (("--agent", chosen.agent), ("--var", pairs)):
        if value:
            reason = f"{option} needs a workflow, and no file is given."
            raise UsageError(reason, hint="Name the file: strands chat FILE")
    runtime = Runtime(provider=DEFAULT_PROVIDER)
    prompt = DEFAULT_PROMPT if chosen.system is None else chosen.system
    spec = _chat_workflow(runtime, prompt, () if chosen.tools else added)
    return _AGENT, spec if before is None else with_stored_models(spec, before["head"])


def _own_tools() -> Iterator[str]:
    """The tools of the project and of plugins, none of them imported: nobody has asked for one yet."""
    from strands_cli.tools import get_registry

    registry = get_registry()
    for info in (registry.require(name) for name in tool_group_ids(OWN_TOOLS, registry)):
        why = "; ".join(missing_requirements(info.requires))
        if not (why or info.manifest or is_deferrable(info)):
            why = f"only its code tells how to call it; --tools {info.id} runs that code"
        if why:
            print_warning(f"{info.id} is left out: {why}.")
        else:
            yield info.id


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
    members = []
    for tool_id in tool_group_ids(name, registry):
        meant = registry.require(tool_id)
        why = "; ".join(missing_requirements(meant.requires))
        try:
            with tool_output_aside():
                why or registry.load(meant)
        except ToolError as error:
            why = error.message
        if why:
            print_warning(f"{tool_id} is left out: {why}.")
        else:
            members.append(tool_id)
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
        unnamed_tools=tuple(asked),
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


async def _run_chat(
    resources: "RunResources", agent: str, prompt: str, kept: _Kept | None, *, yes: bool
) -> int:
    from strands_cli.cli.chat.screen import Screen
    from strands_cli.cli.chat.session import ChatQuestions, ChatSession
    from strands_cli.exec.accounts import Emitter
    from strands_cli.runtime.conversation import Conversation

    live = bool(sys.stdin and sys.stdin.isatty() and is_live(sys.stdout))
    screen = Screen(own_stream(sys.stdout), own_stream(sys.stderr), live=live)
    hide_secrets(resources.redactor)
    resources.load_tools()
    resources.model(agent)  # what is missing is reported now, not after the first question
    questions = ChatQuestions(screen, lambda: resources.cancel) if can_ask() else None
    consent: AskConsent | None = questions.consent if questions else None
    if yes or resources.settings.bypass_consent:
        consent = grant_all_but_protected(consent)
    conversation = Conversation(
        resources,
        agent,
        prompt,
        emit=Emitter((screen,), resources.redactor),
        ask_consent=consent,
        ask_person=questions.ask if questions else None,
    )
    journal = kept.journal(resources, consent) if kept else None
    session = ChatSession(conversation, screen, resources.redactor, journal)
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
    try:
        is_going_on = await session.go_on()
        while is_going_on and not ENDING.number:
            line = await read()
            is_going_on = line is not None and await session.take(line)
    finally:
        if journal is not None:
            journal.close()
    screen.close()
    return 0 if live else session.exit_code


async def _read_line(prompt: str) -> str | None:
    """The next message without a terminal: None at the end, Interrupted after Ctrl-C.

    The prompt is for someone who types. Nothing else goes on meanwhile, so the loop may wait too.
    """
    if sys.stdin is None:
        return None
    if prompt:
        print_line(prompt, err=True, end="")
    try:
        return sys.stdin.readline() or None
    except KeyboardInterrupt:  # which a loop does not survive in a task
        raise Interrupted("Interrupted.") from None
