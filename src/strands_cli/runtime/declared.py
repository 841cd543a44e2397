"""The tools of a workflow: loaded once, given to each agent as it names them."""

from collections.abc import Mapping
from copy import copy
from typing import Any

from strands_cli.capability.tools import Declared, declared_tools, find_declared
from strands_cli.errors import ToolError
from strands_cli.http_tools.executors import http_tools
from strands_cli.secrets import Redactor
from strands_cli.toolkit.contract import Tool
from strands_cli.tools import get_registry
from strands_cli.types import AgentSpec, Spec


class DeclaredTools:
    """Every tool that the workflow declares. One that cannot be loaded ends the run before it begins."""

    def __init__(self, spec: Spec, scope: Mapping[str, Any], redactor: Redactor) -> None:
        """`scope` is what the headers of HTTP executors see; what they hold is redacted from answers."""
        self._spec = spec
        self._declared = declared_tools(spec)
        self._tools = {(tool.pointer, tool.reference): _loaded(spec, tool) for tool in self._declared}
        self._executors = {tool.id: tool for tool in http_tools(spec, scope, redactor)}

    def for_agent(self, agent: AgentSpec) -> list[Tool]:
        if agent.tools is None:
            found = [*self._tools.values(), *self._executors.values()]
        else:
            found = [self._named(reference) for reference in agent.tools]
        return list({tool.id: self._with_consent(tool) for tool in found}.values())

    def _named(self, reference: str) -> Tool:
        if reference in self._executors:
            return self._executors[reference]
        declared = find_declared(self._spec, self._declared, reference)
        if declared is None:
            raise ToolError(f"The tool {reference!r} is not declared in this workflow.", code="unknown_tool")
        return self._tools[declared.pointer, declared.reference]

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
        for reference, rule in self._spec.security.consent.items():
            if reference == tool.id or self._named_id(reference) == tool.id:
                return rule
        return ""

    def _named_id(self, reference: str) -> str:
        declared = find_declared(self._spec, self._declared, reference)
        return declared.info.id if declared and declared.info else ""


def _loaded(spec: Spec, tool: Declared) -> Tool:
    if tool.info is None:
        raise ToolError(f"Python callable '{tool.reference}' not in allowlist", code="unknown_tool")
    try:
        return get_registry().load(tool.info)
    except ToolError as error:
        issue = spec.issue(tool.pointer, error.message, error.hint)
        raise ToolError(
            f"{issue.place}: {error.message}", code=error.code, hint=error.hint, issue=issue
        ) from error
