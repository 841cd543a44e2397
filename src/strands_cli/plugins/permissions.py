"""The permissions of plugins, and whether a plugin may run: approvals, lock files and ownership of names.

A plugin of the project runs without approval, from its own directory, if the default permissions are enough:
no network, no environment variables, only files of the workspace, and no writing to protected paths.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec

from strands_cli.documents.files import protected_part
from strands_cli.documents.problems import JsonPath
from strands_cli.errors import (
    Issue,
    Severity,
    SpecError,
    StrandsError,
    ToolError,
    ToolFailed,
    UsageError,
    did_you_mean,
)
from strands_cli.plugins.approvals import (
    PluginApproval,
    approval_of_place,
    approved_copy,
    copy_plugin,
    digest_of_files,
    kept_copy,
    other_owner_of_name,
    recorded_approval,
)
from strands_cli.plugins.directories import (
    LINK,
    MANIFEST_NAME,
    SPECIAL,
    Approved,
    Changes,
    changed_lock,
    entries_of_locks,
    file_changes,
    is_plugin_disabled,
    plugin_digests,
    plugin_place,
    plugin_roots,
    plugins_in,
    read_plugin_state,
    user_directory,
)
from strands_cli.plugins.manifest import CliTool, Manifest, Setting, setting_variable
from strands_cli.plugins.plugin import Plugin, PluginReading, read_plugin
from strands_cli.sandbox.messages import SYSTEM_DIRECTORIES
from strands_cli.settings import Settings

_GIVEN_VARIABLES = frozenset({"PATH", "LANG", "LC_ALL", "TZ"})
"""The environment variables that every executable gets."""
_SHOWN_ASKS = 3

# --- What a plugin asks for ---------------------------------------------------------------------------------


def access_lines(manifest: Manifest, tool: CliTool) -> list[str]:
    """The access of a tool beyond reading the workspace and its own directory."""
    lines = ["network: opens connections, to any host"] if tool.network else []
    lines += [f"files: reads {path}" for path in tool.files.read]
    lines += [f"files: writes {path}" for path in tool.files.write]
    lines += [f"env: gets {name}" for name in tool.env]
    for name, setting in manifest.settings_of(tool).items():
        remarks = f"{', secret' if setting.sensitive else ''}{'' if setting.is_needed else ', optional'}"
        lines.append(f"config: gets {name} from {setting_variable(manifest.name, name, setting)}{remarks}")
    lines += [f"programs: runs {place}" for place in _own_programs(tool)]
    return lines or ["read the workspace, nothing else"]


def permission_lines(manifest: Manifest) -> tuple[str, ...]:
    """Everything that an approval allows: the access and the limits of each tool."""
    return tuple(
        f"{manifest.tool_id(tool)}  {line}"
        for tool in manifest.cli_tools
        for line in (*access_lines(manifest, tool), f"limits: {tool.limits}")
    )


def _own_programs(tool: CliTool) -> list[str]:
    """The programs outside system directories that it can read, each with its installation tree."""
    if not tool.requires.binaries:
        return []
    from strands_cli.plugins.processes import program_elsewhere

    path = os.environ.get("PATH", "")
    return [place for name in tool.requires.binaries if (place := program_elsewhere(name, path))]


def permissions_to_approve(plugin: Plugin, settings: Settings) -> list[Issue]:
    """The permissions of a plugin beyond the default ones, with their lines in the manifest."""
    remedy = f"'strands plugin update {plugin.name}' shows what it may do and approves it."
    asked = [*_settings_to_approve(plugin.manifest, plugin.manifest.config, "its tools", ())]
    for index, tool in enumerate(plugin.manifest.cli_tools):
        at: JsonPath = ("cli_tools", index)
        asked += _access_to_approve(tool, settings, at)
        asked += _settings_to_approve(plugin.manifest, tool.config, tool.name, at)
    return [plugin.issue(place, what, remedy) for place, what in asked]


def _access_to_approve(tool: CliTool, settings: Settings, at: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    if tool.network:
        yield (*at, "network"), f"{tool.name} opens network connections"
    for key, verb, paths in (("read", "reads", tool.files.read), ("write", "writes", tool.files.write)):
        for position, path in enumerate(paths):
            if why := _path_to_approve(path, settings, writes=key == "write"):
                yield (*at, "files", key, position), f"{tool.name} {verb} {path}, which is {why}"
    for position, name in enumerate(tool.env):
        if name not in _GIVEN_VARIABLES:
            yield (*at, "env", position), f"{tool.name} gets the environment variable {name}"


def _settings_to_approve(
    manifest: Manifest, config: dict[str, Setting], who: str, at: JsonPath
) -> Iterator[tuple[JsonPath, str]]:
    """Settings that may contain a secret: not numbers, and not values from the manifest's `enum`."""
    for name, setting in config.items():
        variable, verb = setting_variable(manifest.name, name, setting), "gets" if at else "get"
        if setting.sensitive:
            yield (*at, "config", name), f"{who} {verb} the secret {name} ({variable})"
        elif setting.type == "string" and not setting.enum:
            yield (*at, "config", name), f"{who} {verb} the environment variable {variable}"


