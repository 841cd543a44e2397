"""Tools: what is declared, what there is, and what each agent gets."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from strands_cli.capability.plugins import plugin_needs, plugin_tools
from strands_cli.documents.problems import pointer
from strands_cli.errors import Issue, ToolError, did_you_mean
from strands_cli.toolkit.info import ToolInfo
from strands_cli.toolkit.requirements import missing_requirements
from strands_cli.types import Spec

MANY_TOOLS = 64
"""More than these confuse a model, and providers refuse some more."""


class Declared(msgspec.Struct, frozen=True):
    """A tool of `tools.python`, as the workflow names it, or one of a plugin."""

    pointer: str
    reference: str
    info: ToolInfo | None


def resolve_reference(spec: Spec, reference: str) -> ToolInfo | None:
    """The tool that a reference in the workflow means; files are relative to the workflow."""
    from strands_cli.tools import get_registry
    from strands_cli.tools.sources.files import is_path

    try:
        if is_path(reference) and not Path(reference).is_absolute():
            reference = str(spec.file.parent / reference)
        return get_registry().get_by_import_path(reference)
    except (OSError, ValueError):
        # A name that no file system takes: too long, or with a null byte.
        return None


def declared_tools(spec: Spec) -> list[Declared]:
    return [
        *(
            Declared(f"/tools/python/{index}/callable", tool.callable, resolve_reference(spec, tool.callable))
            for index, tool in enumerate(spec.tools.python)
        ),
        *(Declared(at, info.id, info) for at, info in plugin_tools(spec)),
    ]


def check_python_tools(spec: Spec) -> Iterator[Issue]:
    for tool in declared_tools(spec):
        if tool.info is None:
            yield _unknown(spec, tool)
            continue
        if tool.info.deprecated:
            instead = tool.info.replaced_by
            yield spec.issue(
                tool.pointer,
                f"Tool {tool.reference} is deprecated as of v{tool.info.version}.",
                f"Use {instead}." if instead else "Use another tool.",
                "warning",
            )
        yield from _unavailable(spec, tool.pointer, tool.reference, tool.info)


def _unavailable(spec: Spec, at: str, reference: str, info: ToolInfo) -> Iterator[Issue]:
    """What a tool lacks here. A plugin that is not as it was approved does not run at all."""
    requires = info.requires
    if info.manifest:
        if at.startswith("/tools/python/"):  # of those under tools.plugins, `check_plugins` tells
            yield from _unapproved(spec, at, info)
        needs = plugin_needs(info)
        requires = needs.requires
        for reason, remedy in needs.settings:
            yield spec.issue(at, f"Tool {reference} is not available here: {reason}.", remedy, "warning")
    for reason in missing_requirements(requires):
        yield spec.issue(
            at,
            f"Tool {reference} is not available here: {reason}.",
            f"'strands tool show {info.id}' says what it needs.",
            "warning",
        )


def _unapproved(spec: Spec, at: str, info: ToolInfo) -> Iterator[Issue]:
    from strands_cli.tools import get_registry

    place = str(Path(info.file).parent)
    for issue in get_registry().problems:
        if issue.file == place:
            yield spec.issue(at, issue.reason, issue.remediation)


def _unknown(spec: Spec, tool: Declared) -> Issue:
    from strands_cli.tools import get_registry

    registry = get_registry()
    if tool.reference in registry.get_allowlist():
        found = next((issue for issue in registry.problems if tool.reference in issue.reason), None)
        reason = found.reason if found else "it cannot be found."
        remedy = (found and found.remediation) or "'strands tool check' says more."
        return spec.issue(tool.pointer, f"Failed to load tool '{tool.reference}': {reason}", remedy)
    return spec.issue(
        tool.pointer,
        f"Python callable '{tool.reference}' not in allowlist",
        f"Use an existing native tool or add one under strands_cli.tools. {_suggestion(tool.reference)}",
    )


def _suggestion(reference: str) -> str:
    from strands_cli.tools import get_registry

    try:
        get_registry().require(reference)
    except ToolError as error:
        return error.hint
    except (OSError, ValueError):
        pass
    return ""


def check_tools_differ(spec: Spec) -> Iterator[Issue]:
    seen: dict[str, Declared] = {}
    for tool in declared_tools(spec):
        if tool.info is None:
            continue
        first = seen.setdefault(tool.info.id, tool)
        if first is tool:
            continue
        if _is_same(first.info, tool.info):
            reason = f"{tool.reference} is the same tool as {first.reference}, which is declared already."
            yield spec.issue(tool.pointer, reason, "Keep one of the two.", "warning")
        else:
            reason = (
                f"There are two tools of the id {tool.info.id!r}: {first.reference} and {tool.reference}."
            )
            yield spec.issue(tool.pointer, reason, "Keep one of them: a model calls them by their id.")


def _is_same(one: ToolInfo | None, other: ToolInfo | None) -> bool:
    if one is None or other is None:
        return False
    return (one.reference, one.file, one.module_path) == (other.reference, other.file, other.module_path)


def check_executors(spec: Spec) -> Iterator[Issue]:
    taken = {tool.info.id: f"the tool {tool.reference}" for tool in declared_tools(spec) if tool.info}
    for index, executor in enumerate(spec.tools.http_executors):
        if executor.id in taken:
            yield spec.issue(
                f"/tools/http_executors/{index}/id",
                f"The id {executor.id!r} is taken by {taken[executor.id]}.",
                "Give it an id of its own.",
            )
        taken.setdefault(executor.id, "another HTTP executor")


def check_agent_tools(spec: Spec) -> Iterator[Issue]:
    declared = declared_tools(spec) if any(agent.tools for agent in spec.agents.values()) else []
    for name, agent in spec.agents.items():
        for index, reference in enumerate(agent.tools or ()):
            if not _is_declared(spec, declared, reference):
                yield _undeclared(spec, declared, pointer(("agents", name, "tools", index)), reference)


def _is_declared(spec: Spec, declared: list[Declared], reference: str) -> bool:
    is_executor = reference in {item.id for item in spec.tools.http_executors}
    return is_executor or find_declared(spec, declared, reference) is not None


def find_declared(spec: Spec, declared: list[Declared], reference: str) -> Declared | None:
    """The declared tool that a reference means: as it is declared, by its id, or in any other form."""
    for tool in declared:
        if reference == tool.reference:
            return tool
    info = resolve_reference(spec, reference)
    for tool in declared:
        if _is_same(tool.info, info) or (tool.info is not None and tool.info.id == reference):
            return tool
    return None


def _undeclared(spec: Spec, declared: list[Declared], at: str, reference: str) -> Issue:
    known = {tool.info.id if tool.info else tool.reference for tool in declared}
    known |= {item.id for item in spec.tools.http_executors}
    if resolve_reference(spec, reference):
        return spec.issue(
            at, f"The tool {reference!r} is not declared in this workflow.", "Add it to tools.python."
        )
    hint = did_you_mean(reference, known) or _suggestion(reference)
    return spec.issue(at, f"There is no tool {reference!r}.", f"{hint} Declare it in tools.python.".strip())


def check_tool_counts(spec: Spec) -> Iterator[Issue]:
    plugins = sum(1 for _ in plugin_tools(spec))
    everything = len(spec.tools.python) + len(spec.tools.http_executors) + plugins
    for name, agent in spec.agents.items():
        number = everything if agent.tools is None else len(agent.tools)
        if number > MANY_TOOLS:
            yield spec.issue(
                pointer(("agents", name)) + ("/tools" if agent.tools else ""),
                f"The agent {name!r} gets {number} tools; models do well with {MANY_TOOLS} at most.",
                "Name the tools that it needs under its 'tools'.",
                "warning",
            )


def check_consent(spec: Spec) -> Iterator[Issue]:
    """A rule for a tool that the workflow does not have has no effect."""
    declared = declared_tools(spec) if spec.security.consent else []
    for reference in spec.security.consent:
        if not _is_declared(spec, declared, reference):
            known = [tool.info.id for tool in declared if tool.info]
            yield spec.issue(
                pointer(("security", "consent", reference)),
                f"There is no tool {reference!r} in this workflow.",
                did_you_mean(reference, known) or "Take the rule out.",
                "warning",
            )
