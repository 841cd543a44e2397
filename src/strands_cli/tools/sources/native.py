"""The tools of this package."""

import os
from pathlib import Path

from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import Discovered
from strands_cli.tools._discovery.scan import scan_directory
from strands_cli.tools.sources.modules import Source

_DIRECTORY = Path(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - cheap: every listing pays it
NOT_TOOLS = frozenset({"base", "registry", "sources", "toolset"})


class Native(Source):
    name = "native"

    def discover(self) -> Discovered:
        return scan_directory(
            _DIRECTORY,
            package="strands_cli.tools",
            source=self.name,
            origin="strands-cli",
            cache=self.cache,
            skip=NOT_TOOLS,
        )

    def names(self, info: ToolInfo) -> list[str]:
        """Also `native:…`, and the legacy names, which had `file_read.file_read` besides the family's."""
        own, family = info.id, info.family
        return [
            *super().names(info),
            *(f"native:{name}" for name in (own, f"{family}.{own}", f"{own}@{info.version}")),
            *(f"strands_tools.{name}" for name in (own, f"{own}.{own}", f"{family}.{own}")),
        ]