def _path_to_approve(path: str, settings: Settings, *, writes: bool) -> str:
    """Why a declared path goes beyond the default permissions; empty if it does not."""
    roots = settings.workspace
    whole = Path(os.path.normpath(os.path.join(*roots[:1], os.path.expanduser(path))))
    root = next((root for root in roots if whole.is_relative_to(root)), None)
    if root is None:
        is_system = not writes and any(whole.is_relative_to(place) for place in SYSTEM_DIRECTORIES)
        return "" if is_system else "outside the workspace"
    return "protected" if writes and protected_part(whole, root) else ""


# --- Whether it may run -------------------------------------------------------------------------------------

State = Literal["approved", "changed", "locked", "unlocked", "unapproved", "duplicate"]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a plugin may run, and why not."""

    state: State
    """`locked` and `unlocked` plugins run from their own directory, with and without a lock file entry."""
    refusal: Issue | None = None
    """Why its tools do not run."""
    asks: tuple[Issue, ...] = ()
    """The permissions that the user has to approve first."""
    changes: Changes | None = None
    """How it differs from the approved version, or else from the lock file."""
    approval: PluginApproval | None = None
    lock: Path | None = None
    locked: Approved | None = None
    """Its entry in the lock file."""


def plugin_standing(place: Path, name: str, settings: Settings, plugin: Plugin | None = None) -> Standing:
    """Whether the plugin in a directory may run; with `plugin`, its permissions are checked too.

    `place` must come from `plugin_place`, which is not called again, since every tool call comes here.
    SpecError if a lock file or the approvals cannot be read, OSError if the plugin cannot.
    """
    approval = approval_of_place(place)
    entries = [*entries_of_locks(place, settings.project)]
    lock, locked = entries[0] if entries else (None, None)

    def standing(
        state: State, reason: str = "", remedy: str = "", changes: Changes | None = None
    ) -> Standing:
        refusal = Issue(file=str(place), reason=reason, remediation=remedy) if reason else None
        return Standing(
            state=state, refusal=refusal, changes=changes, approval=approval, lock=lock, locked=locked
        )

    if approval is None and (owner := other_owner_of_name(name, place, settings.project)):
        reason = (
            f"The name {name} belongs to the plugin in {owner}, which you approved; {place} does not run."
        )
        remedy = (
            f"'strands plugin update {place}' gives it the name, 'strands plugin remove {place}' removes it."
        )
        return standing("duplicate", reason, remedy)
    if approval or entries:
        now = plugin_digests(place.resolve())
        changes = None
        if approval and digest_of_files(now) != approval.digest:
            copy = kept_copy(approval)
            changes = file_changes(plugin_digests(copy) if copy else {}, now)
        for _, entry in entries:
            changes = changes or file_changes(entry.files, now) or None
        if changes:
            reason = f"The plugin {name} has changed since it was approved ({changes}); its tools do not run."
            remedy = f"'strands plugin update {name}' shows the difference and approves it."
            return standing("changed", reason, remedy, changes)
    if approval:
        return standing("approved")
    user = user_directory() if plugin else None
    is_users = user and place.parent == plugin_place(user / "plugins")
    if asks := tuple(permissions_to_approve(plugin, settings) if plugin and not is_users else ()):
        return msgspec.structs.replace(standing("unapproved"), refusal=_refusal(name, asks), asks=asks)
    return standing("locked" if entries else "unlocked")


def _refusal(name: str, asks: tuple[Issue, ...]) -> Issue:
    shown = "; ".join(f"{ask.reason} (line {ask.line})" for ask in asks[:_SHOWN_ASKS])
    more = f"; and {len(asks) - _SHOWN_ASKS} more" if len(asks) > _SHOWN_ASKS else ""
    reason = f"The plugin {name} ({asks[0].file}) needs your approval: {shown}{more}."
    return msgspec.structs.replace(asks[0], reason=reason)


def runnable_plugin(plugin: Plugin, settings: Settings) -> Plugin:
    """The plugin to run, which is the copy of an approved plugin; ToolError (`denied`) if it may not run."""
    try:
        standing = plugin_standing(plugin.place, plugin.name, settings, plugin)
        if refusal := standing.refusal:
            raise ToolError(refusal.reason, code="denied", hint=refusal.remediation, issue=refusal)
        if standing.approval is None:
            return plugin
        reading = read_plugin(approved_copy(standing.approval, plugin.place))
    except (SpecError, OSError) as error:
        reason, hint = _unreadable(plugin, error)
        raise ToolError(reason, code="denied", hint=hint) from None
    if reading.plugin is None:
        raise SpecError(f"The approved copy of the plugin {plugin.name} is invalid.", issues=reading.issues)
    return msgspec.structs.replace(reading.plugin, place=plugin.place, approval=standing.approval)


def refuse_unapproved(plugin: Plugin, settings: Settings) -> None:
    """ToolFailed (`denied`) if a loaded plugin may no longer run."""
    try:
        standing = plugin_standing(plugin.place, plugin.name, settings)
        if plugin.approval and standing.approval and not standing.refusal:
            approved_copy(standing.approval, plugin.place)
    except (SpecError, OSError) as error:
        reason, hint = _unreadable(plugin, error)
        raise ToolFailed(reason, code="denied", hint=hint) from None
    if refusal := standing.refusal:
        raise ToolFailed(refusal.reason, code="denied", hint=refusal.remediation)
    loaded, now = (approval and approval.digest for approval in (plugin.approval, standing.approval))
    if loaded != now:
        reason = f"The approval of the plugin {plugin.name} has changed since this tool was loaded."
        raise ToolFailed(reason, code="denied", hint="Load it again: refresh the registry, or start again.")


def _unreadable(plugin: Plugin, error: SpecError | OSError) -> tuple[str, str]:
    if isinstance(error, SpecError):
        return f"The plugin {plugin.name} cannot run: {error.message}", error.hint
    return f"The plugin {plugin.name} cannot be read: {error.strerror}: {error.filename}", ""


# --- Approving ----------------------------------------------------------------------------------------------


class PendingPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that needs the user's approval, in the state in which it was shown."""

    plugin: Plugin
    files: dict[str, str]
    asks: tuple[Issue, ...]
    """Its permissions beyond the default ones: reason, file and line."""
    changes: Changes | None = None
    """How it differs from the approved version."""


