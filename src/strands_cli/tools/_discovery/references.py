"""From the names that people write to the tool that is meant."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from strands_cli.toolkit.info import ToolInfo, version_key

NATIVE = "native"
PLUGIN = "plugin"
_NATIVE_PREFIX = "native:"
_LEGACY_PREFIX = "strands_tools."


class Catalogue(msgspec.Struct, frozen=True):
    """Every known tool, looked up by id or by dotted path. Tools of one id stand in order of precedence."""

    by_id: Mapping[str, Sequence[ToolInfo]]
    by_path: Mapping[str, Sequence[ToolInfo]]

    def find(self, reference: str) -> ToolInfo | None:
        """The tool that is meant by `echo`, `echo@1.0.0`, `native:…`, `strands_tools.…` or a dotted path."""
        name, _, version = reference.partition("@")
        candidates = self._candidates(name)
        if version:
            return next((info for info in candidates if info.version == version), None)
        return preferred(candidates)

    def _candidates(self, name: str) -> Sequence[ToolInfo]:
        if name.startswith(_NATIVE_PREFIX):
            return self._native(name.removeprefix(_NATIVE_PREFIX), families_only=True)
        if name.startswith(_LEGACY_PREFIX):
            return self._native(name.removeprefix(_LEGACY_PREFIX), families_only=False)
        return self.by_id.get(name) or self.by_path.get(name, ())

    def _native(self, path: str, *, families_only: bool) -> Sequence[ToolInfo]:
        """`file_read` or `file_operations.file_read`; the legacy names also had `file_read.file_read`."""
        group, _, name = path.rpartition(".")
        return [
            info
            for info in self.by_id.get(name, ())
            if info.source == NATIVE
            and (not group or group == info.family or (group == info.id and not families_only))
        ]


def catalogue_of(infos: Iterable[ToolInfo]) -> Catalogue:
    by_id: dict[str, list[ToolInfo]] = {}
    by_path: dict[str, list[ToolInfo]] = {}
    for info in infos:
        by_id.setdefault(info.id, []).append(info)
        for path in dotted_paths(info):
            by_path.setdefault(path, []).append(info)
    return Catalogue(by_id, by_path)


def dotted_paths(info: ToolInfo) -> list[str]:
    """The import paths that name a tool: its module, its callable, and a package called like the tool."""
    if not info.module_path:
        return []
    package = info.module_path.rpartition(".")[0]
    named_package = [package] if package.rpartition(".")[2] == info.id else []
    return [info.module_path, info.full_import_path, *named_package]


def preferred(infos: Sequence[ToolInfo]) -> ToolInfo | None:
    """The highest version that is not deprecated, of the first source that has the tool."""
    if len(infos) < 2:
        return infos[0] if infos else None
    own = [info for info in infos if info.source == infos[0].source]
    return max(own, key=lambda info: (not info.deprecated, version_key(info.version)))


def allowed_names(info: ToolInfo) -> set[str]:
    """Every way to write this tool in a workflow."""
    names = {info.id, info.reference, *dotted_paths(info)}
    if info.source == NATIVE:
        names |= {
            f"native:{info.id}",
            f"native:{info.family}.{info.id}",
            f"native:{info.reference}",
            f"strands_tools.{info.id}",
            f"strands_tools.{info.id}.{info.callable_name}",
            info.legacy_path,
        }
    return names


def is_path(reference: str) -> bool:
    """Whether a reference names a file: `./my_tool.py`, `./my_tool.py:greet`."""
    file = reference.rpartition(":")[0] if ".py:" in reference else reference
    return file.endswith(".py")
