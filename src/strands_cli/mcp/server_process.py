"""A server's process: started through the sandbox, spoken to in lines of JSON, ended with its whole tree."""

import asyncio
import json
import logging
import math
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any

import anyio
import mcp_types
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage

from strands_cli.errors import ToolError, ToolFailed
from strands_cli.mcp.stdio_server import ProtocolStream
from strands_cli.mcp.tool_content import ERROR_KEY
from strands_cli.plugins.executable_output import ending_text, stderr_tail
from strands_cli.plugins.processes import DeclaredPaths, programs_elsewhere, with_second_attempt
from strands_cli.plugins.protected_paths import Guard, guard_of
from strands_cli.sandbox.confined_executable import Confined, Exit, Intake, LineWriter
from strands_cli.sandbox.executables import environment_for, hint_from_stderr, start_confined
from strands_cli.sandbox.profile import EXECUTABLE_PROFILE, MEGABYTE, Profile
from strands_cli.sandbox.spawner_handle import SpawnerLost
from strands_cli.secrets import Redactor, looks_secret
from strands_cli.settings import Settings
from strands_cli.toolkit.workspace import Workspace
from strands_cli.types.servers import DeclaredServer

UNREADABLE = "the answer is not a valid message"
LONGEST_LINE = 64 * MEGABYTE
MAX_WAITING = 50_000
"""Messages that have been read and not handled: a server that sends more is ended."""
_ADDRESS_BYTES = 65536 * MEGABYTE
"""V8 reserves that much, and uses little of it."""
_CPU_SECONDS = 24 * 3600.0
_STDERR_BYTES = 64_000
_LONGEST_NOISE = 200
_KEPT_NOISE = 5
_EOF_SECONDS = 0.3
_END_SECONDS = 2.0
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_DOWNLOADERS = ("npx", "bunx", "pnpx", "uvx", "pipx")
_DOWNLOADERS_HINT = (
    "{} downloads programs, and the sandbox executes nothing that a server has written: "
    "install the server (npm install, pip install), and declare its own command."
)

_log = logging.getLogger(__name__)


def expanded(text: str, environment: Mapping[str, str], *, name: str) -> str:
    """A text of a declaration with its variables; ToolFailed where one is not set and has no default."""

    def value(found: re.Match[str]) -> str:
        if found[1] in environment:
            return environment[found[1]]
        if found[2] is None:
            reason = f"The MCP server {name} needs the environment variable {found[1]}, which is not set"
            raise ToolFailed(reason, code="unavailable", hint=f"Set {found[1]}.")
        return found[2]

    return _VARIABLE.sub(value, text)


