"""The tools of one workflow: what it declares, from whatever source, and what each agent gets of it."""

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import Issue, ToolError, ToolFailed
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.info import DEFAULTS, ToolCategory, ToolInfo, bare_schema, is_deferrable
from strands_cli.tools._discovery import Discovered
from strands_cli.tools.registry import NOT_ALLOWED, ToolRegistry
from strands_cli.tools.sources.mcp_servers import McpServers, scan_servers
from strands_cli.tools.sources.modules import is_file_reference
from strands_cli.tools.sources.plugins import read_named_plugins
from strands_cli.types.sections import BaseSpec, Guardrails, HttpExecutor, Skill
from strands_cli.types.servers import DeclaredServer, WorkflowServer

if TYPE_CHECKING:
    from strands_cli.tools.sources.notes import NotesFile


class DeclaredTool(msgspec.Struct, frozen=True):
    """A tool of `tools.python`, as the workflow names it, or one of a plugin, a server or `jit_tools`."""

    pointer: str
    reference: str
    info: ToolInfo | None
    """None where there is no such tool."""

    def is_same_as(self, info: ToolInfo | None) -> bool:
        own = self.info
        if own is None or info is None:
            return False
        return (own.reference, own.file, own.module_path) == (info.reference, info.file, info.module_path)


class DeclaredPlugin(msgspec.Struct, frozen=True):
    """A plugin of `tools.plugins`: what reading its manifest found."""

    pointer: str
    issues: tuple[Issue, ...]
    infos: tuple[ToolInfo, ...]


class DeclaredMcpServer(msgspec.Struct, frozen=True):
    """A server of `tools.mcp`, with the tools that are known without starting it."""

    pointer: str
    id: str
    declared: DeclaredServer | None
    """None where it is a name that the settings do not have."""
    issues: tuple[Issue, ...] = ()
    infos: tuple[ToolInfo, ...] = ()
    is_own: bool = True
    """Whether the workflow declares it, and not the settings."""

    @property
    def is_unknown(self) -> bool:
        """Whether its tools are not known yet."""
        return self.declared is not None and self.declared.trusted and not self.infos and bool(self.issues)


MAX_PLUGINS = 100
"""As the schema has it; a file that names more is refused, and looked at without the rest."""


