"""`strands mcp install`: the entry that makes an MCP client start our server."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from strands_cli.cli.output import print_json, print_line, print_note, print_text
from strands_cli.documents.files import Draft, NotRegular, TooLarge, locked_directory, read_regular_file
from strands_cli.errors import StrandsError, UsageError, did_you_mean

_LARGEST_FILE = 10_000_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client looks for servers."""

    title: str
    place: Callable[[Path], Path]
    """Its file, for a project."""
    key: str = "mcpServers"
    more: Mapping[str, Any] = {}
    """What its entries have besides the command."""
    after: str = "Restart it to see the tools."


def _application_data(*parts: str) -> Path:
    """The directory that the system has for the settings of desktop programs."""
    if sys.platform == "darwin":
        return Path.home().joinpath("Library", "Application Support", *parts)
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming").joinpath(*parts)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config").joinpath(*parts)


def _zed_file(_project: Path) -> Path:
    if sys.platform == "win32":
        return _application_data("Zed", "settings.json")
    return Path.home() / ".config" / "zed" / "settings.json"


def _codex_file(_project: Path) -> Path:
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"


CLIENTS = {
    "claude-desktop": ClientSettings(
        title="Claude Desktop", place=lambda _: _application_data("Claude", "claude_desktop_config.json")
    ),
    "claude-code": ClientSettings(title="Claude Code", place=lambda project: project / ".mcp.json"),
    "cursor": ClientSettings(title="Cursor", place=lambda _: Path.home() / ".cursor" / "mcp.json"),
    "vscode": ClientSettings(
        title="VS Code",
        place=lambda project: project / ".vscode" / "mcp.json",
        key="servers",
        more={"type": "stdio"},
    ),
    "windsurf": ClientSettings(
        title="Windsurf", place=lambda _: Path.home() / ".codeium" / "windsurf" / "mcp_config.json"
    ),
    "zed": ClientSettings(title="Zed", place=_zed_file, key="context_servers"),
    "gemini": ClientSettings(title="Gemini CLI", place=lambda _: Path.home() / ".gemini" / "settings.json"),
    "codex": ClientSettings(title="Codex", place=_codex_file, key="mcp_servers"),
}
"""By the names of --client."""


@click.command()
@click.option("--client", "client_name", metavar="NAME", help=f"One of {', '.join(CLIENTS)}.")
@click.option("--write", is_flag=True, help="Add the entry to the client's file.")
@click.option("--name", help="The name of the server in the client. Default: that of the directory.")
@click.option("--force", is_flag=True, help="Replace another entry of the same name.")
@click.argument("options", metavar="[-- OPTIONS OF SERVE]", nargs=-1, type=click.UNPROCESSED)
def install(
    *, client_name: str | None, write: bool, name: str | None, force: bool, options: tuple[str, ...]
) -> None:
    """Print or write the entry for an MCP client's settings.

    The client then starts 'strands mcp serve' in the current directory. Options after '--' are those of
    serve: strands mcp install --client cursor --write -- --tools project
    """
    _check_serve_options(options)
    here = Path.cwd()
    server = (
        name if name is not None else re.sub(r"[^A-Za-z0-9_-]+", "-", here.name).strip("-")[:64] or "strands"
    )
    if not _NAME.fullmatch(server):
        raise UsageError(f"--name {server!r}: use up to 64 letters, digits, '_' and '-'.")
    entry = {"command": _command()[0], "args": [*_command()[1:], *_arguments(here, options)]}
    if client_name is None:
        if write or force:
            option = "--write" if write else "--force"
            raise UsageError(f"{option} needs --client.", hint=f"The clients are {', '.join(CLIENTS)}.")
        _show_all(server, entry, here)
        return
    if client_name not in CLIENTS:
        hint = f"{did_you_mean(client_name, CLIENTS)} The clients are {', '.join(CLIENTS)}.".strip()
        raise UsageError(f"There is no client {client_name!r}.", hint=hint)
    client = CLIENTS[client_name]
    file = _ClientFile(client, client.place(here), server, {**client.more, **entry})
    if not write:
        print_note(f"{client.title} reads {file.path}. Add this, or let --write do it:")
        print_text(file.snippet)
        return
    if file.write(force=force):
        print_note(f"Added {server} to {file.path}. {client.after}")
    else:
        print_note(f"{file.path} has this entry already.")


def _check_serve_options(options: tuple[str, ...]) -> None:
    """UsageError for an option that serve does not have: the client would show nothing but a failed start."""
    from strands_cli.cli.mcp.serve import serve

    for option in ("--http", "--project"):
        if any(word.partition("=")[0] == option for word in options):
            hint = "The client starts the server in this directory, and talks to it over stdio."
            raise UsageError(f"{option} does not fit into a client's entry.", hint=hint)
    before = os.environ.copy()
    try:
        serve.make_context("strands mcp serve", [*options])
    finally:  # --trust is for the server, not for this command
        os.environ.clear()
        os.environ.update(before)