def plugins_to_approve(settings: Settings, places: Iterable[Path] = ()) -> list[PendingPlugin]:
    """The plugins of a project, and of other `places`, that need the user's approval to run.

    Unreadable plugins, and those whose name belongs to another one, are left out: approval would not help.
    """
    pending = []
    for place in (*plugins_in(plugin_roots(settings)["project"]), *places):
        try:
            files = plugin_digests(place.resolve())
            plugin = read_plugin(place).plugin
            standing = plugin_standing(plugin.place, plugin.name, settings, plugin) if plugin else None
        except (OSError, SpecError):
            continue
        if plugin and standing and standing.state in ("unapproved", "changed"):
            asks = tuple(permissions_to_approve(plugin, settings))
            pending.append(PendingPlugin(plugin=plugin, files=files, asks=asks, changes=standing.changes))
    return pending


def approve_plugin(
    plugin: Plugin, files: dict[str, str], settings: Settings, lock: Path | None = None
) -> None:
    """Approves a plugin as it was shown: from now on its copy runs.

    Updates its entries in lock files, and adds one to `lock`. StrandsError if its files have changed since.
    """
    with copied_plugin(plugin.place) as (copy, copied):
        if copied != files or copy.manifest != plugin.manifest:
            reason = f"{plugin.place} was changed after it was shown, so it is not approved."
            raise StrandsError(reason, hint="Run the command again to see the changes.")
        permissions = permission_lines(copy.manifest)
        with recorded_approval(plugin.place, plugin.name, copy.directory, files, permissions):
            _renew_locks(plugin.place, files, settings, lock)


