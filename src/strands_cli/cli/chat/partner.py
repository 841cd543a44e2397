"""Who is talked to: an agent of a workflow, or one that the command line describes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.cli.output import print_warning
from strands_cli.cli.workflow_file import load_workflow
from strands_cli.errors import Issue, ProviderError, UnsupportedError, UsageError, did_you_mean
from strands_cli.loader.run_values import resolve_inputs
from strands_cli.loader.spec import Spec
from strands_cli.patterns.chain import Chain
from strands_cli.patterns.pattern import Step
from strands_cli.providers.choice import missing, model_of, with_choice
from strands_cli.templates import TemplateError, render
from strands_cli.types import AgentSpec
from strands_cli.types.sections import PythonTool, Runtime, Tools

DEFAULT_PROVIDER = "local"
DEFAULT_PROMPT = "You are a helpful assistant. Answer briefly and in plain text."
_AGENT = "assistant"


class Partner(msgspec.Struct, frozen=True, kw_only=True):
    """Who is talked to."""

    spec: Spec
    agent: str
    prompt: str
    inputs: dict[str, Any]


def choose_partner(
    file: Path | None,
    *,
    agent: str | None,
    tools: Iterable[str],
    system: str | None,
    pairs: Sequence[str],
    provider: str | None,
    model: str | None,
    host: str | None,
) -> Partner:
    """The agent that the command line asks for, ready to be built; StrandsError if it cannot be."""
    added = _references(tools)
    if file is None:
        for option, value in (("--agent", agent), ("--var", pairs)):
            if value:
                raise UsageError(
                    f"{option} is about a workflow, and no file is given.",
                    hint="Name the file: strands chat FILE",
                )
        runtime = Runtime(provider=provider or DEFAULT_PROVIDER, model_id=model, host=host)
        partner = _described(runtime, DEFAULT_PROMPT if system is None else system, added)
    else:
        spec = with_choice(load_workflow(file, pairs), provider=provider, model=model, host=host)
        partner = _of_workflow(spec, agent, system, added)
    choice = model_of(partner.spec, partner.agent)
    for reason, remedy in missing(choice) if choice else ():
        raise ProviderError(reason, hint=remedy)
    return partner


def _references(tools: Iterable[str]) -> tuple[str, ...]:
    """The tools of `--tools a,b --tools c`, each of which there is; files are those of this directory."""
    from strands_cli.tools import get_registry
    from strands_cli.tools.sources.modules import is_path

    parts = [part.strip() for text in tools for part in text.split(",")]
    found = tuple(dict.fromkeys(part for part in parts if part))
    for reference in found:
        get_registry().require(reference)
    return tuple(str(Path.cwd() / reference) if is_path(reference) else reference for reference in found)


def _described(runtime: Runtime, prompt: str, tools: Sequence[str]) -> Partner:
    """An agent that no file declares."""
    spec = Spec(
        version=0,
        name="chat",
        runtime=runtime,
        agents={_AGENT: AgentSpec(prompt=prompt)},
        pattern=Chain(steps=(Step(agent=_AGENT),)),
        tools=Tools(python=tuple(PythonTool(callable=reference) for reference in tools)),
        file=Path.cwd() / "chat",
    )
    for issue in _warnings(spec):
        print_warning(f"{issue.reason} {issue.remediation}".strip())
    return Partner(spec=spec, agent=_AGENT, prompt=prompt, inputs={})


def _of_workflow(spec: Spec, name: str | None, system: str | None, tools: Sequence[str]) -> Partner:
    agent = _agent_of(spec, name)
    spec = _with_tools(spec, agent, tools)
    inputs = resolve_inputs(spec)
    _warnings(spec)
    prompt = _rendered(spec, agent, inputs) if system is None else system
    return Partner(spec=spec, agent=agent, prompt=prompt, inputs=inputs)


def _agent_of(spec: Spec, name: str | None) -> str:
    names = ", ".join(spec.agents)
    if name is None:
        if len(spec.agents) > 1:
            raise UsageError(
                f"{spec.file} has several agents: {names}.", hint="Say which one with --agent NAME."
            )
        return next(iter(spec.agents))
    if name not in spec.agents:
        hint = did_you_mean(name, spec.agents) or f"The agents are {names}."
        raise UsageError(f"There is no agent {name!r} in {spec.file}.", hint=hint)
    return name


def _with_tools(spec: Spec, agent: str, added: Sequence[str]) -> Spec:
    """The workflow with more tools for one agent."""
    if not added:
        return spec
    own = spec.agents[agent]
    if own.tools is not None:
        own = msgspec.structs.replace(own, tools=(*own.tools, *added))
    known = {tool.callable for tool in spec.tools.python}
    more = tuple(PythonTool(callable=reference) for reference in added if reference not in known)
    tools = msgspec.structs.replace(spec.tools, python=(*spec.tools.python, *more))
    return msgspec.structs.replace(spec, agents={**spec.agents, agent: own}, tools=tools)


def _rendered(spec: Spec, agent: str, inputs: dict[str, Any]) -> str:
    prompt, scope = spec.agents[agent].prompt, {**inputs, "inputs": inputs}
    try:
        return render(prompt, scope, spec=spec, pointer=f"/agents/{agent}/prompt")
    except TemplateError as error:
        hint = "In a chat there are inputs, and no steps before it: give the prompt with --system."
        raise UsageError(error.message, hint=f"{error.hint} {hint}".strip()) from None


def _warnings(spec: Spec) -> tuple[Issue, ...]:
    """The warnings about a workflow; UnsupportedError if it has errors."""
    from strands_cli.capability import check_capability

    report = check_capability(spec)
    if report.errors:
        first = report.errors[0]
        raise UnsupportedError(f"{first.place}: {first.reason}", hint=first.remediation, issues=report.errors)
    return report.warnings
