"""What a tool's executable is started with: arguments, confinement, directory, environment."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.plugins.configured import Configured
from strands_cli.plugins.contents import Identity, neighbourhood
from strands_cli.plugins.manifest import CliTool
from strands_cli.plugins.reading import Plugin
from strands_cli.sandbox.executables import environment_for
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE, Profile
from strands_cli.toolkit.workspace import Workspace

LEAST_STREAM_BYTES = 1_000_000
"""What is read of a stream, unless `max_output` asks for more."""
_WORKER_CPU_SECONDS = 24 * 3600.0

Key = tuple[object, ...]


class Launch(msgspec.Struct, frozen=True):
    """All that decides what a started process is: two of the same are interchangeable."""

    argv: tuple[str, ...]
    profile: Profile
    cwd: Path
    accept: str
    files: tuple[tuple[str, Identity], ...]
    """The executable and what lies beside it."""

    @property
    def key(self) -> Key:
        environment = tuple(sorted(self.profile.environment.items()))
        rest = tuple(getattr(self.profile, name) for name in _COMPARED)
        return (self.argv, environment, rest, str(self.cwd), self.accept, self.files)


_COMPARED = tuple(name for name in Profile.__struct_fields__ if name != "environment")


def launch_of(
    plugin: Plugin, tool: CliTool, configured: Configured, workspace: Workspace, accept: str
) -> Launch:
    executable = plugin.executable(tool)
    return Launch(
        (str(executable), *tool.args),
        _profile(plugin, tool, configured, workspace),
        _directory(workspace),
        accept,
        neighbourhood(executable),
    )


def input_of(arguments: dict[str, Any]) -> bytes:
    """One line, so that a shell's `read` takes it too."""
    try:
        return json.dumps(arguments, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(arguments).encode() + b"\n"


def _directory(workspace: Workspace) -> Path:
    """Where relative paths of a call begin, if that is in the workspace; else the workspace's first root."""
    inside = any(workspace.base.is_relative_to(root) for root in workspace.roots)
    return workspace.base if inside else workspace.roots[0]


def _profile(plugin: Plugin, tool: CliTool, configured: Configured, workspace: Workspace) -> Profile:
    seconds = tool.timeout
    cpu = _WORKER_CPU_SECONDS if tool.mode == "worker" else max(EXECUTABLE_PROFILE.cpu_seconds, 2 * seconds)
    memory = tool.memory_bytes
    roots = [str(root) for root in workspace.roots]
    return msgspec.structs.replace(
        EXECUTABLE_PROFILE,
        seconds=seconds,
        cpu_seconds=cpu,
        memory_bytes=memory,
        address_bytes=max(EXECUTABLE_PROFILE.address_bytes, 8 * memory),
        output_bytes=max(LEAST_STREAM_BYTES, tool.max_output or 0),
        reads=(str(plugin.directory), *roots, *_paths(tool.files.read, workspace)),
        writes=_paths(tool.files.write, workspace),
        network=tool.network,
        environment={**environment_for(tool.env, os.environ), **configured.environment},
    )


def _paths(declared: tuple[str, ...], workspace: Workspace) -> tuple[str, ...]:
    """Declared paths are relative to the workspace, wherever the call comes from."""
    root = workspace.roots[0]
    return tuple(os.path.realpath(root / os.path.expanduser(path)) for path in declared)  # noqa: PTH111
