"""The registry: every tool that can be named here, where it comes from, and what failed to become one."""

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import Issue, SpecError, ToolError, did_you_mean
from strands_cli.settings import Settings, cache_directory, load_settings, settings_to_look_at
from strands_cli.toolkit.info import (
    DEFAULTS,
    ToolCategory,
    ToolInfo,
    ToolSpec,
    instead_of,
    version_key,
)
from strands_cli.tools._discovery import Discovered, join_discovered
from strands_cli.tools._discovery.scan import NO_CACHE, Cache
from strands_cli.tools.sources.mcp_servers import McpServers
from strands_cli.tools.sources.modules import (
    NamedFiles,
    Native,
    Project,
    Source,
    find_named_file,
    forget_changed_modules,
    have_modules_changed,
    is_file_reference,
    named_file_problem,
)
from strands_cli.tools.sources.packages import Callables, Packages
from strands_cli.tools.sources.plugins import Plugins

if TYPE_CHECKING:
    from strands_cli.toolkit.contract import Tool

__all__ = ["ToolCategory", "ToolInfo", "ToolRegistry", "ToolSpec"]

LISTING_HINT = "'strands list-tools' shows all of them."
NOT_ALLOWED = "Python callable '{}' not in allowlist"
"""The plan's words for a reference in a workflow that means no tool."""


def allow_hint(reference: str) -> str:
    """What to do about a function that could be a tool, and is not allowed to be one."""
    return (
        f"To use this function as a tool, add {reference!r} to 'allow' in strands.toml, or to the "
        "environment variable STRANDS_CUSTOM_TOOL_ALLOWLIST."
    )


SOURCES: tuple[type[Source], ...] = (
    Native,
    Packages,
    Plugins,
    McpServers,
    Project,
    NamedFiles,
    Callables,
)
"""In order of precedence: of tools with one id and version the first is kept."""


_ToolKey = tuple[str, str, str, str]
"""Source, file, id and version: a workflow may bring tools that have the id of a listed one."""


