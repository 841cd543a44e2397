"""Steps without a model: the tools that they call, the workflows that they run, the items they go through."""

from collections.abc import Iterator
from typing import Any

import msgspec

from strands_cli.capability.agent_checks import Places
from strands_cli.capability.tool_checks import tool_reference_issues
from strands_cli.documents.problems import Problem, describe_value, follow_path, json_pointer
from strands_cli.errors import Issue, did_you_mean
from strands_cli.loader.run_values import input_mismatch, typed_variables
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import ITEM_NAMES, ToolStep, WorkflowStep, foreach_of
from strands_cli.schema.validator import SchemaInvalid, Validator
from strands_cli.templates import is_expression, may_be_template
from strands_cli.toolkit.arguments import InputInvalid, fit_arguments
from strands_cli.toolkit.contract import closed_schema
from strands_cli.tools.toolset import ToolSet
from strands_cli.types.sections import BaseSpec, Outputs, Telemetry

_ABOUT_NAMES = ("required", "additionalProperties", "unevaluatedProperties", "falseSchema")
"""What a schema says of the names of arguments, whatever their values come to."""


def check_tool_steps(spec: Spec, places: Places, tools: ToolSet) -> Iterator[Issue]:
    """A step calls a declared tool, with arguments that it takes, as far as they are in the file."""
    for place in places:
        if not isinstance(step := place.step, ToolStep):
            continue
        problems = [*tool_reference_issues(spec, tools, f"{place.pointer}/tool", step.tool, "error")]
        yield from problems
        schema = tools.schemas_of(step.tool)[0]
        if schema is None or any(issue.severity == "error" for issue in problems):
            continue
        for problem in _argument_problems(step.arguments, schema):
            at = f"{place.pointer}/arguments"
            reason = _argument_reason(step.tool, problem)
            yield spec.issue(at + problem.pointer, reason, problem.hint or _TOOL_HINT.format(step.tool))


_TOOL_HINT = "'strands tool show {}' shows what it takes."


def _argument_problems(arguments: dict[str, Any], schema: dict[str, Any]) -> Iterator[Problem]:
    """What is certainly wrong: a template may come to anything."""
    try:
        fit_arguments(arguments, Validator(closed_schema(schema)))
    except SchemaInvalid:
        return  # which is told as a problem of the tool
    except InputInvalid as refused:
        for problem in refused.problems:
            reached, value = follow_path(arguments, problem.path)
            if problem.keyword in _ABOUT_NAMES or reached != problem.path or not _has_template(value):
                yield problem


def _argument_reason(tool: str, problem: Problem) -> str:
    name = ".".join(map(str, problem.path))
    if problem.keyword == "required":
        return f"The argument {name!r} of the tool {tool!r} is missing."
    if "name" in problem.facts:
        return f"The tool {tool!r} has no argument {name!r}."
    return f"The argument {name!r} of the tool {tool!r} must {problem.requirement}, got {problem.got}."


def _has_template(value: Any) -> bool:
    if isinstance(value, str):
        return may_be_template(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_has_template, inner))


def check_workflow_steps(spec: Spec, places: Places, tools: ToolSet) -> Iterator[Issue]:
    """The inputs of the workflows that steps run, and what has no effect in them."""
    for place in places:
        step = place.step
        inner = spec.workflows.get(step.workflow) if isinstance(step, WorkflowStep) else None
        if inner is None or not isinstance(step, WorkflowStep):
            continue  # what is wrong with its file is told with the file
        for pointer, reason, remedy in _inner_input_problems(step, inner):
            yield spec.issue(f"{place.pointer}{pointer}", reason, remedy)
        unused = {"outputs": inner.outputs != Outputs(), "telemetry": inner.telemetry != Telemetry()}
        for name in (name for name, is_declared in unused.items() if is_declared):
            reason = f"{step.workflow} declares {name}, which has no effect in a step."
            remedy = "The step gives its answer: write files and send spans from this workflow."
            yield spec.issue(f"{place.pointer}/workflow", reason, remedy, "warning")


def _inner_input_problems(step: WorkflowStep, inner: BaseSpec) -> Iterator[tuple[str, str, str]]:
    declared, fixed = inner.inputs.declared, inner.inputs.values
    for name, value in typed_variables(step.inputs, declared).items():
        at = f"/inputs{json_pointer((name,))}"
        if name not in declared and name not in fixed:
            known = [*declared, *fixed]
            listed = f"Its inputs are {', '.join(known)}." if known else "It has no inputs."
            yield at, f"{step.workflow} has no input {name!r}.", did_you_mean(name, known) or listed
        elif name in declared and not _has_template(value):
            for reason in input_mismatch(declared[name], value):
                yield at, f"The input {name!r} is not valid: {reason}.", "Give another value."
    for name, one in inner.inputs.required.items():
        if name not in {**fixed, **step.inputs} and one.default is msgspec.UNSET:
            about = f": {one.description}" if one.description else ""
            yield "", f"{step.workflow} needs the input {name!r}{about}.", f"Add inputs: {{{name}: …}}."


def check_foreach(spec: Spec, places: Places, tools: ToolSet) -> Iterator[Issue]:
    """What a step goes through is a list, and its names hide no input."""
    hidden = dict[str, None]()
    for place in places:
        items = foreach_of(place.step)
        if items is None:
            continue
        hidden |= dict.fromkeys(name for name in ITEM_NAMES if name in spec.inputs.declared)
        if getattr(place.step, "conversation", None) == "continue":
            yield spec.issue(
                f"{place.pointer}/conversation",
                "A step with 'foreach' continues no conversation: its items run at the same time.",
                "Remove 'conversation'.",
                "warning",
            )
        if isinstance(items, str) and not (may_be_template(items) and is_expression(items)):
            yield spec.issue(
                f"{place.pointer}/foreach",
                f"'foreach' needs a list, got {describe_value(items)}.",
                "Write a list, or one {{ … }} that is a list, such as {{ steps.ID.output }}.",
            )
    for name in hidden:
        group = "required" if name in spec.inputs.required else "optional"
        yield spec.issue(
            f"/inputs/{group}/{name}",
            f"A step with 'foreach' has an {name!r} of its own, which hides this input.",
            f"Write {{{{ inputs.{name} }}}}, or give the input another name.",
            "warning",
        )
