"""The tools of the project's `tools/` directory."""

from pathlib import Path
from types import ModuleType

from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import Discovered
from strands_cli.tools._discovery.scan import scan_directory
from strands_cli.tools.sources.modules import Source


class Project(Source):
    name = "project"

    def discover(self) -> Discovered:
        directory = self.settings.tools_directory
        return scan_directory(directory, package="tools", source=self.name, origin="", cache=self.cache)

    def import_module(self, info: ToolInfo) -> ModuleType:
        if not info.file:
            return super().import_module(info)
        return self.import_file(Path(info.file), self.settings.tools_directory)
