"""Every plugin there is, with all that is known of it: for the commands, which may take their time."""

import logging
from pathlib import Path

import msgspec

from strands_cli.errors import UsageError, did_you_mean
from strands_cli.plugins.manifest import CliTool, Manifest
from strands_cli.plugins.places import plugin_roots, plugins_in
from strands_cli.plugins.reading import PluginReading, read_plugin
from strands_cli.plugins.state import Approved, Changes, approvals, changes_since, is_disabled, read_state
from strands_cli.settings import Settings
from strands_cli.toolkit.info import ToolInfo

_log = logging.getLogger("strands_cli.plugins")


class Approval(msgspec.Struct, frozen=True):
    """What a lock says about a plugin, and how the plugin differs from that."""

    lock: Path
    approved: Approved
    changes: Changes


class Found(msgspec.Struct, frozen=True, kw_only=True):
    owner: str
    """`project` or `user`."""
    reading: PluginReading
    is_enabled: bool
    approval: Approval | None
    """None where no lock names it: it is trusted like any file of its project."""

    @property
    def place(self) -> Path:
        return self.reading.place

    @property
    def name(self) -> str:
        """Its own name; that of its directory where its manifest cannot be read."""
        return self.reading.plugin.name if self.reading.plugin else self.place.name


def find_plugins(settings: Settings) -> list[Found]:
    """All plugins of the project and of the user, those that are switched off or not in order included."""
    state = read_state()
    found = [
        Found(
            owner=owner,
            reading=read_plugin(place),
            is_enabled=not is_disabled(place, state),
            approval=approval_of(place, settings.project),
        )
        for owner, root in plugin_roots(settings).items()
        for place in plugins_in(root)
    ]
    for one in found:
        tools = len(one.reading.plugin.manifest.cli_tools) if one.reading.plugin else 0
        _log.debug("%s: %d tools, %d problems", one.place, tools, len(one.reading.issues))
    return found


def find_plugin(name: str, settings: Settings) -> Found:
    """The first plugin of a name; UsageError names the closest where there is none."""
    found = find_plugins(settings)
    for plugin in found:
        if name in (plugin.name, plugin.place.name):
            return plugin
    hint = did_you_mean(name, [plugin.name for plugin in found])
    raise UsageError(f"There is no plugin {name!r}.", hint=hint or "'strands plugin list' shows all of them.")


def approval_of(place: Path, project: Path) -> Approval | None:
    """What the first lock that names a plugin says about it."""
    for lock, approved in approvals(place, project):
        return Approval(lock, approved, changes_since(approved, place))
    return None


def declaration_of(info: ToolInfo) -> tuple[Manifest, CliTool] | None:
    """What the manifest of a listed tool's plugin says of it; None where that is not in order."""
    plugin = read_plugin(Path(info.file).parent).plugin
    tool = plugin.tool(info.id) if plugin else None
    return (plugin.manifest, tool) if plugin and tool else None
