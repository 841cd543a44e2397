"""`strands mcp add` and `remove`: a server's table in a settings file, with everything else left as it is."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from strands_cli.cli.mcp.server_commands import find_server, probe_server, server_argument
from strands_cli.cli.output import count_text, print_columns, print_line, print_note, print_warning
from strands_cli.cli.terminal import one_line, tokens_text
from strands_cli.documents.files import read_regular_file, unread_reason, write_file
from strands_cli.documents.shared_servers import read_shared_servers
from strands_cli.errors import ArtifactError, ToolError, UsageError
from strands_cli.mcp.listing import listed_tools
from strands_cli.mcp.records import remove_record
from strands_cli.settings import MAX_BYTES, SETTINGS_NAME, config_directory, load_settings
from strands_cli.trust import record_trust
from strands_cli.types.servers import DeclaredServer, McpServer, server_name_problem

_SHOWN = 100
"""Characters of a description in a list of tools."""


class _AddCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in args:
                raise
            hint = "Write the command after '--': strands mcp add NAME -- COMMAND."
            raise UsageError(error.format_message(), hint=hint) from None


@click.command(cls=_AddCommand)
@click.argument("name")
@click.argument("command", nargs=-1, metavar="[-- COMMAND [ARGUMENT]…]")
@click.option("--url", default="", help="The address of a server that runs elsewhere, instead of a command.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Sent to --url; ${NAME} is a variable."
)
@click.option("--env", "names", multiple=True, metavar="NAME", help="An environment variable that it gets.")
@click.option("--read", "reads", multiple=True, metavar="PATH", help="A path that it may read.")
@click.option("--write", "writes", multiple=True, metavar="PATH", help="A path that it may write.")
@click.option("--network", is_flag=True, help="Let it use the network.")
@click.option("--tools", multiple=True, metavar="PATTERN", help="Use only these tools, such as 'read_*'.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Do not use these tools.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Take it from the mcpServers of another program's JSON file.",
)
@click.option("--user", is_flag=True, help="Add it to your own settings, for all projects.")
@click.option("--no-check", is_flag=True, help="Do not start it now.")
def add(*, name: str, source: Path | None, user: bool, no_check: bool, **given: Any) -> None:
    """Add a server to the settings of this project, start it, and accept its tools.

    \b
    strands mcp add git -- mcp-server-git
    strands mcp add tickets --url https://mcp.example.com/mcp
    """
    server = _server_from(source, name, given) if source else _server_of(given)
    if problem := server_name_problem(name):
        raise UsageError(f"{problem}.")
    settings = load_settings()
    file = _settings_file(user)
    if any(one.name == name and Path(one.file) == file for one in settings.servers):
        hint = f"Choose another name, or remove it first: strands mcp remove {name}"
        raise UsageError(f"There is already an MCP server {name!r} in {file}.", hint=hint)
    _add_table(file, name, server)
    print_line(f"Added {name} to {file}.")
    settings = load_settings()
    declared = find_server(name, settings)
    if Path(declared.file) != file:
        print_warning(f"{declared.file} has a server {name!r} too, which is used here instead.")
        return
    if not declared.trusted:  # whoever types a command has agreed to it
        value = f"{name}: {server.text}"
        record_trust(
            settings.project, [ask for ask in settings.asks if (ask.kind, ask.value) == ("server", value)]
        )
        declared = msgspec.structs.replace(declared, trusted=True)
    if not no_check:
        _accept_tools(declared)


def _accept_tools(declared: DeclaredServer) -> None:
    """Starts a new server once, so that its tools can be listed; the server stays, even if that fails."""
    remove_record(declared)
    try:
        probe = probe_server(declared, load_settings())
    except ToolError as error:
        again = f"It stays in the settings. To try again: strands mcp check {declared.name}"
        raise ToolError(error.message, code=error.code, hint=f"{error.hint} {again}".strip()) from None
    listed = listed_tools(declared, probe.listing.tools, probe.listing.version)
    used = [one for one in listed if one.info]
    rows = []
    for one in used:
        assert one.info is not None
        text = one_line(one.info.description)
        rows.append((one.info.id, text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"))
    print_columns(rows)
    tokens = tokens_text(sum(one.tokens for one in used), about=True)
    print_note(f"{count_text(len(used), 'tool')}, {tokens} in every request of an agent that has them all.")
    if left := len(listed) - len(used):
        text = count_text(left, "tool")
        print_warning(f"{text} cannot be used: 'strands mcp check {declared.name}' says why.")


def _server_from(source: Path, name: str, given: dict[str, Any]) -> McpServer:
    """A server of another program's file; what that program does not know, the options say."""
    if given["command"] or given["url"] or given["headers"]:
        raise UsageError(
            "--from takes the command or the address from the file.", hint="Leave out yours, or --from."
        )
    servers, problems = read_shared_servers(source, also_disabled=True)
    if name not in servers:
        about = (text for text in problems if repr(name) in text or not servers)
        reason = next(about, f"it has no server {name!r}")
        known = f"It has {', '.join(servers)}." if servers else ""
        raise UsageError(f"{source}: {reason}.", hint=known)
    found = msgspec.to_builtins(servers[name])
    added = _permissions_in(given)
    if isinstance(found.get("env"), dict):
        added["env"] = {name: f"${{{name}}}" for name in added.get("env", ())} | found["env"]
    return _converted(found | added)


