"""`strands plan`"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from strands_cli.cli.options import json_option, var_option
from strands_cli.cli.output import count, issue_document, print_columns, print_json
from strands_cli.cli.workflow.limits import budget_texts, pattern_name
from strands_cli.cli.workflow.outline import outline_of
from strands_cli.cli.workflow.texts import first_line, printable
from strands_cli.cli.workflow_file import (
    asked_model,
    file_argument,
    load_workflow,
    note_problems,
    problems_of,
)
from strands_cli.patterns.outline import Box, Outline, tool_name
from strands_cli.types import Spec


@click.command()
@file_argument
@var_option
@json_option
def plan(file: Path, pairs: tuple[str, ...], as_json: bool) -> None:
    """Say what a workflow would run, in which order, and how often a model is asked.

    Nothing is run and no tool is imported. Steps with the same number run at the same time, if all take
    equally long.
    """
    spec = load_workflow(file, pairs)
    show_plan(spec, as_json=as_json)
    if not as_json:
        note_problems(spec)


def show_plan(spec: Spec, *, as_json: bool) -> None:
    outline = outline_of(spec)
    if as_json:
        print_json(_document(spec, outline))
        return
    click.echo(f"{click.style(spec.name, bold=True)}  {_heading(spec, outline)}")
    if spec.description:
        click.echo(first_line(spec.description))
    click.echo()
    for box in outline.work:
        _print_box(box, spec, len(str(outline.stages)))
    click.echo()
    print_columns([*_facts(spec, outline)], indent="")


def _heading(spec: Spec, outline: Outline) -> str:
    steps = count(len(outline.work), "step")
    together = f", {spec.runtime.max_parallel} at a time at most" if _is_concurrent(outline) else ""
    return f"{pattern_name(spec)} of {steps}{together}"


def _is_concurrent(outline: Outline) -> bool:
    numbers = [box.stage for box in outline.work if not box.when]
    return len(set(numbers)) < len(numbers) or any(box.kind == "worker" for box in outline.work)


def _print_box(box: Box, spec: Spec, digits: int) -> None:
    number = f"{box.stage:>{digits}}." if box.stage else f"{'–':>{digits}} "
    remarks = "; ".join(filter(None, [_condition(box), box.note]))
    click.echo(f"{number} {click.style(box.title, bold=True)}{f'  ({remarks})' if remarks else ''}")
    indent = " " * (digits + 2)
    for name, text in _details(box, spec):
        click.echo(f"{indent}{name:<6} {printable(text)}")


def _condition(box: Box) -> str:
    if box.stage == 0:
        return "never reached"
    return f"if {first_line(box.when)}" if box.when else ""


def _details(box: Box, spec: Spec) -> Iterator[tuple[str, str]]:
    if box.kind == "human":
        yield "asks", f"a human: {first_line(box.input)}"
        return
    model = asked_model(spec, box.agent)
    yield (
        "agent",
        f"{box.agent}, {model}" if model else f"{first_line(box.agent)}, which the file does not declare",
    )
    yield "tools", ", ".join(tool_name(tool) for tool in box.tools) or "none"
    if box.input.strip():
        yield "input", first_line(box.input)
    yield "calls", f"{box.calls}{', plus one per round of tool calls' if box.tools else ''}"


def _facts(spec: Spec, outline: Outline) -> Iterator[tuple[str, str]]:
    yield "model calls", _calls_text(outline)
    for name, state in _inputs(spec).items():
        yield f"input {name}", state
    budgets = budget_texts(spec)
    yield "budgets", ", ".join(budgets) if budgets else "none"
    for artifact in spec.outputs.artifacts:
        yield "artifact", first_line(artifact.path)


def _calls_text(outline: Outline) -> str:
    least, most = outline.calls.least, outline.calls.most
    text = f"{least} at least, {most} at most"
    if any(box.tools for box in outline.work):
        text += "; plus one for each round of tool calls"
    return text + ("; the budget of steps may end the run before" if outline.capped else "")


def _inputs(spec: Spec) -> dict[str, str]:
    given = {**spec.inputs.values, **spec.variables}
    states = {}
    for name, declared in spec.inputs.declared.items():
        if name in given:
            states[name] = first_line(str(given[name]))
        elif declared.default is not msgspec.UNSET:
            states[name] = f"{first_line(str(declared.default))} (by default)"
        elif name in spec.inputs.required:
            states[name] = f"to be given: --var {name}=…"
        else:
            states[name] = "not given"
    return {**{name: first_line(str(value)) for name, value in given.items()}, **states}


def _document(spec: Spec, outline: Outline) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "file": str(spec.file),
        "pattern": spec.pattern.__struct_config__.tag,
        "max_parallel": spec.runtime.max_parallel,
        "steps": [_step_document(box, spec) for box in outline.work],
        "model_calls": {
            "at_least": outline.calls.least,
            "at_most": outline.calls.most,
            "plus_one_per_tool_round": any(box.tools for box in outline.work),
            "capped_by_max_steps": outline.capped,
        },
        "inputs": _inputs(spec),
        "budgets": msgspec.to_builtins(spec.runtime.budgets),
        "problems": [issue_document(issue) for issue in problems_of(spec)],
        "artifacts": [artifact.path for artifact in spec.outputs.artifacts],
    }


def _step_document(box: Box, spec: Spec) -> dict[str, Any]:
    model = asked_model(spec, box.agent)
    return {
        "order": box.stage or None,
        "key": box.key,
        "kind": box.kind,
        "title": box.title,
        "agent": box.agent or None,
        "model": model.address if model else None,
        "tools": box.tools,
        "input": box.input,
        "when": box.when or None,
        "note": box.note,
        "model_calls": {"at_least": box.calls.least, "at_most": box.calls.most},
    }