class ShadowedTool(msgspec.Struct, frozen=True):
    """A tool whose id leads to the tool of an earlier source."""

    info: ToolInfo
    by: ToolInfo
    is_listed: bool
    """Whether it has a version that the other does not have, which makes it a tool beside that one."""
    shares_file: bool
    """Whether its file has other tools too."""

    def reference_from(self, directory: Path) -> str:
        """The reference that reaches it, from a workflow or a command in this directory; "" for none."""
        if self.info.source == Project.name:
            path = os.path.relpath(self.info.file, directory)
            path = path if path.startswith(os.pardir) else f"{os.curdir}{os.sep}{path}"
            return f"{path}:{self.info.id}" if self.shares_file else path
        return self.info.reference if self.is_listed else self.info.module_path

    def warning_in(self, directory: Path) -> str:
        reference = self.reference_from(directory)
        other = f" For the one from {self.info.origin}, write {reference}." if reference else ""
        return f"Two tools are named {self.info.id!r}; the one from {self.by.origin} is used.{other}"

    def issue_in(self, project: Path) -> Issue:
        used = f"the one from {self.by.origin} is used, not the one from {self.info.origin}"
        reason = f"Two tools are named {self.info.id!r}; {used}."
        reference = self.reference_from(project)
        other = f", or refer to it as {reference}" if reference else ""
        remedy = f"Give it another name{other}."
        return Issue(reason=reason, remediation=remedy, file=self.info.file, line=self.info.line)


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
        self.found = tuple(infos)
        """Hidden tools too, in the order of their sources."""
        self.infos, self.shadowed = _accepted_tools(self.found)
        hidden = (tool.issue_in(settings.project) for tool in self.shadowed)
        self.issues = tuple(issues)
        self.problems = (*self.issues, *hidden)
        self.loaded = loaded
        """Tools that have been loaded so far."""
        self._by_id: dict[str, list[ToolInfo]] = {}
        self._by_name: dict[str, list[ToolInfo]] = {}
        for info in self.infos:
            self._by_id.setdefault(info.id, []).append(info)
        for info in (*self.infos, *(tool.info for tool in self.shadowed if not tool.is_listed)):
            for name in dict.fromkeys(self.source_of(info).names(info)):
                self._by_name.setdefault(name, []).append(info)

    def with_changes(self, **changes: Any) -> "_RegistrySnapshot":
        parts = {name: getattr(self, name) for name in ("settings", "sources", "issues", "loaded")}
        return _RegistrySnapshot(**{**parts, "infos": self.found, **changes})

    @property
    def names(self) -> set[str]:
        return {*self._by_id, *self._by_name, *(info.reference for info in self.infos)}

    def candidates(self, name: str) -> list[ToolInfo]:
        """The tools of an id or another name, in all versions."""
        return self._by_id.get(name) or self._by_name.get(name) or []

    def find(self, reference: str) -> ToolInfo | None:
        """The tool that is meant by `echo`, `echo@1.0.0`, `native:…`, `strands_tools.…` or a dotted path."""
        name, _, version = reference.partition("@")
        candidates = self.candidates(name)
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
    _registered: "tuple[tuple[ToolInfo, Tool | None], ...]" = ()
    """What was registered at run time."""
    _last_good: "dict[tuple[str, str, str], tuple[ToolInfo, Tool]]"
    """The last version that could be loaded, by source, file and id."""
    _discovered: Discovered
    """What the last refresh found."""

    def __new__(cls) -> "ToolRegistry":
        if cls._instance is None:
            cls._instance = cls._make(load_settings())
        return cls._instance

    @classmethod
    def _make(
        cls, settings: Settings, registered: "tuple[tuple[ToolInfo, Tool | None], ...]" = ()
    ) -> "ToolRegistry":
        registry = super().__new__(cls)
        registry._registered, registry._last_good = registered, {}
        registry.refresh(settings)
        return registry

    @classmethod
    def to_look_at(cls, file: Path | None = None) -> "ToolRegistry":
        """The registry of a workflow's project, or the current one, for who runs nothing.

        Where the settings cannot be used, that is one of its problems, and `load` refuses.
        """
        settings = settings_to_look_at(file.parent if file else None)
        if settings.issues:
            return cls._make(settings)
        if file:
            return cls.of_workflow(file)
        cls._instance = cls._instance or cls._make(settings)
        return cls._instance

    @classmethod
    def of_workflow(cls, file: Path) -> "ToolRegistry":
        """The tools of a workflow's project: the nearest marked parent of its file, or its directory.

        For the current project, this is the shared registry. Otherwise it is a second one, which also has the
        tools that were registered at run time.
        """
        settings, own = load_settings(file.parent), cls._instance
        if own is None and load_settings().project == settings.project:
            own = cls()
        if own is not None and own.settings.project == settings.project:
            return own
        registered = own._registered if own else ()
        other = cls._elsewhere
        if other is None or (other.settings, other._registered) != (settings, registered):
            other = cls._elsewhere = cls._make(settings, registered)
        return other

    def refresh(self, settings: Settings | None = None) -> None:
        """Discovers all tools again, by default for the current directory.

        What has changed is loaded again, with the project's modules that it imports. A tool whose file is
        broken now stays as it was when it was last loaded; what was registered at run time stays.
        """
        settings = settings or load_settings()
        forget_changed_modules()
        sources, found = _discover(settings)
        self._discovered = found
        broken = {issue.file for issue in found.issues if issue.severity == "error"}
        there = {_place_of(info) for info in found.infos}
        kept = [
            (info, tool)
            for place, (info, tool) in self._last_good.items()
            if is_behind(info, broken) and place not in there and info.source != NamedFiles.name
        ]
        issues = [
            _with_last_good(issue, [info for info, _ in kept if is_behind(info, {issue.file})])
            for issue in (*settings.issues, *found.issues)
        ]
        self._last_good = {
            place: known
            for place, known in self._last_good.items()
            if place in there or is_behind(known[0], broken) or place[0] == NamedFiles.name
        }
        extra = (*kept, *self._registered)
        loaded = {_tool_key(info): tool for info, tool in extra if tool is not None}
        infos = (*found.infos, *(info for info, _ in extra))
        self._snapshot = _RegistrySnapshot(settings, sources, infos, issues, loaded)
        type(self)._elsewhere = None

    def has_changed(self) -> bool:
        """Whether a refresh would find other tools, or load one of them anew. Changes nothing."""
        settings = load_settings()
        if settings != self.settings or have_modules_changed():
            return True
        return _discover(settings)[1] != self._discovered

    def has_loaded(self, info: ToolInfo) -> bool:
        """Whether a version of this tool has been loaded, now or before its file changed."""
        return _place_of(info) in self._last_good

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
        return list(self._snapshot.problems)

    @property
    def shadowed(self) -> list[ShadowedTool]:
        """The tools that another one of the same id hides."""
        return list(self._snapshot.shadowed)

    def shadowed_by(self, reference: str) -> list[ShadowedTool]:
        """The tools that somebody may have meant who wrote nothing but their id."""
        return [tool for tool in self._snapshot.shadowed if tool.info.id == reference]

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
            return False, f"Tool {tool_path} is deprecated as of v{info.version}{instead_of(info)}"
        return True, None

    def get_allowlist(self) -> set[str]:
        return {*self._snapshot.settings.allow, *self._snapshot.names}

    def register(self, *added: Any) -> None:
        """Adds tools at run time: a ToolSpec with the location of a tool, or the tool itself in any form."""
        made: list[tuple[ToolInfo, Tool | None]] = []
        now = self._snapshot
        for item in added:
            info, tool = (item, None) if isinstance(item, ToolInfo) else _registered_tool(item)
            if earlier := now.find(info.reference):
                reason = f"The tool {info.reference} already exists, from {earlier.origin}"
                raise ToolError(reason, code="conflict", hint="Give it another name or another version.")
            loaded = {**now.loaded, **({_tool_key(info): tool} if tool else {})}
            now = now.with_changes(infos=(*now.found, info), loaded=loaded)
            made.append((info, tool))
        self._snapshot, self._registered = now, (*self._registered, *made)

    def unregister(self, *references: str) -> None:
        """Takes back tools that were registered at run time; without a reference, all of them."""
        gone = [self.require(reference) for reference in references] or [info for info, _ in self._registered]
        kept = tuple(pair for pair in self._registered if pair[0] not in gone)
        for info in gone:
            if not any(info is own for own, _ in self._registered):
                reason = f"{info.reference} was not registered at run time: it comes from {info.origin}"
                raise ToolError(reason, code="conflict")
        infos = [info for info in self._snapshot.found if info not in gone]
        self._snapshot, self._registered = self._snapshot.with_changes(infos=infos), kept

    def load(self, reference: "str | ToolInfo") -> "Tool":
        """Loads a tool. Raises ToolError if it cannot be loaded."""
        self.settings.refuse_unread()
        info = reference if isinstance(reference, ToolInfo) else self.require(reference)
        now, key = self._snapshot, _tool_key(info)
        if key not in now.loaded:
            try:
                now.loaded[key] = now.source_of(info).load(info)
            except ToolError as error:
                last = self._last_good.get(_place_of(info))
                if last is None or error.issue is None:
                    raise
                now.loaded[key] = last[1]
                issue = _with_last_good(error.issue, [info])
                self._snapshot = now.with_changes(issues=(*now.issues, issue))
            if not info.manifest:  # whether a plugin's tool may run is for its approval to say
                self._last_good[_place_of(info)] = (info, now.loaded[key])
        return now.loaded[key]

    def require(self, reference: str) -> ToolInfo:
        """Like `get_by_import_path`, but raises an error: why the tool's file is refused, or the closest name
        if it is unknown.
        """
        info = self.get_by_import_path(reference)
        if info is not None:
            return info
        if issue := self._refusal_of(reference):
            where = f" ({issue.place})" if issue.place else ""
            message = f"Failed to load tool '{reference}': {issue.reason}{where}"
            raise ToolError(message, code="unavailable", hint=issue.remediation, issue=issue)
        raise ToolError(f"Unknown tool: {reference}", code="unknown_tool", hint=self._suggest(reference))

    def _refusal_of(self, reference: str) -> Issue | None:
        """The problem that keeps a tool from being there: of its file, of its plugin, of an allowed name."""
        if is_file_reference(reference):
            return named_file_problem(reference)  # None where there is no such file
        name = re.split("[:.]", reference.partition("@")[0])[-1]
        plugin = name.partition("__")[0] if "__" in name else ""
        for issue in self._snapshot.issues:
            if plugin and issue.reason.startswith(f"The MCP server {plugin} "):
                return issue
            if issue.severity != "error":
                continue
            path = Path(issue.file)
            is_own_file = path.suffix == ".py" and name == (
                path.parent.name if path.stem == "__init__" else path.stem
            )
            is_own_plugin = plugin and issue.file.endswith(f"/{plugin}/plugin.json")
            is_allowed = reference in self.settings.allow and reference in issue.reason
            if is_own_file or is_own_plugin or is_allowed or issue.reason.startswith(f"Tool {name!r} "):
                return issue
        return self._plugin_off(plugin) if plugin else None

    def _suggest(self, reference: str) -> str:
        name, _, version = reference.partition("@")
        if version and (known := self._snapshot.candidates(name)):
            return f"{name} exists in version {', '.join(info.version for info in known)}."
        if is_file_reference(reference):
            return "There is no such file."
        ids = {info.id for info in self._snapshot.infos}
        meant = did_you_mean(name, self._snapshot.names) or did_you_mean(re.split("[:.]", name)[-1], ids)
        if "." in name and ":" not in name and not name.startswith(("strands_cli.", "strands_tools.")):
            return f"{meant} {allow_hint(name)}".strip()
        refused = any(issue.severity == "error" for issue in self._snapshot.issues)
        broken = "Some tools cannot be used: 'strands tool check' shows why." if refused else ""
        searched = f"Searched tools/ and plugins/ of the project {self.settings.project}."
        return " ".join(filter(None, (meant, LISTING_HINT, broken, searched)))

    def _plugin_off(self, name: str) -> Issue | None:
        from strands_cli.plugins.permissions import find_plugins

        try:
            found = [plugin for plugin in find_plugins(self.settings) if not plugin.is_enabled]
        except (OSError, SpecError):
            found = []
        if not any(name in (plugin.name, plugin.place.name) for plugin in found):
            return None
        remedy = f"'strands plugin enable {name}' enables it."
        return Issue(reason=f"The plugin {name} is disabled.", remediation=remedy)


