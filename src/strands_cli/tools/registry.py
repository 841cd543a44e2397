"""The registry: every tool that can be named here, where it comes from, and what failed to become one."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from strands_cli.errors import Issue, ToolError, closest
from strands_cli.settings import Settings, load_settings
from strands_cli.toolkit.info import ToolCategory, ToolInfo, ToolSpec
from strands_cli.tools._discovery.references import Catalogue, allowed_names, catalogue_of, is_path

if TYPE_CHECKING:
    from strands_cli.toolkit.contract import Tool

__all__ = ["ToolCategory", "ToolInfo", "ToolRegistry", "ToolSpec"]

LISTING_HINT = "'strands list-tools' shows all of them."


class _Snapshot(msgspec.Struct, frozen=True):
    """What is registered at one moment. A change makes a new one; calls in flight keep theirs."""

    settings: Settings
    infos: tuple[ToolInfo, ...]
    issues: tuple[Issue, ...]
    catalogue: Catalogue
    loaded: dict[str, "Tool"]
    """Tools made so far, by `id@version`."""


class ToolRegistry:
    """The one handle on the current snapshot: `ToolRegistry()` is always the same object."""

    _instance: "ToolRegistry | None" = None
    _snapshot: _Snapshot

    def __new__(cls) -> "ToolRegistry":
        if cls._instance is None:
            cls._instance = cls._made(None)
        return cls._instance

    @classmethod
    def _made(cls, settings: Settings | None) -> "ToolRegistry":
        made = super().__new__(cls)
        made.refresh(settings)
        return made

    @classmethod
    def use_project(cls, directory: Path | None) -> None:
        """Takes tools from the project of a directory, or from that of the current one again."""
        if cls._instance is None and directory is None:
            return  # which it does when it is first asked for
        settings = load_settings(directory)
        if cls._instance is None:
            cls._instance = cls._made(settings)
        elif cls._instance.settings.project != settings.project:
            cls._instance.refresh(settings)

    def refresh(self, settings: Settings | None = None) -> None:
        """Discovers everything anew, by default for the current directory."""
        from strands_cli.tools._discovery.sources import discover

        settings = settings or load_settings()
        found = discover(settings)
        self._snapshot = _snapshot(settings, found.infos, found.issues, {})

    @property
    def settings(self) -> Settings:
        return self._snapshot.settings

    @property
    def problems(self) -> list[Issue]:
        """What discovery could not take, with file, line, reason and remedy."""
        return list(self._snapshot.issues)

    def list_all(self) -> list[ToolInfo]:
        return list(self._snapshot.infos)

    def list_by_category(self, category: ToolCategory) -> list[ToolInfo]:
        return [info for info in self._snapshot.infos if info.category == category]

    def get(self, tool_id: str) -> ToolInfo | None:
        """The tool of an id, or of `id@version`."""
        info = self._snapshot.catalogue.find(tool_id)
        return info if info and tool_id in (info.id, info.reference) else None

    def get_by_import_path(self, import_path: str) -> ToolInfo | None:
        """The tool that any form of reference means."""
        if is_path(import_path):
            return self._read_file(import_path)
        return self._snapshot.catalogue.find(import_path)

    def resolve(self, user_input: str) -> str | None:
        """The module that a reference leads to, or None."""
        info = self.get_by_import_path(user_input)
        return info.import_path if info else None

    def validate_tool_path(self, tool_path: str) -> tuple[bool, str | None]:
        """Whether a reference may be used, and why not."""
        info = self.get_by_import_path(tool_path)
        if info is None:
            return False, f"Unknown tool: {tool_path}"
        if info.deprecated:
            instead = f"; use {info.replaced_by}" if info.replaced_by else ""
            return False, f"Tool {tool_path} is deprecated as of v{info.version}{instead}"
        return True, None

    def get_allowlist(self) -> set[str]:
        names = (allowed_names(info) for info in self._snapshot.infos)
        return set(self._snapshot.settings.allow).union(*names)

    def register(self, *added: "ToolInfo | Tool") -> None:
        """Adds tools at run time: a ToolSpec that says where one is, or the tool itself."""
        now = self._snapshot
        tools = {tool.id + "@" + tool.version: tool for tool in added if not isinstance(tool, ToolInfo)}
        infos = [item if isinstance(item, ToolInfo) else _info_of(item) for item in added]
        for info in infos:
            earlier = now.catalogue.find(info.reference)
            if earlier is not None:
                raise ToolError(
                    f"There is a tool {info.reference} already, from {earlier.origin}",
                    code="conflict",
                    hint="Give it another name or another version.",
                )
        self._snapshot = _snapshot(now.settings, (*now.infos, *infos), now.issues, now.loaded | tools)

    def load(self, reference: "str | ToolInfo") -> "Tool":
        """The tool itself, ready to be called; ToolError says why there is none."""
        from strands_cli.tools._discovery.loading import load_tool

        info = reference if isinstance(reference, ToolInfo) else self.require(reference)
        loaded = self._snapshot.loaded
        named_by_file = info.source in ("file", "plugin")  # a workflow may bring some that are not listed
        key = f"{info.source}:{info.file}:{info.reference}" if named_by_file else info.reference
        if key not in loaded:
            loaded[key] = load_tool(info, self._snapshot.settings)
        return loaded[key]

    def require(self, reference: str) -> ToolInfo:
        """As `get_by_import_path`, but an unknown reference is an error that names the closest tool."""
        info = self.get_by_import_path(reference)
        if info is None:
            raise ToolError(f"Unknown tool: {reference}", code="unknown_tool", hint=self._suggest(reference))
        return info

    def _suggest(self, reference: str) -> str:
        name, _, version = reference.partition("@")
        versions = [info.version for info in self._snapshot.infos if info.id == name]
        if version and versions:
            return f"There is {name} in version {', '.join(versions)}."
        if is_path(reference):
            return "There is no such file, or no such tool in it: 'strands tool check FILE' says more."
        plugin = name.partition("__")[0] if "__" in name else ""
        if plugin and (trouble := self._plugin_trouble(plugin)):
            return trouble
        match = closest(
            name.rpartition(":")[2].rpartition(".")[2], {info.id for info in self._snapshot.infos}
        )
        meant = f"Did you mean {match!r}? " if match else ""
        searched = f"The project, whose tools/ and plugins/ count, is {self.settings.project}."
        return f"{meant}{LISTING_HINT} {searched}"

    def _plugin_trouble(self, name: str) -> str:
        """Why a plugin that is there has no tools."""
        from strands_cli.tools._discovery.plugins import disabled_plugins

        for issue in self._snapshot.issues:
            if issue.file.endswith(f"/{name}/plugin.json"):
                return f"Its plugin is not in order: {issue.reason} ({issue.place}) {issue.remediation}"
        if name in disabled_plugins(self.settings):
            return f"Its plugin is switched off: 'strands plugin enable {name}' switches it on."
        return ""

    def _read_file(self, reference: str) -> ToolInfo | None:
        from strands_cli.tools._discovery.sources import read_reference

        return read_reference(reference)


def _snapshot(
    settings: Settings, infos: Iterable[ToolInfo], issues: Iterable[Issue], loaded: dict[str, "Tool"]
) -> _Snapshot:
    infos = tuple(infos)
    return _Snapshot(settings, infos, tuple(issues), catalogue_of(infos), loaded)


def _info_of(tool: "Tool") -> ToolInfo:
    return ToolInfo(
        id=tool.id,
        family=tool.family,
        category=tool.category,
        description=tool.description,
        version=tool.version,
        deprecated=tool.deprecated,
        replaced_by=tool.replaced_by,
        requires_consent=tool.requires_consent,
        requires=tool.requires,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        source="runtime",
        origin=tool.origin or "registered at run time",
    )
