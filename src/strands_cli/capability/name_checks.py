"""The names in templates: each must mean something where it stands."""

from collections.abc import Iterator, Sequence

from strands_cli.documents.problems import pointer
from strands_cli.errors import Issue
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import AgentPlace
from strands_cli.patterns.scope import Names, header_scope, scope, unresolved
from strands_cli.templates import Flaw, Name, names


def check_step_names(spec: Spec, places: Sequence[AgentPlace]) -> Iterator[Issue]:
    for place in places:
        if "{" in place.text:
            yield from _template_issues(spec, place.text_pointer, place.text, place.scope())


def check_prompt_names(spec: Spec, places: Sequence[AgentPlace]) -> Iterator[Issue]:
    """A prompt is rendered with each step of its agent: its names must be there in all of them."""
    used: dict[str, list[tuple[str, Names]]] = {}
    for place in places:
        agent = spec.agents.get(place.agent or "")
        if agent is not None and "{" in agent.prompt:
            used.setdefault(place.agent or "", []).append((place.pointer, place.scope()))
    for name, agent in spec.agents.items():
        at = pointer(("agents", name, "prompt"))
        found, flaws = names(agent.prompt)
        yield from (_issue(spec, at, agent.prompt, flaw) for flaw in flaws)
        for word in found:
            yield from _first_missing(spec, at, agent.prompt, word, used.get(name, []))


def _first_missing(
    spec: Spec, at: str, text: str, word: Name, used: list[tuple[str, Names]]
) -> Iterator[Issue]:
    for place, seen in used:
        missing = None if word.guarded else unresolved(seen, word.name, word.path)
        if missing:
            yield _issue(spec, at, text, Flaw(f"{missing[0]} (for {place})", word.line, missing[1]))
            return


def check_artifact_names(spec: Spec) -> Iterator[Issue]:
    seen = scope(spec, TRACE=None, last_response=None, **spec.pattern.artifact_names(spec))
    for index, artifact in enumerate(spec.outputs.artifacts):
        at = f"/outputs/artifacts/{index}"
        yield from _template_issues(spec, f"{at}/path", artifact.path, seen)
        yield from _template_issues(spec, f"{at}/from", artifact.content, seen)


def check_header_names(spec: Spec) -> Iterator[Issue]:
    scope = header_scope(spec)
    for index, executor in enumerate(spec.tools.http_executors):
        for name, text in executor.headers.items():
            at = pointer(("tools", "http_executors", index, "headers", name))
            yield from _template_issues(spec, at, text, scope)


def check_input_names(spec: Spec) -> Iterator[Issue]:
    """An input that is called like something of the pattern is hidden by it."""
    for name in ("inputs", "TRACE", "last_response", *spec.pattern.names):
        if name in spec.inputs.declared:
            yield _hidden(spec, name)


def _hidden(spec: Spec, name: str) -> Issue:
    group = "required" if name in spec.inputs.required else "optional"
    return spec.issue(
        f"/inputs/{group}/{name}",
        f"Templates have a {name!r} of their own, which hides this input.",
        f"Write {{{{ inputs.{name} }}}}, or give the input another name.",
        "warning",
    )


def _template_issues(spec: Spec, at: str, text: str, scope: Names) -> Iterator[Issue]:
    found, flaws = names(text)
    yield from (_issue(spec, at, text, flaw) for flaw in flaws)
    for word in found:
        missing = None if word.guarded else unresolved(scope, word.name, word.path)
        if missing:
            yield _issue(spec, at, text, Flaw(missing[0], word.line, missing[1]))


def _issue(spec: Spec, at: str, text: str, flaw: Flaw) -> Issue:
    where = f" (line {flaw.line + 1} of the text)" if "\n" in text.strip() else ""
    return spec.issue(at, f"{flaw.reason}{where}.", flaw.remediation)