def _command() -> list[str]:
    """The absolute command line of strands, which works in any directory and environment."""
    beside = Path(sys.executable).with_name("strands.exe" if sys.platform == "win32" else "strands")
    found = str(beside) if beside.is_file() else shutil.which("strands")
    if found:
        return [str(Path(found).absolute())]
    # Without -P, a file in the client's directory could take the place of a module.
    return [sys.executable, "-P", "-m", "strands_cli"]


def _arguments(here: Path, options: tuple[str, ...]) -> list[str]:
    return ["mcp", "serve", "--project", str(here), *options]


def _show_all(server: str, entry: dict[str, Any], here: Path) -> None:
    print_json({"mcpServers": {server: entry}})
    print_note("The entry, as most clients take it. Those that we know, and their files:")
    for name, client in CLIENTS.items():
        file = client.place(here)
        print_line(f"  {name:15} {file}{'' if file.exists() else ' (not there yet)'}", err=True)
    print_note("'strands mcp install --client NAME --write' adds it.")


class _ClientFile:
    """The settings file of a client, with all that others have written into it."""

    def __init__(self, client: ClientSettings, path: Path, server: str, entry: dict[str, Any]) -> None:
        self._client, self._server, self._entry = client, server, entry
        self.path = path
        self._is_toml = path.suffix == ".toml"

    @property
    def snippet(self) -> str:
        if self._is_toml:
            return self._toml_table()
        return json.dumps({self._client.key: {self._server: self._entry}}, indent=2, ensure_ascii=False)

    def _toml_table(self) -> str:
        # A JSON string is a TOML string, and so is a list of them.
        lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in self._entry.items()]
        return "\n".join([f"[{self._client.key}.{self._server}]", *lines, ""])

    def write(self, *, force: bool) -> bool:
        """Adds the entry, and keeps all else. False if it is there already."""
        path = self.path.resolve()  # which may be a link into a directory of dotfiles
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locked_directory(path.parent):
                text = self._text(path)
                document = self._parsed(text)
                servers = document.get(self._client.key, {})
                if not isinstance(servers, dict):
                    raise self._refusal(f"{self._client.key!r} is not a table of servers")
                if servers.get(self._server) == self._entry:
                    return False
                if self._server in servers and not force:
                    raise self._refusal(
                        f"it has another entry {self._server!r}",
                        "Choose another --name, or replace it: --force.",
                    )
                self._replace(path, self._changed(text, document, servers))
        except (OSError, NotRegular, TooLarge) as error:
            raise self._refusal(f"it cannot be used: {getattr(error, 'strerror', None) or error}") from None
        return True

    def _text(self, path: Path) -> str:
        try:
            return read_regular_file(path, _LARGEST_FILE).decode("utf-8-sig")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError:
            raise self._refusal("it is not UTF-8 text") from None

    def _parsed(self, text: str) -> dict[str, Any]:
        import tomllib

        try:
            document = tomllib.loads(text) if self._is_toml else _json_object(text) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            why = (
                "comments are not JSON either" if re.search(r"^\s*//|/\*", text, re.MULTILINE) else str(error)
            )
            kind = "TOML" if self._is_toml else "JSON"
            raise self._refusal(f"it is not {kind} that we could keep as it is ({why})") from None
        return document

    def _changed(self, text: str, document: dict[str, Any], servers: dict[str, Any]) -> str:
        changed = {**document, self._client.key: {**servers, self._server: self._entry}}
        if not self._is_toml:
            indent = re.search(r"\n([ \t]+)\S", text)
            return json.dumps(changed, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
        import tomllib

        kept = re.sub(
            rf"(?m)^\[{re.escape(self._client.key)}\.(?:{self._server}|\"{self._server}\")(?:\..*)?\].*\n(?:(?!\[).*\n?)*",
            "",
            text if text.endswith("\n") or not text else f"{text}\n",
        )
        made = f"{kept.rstrip()}\n\n{self._toml_table()}".lstrip()
        try:
            is_right = tomllib.loads(made) == changed
        except ValueError:
            is_right = False
        if not is_right:
            raise self._refusal("its tables are written in a way that we would not keep")
        return made

    def _replace(self, path: Path, text: str) -> None:
        """In one step: the client reads the old file or the new one, never a part."""
        old = path.stat() if path.exists() else None
        with Draft(str(path), None, old) as draft:
            draft.stream.write(text.encode())
            draft.sync()
            draft.publish(replace=True)

    def _refusal(self, reason: str, remedy: str = "") -> StrandsError:
        remedy = remedy or f"Add this to it yourself:\n{self.snippet}"
        return UsageError(f"{self.path} stays as it is: {reason}.", hint=remedy)


def _json_object(text: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key is there twice")
        return found

    document = json.loads(text, object_pairs_hook=unique)
    if not isinstance(document, dict):
        raise ValueError("it is not an object")
    return document
