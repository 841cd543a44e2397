"""The registry: every tool that can be named here, where it comes from, and what failed to become one."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from strands_cli.errors import Issue, SpecError, ToolError, did_you_mean
from strands_cli.settings import Settings, cache_directory, load_settings
from strands_cli.toolkit.info import DEFAULTS, ToolCategory, ToolInfo, ToolSpec, version_key
from strands_cli.tools._discovery import Discovered, join_discovered
from strands_cli.tools._discovery.scan import NO_CACHE, Cache
from strands_cli.tools.sources.modules import (
    NamedFiles,
    Native,
    Project,
    Source,
    find_named_file,
    is_file_reference,
)
from strands_cli.tools.sources.packages import Callables, Packages
from strands_cli.tools.sources.plugins import Plugins

if TYPE_CHECKING:
    from strands_cli.toolkit.contract import Tool

__all__ = ["ToolCategory", "ToolInfo", "ToolRegistry", "ToolSpec"]

LISTING_HINT = "'strands list-tools' shows all of them."


def allow_hint(reference: str) -> str:
    """What to do about a function that could be a tool, and is not allowed to be one."""
    return (
        f"To use this function as a tool, add {reference!r} to 'allow' in strands.toml, or to the "
        "environment variable STRANDS_CUSTOM_TOOL_ALLOWLIST."
    )


SOURCES: tuple[type[Source], ...] = (Native, Packages, Plugins, Project, NamedFiles, Callables)
"""In order of precedence: of tools with one id and version the first is kept."""


_ToolKey = tuple[str, str, str, str]
"""Source, file, id and version: a workflow may bring tools that have the id of a listed one."""


class _RegistrySnapshot:
    """What is registered at one moment. A change makes a new one; calls in flight keep theirs."""

    def __init__(
        self,
        settings: Settings,
        sources: dict[str, Source],
        infos: Iterable[ToolInfo],
        issues: Iterable[Issue],
        loaded: dict[_ToolKey, "Tool"],
    ) -> None:
        self.settings = settings
        self.sources = sources
        self.infos = tuple(infos)
        self.issues = tuple(issues)
        self.loaded = loaded
        """Tools that have been loaded so far."""
        self._by_id: dict[str, list[ToolInfo]] = {}
        self._by_name: dict[str, list[ToolInfo]] = {}
        for info in self.infos:
            self._by_id.setdefault(info.id, []).append(info)
            for name in dict.fromkeys(self.source_of(info).names(info)):
                self._by_name.setdefault(name, []).append(info)

    @property
    def names(self) -> set[str]:
        return {*self._by_id, *self._by_name, *(info.reference for info in self.infos)}

    def find(self, reference: str) -> ToolInfo | None:
        """The tool that is meant by `echo`, `echo@1.0.0`, `native:…`, `strands_tools.…` or a dotted path."""
        name, _, version = reference.partition("@")
        candidates = self._by_id.get(name) or self._by_name.get(name) or []
        if version:
            return next((info for info in candidates if info.version == version), None)
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        # The highest version that is not deprecated, of the first source that has the tool.
        first = [info for info in candidates if info.source == candidates[0].source]
        return max(first, key=lambda info: (not info.deprecated, version_key(info.version)))

    def source_of(self, info: ToolInfo) -> Source:
        """Who loads a tool. One that was registered at run time is a file's, or else has a module's name."""
        return self.sources.get(info.source) or self.sources[NamedFiles.name if info.file else Callables.name]


class ToolRegistry:
    """All tools of the current project. `ToolRegistry()` always returns the same object."""

    _instance: "ToolRegistry | None" = None
    _elsewhere: "ToolRegistry | None" = None
    """That of the workflow that was looked at last, if it lies in another project."""
    _snapshot: _RegistrySnapshot
    _added: "tuple[ToolInfo | Tool, ...]" = ()
    """What was registered at run time."""

    def __new__(cls) -> "ToolRegistry":
        if cls._instance is None:
            registry = super().__new__(cls)
            registry.refresh()
            cls._instance = registry
        return cls._instance

    @classmethod
    def of_workflow(cls, file: Path) -> "ToolRegistry":
        """The tools of a workflow's own project: its nearest marked parent, else the directory of its file.

        The one handle if that is the current project too; else a registry beside it, which also has what was
        registered at run time.
        """
        settings, own = load_settings(file.parent), cls._instance
        if own is None and load_settings().project == settings.project:
            own = cls()
        if own is not None and own.settings.project == settings.project:
            return own
        added = own._added if own else ()
        if (other := cls._elsewhere) and (other.settings, other._added) == (settings, added):
            return other
        other = super().__new__(cls)
        other.refresh(settings)
        for item in added:
            with suppress(ToolError):  # the project has a tool of that name, which comes first
                other.register(item)
        other._added, cls._elsewhere = added, other
        return other

    def refresh(self, settings: Settings | None = None) -> None:
        """Discovers all tools again, by default for the current directory."""
        settings = settings or load_settings()
        try:
            cache = Cache(cache_directory() / "discovery")
        except RuntimeError:  # there is no home directory
            cache = NO_CACHE
        sources = {kind.name: kind(settings, cache) for kind in SOURCES}
        found = join_discovered(source.discover() for source in sources.values())
        infos, refused = _accepted_tools(found)
        self._snapshot = _RegistrySnapshot(settings, sources, infos, (*found.issues, *refused), {})
        self._added, type(self)._elsewhere = (), None

    async def aclose(self) -> None:
        """Ends processes that loaded tools keep running."""
        for source in self._snapshot.sources.values():
            await source.aclose()

    @property
    def settings(self) -> Settings:
        return self._snapshot.settings

    @property
    def problems(self) -> list[Issue]:
        """What could not be read, with file, line, reason and fix."""
        return list(self._snapshot.issues)

    def list_all(self) -> list[ToolInfo]:
        return list(self._snapshot.infos)

    def list_by_category(self, category: ToolCategory) -> list[ToolInfo]:
        return [info for info in self._snapshot.infos if info.category == category]

    def get(self, tool_id: str) -> ToolInfo | None:
        """The tool with an id, or with `id@version`."""
        info = self._snapshot.find(tool_id)
        return info if info and tool_id in (info.id, info.reference) else None

    def get_by_import_path(self, import_path: str) -> ToolInfo | None:
        """The tool for any form of reference."""
        if is_file_reference(import_path):
            return find_named_file(import_path)
        return self._snapshot.find(import_path)

    def resolve(self, user_input: str) -> str | None:
        """The module of a reference, or None."""
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
        return {*self._snapshot.settings.allow, *self._snapshot.names}

    def register(self, *added: "ToolInfo | Tool") -> None:
        """Adds tools at run time: a ToolSpec with the location of a tool, or the tool itself."""
        now = self._snapshot
        infos, loaded = [*now.infos], {**now.loaded}
        for item in added:
            info = item if isinstance(item, ToolInfo) else _info_of_tool(item)
            if earlier := now.find(info.reference):
                reason = f"There is a tool {info.reference} already, from {earlier.origin}"
                raise ToolError(reason, code="conflict", hint="Give it another name or another version.")
            infos.append(info)
            if not isinstance(item, ToolInfo):
                loaded[_tool_key(info)] = item
        self._snapshot = _RegistrySnapshot(now.settings, now.sources, infos, now.issues, loaded)
        self._added = (*self._added, *added)

    def load(self, reference: "str | ToolInfo") -> "Tool":
        """Loads a tool. Raises ToolError if it cannot be loaded."""
        info = reference if isinstance(reference, ToolInfo) else self.require(reference)
        loaded, key = self._snapshot.loaded, _tool_key(info)
        if key not in loaded:
            loaded[key] = self._snapshot.source_of(info).load(info)
        return loaded[key]

    def require(self, reference: str) -> ToolInfo:
        """Like `get_by_import_path`, but raises an error with the closest name if it is unknown."""
        info = self.get_by_import_path(reference)
        if info is None:
            raise ToolError(f"Unknown tool: {reference}", code="unknown_tool", hint=self._suggest(reference))
        return info

    def _suggest(self, reference: str) -> str:
        name, _, version = reference.partition("@")
        versions = [info.version for info in self._snapshot.infos if info.id == name]
        if version and versions:
            return f"There is {name} in version {', '.join(versions)}."
        if is_file_reference(reference):
            return "There is no such file, or no such tool in it: 'strands tool check FILE' says more."
        plugin, marks, _ = name.partition("__")
        if marks and (trouble := self._plugin_trouble(plugin)):
            return trouble
        meant = did_you_mean(re.split("[:.]", name)[-1], {info.id for info in self._snapshot.infos})
        if "." in name and ":" not in name and not name.startswith(("strands_cli.", "strands_tools.")):
            return f"{meant} {allow_hint(name)}".strip()
        searched = f"The project, whose tools/ and plugins/ count, is {self.settings.project}."
        return f"{meant} {LISTING_HINT} {searched}".strip()

    def _plugin_trouble(self, name: str) -> str:
        """Why a plugin that is there has no tools."""
        from strands_cli.plugins.plugin import find_plugins

        for issue in self._snapshot.issues:
            if issue.file.endswith(f"/{name}/plugin.json"):
                return f"Its plugin is not in order: {issue.reason} ({issue.place}) {issue.remediation}"
        try:
            found = [plugin for plugin in find_plugins(self.settings) if not plugin.is_enabled]
        except (OSError, SpecError):
            found = []
        if any(name in (plugin.name, plugin.place.name) for plugin in found):
            return f"Its plugin is switched off: 'strands plugin enable {name}' switches it on."
        return ""


def _accepted_tools(found: Discovered) -> tuple[list[ToolInfo], list[Issue]]:
    """The first of each id and version; a later one of the same is refused, and both origins are named."""
    kept: dict[tuple[str, str], ToolInfo] = {}
    refused: list[Issue] = []
    for info in found.infos:
        earlier = kept.setdefault((info.id, info.version), info)
        if earlier is info:
            continue
        reason = f"There are two tools {info.reference}: {earlier.origin} has one, {info.origin} another."
        remedy = f"The one of {earlier.origin} is used. Give the other one another name or version."
        refused.append(Issue(reason=reason, remediation=remedy, file=info.file, line=info.line))
    return list(kept.values()), refused


def _tool_key(info: ToolInfo) -> _ToolKey:
    return info.source, info.file, info.id, info.version


def _info_of_tool(tool: "Tool") -> ToolInfo:
    fields = {name: getattr(tool, name) for name in DEFAULTS if name != "effects"}
    return ToolInfo(**fields, id=tool.id, source="runtime", origin=tool.origin or "registered at run time")
