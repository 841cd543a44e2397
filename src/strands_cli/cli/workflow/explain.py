"""`strands explain`"""

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from strands_cli.cli.options import var_option
from strands_cli.cli.workflow.limits import budget_texts
from strands_cli.cli.workflow.outline import outline_of, tools_of
from strands_cli.cli.workflow.reach import leaving, tool_sentences, touching
from strands_cli.cli.workflow.source import asked_model, file_argument, load_given, note_problems
from strands_cli.cli.workflow.story import in_words, story, times
from strands_cli.cli.workflow.texts import first_line, printable
from strands_cli.patterns.outline import Outline, tool_name
from strands_cli.types import Spec

_WIDEST = 100


@click.command()
@file_argument
@var_option
def explain(file: Path, pairs: tuple[str, ...]) -> None:
    """Tell a workflow in prose: who does what, what tools may touch, what leaves this machine, the limits.

    Nothing is run and no tool is imported.
    """
    spec = load_given(file, pairs)
    outline = outline_of(spec)
    click.secho(spec.name, bold=True)
    _print_paragraph(spec.description)
    for heading, tell in SECTIONS.items():
        sentences = [*tell(spec, outline)]
        if sentences:
            click.echo()
            click.secho(heading, bold=True)
        for sentence in sentences:
            _print_paragraph(sentence)
    note_problems(spec)


def _print_paragraph(text: str) -> None:
    from shutil import get_terminal_size
    from textwrap import fill

    width = max(min(get_terminal_size().columns, _WIDEST), 30)
    plain = printable(" ".join(text.split()))
    if plain:
        click.echo(fill(plain, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))


def _what(spec: Spec, outline: Outline) -> Iterator[str]:
    yield from story(spec, outline)


def _agents(spec: Spec, outline: Outline) -> Iterator[str]:
    used = dict.fromkeys(box.agent for box in outline.work if box.agent)
    for agent in used:
        model = asked_model(spec, agent)
        if model is None:
            yield f"{first_line(agent)} is not declared in the file."
            continue
        tools = [tool_name(tool) for tool in tools_of(spec, agent)]
        may = f"may call {in_words(tools)}" if tools else "has no tools"
        yield f"{agent} asks {model} and {may}. Its prompt begins: {first_line(spec.agents[agent].prompt)!r}."
    unused = [agent for agent in spec.agents if agent not in used]
    if unused:
        yield f"Declared but never used: {in_words(unused)}."


def _tools(spec: Spec, outline: Outline) -> Iterator[str]:
    used = dict.fromkeys(tool for box in outline.work for tool in box.tools)
    yield from tool_sentences(spec, used)
    yield from touching(spec, used)


def _leaving(spec: Spec, outline: Outline) -> Iterator[str]:
    yield from leaving(spec, outline)


def _writes(spec: Spec, outline: Outline) -> Iterator[str]:
    for artifact in spec.outputs.artifacts:
        yield f"{first_line(artifact.path)}, inside the output directory, from {first_line(artifact.content)}"
    if spec.context_policy.notes:
        yield f"{spec.context_policy.notes.file}: notes of the steps for the next ones."
    if not spec.outputs.artifacts and not spec.context_policy.notes:
        yield "No file of its own."


def _needs(spec: Spec, outline: Outline) -> Iterator[str]:
    for name, declared in spec.inputs.declared.items():
        need = "must be given" if name in spec.inputs.required else "may be given"
        need = "is given" if name in {**spec.inputs.values, **spec.variables} else need
        about = f": {first_line(declared.description)}" if declared.description else ""
        yield f"The input {name} ({declared.type or 'anything'}) {need}{about}."
    for secret in spec.env.secrets:
        place = f"the file {secret.path}" if secret.source == "file" else f"${secret.key or secret.name}"
        yield f"The secret {secret.name} is read from {place} and shown nowhere."


def _limits(spec: Spec, outline: Outline) -> Iterator[str]:
    least, most = outline.calls.least, outline.calls.most
    often = times(least) if least == most else f"{least} to {most} times"
    more = ", and once more for each round of tool calls" if any(box.tools for box in outline.work) else ""
    yield f"A model is asked {often}{more}."
    budgets = budget_texts(spec)
    yield f"A run ends after {in_words(budgets, 'or')}." if budgets else "There is no budget that ends a run."
    policy = spec.runtime.failure_policy
    if policy.retries:
        often = times(policy.retries)
        yield f"A call to a model that fails in a way that may pass is repeated at most {often}."


SECTIONS: dict[str, Callable[[Spec, Outline], Iterator[str]]] = {
    "What it does": _what,
    "What it needs": _needs,
    "Agents": _agents,
    "What the tools may touch": _tools,
    "What leaves this machine": _leaving,
    "What it writes": _writes,
    "Limits": _limits,
}
