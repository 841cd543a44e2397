"""Agents, the models that they ask, and the names in templates: each must mean something where it stands."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from strands_cli.documents.problems import json_pointer
from strands_cli.errors import Issue, did_you_mean
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import ITEM_NAMES, AgentPlace, HumanStep, Step, matching_choice
from strands_cli.patterns.scope import Names, header_scope, scope_names, server_scope, unresolved_name
from strands_cli.providers.choice import (
    HOST_HINT,
    ModelChoice,
    Provider,
    host_problem,
    missing_for_provider,
    models_of,
)
from strands_cli.templates import Flaw, names_in_template
from strands_cli.types.sections import BaseSpec

Places = Sequence[AgentPlace]


def check_agents_exist(spec: Spec, places: Places) -> Iterator[Issue]:
    for place in places:
        if place.agent is not None and place.agent not in spec.agents:
            known = f"Available: {', '.join(spec.agents)}." if spec.agents else ""
            hint = did_you_mean(place.agent, spec.agents) or known
            yield spec.issue(
                f"{place.pointer}/agent",
                f"There is no agent {place.agent!r}.",
                f"Declare it under agents, or use another one. {hint}".rstrip(),
            )


def check_agents_are_used(spec: Spec, places: Places) -> Iterator[Issue]:
    used = {place.agent for place in places}
    for name in spec.agents:
        if name not in used:
            yield spec.issue(
                json_pointer(("agents", name)),
                f"The agent {name!r} is never used.",
                "Name it in the pattern, or remove it.",
                "warning",
            )


def check_choices(spec: Spec, places: Places) -> Iterator[Issue]:
    """The default of a question is one of the answers that it takes."""
    for place in places:
        step = place.step
        if not isinstance(step, HumanStep) or not step.choices or step.default is None:
            continue
        if matching_choice(step.default, step.choices) is None:
            hint = did_you_mean(step.default, step.choices) or f"Available: {', '.join(step.choices)}."
            reason = f"The default {step.default!r} is not one of the choices."
            yield spec.issue(f"{place.pointer}/human/default", reason, hint)


def check_agent_schemas(spec: Spec) -> Iterator[Issue]:
    for name, agent in spec.agents.items():
        given = {"input_schema": agent.input_schema, "output_schema": agent.output_schema}
        for key, schema in given.items():
            if schema is None:
                continue
            from strands_cli.schema.validator import SchemaInvalid, Validator

            try:
                Validator(schema)
            except SchemaInvalid as error:
                checked = "inputs" if key == "input_schema" else "answers"
                yield spec.issue(
                    json_pointer(("agents", name, key, *error.path)),
                    f"Invalid JSON Schema: {error.reason.rstrip('.')}.",
                    f"Fix it: {checked} are checked against it.",
                )


def check_skills_exist(spec: Spec) -> Iterator[Issue]:
    known = [skill.id for skill in spec.skills]
    for name, agent in spec.agents.items():
        for index, skill in enumerate(agent.skills or ()):
            if skill not in known:
                yield spec.issue(
                    json_pointer(("agents", name, "skills", index)),
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
                    f"The id {name!r} is used twice; the first is at {at}/{seen[name]}.",
                    "Give each a different id.",
                )
            seen.setdefault(name, index)


def check_warn_threshold(spec: Spec) -> Iterator[Issue]:
    at = "/runtime/budgets/warn_threshold"
    if at in spec.positions and spec.runtime.budgets.max_tokens is None:
        reason = "This has no effect: there is no budget of tokens to warn about."
        yield spec.issue(at, reason, "Set max_tokens, or remove it.", "warning")


# --- Models: which settings an agent's provider takes, and which it would ignore ---------------------------


def check_models(spec: Spec) -> Iterator[Issue]:
    """Hosts that are not addresses, and settings that have no effect on their model."""
    hosts: dict[tuple[str, ...], str | None] = {("runtime",): spec.runtime.host}
    hosts |= {("agents", name): agent.host for name, agent in spec.agents.items()}
    for path, host in hosts.items():
        if host is not None and (problem := host_problem(host)):
            yield spec.issue(json_pointer((*path, "host")), f"The host {problem}", HOST_HINT)
    # Agents that share the runtime's settings share their issues: each is reported once.
    ignored = [
        (at, f"The provider {choice.provider} has no {what}.")
        for agent, choice, provider in models_of(spec)
        for at, what in _model_settings_without_effect(spec, agent, choice, provider)
    ]
    for at, reason in dict.fromkeys(ignored):
        yield spec.issue(at, reason, "Remove it, or use another provider.", "warning")


def check_model_files(spec: Spec) -> Iterator[Issue]:
    """What is wrong with the files that models are made from."""
    for choice, provider in {choice: provider for _, choice, provider in models_of(spec)}.items():
        yield from provider.check(choice)


def missing_for_models(spec: BaseSpec) -> Iterator[Issue]:
    """What the providers of a workflow lack on this machine: packages and credentials."""
    missing = [
        (_setting_pointer(spec, agent, "provider"), reason, remedy)
        for agent, choice, _ in models_of(spec)
        for reason, remedy in missing_for_provider(choice)
    ]
    for at, reason, remedy in dict.fromkeys(missing):
        yield spec.issue(at, reason, remedy, "warning")


def _model_settings_without_effect(
    spec: Spec, agent: str, choice: ModelChoice, provider: Provider
) -> Iterator[tuple[str, str]]:
    for place in ("host", "region"):
        if getattr(choice, place) is not None and place not in provider.places:
            yield _setting_pointer(spec, agent, place), place
    own = msgspec.structs.asdict(spec.agents[agent].inference)
    for key in provider.ignores:
        if getattr(choice.inference, key) in (None, ()):
            continue
        at = ("agents", agent) if own[key] not in (None, ()) else ("runtime",)
        yield json_pointer((*at, "inference", key)), key


def _setting_pointer(spec: BaseSpec, agent: str, key: str) -> str:
    """Where a setting of an agent's model stands: at the agent, or at the runtime."""
    own = getattr(spec.agents[agent], key) is not None
    return json_pointer(("agents", agent, key)) if own else f"/runtime/{key}"


