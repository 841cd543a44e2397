"""The plugins that a workflow names: read, never run."""

from collections.abc import Iterator

import msgspec

from strands_cli.errors import Issue
from strands_cli.toolkit.info import Requires, ToolInfo
from strands_cli.types import Spec


class Needs(msgspec.Struct, frozen=True):
    """What a plugin's tool needs of the machine, and its settings that have no value, with what helps."""

    requires: Requires | None
    settings: tuple[tuple[str, str], ...] = ()


def plugin_needs(info: ToolInfo) -> Needs:
    from strands_cli.plugins.configuration import setting_problems
    from strands_cli.plugins.plugin import declaration_of

    declared = declaration_of(info)
    if declared is None:
        return Needs(info.requires)
    return Needs(declared[1].needs, tuple(setting_problems(*declared)))


def plugin_tools(spec: Spec) -> Iterator[tuple[str, ToolInfo]]:
    """Every tool of the plugins that a workflow names, with the place that names its plugin."""
    for at, _, infos in _readings(spec):
        for info in infos:
            yield at, info


def check_plugins(spec: Spec) -> Iterator[Issue]:
    for at, issues, infos in _readings(spec):
        for issue in issues:
            where = f"{issue.place}: " if issue.place else ""
            yield spec.issue(at, f"{where}{issue.reason}", issue.remediation, issue.severity)
        if not infos and not issues:
            yield spec.issue(at, "The plugin has no tools.", "Declare some in its plugin.json.")


def _readings(spec: Spec) -> Iterator[tuple[str, tuple[Issue, ...], tuple[ToolInfo, ...]]]:
    if not spec.tools.plugins:
        return
    from strands_cli.tools import get_registry
    from strands_cli.tools.sources.plugins import read_wanted_plugin

    settings = get_registry().settings
    for index, wanted in enumerate(spec.tools.plugins):
        reading = read_wanted_plugin(wanted, spec.file.parent, settings)
        yield f"/tools/plugins/{index}", tuple(reading.issues), tuple(reading.infos)
