"""Agents: those that the pattern names, and what each of them is given."""

from collections.abc import Iterator
from typing import Any

from strands_cli.capability.places import places
from strands_cli.documents.problems import pointer
from strands_cli.errors import Issue, did_you_mean
from strands_cli.types import EvaluatorOptimizer, OrchestratorWorkers, Routing, Spec

_VERDICT: dict[str, dict[str, Any]] = {
    "score": {"type": "number", "minimum": 0, "maximum": 100},
    "feedback": {"type": "string"},
}
"""What every evaluation has, whatever the evaluator's own schema says of it."""


def check_agents_exist(spec: Spec) -> Iterator[Issue]:
    for place in places(spec):
        if place.agent is not None and place.agent not in spec.agents:
            hint = did_you_mean(place.agent, spec.agents) or f"There are {', '.join(spec.agents)}."
            yield spec.issue(
                f"{place.pointer}/agent",
                f"There is no agent {place.agent!r}.",
                f"Declare it under agents, or use another one. {hint}",
            )


def check_agents_are_used(spec: Spec) -> Iterator[Issue]:
    used = {place.agent for place in places(spec)}
    for name in spec.agents:
        if name not in used:
            yield spec.issue(
                pointer(("agents", name)),
                f"The agent {name!r} is never used.",
                "Name it in the pattern, or take it out.",
                "warning",
            )


def check_output_schemas(spec: Spec) -> Iterator[Issue]:
    for name, agent in spec.agents.items():
        if agent.output_schema is None:
            continue
        from strands_cli.schema.validator import SchemaInvalid, Validator

        try:
            Validator(agent.output_schema)
        except SchemaInvalid as error:
            yield spec.issue(
                pointer(("agents", name, "output_schema", *error.path)),
                f"This is not a JSON Schema: {error.reason.rstrip('.')}.",
                "Correct it: answers are checked against it.",
            )


def check_skills_exist(spec: Spec) -> Iterator[Issue]:
    known = [skill.id for skill in spec.skills]
    for name, agent in spec.agents.items():
        for index, skill in enumerate(agent.skills or ()):
            if skill not in known:
                yield spec.issue(
                    pointer(("agents", name, "skills", index)),
                    f"There is no skill {skill!r}.",
                    f"{did_you_mean(skill, known)} Skills are declared under skills.".strip(),
                )


def check_replaced_schemas(spec: Spec) -> Iterator[Issue]:
    """Where the pattern says what is answered, an `output_schema` has no effect, or not all of it has."""
    pattern = spec.pattern
    if isinstance(pattern, Routing):
        yield from _replaced(spec, pattern.router.agent, "router", "the route that it chooses")
    elif isinstance(pattern, OrchestratorWorkers):
        yield from _replaced(spec, pattern.orchestrator.agent, "orchestrator", "the tasks that it makes")
    elif isinstance(pattern, EvaluatorOptimizer):
        yield from _replaced_parts(spec, pattern.evaluator.agent)


def _replaced(spec: Spec, name: str, role: str, answer: str) -> Iterator[Issue]:
    agent = spec.agents.get(name)
    if agent is not None and agent.output_schema is not None:
        yield spec.issue(
            pointer(("agents", name, "output_schema")),
            f"The output_schema of {name!r} has no effect for the {role}, which answers with {answer}.",
            f"Take it out, or give the {role} an agent of its own.",
            "warning",
        )


def _replaced_parts(spec: Spec, name: str) -> Iterator[Issue]:
    agent = spec.agents.get(name)
    own: dict[str, Any] = (agent.output_schema if agent else None) or {}
    at = ("agents", name, "output_schema")
    if own.get("type", "object") != "object":
        reason = "An evaluation is an object, with a score and feedback: this type has no effect."
        yield spec.issue(pointer((*at, "type")), reason, "Write object, and name properties.", "warning")
    properties: Any = own.get("properties")
    for part, verdict in _VERDICT.items():
        said = properties.get(part) if isinstance(properties, dict) else None
        if (
            isinstance(said, dict)
            and not said.items() <= {"description": said.get("description"), **verdict}.items()
        ):
            reason = (
                f"Every evaluation has a {part} of its own form: what the schema says of it has no effect."
            )
            yield spec.issue(
                pointer((*at, "properties", part)), reason, "Take it out, or call it otherwise.", "warning"
            )