def _renew_locks(place: Path, files: dict[str, str], settings: Settings, lock: Path | None) -> None:
    entries = dict(entries_of_locks(place, settings.project))
    if lock and lock not in entries:
        entries[lock] = Approved(files={})
    for file, entry in entries.items():
        if entry.files != files:  # it no longer matches the commit
            with changed_lock(place, file, msgspec.structs.replace(entry, files=files, commit="")):
                pass


@contextmanager
def copied_plugin(
    place: Path, shown: Path | None = None, called: str = ""
) -> Iterator[tuple[Plugin, dict[str, str]]]:
    """A temporary copy of a plugin, with its hashes.

    SpecError with all problems if it is invalid, or would not be the same after copying. Problems name files
    below `shown`, the plugin's source, if that is not `place`.
    """
    with TemporaryDirectory(prefix="strands-plugin-") as name:
        copy, reading = Path(name).resolve() / "copy", None
        issues = [*unportable_files(place)]
        if not issues:  # otherwise a pipe might be read
            copy_plugin(place.resolve(), copy)
            reading = read_plugin(copy)
            issues = [*unportable_files(copy), *reading.issues]
        if issues or reading is None or reading.plugin is None:
            found = [_issue_in_source(issue, (copy, place), shown or place) for issue in issues]
            raise SpecError(f"The plugin in {called or place} is invalid.", issues=found)
        yield reading.plugin, plugin_digests(copy)


def _issue_in_source(issue: Issue, ours: tuple[Path, ...], shown: Path) -> Issue:
    """The same issue, with the path in the plugin's source instead of our copy."""
    file = Path(issue.file)
    inside = next((file.relative_to(place) for place in ours if file.is_relative_to(place)), file)
    return msgspec.structs.replace(issue, file=str(shown / inside))


def unportable_files(directory: Path, *, severity: Severity = "error") -> list[Issue]:
    """Files of a plugin that would not be the same after copying."""
    root = directory.resolve()
    remedy = "Remove it, or replace it with a copy of the file: 'strands plugin add' rejects it."
    issues: list[Issue] = []
    for name, digest in plugin_digests(root).items():
        target = digest.removeprefix(LINK)
        if digest == SPECIAL:
            reason = "This is neither a file nor a link."
        elif target != digest and not _stays_inside(root, name, target):
            reason = f"This link leads out of the plugin, to {target}."
        elif not f"{name}{target}".isprintable():
            reason = "This name has characters that cannot be shown."
        else:
            continue
        file = str(directory / name)
        issues.append(Issue(file=file, reason=reason, remediation=remedy, severity=severity))
    return issues


