"""Tools: what is declared, what there is, and what each agent gets."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from strands_cli.capability.agent_checks import Places
from strands_cli.documents.problems import Refusal, json_pointer
from strands_cli.errors import Issue, Severity, ToolFailed, did_you_mean
from strands_cli.loader.spec import Spec
from strands_cli.patterns.pattern import Step
from strands_cli.providers.choice import key_uses, models_of, price_of, with_default_model
from strands_cli.toolkit.info import ToolInfo, missing_requirements
from strands_cli.tools.sources.modules import is_file_reference
from strands_cli.tools.toolset import DeclaredTool, ToolSet
from strands_cli.trust import ask_issue, workflow_asks
from strands_cli.types.asks import Ask
from strands_cli.types.sections import BaseSpec

MANY_TOOLS = 64
"""More than these confuse a model, and providers refuse some more."""
_LEGACY_PREFIXES = ("strands_tools.", "strands_tools:")


def check_python_tools(spec: Spec, tools: ToolSet) -> Iterator[Issue]:
    for tool in tools.declared:
        if tool.info is None:
            yield _unknown_tool(spec, tools, tool)
            continue
        yield from _legacy_name_issues(spec, tool.pointer, tool.reference, tool.info)
        if tool.info.deprecated:
            instead = tool.info.replaced_by
            yield spec.issue(
                tool.pointer,
                f"Tool {tool.reference} is deprecated as of v{tool.info.version}.",
                f"Use {instead}." if instead else "Use another tool.",
                "warning",
            )
        for other in tools.registry.shadowed_by(tool.reference):
            warning = other.warning_in(spec.file.parent)
            yield spec.issue(tool.pointer, warning, "Rename one of them.", "warning")
        yield from _tool_availability_issues(spec, tools, tool.pointer, tool.reference, tool.info)


def _legacy_name_issues(spec: Spec, at: str, reference: str, info: ToolInfo) -> Iterator[Issue]:
    if info.source == "native" and reference.startswith(_LEGACY_PREFIXES):
        reason = f"{reference} is a legacy name of the tool {info.id}."
        yield spec.issue(at, reason, f"Write native:{info.id}.", "warning")


def _tool_availability_issues(
    spec: Spec, tools: ToolSet, at: str, reference: str, info: ToolInfo
) -> Iterator[Issue]:
    """What a tool lacks here. A plugin that is not as it was approved does not run at all."""
    requires = info.requires
    if info.manifest:
        from strands_cli.plugins.manifest import plugin_setting_problems
        from strands_cli.plugins.plugin import plugin_declaration_of

        places = (info.file, str(Path(info.file).parent))
        for issue in tools.registry.problems:
            # `check_plugins` reports those under tools.plugins.
            if issue.file in places and at.startswith("/tools/python/"):
                yield spec.issue(at, issue.reason, issue.remediation)
        if declared := plugin_declaration_of(info):
            requires = declared[1].needs
            for reason, remedy in plugin_setting_problems(*declared):
                yield spec.issue(at, f"Tool {reference} is not available here: {reason}.", remedy, "warning")
    for reason in missing_requirements(requires):
        yield spec.issue(
            at,
            f"Tool {reference} is not available here: {reason}.",
            f"'strands tool show {info.id}' says what it needs.",
            "warning",
        )


def _unknown_tool(spec: Spec, tools: ToolSet, tool: DeclaredTool) -> Issue:
    error = tools.reference_error(tool.reference)
    remedy = error.hint
    if error.code == "unknown_tool":
        remedy = f"Use an existing native tool or add one under strands_cli.tools. {remedy}"
    return spec.issue(tool.pointer, error.message, remedy)


def check_tools_differ(spec: Spec, tools: ToolSet) -> Iterator[Issue]:
    seen: dict[str, DeclaredTool] = {}
    for tool in tools.declared:
        if tool.info is None:
            continue
        first = seen.setdefault(tool.info.id, tool)
        if first is tool:
            continue
        if first.is_same_as(tool.info):
            reason = f"{tool.reference} is the same tool as {first.reference}, which is declared already."
            yield spec.issue(tool.pointer, reason, "Keep only one.", "warning")
        else:
            both = f"{first.reference} and {tool.reference}"
            reason = f"There are two tools of the id {tool.info.id!r}: {both}."
            yield spec.issue(tool.pointer, reason, "Keep one of them: a model calls them by their id.")


def check_executors(spec: Spec, tools: ToolSet) -> Iterator[Issue]:
    taken = {tool.info.id: f"the tool {tool.reference}" for tool in tools.declared if tool.info}
    for index, executor in enumerate(spec.tools.http_executors):
        if executor.id in taken:
            yield spec.issue(
                f"/tools/http_executors/{index}/id",
                f"The id {executor.id!r} is taken by {taken[executor.id]}.",
                "Give it a different id.",
            )
        taken.setdefault(executor.id, "another HTTP executor")


def check_agent_tools(spec: Spec, places: Places, tools: ToolSet) -> Iterator[Issue]:
    for at, _, listed in _tool_lists(spec, places):
        for index, reference in enumerate(listed or ()):
            yield from tool_reference_issues(spec, tools, f"{at}/tools/{index}", reference)


def _tool_lists(spec: Spec, places: Places) -> Iterator[tuple[str, str, tuple[str, ...] | None]]:
    """The agents, and the steps that list tools of their own: where each stands, and what it lists."""
    for name, agent in spec.agents.items():
        yield json_pointer(("agents", name)), f"agent {name!r}", agent.tools
    for place in places:
        if isinstance(place.step, Step) and place.step.tools is not None:
            yield place.pointer, "step", place.step.tools


def tool_reference_issues(
    spec: Spec, tools: ToolSet, at: str, reference: str, withheld: Severity = "warning"
) -> Iterator[Issue]:
    """What is wrong with a reference to a declared tool; `withheld` is how much a guardrail matters."""
    found = tools.find(reference)
    if guardrail := tools.withheld(reference):
        reason = f"{guardrail} withholds the tool {reference!r}."
        yield spec.issue(at, reason, "Do without the tool, or change the guardrail.", withheld)
    is_declared_so = any(tool.reference == reference for tool in tools.declared)
    if found is not None and found.info is not None and not is_declared_so:
        yield from _legacy_name_issues(spec, at, reference, found.info)
    if reference in tools.executor_ids or found is not None or _is_of_server(reference, tools):
        return
    if tools.resolve(reference):
        reason = f"The tool {reference!r} is not declared in this workflow."
        yield spec.issue(at, reason, "Add it to tools.python.")
        return
    known = {tool.info.id if tool.info else tool.reference for tool in tools.declared}
    hint = did_you_mean(reference, known | set(tools.executor_ids))
    hint = hint or tools.reference_error(reference).hint
    remedy = f"{hint} Declare it in tools.python.".strip()
    yield spec.issue(at, f"There is no tool {reference!r}.", remedy)


def _is_of_server(reference: str, tools: ToolSet) -> bool:
    """Whether a server is meant, or a tool of one whose tools are not known yet."""
    return any(
        reference == one.id or (one.is_unknown and reference.startswith(f"{one.id}__"))
        for one in tools.servers
    )


def check_tool_counts(spec: Spec, places: Places, tools: ToolSet) -> Iterator[Issue]:
    everything = len(tools.declared) + len(tools.executor_ids)
    for at, who, listed in _tool_lists(spec, places):
        number = everything if listed is None else sum(len(tools.members(name)) for name in listed)
        if number > MANY_TOOLS:
            yield spec.issue(
                at + ("/tools" if listed else ""),
                f"The {who} gets {number} tools; models do well with {MANY_TOOLS} at most.",
                "Name the tools that it needs under its 'tools'.",
                "warning",
            )


def check_consent(spec: Spec, tools: ToolSet) -> Iterator[Issue]:
    """A rule for a tool that the workflow does not have has no effect."""
    for reference in spec.security.consent:
        is_known = reference in tools.executor_ids or _is_of_server(reference, tools)
        if not is_known and tools.find(reference) is None:
            known = [tool.info.id for tool in tools.declared if tool.info]
            yield spec.issue(
                json_pointer(("security", "consent", reference)),
                f"There is no tool {reference!r} in this workflow.",
                did_you_mean(reference, known) or "Remove the rule.",
                "warning",
            )


def check_guardrails(spec: Spec, tools: ToolSet) -> Iterator[Issue]:
    for index, reference in enumerate(spec.security.guardrails.allow_tools or ()):
        is_here = reference in tools.executor_ids or _is_of_server(reference, tools)
        if not is_here and tools.find(reference) is None and tools.resolve(reference) is None:
            hint = did_you_mean(reference, {*tools.callable_ids, *(one.id for one in tools.servers)})
            yield spec.issue(
                f"/security/guardrails/allow_tools/{index}",
                f"There is no tool {reference!r}.",
                hint or "Remove it. 'strands list-tools' shows all tools.",
                "warning",
            )


def check_trust(spec: Spec, tools: ToolSet) -> Iterator[Issue]:
    """What the workflow and its project's settings ask for, and the user has not trusted."""
    for ask in all_asks(spec, tools):
        if not ask.trusted:
            yield ask_issue(ask, str(spec.file) if spec.positions else "")