class ToolSet:
    """Resolved when it is made, so that checks, plans and the run agree; loaded when the run begins."""

    def __init__(
        self,
        spec: BaseSpec,
        registry: ToolRegistry | None = None,
        known: "dict[tuple[Path, ...], ToolSet] | None" = None,
        outer: "tuple[ToolSet, ...]" = (),
    ) -> None:
        """`outer` are those whose guardrails hold here too.

        `known` are those of other workflows of the same run, by their files and the files of their `outer`.
        """
        self.spec = spec
        self.registry = registry or ToolRegistry.of_workflow(spec.file)
        self.plugins: list[DeclaredPlugin] = []
        named = spec.tools.plugins[:MAX_PLUGINS]
        readings = read_named_plugins(named, spec.file.parent, self.registry.settings)
        for index, reading in enumerate(readings):
            self.plugins.append(DeclaredPlugin(f"/tools/plugins/{index}", reading.issues, reading.infos))
        python = (
            DeclaredTool(f"/tools/python/{index}/callable", tool.callable, self.resolve(tool.callable))
            for index, tool in enumerate(spec.tools.python)
        )
        plugins = (
            DeclaredTool(plugin.pointer, info.id, info) for plugin in self.plugins for info in plugin.infos
        )
        self.servers = [self._server(index, entry) for index, entry in enumerate(spec.tools.mcp)]
        served = (DeclaredTool(one.pointer, info.id, info) for one in self.servers for info in one.infos)
        self.declared = (*python, *plugins, *served)
        given = enumerate(spec.context_policy.retrieval.jit_tools)
        self.jit_tools = tuple(
            DeclaredTool(f"/context_policy/retrieval/jit_tools/{index}", name, self.resolve(f"native:{name}"))
            for index, name in given
        )
        """Those that every agent gets. One that the workflow declares as well is the same tool."""
        self.declared += tuple(
            tool for tool in self.jit_tools if not any(one.is_same_as(tool.info) for one in self.declared)
        )
        self.executor_ids = tuple(executor.id for executor in spec.tools.http_executors)
        self._loaded: dict[tuple[str, str], Tool] = {}
        self._executors: dict[str, Tool] = {}
        self._given: dict[tuple[str, tuple[str, ...] | None], list[Tool]] = {}
        self._notes: NotesFile | None = None
        self.workflows = dict[str, ToolSet]()
        """Those of the workflows that steps run, by what the steps call their files."""
        self._limits = outer if spec.security.guardrails == Guardrails() else (*outer, self)
        known = {} if known is None else known
        for name, inner in spec.workflows.items():
            key = (inner.file, *(one.spec.file for one in self._limits))
            if key not in known:
                known[key] = ToolSet(inner, self.registry, known, self._limits)
            self.workflows[name] = known[key]

    def renewed(self) -> "ToolSet":
        """The same tools for another run of the workflow, whose inputs may be others."""
        made = copy(self)
        made._loaded, made._executors, made._given, made._notes = {}, {}, {}, None
        return made

    def _server(self, index: int, entry: WorkflowServer) -> DeclaredMcpServer:
        pointer, settings = f"/tools/mcp/{index}", self.registry.settings
        if entry.is_reference:
            found = next((one for one in settings.servers if one.name == entry.id), None)
            part = scan_servers((found,), settings)[0] if found else Discovered()
            return DeclaredMcpServer(pointer, entry.id, found, part.issues, part.infos, is_own=False)
        file, line, _ = self.spec.position(pointer)
        workflow = str(self.spec.file.resolve())
        own = DeclaredServer(
            name=entry.id, server=entry, scope=workflow, file=file, line=line, workflow=workflow
        )
        part = scan_servers((own,), settings)[0]
        return DeclaredMcpServer(pointer, entry.id, own, part.issues, part.infos)

    def learn_servers(self, secrets: Mapping[Path, Mapping[str, str]]) -> bool:
        """Starts servers whose tools are not known yet, so that they can be checked; whether there were any.

        `secrets` are those of each workflow's file. ToolError where a server cannot be used.
        """
        unknown = [
            (tools, one)
            for tools in self.family
            for one in tools.servers
            if one.is_unknown and not tools.withheld(one.id)
        ]
        if unknown:
            from strands_cli.mcp.server_tool import learn_tools

            for tools, one in unknown:
                declared = tools._rendered(one, {"secrets": secrets.get(tools.spec.file, {})})
                try:
                    learn_tools(declared, self.registry.settings)
                except ToolError as error:
                    raise tools._place_error(one.pointer, error) from error
        return bool(unknown)

    def _rendered(self, one: DeclaredMcpServer, scope: Mapping[str, Any]) -> DeclaredServer:
        """A server with the secrets that its headers and its environment name."""
        assert one.declared is not None
        if not one.is_own:
            return one.declared
        from strands_cli.templates import render

        server, spec = one.declared.server, self.spec

        def rendered(values: Mapping[str, str], key: str) -> dict[str, str]:
            at = f"{one.pointer}/{key}"
            return {
                name: render(text, scope, spec=spec, pointer=f"{at}/{name}") for name, text in values.items()
            }

        env = rendered(server.env, "env") if isinstance(server.env, dict) else server.env
        made = msgspec.structs.replace(server, env=env, headers=rendered(server.headers, "headers"))
        return msgspec.structs.replace(one.declared, server=made)

    @property
    def callable_ids(self) -> frozenset[str]:
        """What agents call the declared tools."""
        return frozenset([*(tool.info.id for tool in self.declared if tool.info), *self.executor_ids])

    def resolve(self, reference: str) -> ToolInfo | None:
        """The tool that a reference in the workflow means; files are relative to the workflow."""
        try:
            return self.registry.get_by_import_path(self._located(reference))
        except (OSError, ValueError):
            # A name that no file system takes: too long, or with a null byte.
            return None

    def reference_error(self, reference: str) -> ToolError:
        """Why no tool is meant by a reference in the workflow."""
        hint, located = "", self._located(reference)
        try:
            self.registry.require(located)
        except ToolError as error:
            if error.code != "unknown_tool":
                message, hint = (text.replace(located, reference) for text in (error.message, error.hint))
                return ToolError(message, code=error.code, hint=hint, issue=error.issue)
            hint = error.hint
        except (OSError, ValueError):
            pass
        return ToolError(NOT_ALLOWED.format(reference), code="unknown_tool", hint=hint)

    def _located(self, reference: str) -> str:
        if is_file_reference(reference) and not Path(reference).is_absolute():
            return str(self.spec.file.parent / reference)
        return reference

    def find(self, reference: str) -> DeclaredTool | None:
        """The declared tool that a reference means: as it is declared, by its id, or in any other form."""
        for tool in self.declared:
            if reference == tool.reference:
                return tool
        info = self.resolve(reference)
        for tool in self.declared:
            if tool.is_same_as(info) or (tool.info is not None and tool.info.id == reference):
                return tool
        return None

    def schemas_of(self, reference: str) -> "tuple[dict[str, Any] | None, dict[str, Any] | None]":
        """The schemas of what a declared tool takes and answers, as far as they are known unloaded."""
        if reference in self.executor_ids:
            from strands_cli.http_tools.executors import INPUT_SCHEMA, OUTPUT_SCHEMA

            return INPUT_SCHEMA, OUTPUT_SCHEMA
        found = self.find(reference)
        info = found.info if found else None
        schemas = (info.input_schema, info.output_schema) if info and not info.unread else (None, None)
        taken, given = (bare_schema(schema) if schema else None for schema in schemas)
        return taken, given

    @property
    def family(self) -> "list[ToolSet]":
        """It, and those of all workflows that its workflow runs; each once."""
        found: dict[int, ToolSet] = {}
        waiting = [self]
        while waiting:
            tools = waiting.pop(0)
            if id(tools) not in found:
                found[id(tools)] = tools
                waiting += tools.workflows.values()
        return list(found.values())

    def references_for(self, listed: tuple[str, ...] | None) -> tuple[str, ...]:
        """The tools of an agent as the file names them: those that it or its step lists, else all."""
        if listed is not None:
            named = [name for reference in listed for name in self.members(reference) or (reference,)]
            named = self._with_jit_tools(named)
        else:
            named = [*(tool.reference for tool in self.declared), *self.executor_ids]
        return tuple(name for name in dict.fromkeys(named) if not self.withheld(name))

    # --- guardrails -------------------------------------------------------------------------------------

    def withheld(self, reference: str) -> str:
        """The guardrail that withholds a tool or an MCP server from everybody, or nothing."""
        if not self._limits or reference in self.executor_ids:
            return self._withheld(reference, None)
        server = next((one for one in self.servers if one.id == reference), None)
        if server is None:
            found = self.find(reference)
            return self._withheld(found.info.id, found.info) if found and found.info else ""
        if server.infos or server.declared is None:
            reasons = [self._withheld(info.id, info) for info in server.infos]
            return reasons[0] if reasons and all(reasons) else ""
        denied = self._network_denied_by if server.declared.server.reaches_network else None
        return self._guardrail("deny_network", denied) if denied else ""

    def _withheld(self, name: str, info: ToolInfo | None) -> str:
        """The same for a tool by its id; without an info, it is an HTTP executor."""
        if (denied := self._network_denied_by) and (info is None or self._reaches_network(info)):
            return self._guardrail("deny_network", denied)
        for one in self._limits:
            allowed = one.spec.security.guardrails.allow_tools
            declaration = self._declaration(name, info)
            if allowed is not None and not any(
                one._is_meant(entry, name, info, declaration) for entry in allowed
            ):
                return self._guardrail("allow_tools", one)
        return ""

    @property
    def _network_denied_by(self) -> "ToolSet | None":
        return next((one for one in self._limits if one.spec.security.guardrails.deny_network), None)

    def _guardrail(self, key: str, limit: "ToolSet") -> str:
        return f"security.guardrails.{key}" + (f" of {limit.spec.file}" if limit is not self else "")

    def _declaration(self, name: str, info: ToolInfo | None) -> HttpExecutor | WorkflowServer | None:
        """The HTTP executor that a tool is, or the workflow's MCP server that it is of."""
        if info is None:
            return next((one for one in self.spec.tools.http_executors if one.id == name), None)
        return next((one for one in self.spec.tools.mcp if one.id == info.family), None)

    def _is_meant(
        self,
        entry: str,
        name: str,
        info: ToolInfo | None,
        declaration: HttpExecutor | WorkflowServer | None,
    ) -> bool:
        """Whether an entry of `allow_tools` means a tool, which may be one of an inner workflow.

        There, another tool is not meant because it has the same id.
        """
        own_declaration = self._declaration(name, info)
        if own_declaration and declaration and own_declaration != declaration:
            return False
        found = self.find(entry)
        if info is None or (info.source == McpServers.name and info.family == entry):
            return found is None and entry in (name, info and info.family)
        own = found or DeclaredTool("", entry, self.resolve(entry))
        return own.is_same_as(info) if own.info else entry == name

    def _reaches_network(self, info: ToolInfo) -> bool:
        """As far as a tool declares it: what else the code of a project's tool does is not known."""
        if info.annotations.get("openWorldHint") or info.category is ToolCategory.HTTP:
            return True
        if info.manifest:
            from strands_cli.plugins.plugin import plugin_declaration_of

            declared = plugin_declaration_of(info)
            return declared is None or declared[1].network
        own = [one.declared for one in self.servers if one.declared]
        servers = (one.server for one in (*own, *self.registry.settings.servers) if one.name == info.family)
        server = next(servers, None)
        return info.source == McpServers.name and (server is None or server.reaches_network)

    def is_withheld(self, tool: Tool) -> bool:
        """Whether a guardrail keeps a loaded tool from being called."""
        info = next((one.info for one in self.declared if one.info and one.info.id == tool.id), None)
        is_declared = info is not None or tool.id in self.executor_ids
        if is_declared and self._withheld(tool.id, info):
            return True
        reaches_network = tool.annotations.get("openWorldHint") or tool.category is ToolCategory.HTTP
        return bool(reaches_network and self._network_denied_by)

    def load_named(self, reference: str) -> Tool:
        """A tool that another tool calls, declared or not."""
        info = self.registry.require(reference)
        reason = self._withheld(info.id, info)
        if not reason:
            tool = self.registry.load(info)
            if not self.is_withheld(tool):  # what its code computes is known only now
                return tool
            reason = "security.guardrails"
        raise ToolFailed(f"{reason} does not allow {info.id}", code="denied", hint="Do without it.")

    # --- in a run ---------------------------------------------------------------------------------------

    def load(
        self,
        scope: Mapping[str, Any],
        redactor: Redactor = NOTHING_SECRET,
        directory: Path = Path(),
        allowed: tuple[Path, ...] = (),
    ) -> None:
        """Loads every declared tool; ToolError for one that cannot be, before the run begins.

        `scope` is what the headers of HTTP executors see; what they hold is redacted from answers. Notes are
        kept in `directory`; `allowed` are the protected paths that they may be written to.
        """
        if self.spec.context_policy.notes is not None:
            from strands_cli.tools.sources.notes import NotesFile

            policy = self.spec.context_policy.notes
            self._notes = NotesFile(policy, directory, redact=redactor.text, allowed=allowed)
        servers = {one.pointer: self._rendered(one, scope) for one in self.servers if one.declared}
        for tool in self.declared:
            self._loaded[tool.pointer, tool.reference] = self._load(tool, servers.get(tool.pointer))
        if self.spec.tools.http_executors:
            from strands_cli.http_tools.executors import http_tools

            self._executors = {tool.id: tool for tool in http_tools(self.spec, scope, redactor)}

    def _load(self, tool: DeclaredTool, server: DeclaredServer | None = None) -> Tool:
        if tool.info is None:
            raise self.reference_error(tool.reference)
        if server is not None:
            from strands_cli.mcp.server_tool import server_tool

            return server_tool(server, tool.info, self.registry.settings)
        if (
            tool.reference in self.spec.unnamed_tools
            and is_deferrable(tool.info)
            and tool.info.source != McpServers.name
        ):
            return self._deferred(tool.info)
        try:
            return self.registry.load(tool.info)
        except ToolError as error:
            raise self._place_error(tool.pointer, error) from error

    def _place_error(self, pointer: str, error: ToolError) -> ToolError:
        issue = self.spec.issue(pointer, error.message, error.hint)
        message = f"{issue.place}: {error.message}"
        return ToolError(message, code=error.code, hint=error.hint, issue=issue)

    def _deferred(self, info: ToolInfo) -> Tool:
        """A tool as its file declares it. The file is imported in its first call, after consent."""

        def invoke(arguments: dict[str, Any], context: ToolContext) -> Any:
            try:
                tool = self.registry.load(info)
            except ToolError as error:
                raise ToolFailed(error.message, code=error.code, hint=error.hint) from error
            value = tool.invoke(arguments, context)
            if not tool.is_async:
                return value
            from strands_cli.toolkit.execution import run_coroutine_in_thread

            return run_coroutine_in_thread(value)

        fields = {name: getattr(info, name) for name in DEFAULTS if name != "input_schema"}
        fields |= {"blocking": True, "retries": 0}
        return Tool(
            **fields, id=info.id, input_schema=info.input_schema or {}, invoke=invoke, origin=info.origin
        )

    def for_step(self, reference: str) -> Tool:
        """The tool that a step calls, with the consent that the workflow wants."""
        return self._with_consent(self._named(reference))

    def for_agent(self, name: str, title: str, listed: tuple[str, ...] | None = None) -> list[Tool]:
        """All that an agent may call: declared tools, and what comes with its skills and with notes.

        `title` is the step that leaves notes; `listed` are the tools that it names in place of the agent's.
        """
        tools = [*self._declared_for(name, listed)]
        if skills := self._skills_of(name):
            from strands_cli.tools.sources.skills import skill_tools

            tools += skill_tools(skills, self.spec.file.parent, [tool.id for tool in tools])
        if self._notes is not None:
            tools.append(self._notes.tool(title, [tool.id for tool in tools], name))
        return tools

    def prompts_for(self, name: str, listed: tuple[str, ...] | None = None) -> list[str]:
        """What the system prompt of an agent says of its skills and of the notes so far."""
        prompts = []
        if skills := self._skills_of(name):
            from strands_cli.tools.sources.skills import skills_prompt

            taken = [tool.id for tool in self._declared_for(name, listed)]
            prompts.append(skills_prompt(skills, self.spec.file.parent, taken))
        return [*prompts, self._notes.prompt()] if self._notes is not None else prompts

    def _skills_of(self, name: str) -> list[Skill]:
        own = self.spec.agents[name].skills
        return [skill for skill in self.spec.skills if own is None or skill.id in own]

    def _declared_for(self, name: str, listed: tuple[str, ...] | None) -> list[Tool]:
        """The declared tools of an agent, with the consent that the workflow wants."""
        key = (name, listed)
        if key not in self._given:
            listed = self.spec.agents[name].tools if listed is None else listed
            found = [*self._loaded.values(), *self._executors.values()]
            if listed is not None:
                named = [name for reference in listed for name in self.members(reference)]
                found = [self._named(name) for name in self._with_jit_tools(named)]
            given = {tool.id: self._with_consent(tool) for tool in found if not self.is_withheld(tool)}
            self._given[key] = list(given.values())
        return self._given[key]

    def _with_jit_tools(self, references: list[str]) -> list[str]:
        if not self.jit_tools:
            return references
        listed = [found for name in references if (found := self.find(name))]
        added = (tool for tool in self.jit_tools if not any(one.is_same_as(tool.info) for one in listed))
        return [*references, *(tool.reference for tool in added)]

    def members(self, reference: str) -> tuple[str, ...]:
        """The tools that an agent's reference stands for: all of a server, or the one that it names."""
        server = next((one for one in self.servers if one.id == reference), None)
        return tuple(info.id for info in server.infos) if server else (reference,)

    def _named(self, reference: str) -> Tool:
        if reference in self._executors:
            return self._executors[reference]
        declared = self.find(reference)
        if declared is None:
            raise ToolError(f"The tool {reference!r} is not declared in this workflow.", code="unknown_tool")
        return self._loaded[declared.pointer, declared.reference]

    def _with_consent(self, tool: Tool) -> Tool:
        """The tool as `security.consent` wants it: nobody is asked about what is allowed or denied."""
        rule = self.rule(tool)
        if not rule or tool.requires_consent == (rule == "ask"):
            return tool
        changed = copy(tool)
        changed.requires_consent = rule == "ask"
        return changed

    def rule(self, tool: Tool) -> str:
        """`ask`, `allow` or `deny`, where the workflow says so of a tool."""
        if self.is_withheld(tool):
            return "deny"
        for reference, rule in self.spec.security.consent.items():
            declared = self.find(reference) if reference != tool.id else None
            if reference == tool.id or (declared and declared.info and declared.info.id == tool.id):
                return rule
        return ""
