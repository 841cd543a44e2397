"""Dotted callables that the user allows: `package.module.function`."""

import sys

from strands_cli.errors import Issue
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import Discovered, join
from strands_cli.tools.sources.modules import Source


class Callables(Source):
    name = "callable"

    def discover(self) -> Discovered:
        return join(self._read(dotted) for dotted in self.settings.allow)

    def _read(self, dotted: str) -> Discovered:
        """What an allowed callable is, read without importing its package."""
        from strands_cli.tools._discovery.tool_files import read_tools
        from strands_cli.tools.sources.packages import locate_module

        module, _, name = dotted.rpartition(".")
        file = locate_module(module, [str(self.settings.project), *sys.path]) if module else None
        if file is None:
            issue = Issue(
                reason=f"The callable {dotted} is not found: no module {module or dotted} is on the path.",
                remediation="Install its package, or take it off the list of allowed callables.",
                file=str(self.settings.file or ""),
            )
            return Discovered(issues=(issue,))
        found = read_tools(file, module_path=module, source=self.name, origin=dotted)
        named = tuple(info for info in found.infos if name in (info.callable_name, info.id))
        plain = ToolInfo(
            id=name, module_path=module, source=self.name, origin=dotted, file=str(file), inferred=True
        )
        return Discovered(named or (plain,), files=found.files)
