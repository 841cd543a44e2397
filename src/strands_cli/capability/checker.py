"""`check_capability`: everything in a workflow that would keep it from running, or that cannot be meant.

A check takes the Spec and yields Issues; it never raises. Those of one pattern stand in the pattern's file.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from math import inf

import msgspec

from strands_cli.capability.agent_checks import (
    Places,
    check_agent_schemas,
    check_agents_are_used,
    check_agents_exist,
    check_artifact_names,
    check_choices,
    check_conversations,
    check_header_names,
    check_ids,
    check_input_names,
    check_model_files,
    check_models,
    check_prompt_names,
    check_skills_exist,
    check_step_names,
    check_variable_names,
    check_warn_threshold,
)
from strands_cli.capability.file_checks import (
    check_artifacts,
    check_environment_variables,
    check_notes,
    check_secrets,
    check_skills,
    check_workspace,
)
from strands_cli.capability.step_checks import check_foreach, check_tool_steps, check_workflow_steps
from strands_cli.capability.tool_checks import (
    check_agent_tools,
    check_consent,
    check_executors,
    check_guardrails,
    check_plugins,
    check_prices,
    check_python_tools,
    check_servers,
    check_tool_counts,
    check_tools_differ,
    check_trust,
)
from strands_cli.errors import Issue
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import ToolStep
from strands_cli.templates import Meter
from strands_cli.tools.toolset import ToolSet

CapabilityIssue = Issue
MAX_PER_CHECK = 100
"""What one check reports at most: enough to correct before the next check."""
_INPUTS = ("/inputs", "/inputs/required", "/inputs/optional", "/inputs/values")


class CapabilityReport(msgspec.Struct, frozen=True):
    """What the checks found."""

    issues: tuple[Issue, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether the workflow can run. It can, despite warnings."""
        return not self.errors

    @property
    def errors(self) -> tuple[Issue, ...]:
        return tuple(issue for issue in self.issues if issue.severity == "error")

    @property
    def warnings(self) -> tuple[Issue, ...]:
        return tuple(issue for issue in self.issues if issue.severity == "warning")


def check_remarks(spec: Spec) -> Iterator[Issue]:
    """What reading the file gave to say."""
    yield from spec.remarks


# Each check with the parts of the file on which it depends. If one of them is broken, what the check says
# may only follow from that. A '*' stands for everything below.
CHECKS: dict[Callable[[Spec], Iterator[Issue]], Sequence[str]] = {
    check_remarks: (),
    check_models: ("/runtime*", "/agents*"),
    check_model_files: ("/runtime*", "/agents*"),
    check_warn_threshold: ("/runtime*",),
    check_skills_exist: ("/skills*",),
    check_agent_schemas: (),
    check_ids: (),
    check_conversations: (),
    check_input_names: (),
    check_artifact_names: ("/pattern*", *_INPUTS),
    check_header_names: ("/env*",),
    check_artifacts: (),
    check_notes: (),
    check_skills: (),
    check_secrets: (),
    check_environment_variables: (),
    check_workspace: (),
}
PLACE_CHECKS: dict[Callable[[Spec, Places], Iterator[Issue]], Sequence[str]] = {
    check_agents_exist: ("/agents",),
    check_agents_are_used: ("/pattern*",),
    check_choices: ("/pattern*",),
    check_step_names: _INPUTS,
    check_prompt_names: ("/pattern*", *_INPUTS),
    check_variable_names: (),
}
STEP_CHECKS: dict[Callable[[Spec, Places, ToolSet], Iterator[Issue]], Sequence[str]] = {
    check_agent_tools: ("/tools*",),
    check_tool_counts: (),
    check_tool_steps: ("/tools*",),
    check_workflow_steps: (),
    check_foreach: (),
}
TOOL_CHECKS: dict[Callable[[Spec, ToolSet], Iterator[Issue]], Sequence[str]] = {
    check_python_tools: (),
    check_plugins: (),
    check_servers: (),
    check_tools_differ: (),
    check_executors: (),
    check_consent: ("/tools*",),
    check_guardrails: ("/tools*",),
    check_prices: ("/runtime*", "/agents*"),
    check_trust: (),
}


def check_capability(
    spec: Spec, known: Sequence[Issue] = (), *, tools: ToolSet | None = None, asks_models: bool = True
) -> CapabilityReport:
    """Runs all checks on a workflow, including those of its tools and its pattern.

    If the file has `known` problems, the Spec is incomplete. Problems that only follow from those are left
    out. Without `asks_models`, the files of models are not looked at.
    """
    declared = tools or ToolSet(spec)
    left_out = set() if asks_models else {check_model_files}
    issues = [*_issues_of(spec, known, declared, left_out)]
    # What an inner workflow asks the user to trust is told with the workflow that runs it.
    for inner in declared.family[1:]:
        assert isinstance(inner.spec, Spec)
        issues += _issues_of(inner.spec, (), inner, {*left_out, check_trust})
    # A workflow that two others run is looked at with the guardrails of each.
    return CapabilityReport(tuple(dict.fromkeys(issues)))


def _issues_of(
    spec: Spec, known: Sequence[Issue], declared: ToolSet, left_out: Collection[object]
) -> list[Issue]:
    """Those of one file."""
    places = tuple(spec.pattern.places(spec))
    called = {place.step.tool for place in places if isinstance(place.step, ToolStep)}
    if outputs := {tool: schema for tool in called if (schema := declared.schemas_of(tool)[1])}:
        spec = msgspec.structs.replace(spec, tool_outputs=outputs)
        places = tuple(spec.pattern.places(spec))
    checks: list[tuple[Callable[[], Iterator[Issue]], Sequence[str]]] = [
        *((partial(check, spec), parts) for check, parts in CHECKS.items() if check not in left_out),
        *((partial(check, spec, places), parts) for check, parts in PLACE_CHECKS.items()),
        *((partial(check, spec, places, declared), parts) for check, parts in STEP_CHECKS.items()),
        *(
            (partial(check, spec, declared), parts)
            for check, parts in TOOL_CHECKS.items()
            if check not in left_out
        ),
        *((partial(check, spec.pattern, spec), parts) for check, parts in spec.pattern.checks.items()),
    ]
    own = {str(spec.file), *(file for file, _, _ in spec.positions.values())} if known else set()
    broken = {
        issue.pointer for issue in known if issue.severity == "error" and issue.pointer and issue.file in own
    }
    found = (
        issue
        for check, parts in checks
        if not any(_is_broken_part(part, broken) for part in parts)
        for issue in islice(check(), MAX_PER_CHECK)
    )
    with Meter(seconds=inf).running():  # whatever templates a file has, looking at it is quick
        return [
            issue for issue in found if not any(f"{issue.pointer}/".startswith(f"{at}/") for at in broken)
        ]


def _is_broken_part(part: str, broken: set[str]) -> bool:
    whole = part.removesuffix("*")
    return whole in broken or (part != whole and any(at.startswith(whole + "/") for at in broken))