def _stays_inside(root: Path, name: str, target: str) -> bool:
    try:
        return not Path(target).is_absolute() and (root / name).resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a link loop
        return False


# --- Finding them -------------------------------------------------------------------------------------------


class FoundPlugin(msgspec.Struct, frozen=True, kw_only=True):
    owner: Literal["project", "user", "path"]
    """`path`: it is outside the plugin directories of the project and of the user."""
    reading: PluginReading
    is_enabled: bool
    standing: Standing

    @property
    def place(self) -> Path:
        return self.reading.place

    @property
    def name(self) -> str:
        """Its name in the manifest, or the name of its directory if the manifest cannot be read."""
        return self.reading.plugin.name if self.reading.plugin else self.place.name


def find_plugins(settings: Settings) -> list[FoundPlugin]:
    """All plugins of the project and of the user, including disabled and invalid ones."""
    import logging

    log = logging.getLogger("strands_cli.plugins")
    owners: tuple[tuple[Literal["project", "user"], Path | None], ...] = tuple(
        (owner, plugin_roots(settings).get(owner)) for owner in ("project", "user")
    )
    found = [
        _found_plugin(place, owner, settings) for owner, root in owners if root for place in plugins_in(root)
    ]
    for plugin in found:
        tools = len(plugin.reading.plugin.manifest.cli_tools) if plugin.reading.plugin else 0
        log.debug("%s: %d tools, %d problems", plugin.place, tools, len(plugin.reading.issues))
    return found


def _found_plugin(place: Path, owner: Literal["project", "user", "path"], settings: Settings) -> FoundPlugin:
    reading = read_plugin(place)
    name = reading.plugin.name if reading.plugin else place.name
    try:
        standing = plugin_standing(reading.place, name, settings, reading.plugin)
    except OSError as error:  # it was deleted, or a part of it cannot be read
        gone = Issue(file=str(place), reason=f"The plugin cannot be read: {error.strerror}.")
        standing = Standing(state="unlocked", refusal=gone)
        reading = msgspec.structs.replace(reading, plugin=None, issues=(*reading.issues, gone))
    is_enabled = not is_plugin_disabled(place, read_plugin_state())
    return FoundPlugin(owner=owner, reading=reading, is_enabled=is_enabled, standing=standing)


def find_plugin(reference: str, settings: Settings, *, anywhere: bool = False) -> FoundPlugin:
    """The plugin with this name, or at this path. UsageError with the closest name if it does not exist.

    If two have the name, the approved one is returned. With `anywhere`, the path may be outside the plugin
    directories.
    """
    found = find_plugins(settings)
    path = Path(reference)
    place = plugin_place(path.parent if path.name == MANIFEST_NAME else path)
    by_name = [plugin for plugin in found if reference in (plugin.name, plugin.place.name)]
    by_name.sort(key=lambda plugin: plugin.standing.approval is None)
    if by_name and by_name[0].standing.approval is None:
        rivals = [plugin for plugin in by_name if plugin.owner == by_name[0].owner]
        if len(rivals) > 1:
            both = " and ".join(str(plugin.place) for plugin in rivals)
            raise UsageError(
                f"There are several plugins {reference!r}: {both}.", hint="Use the path of one of them."
            )
    by_path = (plugin for plugin in found if plugin.place == place)
    if meant := next(iter(by_name), None) or next(by_path, None):
        return meant
    if anywhere and os.path.lexists(place / MANIFEST_NAME):
        return _found_plugin(place, "path", settings)
    hint = did_you_mean(reference, [plugin.name for plugin in found])
    hint = hint or "'strands plugin list' shows all of them."
    raise UsageError(f"Plugin {reference!r} not found.", hint=hint)