# --- The names in templates --------------------------------------------------------------------------------


def check_step_names(spec: Spec, places: Places) -> Iterator[Issue]:
    for place in places:
        for at, text, scope in place.texts:
            if "{" in text:
                yield from _template_issues(spec, at, text, ("", scope()))


_ALONE = re.compile(r"/pattern/config/(tasks/\d+|nodes/[^/]+|reduce|router|orchestrator|worker)/conversation")


def check_conversations(spec: Spec) -> Iterator[Issue]:
    """What runs at the same time as others, or only once, has no conversation to go on with."""
    for pointer in spec.positions:
        if _ALONE.fullmatch(pointer):
            reason = "This has no effect: every agent here begins a conversation of its own."
            yield spec.issue(pointer, reason, "Remove it.", "warning")


def check_prompt_names(spec: Spec, places: Places) -> Iterator[Issue]:
    """A prompt is rendered with each step of its agent: its names must be there in all of them."""
    for name, agent in spec.agents.items():
        if "{" in agent.prompt:
            used = [(f" (for {place.pointer})", place.scope()) for place in places if place.agent == name]
            yield from _template_issues(spec, json_pointer(("agents", name, "prompt")), agent.prompt, *used)


def check_artifact_names(spec: Spec) -> Iterator[Issue]:
    seen = scope_names(spec, TRACE=None, last_response=None, **spec.pattern.artifact_names(spec))
    for index, artifact in enumerate(spec.outputs.artifacts):
        at = f"/outputs/artifacts/{index}"
        yield from _template_issues(spec, f"{at}/path", artifact.path, ("", seen))
        yield from _template_issues(spec, f"{at}/from", artifact.content, ("", seen))


def check_header_names(spec: Spec) -> Iterator[Issue]:
    for index, executor in enumerate(spec.tools.http_executors):
        for name, text in executor.headers.items():
            at = json_pointer(("tools", "http_executors", index, "headers", name))
            yield from _template_issues(spec, at, text, ("", header_scope(spec)))
    for index, server in enumerate(spec.tools.mcp):
        given = {"headers": server.headers, "env": server.env if isinstance(server.env, dict) else {}}
        for key, values in given.items():
            for name, text in values.items():
                at = json_pointer(("tools", "mcp", index, key, name))
                yield from _template_issues(spec, at, text, ("", server_scope(spec)))


def _template_issues(spec: Spec, at: str, text: str, *scopes: tuple[str, Names]) -> Iterator[Issue]:
    """What is wrong with a template, whose names must be in every one of the scopes; each with its remark."""
    if "{" not in text:
        return
    found, flaws = names_in_template(text)
    for word in found:
        for remark, seen in () if word.guarded else scopes:
            if missing := unresolved_name(seen, word.name, word.path):
                flaws.append(Flaw(f"{missing[0]}{remark}", word.line, missing[1]))
                break
    for flaw in flaws:
        line = f" (line {flaw.line + 1} of the text)" if "\n" in text.strip() else ""
        yield spec.issue(at, f"{flaw.reason}{line}.", flaw.remediation)


def check_input_names(spec: Spec) -> Iterator[Issue]:
    """An input that is called like something of the pattern is hidden by it."""
    pattern = spec.pattern
    own = (*pattern.names, *(pattern.review_names if pattern.has_review else ()))
    for name in ("inputs", "TRACE", "last_response", *own):
        if name in spec.inputs.declared:
            group = "required" if name in spec.inputs.required else "optional"
            yield spec.issue(
                f"/inputs/{group}/{name}",
                f"Templates have a {name!r} of their own, which hides this input.",
                f"Write {{{{ inputs.{name} }}}}, or give the input another name.",
                "warning",
            )


def check_variable_names(spec: Spec, places: Places) -> Iterator[Issue]:
    """A name of a step's `vars` that is called like something of the pattern is hidden by it."""
    for place in places:
        names = place.step.vars if isinstance(place.step, Step) else ()
        for name in names:
            if name in ("inputs", "last_response", *ITEM_NAMES, *spec.pattern.names):
                yield spec.issue(
                    f"{place.pointer}/vars/{name}",
                    f"Templates have a {name!r} of their own, which hides this one.",
                    "Give it another name.",
                    "warning",
                )
