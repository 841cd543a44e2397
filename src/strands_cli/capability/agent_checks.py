"""Agents: those that the pattern names, and their tools and skills."""

from collections.abc import Iterator, Sequence

from strands_cli.documents.problems import pointer
from strands_cli.errors import Issue, did_you_mean
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import AgentPlace

Places = Sequence[AgentPlace]


def check_agents_exist(spec: Spec, places: Places) -> Iterator[Issue]:
    for place in places:
        if place.agent is not None and place.agent not in spec.agents:
            hint = did_you_mean(place.agent, spec.agents) or f"There are {', '.join(spec.agents)}."
            yield spec.issue(
                f"{place.pointer}/agent",
                f"There is no agent {place.agent!r}.",
                f"Declare it under agents, or use another one. {hint}",
            )


def check_agents_are_used(spec: Spec, places: Places) -> Iterator[Issue]:
    used = {place.agent for place in places}
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


def check_ids(spec: Spec) -> Iterator[Issue]:
    """Steps, tasks and branches that have the id of another one."""
    for at, ids in spec.pattern.id_lists():
        seen: dict[str, int] = {}
        for index, name in enumerate(ids):
            if name and name in seen:
                yield spec.issue(
                    f"{at}/{index}/id",
                    f"The id {name!r} stands here a second time; the first is at {at}/{seen[name]}.",
                    "Give each of them an id of its own.",
                )
            seen.setdefault(name, index)
