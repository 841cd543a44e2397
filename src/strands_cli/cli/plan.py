"""`strands plan`, `strands graph`, and what they have in common with `strands explain`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from strands_cli.capability import check_capability
from strands_cli.cli.options import file_argument, json_option, load_workflow, log_option, var_option
from strands_cli.cli.output import (
    Styled,
    count_text,
    issue_document,
    markdown_text,
    print_columns,
    print_json,
    print_line,
    print_note,
    print_text,
    print_warning,
)
from strands_cli.cli.terminal import visible_text
from strands_cli.drawing.overview import budget_texts, outline_of
from strands_cli.errors import UnsupportedError, UsageError
from strands_cli.loader.run_values import known_inputs
from strands_cli.loader.spec import Spec
from strands_cli.patterns.outline import Box, Outline, first_line, tool_name
from strands_cli.patterns.scope import known_aliases
from strands_cli.providers.choice import PROVIDERS, ModelChoice, model_of, with_default_model
from strands_cli.templates import Meter, render_known
from strands_cli.tools.toolset import ToolSet
from strands_cli.types.sections import Artifact, BaseSpec


def resolved_model(spec: BaseSpec, agent: str) -> ModelChoice | None:
    """The model that an agent asks, by its name, even if the file leaves it to the provider."""
    choice = model_of(spec, agent)
    return with_default_model(choice) if choice is not None and choice.provider in PROVIDERS else choice


def warn_of_problems(spec: Spec, tools: ToolSet, *, quiet: bool = False) -> int:
    """Warns that a workflow could not run: what is shown may not be what is meant. Returns the exit code."""
    found = check_capability(spec, tools=tools).errors
    if found and not quiet:
        problems = count_text(len(found), "problem")
        print_warning(f"{problems} in this workflow: 'strands validate {spec.file}' says more.")
    return UnsupportedError.exit_code if found else 0


# --- plan -------------------------------------------------------------------------------------------------


PlanFormat = Literal["text", "md", "json"]


@click.command()
@file_argument
@var_option
@click.option(
    "--format",
    "chosen",
    type=click.Choice(["text", "md", "json"]),
    help="text, by default; md is Markdown, such as for a pull request; json is the same as --json.",
)
@click.option(
    "--verbose", "-v", is_flag=True, help="Also show the file, retries, secrets and what each tool does."
)
@json_option
@log_option
def plan(file: Path, pairs: tuple[str, ...], chosen: PlanFormat | None, verbose: bool, as_json: bool) -> int:
    """Show what a workflow would run, in which order, and how many model calls it takes.

    Prompts and inputs are shown as they would be sent, with the values of --var; the answers of
    earlier steps stay as templates. Nothing is run, and no tool is imported. Steps with the same number run
    at the same time if they take equally long.
    """
    if as_json and chosen not in (None, "json"):
        raise UsageError(f"--json and --format {chosen} cannot be combined.", hint="Use one of them.")
    spec = load_workflow(file, pairs)
    tools = ToolSet(spec)
    form: PlanFormat = "json" if as_json else chosen or "text"
    show_plan(spec, tools, form, verbose=verbose)
    return warn_of_problems(spec, tools, quiet=form == "json")


def show_plan(spec: Spec, tools: ToolSet, form: PlanFormat = "text", *, verbose: bool = False) -> None:
    with Meter().running():  # all templates of a file together: what takes longer stays as it is written
        outline = outline_of(spec, tools)
        more = _more_facts(spec, outline, tools) if verbose else {}
        if form == "json":
            problems = [issue_document(issue) for issue in check_capability(spec, tools=tools).errors]
            details = {"details": more} if verbose else {}
            print_json({**_plan_document(spec, outline), **details, "problems": problems})
        elif form == "md":
            print_text("\n".join(_markdown_lines(spec, outline, more)))
        else:
            _print_plan(spec, outline, more)


def _print_plan(spec: Spec, outline: Outline, more: dict[str, str]) -> None:
    print_line(Styled(spec.name), f"  {_kind_text(spec, outline)}")
    if spec.description:
        print_line(first_line(spec.description))
    print_line()
    for box in outline.work:
        _print_step(box, spec, len(str(outline.stages)))
    print_line()
    print_columns([*_plan_facts(spec, outline), *more.items()], indent="")


def _kind_text(spec: Spec, outline: Outline) -> str:
    """The pattern, and how many steps it has."""
    stages = [box.stage for box in outline.work if not box.when]
    many = any(box.kind == "worker" or box.foreach for box in outline.work)
    is_concurrent = len(set(stages)) < len(stages) or many
    together = f", {spec.runtime.max_parallel} at a time at most" if is_concurrent else ""
    return f"{spec.pattern.title} of {count_text(len(outline.work), 'step')}{together}"


def _more_facts(spec: Spec, outline: Outline, tools: ToolSet) -> dict[str, str]:
    """What --verbose adds."""
    policy = spec.runtime.failure_policy
    facts = {"file": str(spec.file), "retries": f"{policy.retries} for a model request, {policy.backoff}"}
    for secret in spec.env.secrets:
        facts[f"secret {secret.name}"] = (secret.source == "file" and secret.path) or secret.source
    executors = {executor.id: executor.description for executor in spec.tools.http_executors}
    for reference in dict.fromkeys(tool for box in outline.work for tool in box.tools):
        found = tools.find(reference)
        info = found.info if found else tools.resolve(reference)
        about = f"{info.origin}: {info.description}" if info else "not known here"
        facts[f"tool {tool_name(reference)}"] = first_line(executors.get(reference) or about, 200)
    return facts


def _print_step(box: Box, spec: Spec, digits: int) -> None:
    number, condition = f"{box.stage:>{digits}}.", f"if {first_line(box.when)}" if box.when else ""
    if box.stage == 0:
        number, condition = f"{'–':>{digits}} ", "never reached"
    remarks = "; ".join(filter(None, [condition, box.note]))
    print_line(f"{number} ", Styled(box.title), f"  ({remarks})" if remarks else "")
    if box.description.strip():
        print_line(f"{'':{digits + 2}}{first_line(box.description)}")
    for name, text in _step_details(box, spec):
        for index, line in enumerate(text.split("\n")):
            print_line(f"{'':{digits + 2}}{'' if index else name:<6} {line.expandtabs(4)}".rstrip())


def _step_details(box: Box, spec: Spec) -> Iterator[tuple[str, str]]:
    if box.kind == "human":
        yield "asks", f"a human: {_sent_text(spec, box.input)}"
        return
    if box.foreach:
        yield "each", _sent_text(spec, box.foreach)
    if box.kind in ("tool", "workflow"):
        yield ("tool", tool_name(box.tools[0])) if box.kind == "tool" else ("runs", box.workflow)
        if sent := _sent_text(spec, box.input):
            yield "with", sent
        if box.workflow:
            yield "calls", _calls_text(box)
        return
    model = resolved_model(spec, box.agent)
    undeclared = f"{first_line(box.agent)}, which the file does not declare"
    yield "agent", f"{box.agent}, {model}" if model else undeclared
    yield "tools", ", ".join(tool_name(tool) for tool in box.tools) or "none"
    if prompt := _sent_prompt(spec, box):
        yield "prompt", prompt
    if box.remembers:
        yield "memory", f"continues the conversation of {box.remembers}"
    if sent := _sent_text(spec, box.input, box.vars):
        yield "input", sent
    yield "calls", _calls_text(box)


def _calls_text(box: Box) -> str:
    return f"{box.calls}{', plus one per round of tool calls' if box.has_tool_rounds else ''}"


def _sent_prompt(spec: Spec, box: Box) -> str:
    """The system prompt of a step, without what skills, notes and the form of an answer add to it."""
    agent = spec.agents.get(box.agent)
    prompt = _sent_text(spec, agent.prompt, box.vars) if agent else ""
    return "\n\n".join(part for part in (prompt, box.instructions) if part)


def _sent_text(spec: Spec, text: str, own: Mapping[str, Any] = {}) -> str:
    """A template as the model would get it; what only the run will know stays as it is written."""
    inputs = known_inputs(spec)
    return render_known(text, {**inputs, **own, "inputs": inputs}).strip()


def _artifact_path(spec: Spec, artifact: Artifact) -> str:
    inputs = known_inputs(spec)
    return render_known(artifact.path, {**known_aliases(spec), **inputs, "inputs": inputs}).strip()


def _plan_facts(spec: Spec, outline: Outline) -> Iterator[tuple[str, str]]:
    calls = f"{outline.calls.least} at least, {outline.calls.most} at most"
    if outline.has_tool_rounds:
        calls += "; plus one for each round of tool calls"
    yield "model calls", calls + ("; the budget of steps may end the run before" if outline.capped else "")
    for name, state in _input_states(spec).items():
        yield f"input {name}", state
    yield "budgets", ", ".join(budget_texts(spec)) or "none"
    for artifact in spec.outputs.artifacts:
        yield "artifact", first_line(_artifact_path(spec, artifact))


def _input_states(spec: Spec) -> dict[str, str]:
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


def _plan_document(spec: Spec, outline: Outline) -> dict[str, Any]:
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
            "plus_one_per_tool_round": outline.has_tool_rounds,
            "capped_by_max_steps": outline.capped,
        },
        "inputs": _input_states(spec),
        "budgets": msgspec.to_builtins(spec.runtime.budgets),
        "artifacts": [_artifact_path(spec, artifact) for artifact in spec.outputs.artifacts],
    }


def _step_document(box: Box, spec: Spec) -> dict[str, Any]:
    model = resolved_model(spec, box.agent)
    return {
        "order": box.stage or None,
        **{name: getattr(box, name) for name in ("key", "kind", "title", "description", "tools", "note")},
        "prompt": _sent_prompt(spec, box) or None,
        "input": _sent_text(spec, box.input, box.vars),
        "agent": box.agent or None,
        "workflow": box.workflow or None,
        "foreach": _sent_text(spec, box.foreach) or None,
        "model": model.address if model else None,
        "remembers": box.remembers or None,
        "when": box.when or None,
        "model_calls": {"at_least": box.calls.least, "at_most": box.calls.most},
    }


# --- plan, in Markdown ------------------------------------------------------------------------------------


def _markdown_lines(spec: Spec, outline: Outline, more: dict[str, str]) -> Iterator[str]:
    yield from (f"# {markdown_text(spec.name)}", "")
    if spec.description:
        yield from (markdown_text(spec.description), "")
    kind = _kind_text(spec, outline)
    yield from (f"{kind[:1].upper()}{kind[1:]}.", "", "## Steps", "")
    yield from ("| | step | does | model | tools | model calls |", "|--:|---|---|---|---|---|")
    for box in outline.work:
        model = resolved_model(spec, box.agent)
        remarks = "; ".join(filter(None, [f"if {first_line(box.when)}" if box.when else "", box.note]))
        cells = [
            str(box.stage or "never"),
            f"{box.title} ({remarks})" if remarks else box.title,
            f"agent {box.agent}" if box.agent else f"{box.kind} {box.workflow}".strip(),
            str(model or ""),
            ", ".join(tool_name(tool) for tool in box.tools),
            _calls_text(box),
        ]
        yield f"| {' | '.join(map(markdown_text, cells))} |"
    yield from ("", "## Prompts and inputs", "")
    for box in outline.work:
        yield from (f"### {markdown_text(box.title)}", "")
        for name, text in _step_details(box, spec):
            if name not in ("agent", "tools", "tool", "calls"):
                yield from (f"{name}:", "", *_fenced(text), "")
    yield from ("## Limits and files", "")
    for name, text in (*_plan_facts(spec, outline), *more.items()):
        yield f"- {markdown_text(name)}: {markdown_text(text)}"


def _fenced(text: str) -> Iterator[str]:
    """A block of text, in a fence that is longer than any inside."""
    fence = "`" * (max(map(len, re.findall("`{3,}", text)), default=2) + 1)
    yield from (f"{fence}text", *visible_text(text, lines=True).split("\n"), fence)


# --- graph ------------------------------------------------------------------------------------------------

_SUFFIXES = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}


@click.command()
@file_argument
@click.option(
    "--format",
    "chosen",
    type=click.Choice(["mermaid", "dot", "svg"]),
    help="The format. Default: by the extension of --out, or mermaid.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file instead of standard output.",
)
def graph(file: Path, chosen: str | None, out: Path | None) -> None:
    """Draw a workflow with Mermaid, Graphviz or SVG. Nothing is run."""
    form = chosen or (_SUFFIXES.get(out.suffix.lower()) if out else "mermaid")
    if form is None:
        hint = f"Use {', '.join(_SUFFIXES)}, or add --format."
        raise UsageError(f"The extension of {out} is not a known format.", hint=hint)
    spec = load_workflow(file)
    tools = ToolSet(spec)
    text = drawn_workflow(spec, form, tools)
    if out is None:
        print_text(text.removesuffix("\n"))
    else:
        try:
            out.write_text(text, "utf-8")
        except OSError as error:
            reason = f"{out} cannot be written: {error.strerror}"
            raise UsageError(reason, hint="Give another --out.") from None
        print_note(f"Wrote {out}")
    warn_of_problems(spec, tools)


def drawn_workflow(spec: Spec, form: str, tools: ToolSet | None = None) -> str:
    from strands_cli.drawing.svg import as_svg
    from strands_cli.drawing.text_formats import as_dot, as_mermaid

    outline = outline_of(spec, tools)
    if form == "svg":
        return as_svg(outline, spec.name, spec.description)
    return as_dot(outline, spec.name) if form == "dot" else as_mermaid(outline, spec.name)