def variables_in(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a text of a declaration names, as far as they are set."""
    names = (found[1] for found in _VARIABLE.finditer(text))
    return {name: environment[name] for name in names if name in environment}


class ServerLaunch(msgspec.Struct, frozen=True):
    """All that decides what a started server is."""

    argv: tuple[str, ...]
    profile: Profile
    cwd: Path
    accept: str
    guard: Guard
    redactor: Redactor


def launch_of_server(declared: DeclaredServer, settings: Settings) -> ServerLaunch:
    """ToolFailed where it cannot be started as it is declared."""
    server, scope = declared.server, os.environ
    directory = Path(declared.file).parent
    given = server.env if isinstance(server.env, dict) else {}
    passed = () if isinstance(server.env, dict) else server.env
    values = {name: expanded(text, scope, name=declared.name) for name, text in given.items()}
    environment = {**environment_for(passed), **values}
    command = _program(expanded(server.command, scope, name=declared.name), declared, directory, environment)
    workspace = Workspace(settings.workspace, settings.project)
    declared_paths = DeclaredPaths(declared.name, server.files.write, workspace, settings.project)
    guard = guard_of(declared_paths.real_paths(server.files.write), workspace.roots)
    programs, links = programs_elsewhere(command, (str(command),), environment["PATH"])
    profile = msgspec.structs.replace(
        EXECUTABLE_PROFILE,
        cpu_seconds=_CPU_SECONDS,
        memory_bytes=server.memory_bytes,
        address_bytes=max(_ADDRESS_BYTES, 8 * server.memory_bytes),
        processes=128,
        open_files=512,
        output_bytes=LONGEST_LINE,
        reads=(
            *map(str, workspace.roots),
            *declared_paths.real_paths(server.files.read),
            *programs,
            *_package_of(command),
        ),
        links=links,
        writes=guard.writes,
        kept=guard.kept,
        network=server.network,
        environment=environment,
    )
    from_elsewhere = {name for name, text in given.items() if "${" in text}
    secrets = [text for name, text in environment.items() if looks_secret(name) or name in from_elsewhere]
    in_args = (item for text in server.args for item in variables_in(text, scope).items())
    secrets += [value for name, value in in_args if looks_secret(name)]
    args = tuple(expanded(text, scope, name=declared.name) for text in server.args)
    return ServerLaunch(
        (str(command), *args),
        profile,
        (*workspace.roots, settings.project)[0],
        settings.sandbox.accept,
        guard,
        Redactor(secrets),
    )


def _program(command: str, declared: DeclaredServer, directory: Path, environment: Mapping[str, str]) -> Path:
    """A path is relative to the file that declares the server; a name is looked up on the PATH."""
    is_path = os.sep in command
    path = os.path.abspath(directory / Path(command).expanduser()) if is_path else command  # noqa: PTH100
    found = which(path, path=environment["PATH"])
    if found is None:
        raise ToolFailed(
            f"The MCP server {declared.name} cannot be started: there is no program {command}",
            code="unavailable",
            hint="Install it, or correct 'command'.",
        )
    return Path(os.path.abspath(found))  # noqa: PTH100 - links stay, as `bin/python` of a virtual environment


def _package_of(command: Path) -> tuple[str, ...]:
    """The `node_modules` that a command was installed to: a package needs those that it depends on."""
    parts = Path(os.path.realpath(command)).parts
    if "node_modules" not in parts:
        return ()
    return (str(Path(*parts[: parts.index("node_modules") + 1])),)


def _message_in(line: str) -> mcp_types.JSONRPCMessage | None:
    """The message of a line; None for noise. An answer that cannot be read is one that says so."""
    with suppress(ValueError):
        return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    try:
        value = json.loads(line)
    except RecursionError:
        value = {"id": _id_of(line)}  # nobody can use it; who waits for it is told so
    except ValueError:
        return None
    if not isinstance(value, dict) or "method" in value or not isinstance(value.get("id"), int | str):
        return None
    with suppress(ValueError, RecursionError):
        # Half of a surrogate pair, as of a text that was cut in the middle of an emoji, has no UTF-8 form.
        whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        return mcp_types.jsonrpc_message_adapter.validate_python(json.loads(whole), by_name=False)
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=UNREADABLE)
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=value["id"], error=error)


def _id_of(line: str) -> int | None:
    """The id of a message that is nested too deep to be read: it stands at its beginning or its end."""
    found = re.findall(r'"id"\s*:\s*"?([0-9]{1,15})"?\s*[,}]', line[:_LONGEST_NOISE] + line[-_LONGEST_NOISE:])
    return int(found[-1]) if found else None


class ServerProcess:
    """A started server: its messages as streams, what it prints besides, and how it ended."""

    def __init__(self, declared: DeclaredServer, launch: ServerLaunch, confined: Confined) -> None:
        self._name, self._launch, self._confined = declared.name, launch, confined
        self._is_in_workflow = bool(declared.workflow)
        self._send, self.messages = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self.noise_lines = 0
        """How many lines on standard output were not protocol messages."""
        self.noise: list[str] = []
        """The first of them."""
        self._flooded = False
        self._reader = Intake(
            confined.stdout,
            0,
            on_data=lambda _: None,
            on_line=self._receive,
            longest_line=LONGEST_LINE,
            on_long_line=lambda: confined.kill("output"),
        )
        self._writer = LineWriter(confined.stdin)
        self._stderr = Intake(
            confined.stderr,
            _STDERR_BYTES,
            keep_last=True,
            on_data=lambda _: None,
            on_line=lambda line: _log.debug("%s: %s", declared.name, launch.redactor.text(line)),
        )
        self.exited = asyncio.ensure_future(self._watch())

    @property
    def redactor(self) -> Redactor:
        """Hides what the server was given in confidence."""
        return self._launch.redactor

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def _receive(self, line: str) -> None:
        if not line.strip():
            return
        message = _message_in(line)
        if message is None:
            self.noise_lines += 1
            if len(self.noise) < _KEPT_NOISE:
                self.noise.append(self._launch.redactor.text(line[:_LONGEST_NOISE]))
            return
        if self._send.statistics().current_buffer_used > MAX_WAITING:
            self._flooded = True
            self._confined.kill("output")
            return
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._send.send_nowait(SessionMessage(message))

    async def _watch(self) -> None:
        """Ends the stream of messages with the process or its output, so that nobody waits for more."""
        exited = asyncio.ensure_future(self._confined.exited())
        try:
            await asyncio.wait([exited, self._reader.at_end], return_when=asyncio.FIRST_COMPLETED)
        finally:
            exited.cancel()
        self._reader.drain()
        self._send.close()

    async def end(self) -> None:
        """The end of its input, as the protocol has it; then TERM, and KILL for all that is left."""
        try:
            self._writer.stop()
            self._confined.close_pipe(self._confined.stdin)
            await asyncio.wait([self.exited], timeout=_EOF_SECONDS)
            self._confined.terminate()
            async with asyncio.timeout(_END_SECONDS):
                await self._confined.wait()
        except (TimeoutError, ToolError, SpawnerLost):
            pass  # it never began, or its keeper is stuck: closing the socket is the order to end
        finally:
            self._close()

    def _close(self) -> None:
        self.exited.cancel()
        self._reader.stop()
        self._writer.stop()
        self._stderr.stop()
        self._confined.close()
        self._send.close()
        self._launch.guard.rename_new(self._name)

    def refuse_protected(self) -> None:
        """ToolFailed where it created protected paths."""
        if message := self._launch.guard.rename_new(f"The MCP server {self._name}"):
            hint = "Rename it back if you want it, or declare that path under 'files.write'."
            raise ToolFailed(message, code="forbidden", hint=hint)

    async def death(self) -> tuple[str, str]:
        """How it ended, with the last lines of its standard error; and a hint."""
        self._confined.kill("exited")
        try:
            async with asyncio.timeout(_END_SECONDS):
                ending = await self._confined.wait()
        except ToolError as error:
            return error.message, error.hint
        except (TimeoutError, SpawnerLost):
            ending = Exit(why="lost")
        errors = self.errors
        hint = hint_from_stderr(errors, self._launch.profile, str(self._launch.cwd))
        how = "sent more messages than can be handled" if self._flooded else ending_text(ending)
        text = f"The MCP server {self._name} {how}{f': {errors}' if errors else ''}"
        program = Path(self._launch.argv[0]).name
        if program in _DOWNLOADERS and (hint or "permission denied" in errors.lower()):
            return text, _DOWNLOADERS_HINT.format(program)
        return text, self._launch.redactor.text(self._written(hint.text)) if hint else ""

    def _written(self, hint: str) -> str:
        """A hint with its key as the file that declares the server has it."""
        return hint if self._is_in_workflow else hint.replace("`network: true`", "`network = true`")

    def explained(self, raw: dict[str, Any]) -> dict[str, Any]:
        """The result of a call; a failure that the sandbox has caused with the key that would allow it."""
        given, meta = raw.get("content"), raw.get("_meta")
        is_told = isinstance(meta, dict) and ERROR_KEY in meta
        if raw.get("isError") is not True or is_told or not isinstance(given, list):
            return raw
        blocks = (one.get("text") for one in given if isinstance(one, dict))
        text = "\n".join(one for one in blocks if isinstance(one, str))
        hint = hint_from_stderr(text, self._launch.profile, str(self._launch.cwd), is_certain=True)
        if hint is None:
            return raw
        error = {"code": "failed", "message": text, "retryable": False, "details": []}
        return raw | {"_meta": {ERROR_KEY: error | {"hint": self._written(hint.text)}}}

    @property
    def errors(self) -> str:
        """The last lines of its standard error."""
        self._stderr.drain()
        return stderr_tail(self._stderr.data, self._launch.redactor)


class _MessageWriter(ProtocolStream):
    """The stream that a session writes to: each message is a line. Nothing here waits for the server."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process

    async def send(self, item: SessionMessage, /) -> None:
        if self._process.exited.done():
            raise anyio.BrokenResourceError
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._process.write(line.encode("utf-8", "replace") + b"\n")


Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], _MessageWriter]


@asynccontextmanager
async def started_server(
    declared: DeclaredServer, settings: Settings
) -> AsyncIterator[tuple[ServerProcess, Streams]]:
    """A server's process and its streams. At the end of the block, nothing of it is left."""
    launch = launch_of_server(declared, settings)
    start = partial(start_confined, launch.argv, launch.profile, cwd=launch.cwd, accept=launch.accept)
    confined = await with_second_attempt(f"The MCP server {declared.name}", start)
    process = ServerProcess(declared, launch, confined)
    try:
        yield process, (process.messages, _MessageWriter(process))
    finally:
        with anyio.CancelScope(shield=True):
            await process.end()