def _permissions_in(given: dict[str, Any]) -> dict[str, Any]:
    files = {"read": list(given["reads"]), "write": list(given["writes"])}
    values = {
        "env": list(given["names"]),
        "files": {kind: paths for kind, paths in files.items() if paths},
        "network": given["network"],
        "tools": list(given["tools"]),
        "exclude": list(given["exclude"]),
    }
    return {key: value for key, value in values.items() if value}


def _server_of(given: dict[str, Any]) -> McpServer:
    command, headers = given["command"], dict[str, str]()
    for text in given["headers"]:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise UsageError(f"{text!r} is not NAME=VALUE.")
        headers[key.strip()] = value
    if bool(command) == bool(given["url"]):
        reason = "either a command or --url, not both" if command else "a command or --url"
        hint = "Write: strands mcp add NAME -- COMMAND, or strands mcp add NAME --url ADDRESS."
        raise UsageError(f"A server needs {reason}.", hint=hint)
    values = {
        "command": command[0] if command else "",
        "args": list(command[1:]),
        "url": given["url"],
        "headers": headers,
    }
    return _converted(values | _permissions_in(given))


def _converted(values: dict[str, Any]) -> McpServer:
    try:
        return msgspec.convert(values, McpServer)
    except msgspec.ValidationError as error:
        name, separator, _ = next((one for one in values.get("env", ()) if "=" in one), "").partition("=")
        hint = f"Set {name} in your shell, and give its name: --env {name}" if separator else ""
        raise UsageError(f"{error}.", hint=hint) from None


def _settings_file(user: bool) -> Path:
    if user:
        return config_directory() / SETTINGS_NAME
    settings = load_settings()
    return settings.file or settings.project / SETTINGS_NAME


# --- The text of a settings file ----------------------------------------------------------------------------


def _read(file: Path) -> str:
    try:
        return read_regular_file(file, MAX_BYTES).decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {unread_reason(error)}") from None


def _prefix(file: Path) -> str:
    return "tool.strands." if file.name == "pyproject.toml" else ""


def _add_table(file: Path, name: str, server: McpServer) -> None:
    text = _read(file)
    values = _without_empty(msgspec.json.decode(msgspec.json.encode(server)))
    lines = [
        f"[{_prefix(file)}mcp.servers.{name}]",
        *(f"{key} = {_toml(part)}" for key, part in values.items()),
    ]
    before = text if not text or text.endswith("\n") else f"{text}\n"
    made = "{}{}{}\n".format(before, "\n" if before else "", "\n".join(lines))
    expected = _parsed(text)
    _servers_in(expected, file)[name] = values
    _replace(file, made, expected)


def _toml(value: Any) -> str:
    """A value of a declaration as TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_toml(part)}' for key, part in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _servers_in(table: dict[str, Any], file: Path) -> dict[str, Any]:
    """The table of servers in a parsed file, made where it is missing."""
    for part in (*filter(None, _prefix(file).split(".")), "mcp", "servers"):
        table = table.setdefault(part, {})
    return table


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"The settings file is not valid TOML: {error}") from None


def _replace(file: Path, text: str, expected: dict[str, Any]) -> None:
    """Writes a file, if its text means what it should; UsageError where only its author can change it."""
    try:
        means = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        means = {}
    if _without_empty(means) != _without_empty(expected):
        raise UsageError(f"{file} is written in a way that cannot be changed here.", hint="Edit it by hand.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, text.encode())
    except OSError as error:
        raise ArtifactError(f"{file} cannot be written: {error.strerror}.") from None


def _without_empty(table: Any) -> Any:
    """A table that is declared and empty means the same as one that is not."""
    if not isinstance(table, dict):
        return table
    parts = {key: _without_empty(part) for key, part in table.items()}
    return {key: part for key, part in parts.items() if part != {}}


@click.command()
@server_argument
@click.option("--user", is_flag=True, help="Remove it from your own settings.")
def remove(name: str, user: bool) -> None:
    """Remove a server from the settings, and forget its tools."""
    settings = load_settings()
    declared = find_server(name, settings)
    file = Path(declared.file)
    if user and file != _settings_file(user=True):
        file = _settings_file(user=True)
        declared = DeclaredServer(name=name, server=declared.server, file=str(file))
    if file.suffix == ".json":
        raise UsageError(
            f"{name} is declared in {file}, which other programs use too.", hint="Edit that file."
        )
    text = _read(file)
    expected = _parsed(text)
    if _servers_in(expected, file).pop(name, None) is None:
        raise UsageError(f"There is no MCP server {name!r} in {file}.")
    rest = "".join(_without_table(text.splitlines(keepends=True), _prefix(file), name))
    _replace(file, rest if not rest.endswith("\n\n") else f"{rest.rstrip()}\n", expected)
    remove_record(declared)
    print_line(f"Removed {name} from {file}.")


def _without_table(lines: Iterable[str], prefix: str, name: str) -> Iterable[str]:
    """The lines of a file without a server's table and those below it.

    A comment after an empty line is about what follows, so it stays.
    """
    own = re.compile(
        rf'\s*\[{re.escape(prefix)}mcp\.servers\.(?:{re.escape(name)}|"{re.escape(name)}")(?:\.[^]]*)?\]'
    )
    is_own, after = False, list[str]()
    for line in lines:
        if line.lstrip().startswith("["):
            is_own = own.match(line) is not None
        if not is_own:
            yield from (*after[1:], line)
        is_between = is_own and (not line.strip() or (after and line.lstrip().startswith("#")))
        after = [*after, line] if is_between else []
    yield from after[1:]
