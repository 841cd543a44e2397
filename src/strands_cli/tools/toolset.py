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
from strands_cli.toolkit.info import DEFAULTS, ToolInfo, bare_schema, is_deferrable
from strands_cli.tools._discovery import Discovered
from strands_cli.tools.registry import NOT_ALLOWED, ToolRegistry
from strands_cli.tools.sources.mcp_servers import McpServers, scan_servers
from strands_cli.tools.sources.modules import is_file_reference
from strands_cli.tools.sources.plugins import read_named_plugins
from strands_cli.types.sections import AgentSpec, BaseSpec, Skill
from strands_cli.types.servers import DeclaredServer, WorkflowServer

if TYPE_CHECKING:
    from strands_cli.tools.sources.notes import NotesFile


class DeclaredTool(msgspec.Struct, frozen=True):
    """A tool of `tools.python`, as the workflow names it, or one of a plugin."""

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
        known: "dict[Path, ToolSet] | None" = None,
    ) -> None:
        """`known` are those of other workflows of the same run, by their files."""
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
        self.executor_ids = tuple(executor.id for executor in spec.tools.http_executors)
        self._loaded: dict[tuple[str, str], Tool] = {}
        self._executors: dict[str, Tool] = {}
        self._given: dict[str, list[Tool]] = {}
        self._notes: NotesFile | None = None
        self.workflows = dict[str, ToolSet]()
        """Those of the workflows that steps run, by what the steps call their files."""
        known = {} if known is None else known
        for name, inner in spec.workflows.items():
            if inner.file not in known:
                known[inner.file] = ToolSet(inner, self.registry, known)
            self.workflows[name] = known[inner.file]

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
        unknown = [(tools, one) for tools in self.family for one in tools.servers if one.is_unknown]
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

    def references_for(self, agent: AgentSpec) -> tuple[str, ...]:
        """The tools of an agent as the file names them: those that it lists, else all declared ones."""
        if agent.tools is not None:
            return tuple(
                name for reference in agent.tools for name in self.members(reference) or (reference,)
            )
        return tuple(dict.fromkeys([*(tool.reference for tool in self.declared), *self.executor_ids]))

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

    def for_agent(self, name: str, title: str) -> list[Tool]:
        """All that an agent may call: declared tools, and what comes with its skills and with notes.

        `title` is the step that leaves notes.
        """
        tools = [*self._declared_for(name)]
        if skills := self._skills_of(name):
            from strands_cli.tools.sources.skills import skill_tools

            tools += skill_tools(skills, self.spec.file.parent, [tool.id for tool in tools])
        if self._notes is not None:
            tools.append(self._notes.tool(title, [tool.id for tool in tools]))
        return tools

    def prompts_for(self, name: str) -> list[str]:
        """What the system prompt of an agent says of its skills and of the notes so far."""
        prompts = []
        if skills := self._skills_of(name):
            from strands_cli.tools.sources.skills import skills_prompt

            taken = [tool.id for tool in self._declared_for(name)]
            prompts.append(skills_prompt(skills, self.spec.file.parent, taken))
        return [*prompts, self._notes.prompt()] if self._notes is not None else prompts

    def _skills_of(self, name: str) -> list[Skill]:
        own = self.spec.agents[name].skills
        return [skill for skill in self.spec.skills if own is None or skill.id in own]

    def _declared_for(self, name: str) -> list[Tool]:
        """The declared tools of an agent, with the consent that the workflow wants."""
        if name not in self._given:
            listed = self.spec.agents[name].tools
            found = [*self._loaded.values(), *self._executors.values()]
            if listed is not None:
                found = [self._named(name) for reference in listed for name in self.members(reference)]
            self._given[name] = list({tool.id: self._with_consent(tool) for tool in found}.values())
        return self._given[name]

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
        for reference, rule in self.spec.security.consent.items():
            declared = self.find(reference) if reference != tool.id else None
            if reference == tool.id or (declared and declared.info and declared.info.id == tool.id):
                return rule
        return ""