def _discover(settings: Settings) -> tuple[dict[str, Source], Discovered]:
    """The sources of a project, and what they find."""
    try:
        cache = Cache(cache_directory() / "discovery")
    except RuntimeError:  # there is no home directory
        cache = NO_CACHE
    sources = {kind.name: kind(settings, cache) for kind in SOURCES}
    return sources, join_discovered(source.discover() for source in sources.values())


def _accepted_tools(infos: Iterable[ToolInfo]) -> tuple[tuple[ToolInfo, ...], tuple[ShadowedTool, ...]]:
    """The first tool of each id and version; and those whose id leads to the tool of an earlier source."""
    infos = tuple(infos)
    first: dict[str, ToolInfo] = {}
    kept: dict[str, ToolInfo] = {}
    files = [info.file for info in infos]
    shadowed: list[ShadowedTool] = []
    for info in infos:
        by = first.setdefault(info.id, info)
        is_listed = kept.setdefault(info.reference, info) is info
        if by.source != info.source or not is_listed:
            shadowed.append(ShadowedTool(info, by, is_listed, files.count(info.file) > 1))
    return tuple(kept.values()), tuple(shadowed)


def is_behind(info: ToolInfo, broken: Collection[str]) -> bool:
    """Whether the tool's file is broken, or a package or directory around it."""
    file = Path(info.file)
    return bool(broken and info.file) and any(
        str(path) in broken or str(path / "__init__.py") in broken for path in (file, *file.parents)
    )


def _with_last_good(issue: Issue, infos: list[ToolInfo]) -> Issue:
    if not infos:
        return issue
    names = ", ".join(info.id for info in infos)
    remedy = f"{issue.remediation} Until then, {names} stays as it was last loaded.".strip()
    return msgspec.structs.replace(issue, remediation=remedy)


def _place_of(info: ToolInfo) -> tuple[str, str, str]:
    return info.source, info.file, info.id


def _tool_key(info: ToolInfo) -> _ToolKey:
    return info.source, info.file, info.id, info.version


def _registered_tool(value: Any) -> "tuple[ToolInfo, Tool]":
    from strands_cli.toolkit.decorator import as_tool

    tool = as_tool(value)
    fields = {name: getattr(tool, name) for name in DEFAULTS if name != "effects"}
    origin = tool.origin or "registered at run time"
    return ToolInfo(**fields, id=tool.id, source="runtime", origin=origin), tool
