"""Tools in files that somebody names: `./my_tool.py`, `./my_tool.py:greet`. There are none until then."""

from pathlib import Path
from types import ModuleType

import msgspec

from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery import Discovered
from strands_cli.tools._discovery.scan import scan_directory
from strands_cli.tools.sources.modules import Source


def is_path(reference: str) -> bool:
    """Whether a reference names a file."""
    file = reference.rpartition(":")[0] if ".py:" in reference else reference
    return file.endswith(".py")


class NamedFiles(Source):
    name = "file"

    def find(self, reference: str) -> ToolInfo | None:
        """The tool that a reference means, or None."""
        file, _, name = reference.rpartition(":") if ".py:" in reference else (reference, "", "")
        if not Path(file).is_file():
            return None
        infos = read_path(Path(file)).infos
        if not name:
            return infos[0] if len(infos) == 1 else None
        named = next((info for info in infos if name in (info.id, info.callable_name)), None)
        return msgspec.structs.replace(named, origin=file) if named else None

    def import_module(self, info: ToolInfo) -> ModuleType:
        file = Path(info.file)
        tools = self.settings.tools_directory
        return self.import_file(file, tools if file.is_relative_to(tools) else file.parent)


def read_path(path: Path) -> Discovered:
    """What a file, or a directory of tools, declares."""
    is_family = path.is_dir()
    if is_family and not (path / "__init__.py").is_file():
        return scan_directory(path, package=path.name, source=NamedFiles.name, origin="")
    from strands_cli.tools._discovery.tool_files import read_tools

    place = path.resolve()
    module = place.name if is_family else place.stem
    return read_tools(
        place, module_path=module, source=NamedFiles.name, origin=str(path), is_family=is_family
    )
