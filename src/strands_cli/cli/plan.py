"""`strands plan`"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from strands_cli.cli.options import json_option, var_option
from strands_cli.cli.output import count, issue_document, print_columns, print_json
from strands_cli.cli.workflow_file import (
    file_argument,
    load_workflow,
    note_problems,
    problems_of,
    resolved_model,
)
from strands_cli.drawing.overview import budget_texts, outline_of
from strands_cli.loader.spec import Spec
from strands_cli.patterns.outline import Box, Outline, first_line, printable, tool_name


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
    stages = [box.stage for box in outline.work if not box.when]
    is_concurrent = len(set(stages)) < len(stages) or any(box.kind == "worker" for box in outline.work)
    together = f", {spec.runtime.max_parallel} at a time at most" if is_concurrent else ""
    steps = count(len(outline.work), "step")
    click.echo(f"{click.style(spec.name, bold=True)}  {spec.pattern.title} of {steps}{together}")
    if spec.description:
        click.echo(first_line(spec.description))
    click.echo()
    for box in outline.work:
        _print_box(box, spec, len(str(outline.stages)))
    click.echo()
    print_columns([*_facts(spec, outline)], indent="")


def _print_box(box: Box, spec: Spec, digits: int) -> None:
    number, condition = f"{box.stage:>{digits}}.", f"if {first_line(box.when)}" if box.when else ""
    if box.stage == 0:
        number, condition = f"{'–':>{digits}} ", "never reached"
    remarks = "; ".join(filter(None, [condition, box.note]))
    click.echo(f"{number} {click.style(box.title, bold=True)}{f'  ({remarks})' if remarks else ''}")
    for name, text in _details(box, spec):
        click.echo(f"{'':{digits + 2}}{name:<6} {printable(text)}")


def _details(box: Box, spec: Spec) -> Iterator[tuple[str, str]]:
    if box.kind == "human":
        yield "asks", f"a human: {first_line(box.input)}"
        return
    model = resolved_model(spec, box.agent)
    undeclared = f"{first_line(box.agent)}, which the file does not declare"
    yield "agent", f"{box.agent}, {model}" if model else undeclared
    yield "tools", ", ".join(tool_name(tool) for tool in box.tools) or "none"
    if box.input.strip():
        yield "input", first_line(box.input)
    yield "calls", f"{box.calls}{', plus one per round of tool calls' if box.tools else ''}"


def _facts(spec: Spec, outline: Outline) -> Iterator[tuple[str, str]]:
    calls = f"{outline.calls.least} at least, {outline.calls.most} at most"
    if any(box.tools for box in outline.work):
        calls += "; plus one for each round of tool calls"
    yield "model calls", calls + ("; the budget of steps may end the run before" if outline.capped else "")
    for name, state in _inputs(spec).items():
        yield f"input {name}", state
    yield "budgets", ", ".join(budget_texts(spec)) or "none"
    for artifact in spec.outputs.artifacts:
        yield "artifact", first_line(artifact.path)


def _inputs(spec: Spec) -> dict[str, str]:
    values = {**spec.inputs.values, **spec.variables}
    states = {name: first_line(str(value)) for name, value in values.items()}
    for name, declared in spec.inputs.declared.items():
        if name in values:
            continue
        if declared.default is not msgspec.UNSET:
            states[name] = f"{first_line(str(declared.default))} (by default)"
        else:
            states[name] = f"to be given: --var {name}=…" if name in spec.inputs.required else "not given"
    return states


def _document(spec: Spec, outline: Outline) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "file": str(spec.file),
        "pattern": spec.pattern.kind,
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
    model = resolved_model(spec, box.agent)
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
