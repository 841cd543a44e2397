"""`check_capability`: everything in a workflow that would keep it from running, or that cannot be meant.

A check takes the Spec and yields Issues; it never raises. `CHECKS` is all of them, in the order in which
their findings are told.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from strands_cli.capability.agents import (
    check_agents_are_used,
    check_agents_exist,
    check_output_schemas,
    check_replaced_schemas,
    check_skills_exist,
)
from strands_cli.capability.files import check_artifacts, check_notes, check_secrets, check_skills
from strands_cli.capability.graphs import check_conditions, check_edges, check_reachability, check_ways_on
from strands_cli.capability.models import check_models
from strands_cli.capability.names import (
    check_artifact_names,
    check_header_names,
    check_input_names,
    check_prompt_names,
    check_step_names,
)
from strands_cli.capability.patterns import check_ids, check_needs, check_routes
from strands_cli.capability.plugins import check_plugins
from strands_cli.capability.reporter import CapabilityReport
from strands_cli.capability.tools import (
    check_agent_tools,
    check_consent,
    check_executors,
    check_python_tools,
    check_tool_counts,
    check_tools_differ,
)
from strands_cli.capability.unsupported import check_unsupported
from strands_cli.errors import Issue
from strands_cli.types import Spec

CapabilityIssue = Issue
MOST_OF_A_KIND = 100
"""What one check tells at most: whoever has mended these looks again."""
Check = Callable[[Spec], Iterator[Issue]]

CHECKS: tuple[Check, ...] = (
    check_unsupported,
    check_agents_exist,
    check_agents_are_used,
    check_models,
    check_python_tools,
    check_plugins,
    check_tools_differ,
    check_executors,
    check_agent_tools,
    check_tool_counts,
    check_consent,
    check_skills_exist,
    check_output_schemas,
    check_replaced_schemas,
    check_ids,
    check_needs,
    check_routes,
    check_edges,
    check_reachability,
    check_conditions,
    check_ways_on,
    check_input_names,
    check_step_names,
    check_prompt_names,
    check_artifact_names,
    check_header_names,
    check_artifacts,
    check_notes,
    check_skills,
    check_secrets,
)

# Parts of the file on which a check rests. Where one of them is broken, what the check says may only follow
# from that. A '*' stands for everything below.
RESTS_ON: dict[Check, tuple[str, ...]] = {
    check_agents_exist: ("/agents",),
    check_agents_are_used: ("/pattern*",),
    check_models: ("/runtime*", "/agents*"),
    check_agent_tools: ("/tools*",),
    check_consent: ("/tools*",),
    check_skills_exist: ("/skills*",),
    check_replaced_schemas: ("/pattern*",),
    check_needs: ("/pattern/config/tasks",),
    check_edges: ("/pattern/config/nodes",),
    check_reachability: ("/pattern*",),
    check_ways_on: ("/pattern*",),
    check_step_names: ("/inputs", "/inputs/required", "/inputs/optional", "/inputs/values"),
    check_prompt_names: ("/pattern*", "/inputs", "/inputs/required", "/inputs/optional", "/inputs/values"),
    check_artifact_names: ("/pattern*", "/inputs", "/inputs/required", "/inputs/optional", "/inputs/values"),
    check_header_names: ("/env*",),
}


def check_capability(spec: Spec, known: Sequence[Issue] = ()) -> CapabilityReport:
    """What the checks find in a workflow.

    With `known` problems the Spec is one that was made in spite of them: what only follows from them is
    left out.
    """
    broken = {issue.pointer for issue in known if issue.severity == "error" and issue.pointer}
    found = [
        issue
        for check in CHECKS
        if not any(_matches(rest, broken) for rest in RESTS_ON.get(check, ()))
        for issue in islice(check(spec), MOST_OF_A_KIND)
    ]
    return CapabilityReport(tuple(issue for issue in found if not _is_below(issue.pointer, broken)))


def _matches(part: str, broken: set[str]) -> bool:
    whole = part.removesuffix("*")
    return whole in broken or (part != whole and any(at.startswith(whole + "/") for at in broken))


def _is_below(pointer: str, broken: set[str]) -> bool:
    while pointer and broken:
        if pointer in broken:
            return True
        pointer = pointer.rpartition("/")[0]
    return False