def all_asks(spec: Spec, tools: ToolSet) -> tuple[Ask, ...]:
    """All that the workflow, those that it runs, and its project's settings ask for beyond the project.

    A server of the settings that none of them names is not started, so it needs no decision here.
    """
    own = (ask for one in tools.family for ask in _own_asks(spec if one is tools else one.spec, one))
    named = {entry.id for one in tools.family for entry in one.spec.tools.mcp}
    of_settings = (
        ask
        for ask in tools.registry.settings.asks
        if ask.trusted or ask.kind != "server" or ask.value.partition(":")[0] in named
    )
    return (*of_settings, *{ask.id: ask for ask in own}.values())


def _own_asks(spec: BaseSpec, tools: ToolSet) -> tuple[Ask, ...]:
    settings = tools.registry.settings
    consents = (name for name, rule in spec.security.consent.items() if rule == "allow")
    unasked = [name for name in consents if _needs_consent(tools.find(name))]
    networks = _unpublic_hosts(spec, settings.http.allow)
    code = _files_outside(spec, tools)
    servers = (
        (f"/tools/mcp/{index}", f"{entry.id}: {entry.text}")
        for index, entry in enumerate(spec.tools.mcp)
        if not entry.is_reference
    )
    return workflow_asks(
        spec,
        settings,
        keys=key_uses(spec),
        consents=unasked,
        networks=networks,
        code=code,
        servers=servers,
    )


def _files_outside(spec: BaseSpec, tools: ToolSet) -> Iterator[tuple[str, str]]:
    """The tools in files outside the project; not those that the command line adds to the file's own."""
    for tool in tools.declared:
        is_named_here = tool.pointer.rpartition("/")[0] in spec.positions and is_file_reference(
            tool.reference
        )
        if tool.info is not None and is_named_here:
            file = Path(tool.info.file).resolve()
            if not file.is_relative_to(tools.registry.settings.project):
                yield tool.pointer, f"{tool.info.id} of {file}"


def _needs_consent(tool: DeclaredTool | None) -> bool:
    info = tool.info if tool else None
    return info is not None and bool(info.requires_consent or info.unread)


def _unpublic_hosts(spec: BaseSpec, allowed: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The hosts of executors that are not public, as far as their names tell, and that nobody allowed."""
    if not spec.tools.http_executors:
        return
    from strands_cli.http_tools.targets import parse_target
    from strands_cli.http_tools.transport import known_addresses, parse_allowed, special_address_kind

    for index, executor in enumerate(spec.tools.http_executors):
        try:
            target, entries = parse_target(executor.base_url), parse_allowed(allowed)
        except (Refusal, ToolFailed):
            continue  # which is told as what it is
        special = [one for one in known_addresses(target.host) if special_address_kind(one)]
        if any(not any(entry.covers(target.host, target.port, one) for entry in entries) for one in special):
            yield f"/tools/http_executors/{index}/base_url", f"{target.host}:{target.port}"


def check_prices(spec: Spec, tools: ToolSet) -> Iterator[Issue]:
    """A budget of money needs the prices of all models that are not on this machine."""
    if spec.runtime.budgets.max_cost is None:
        return
    choices = [with_default_model(choice) for _, choice, _ in models_of(spec)]
    unknown = [one for one in choices if not price_of(one, tools.registry.settings) and not one.is_local]
    for name in dict.fromkeys(choice.model_id or choice.provider for choice in unknown):
        yield spec.issue(
            "/runtime/budgets/max_cost",
            f"The price of {name} is not in the settings, so its cost cannot be counted.",
            f"Add it under [prices] in strands.toml, in US dollars per million tokens: "
            f'"{name}" = {{input = 1.0, output = 2.0}}',
        )


def check_plugins(spec: Spec, tools: ToolSet) -> Iterator[Issue]:
    for plugin in tools.plugins:
        for issue in plugin.issues:
            where = f"{issue.place}: " if issue.place else ""
            yield spec.issue(plugin.pointer, f"{where}{issue.reason}", issue.remediation, issue.severity)
        if not plugin.infos and not plugin.issues:
            yield spec.issue(plugin.pointer, "The plugin has no tools.", "Declare some in its plugin.json.")


def check_servers(spec: Spec, tools: ToolSet) -> Iterator[Issue]:
    seen: set[str] = set()
    taken = {tool.info.id for tool in tools.declared if tool.info} | set(tools.executor_ids)
    for index, (entry, one) in enumerate(zip(spec.tools.mcp, tools.servers, strict=True)):
        if entry.id in seen:
            yield spec.issue(
                f"{one.pointer}/id", f"There are two servers {entry.id!r}.", "Rename one of them."
            )
        elif entry.id in taken:
            reason = f"The id {entry.id!r} is that of a tool."
            yield spec.issue(f"{one.pointer}/id", reason, "Give the server a different id.")
        seen.add(entry.id)
        if entry.is_reference and one.declared is None:
            known = [server.name for server in tools.registry.settings.servers]
            remedy = (
                did_you_mean(entry.id, known) or "Give it a 'command' or a 'url', or add it to strands.toml."
            )
            reason = f"There is no MCP server {entry.id!r} in the settings."
            yield spec.issue(f"/tools/mcp/{index}/id", reason, remedy)
        elif not entry.is_reference and entry.problem:
            yield spec.issue(one.pointer, f"{entry.problem}.", "Correct the server's entry.")
        elif not one.is_unknown:  # a run starts it first
            for issue in one.issues:
                yield spec.issue(one.pointer, issue.reason, issue.remediation, issue.severity)
