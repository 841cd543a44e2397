"""`strands mcp serve`: tools and workflows for MCP clients."""

import asyncio
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli import __version__
from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import (
    ALL_TOOLS,
    NO_TOOLS,
    OWN_TOOLS,
    allow_write_option,
    complete_tools,
    grant_all_but_protected,
    load_workflow,
    permit_all,
    tool_group_ids,
    trust_option,
    var_option,
    warn_of_untrusted,
    yes_option,
)
from strands_cli.cli.output import (
    count_text,
    hide_secrets,
    print_line,
    print_note,
    print_warning,
    tool_output_aside,
)
from strands_cli.errors import StrandsError, ToolError, UsageError
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from strands_cli.events import Listener
    from strands_cli.loader.spec import Spec
    from strands_cli.mcp.served_call import Offer
    from strands_cli.mcp.server import ToolServer
    from strands_cli.toolkit.context import CallContext
    from strands_cli.toolkit.contract import Tool

_SHORTEST_TOKEN = 16
_DEFAULT_HOST = "127.0.0.1"
_QUESTION_WIDTH = 100


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What is served, and how: the options of the command line."""

    names: tuple[str, ...]
    spec: Path | None
    workflows: tuple[Path, ...]
    pairs: tuple[str, ...]
    out: Path
    force: bool
    yes: bool
    allowed: tuple[Path, ...]


def _enter_project(project: Path | None) -> None:
    """Before the other options are read: their paths are relative to it."""
    try:
        os.chdir(project or Path())
    except OSError as error:
        hint = "Give the directory of a project."
        raise UsageError(f"--project {project}: {error.strerror}.", hint=hint) from None


@click.command()
@click.option(
    "--tools",
    "names",
    multiple=True,
    shell_complete=complete_tools,
    metavar="TOOL,…",
    help="Serve only these: tools, plugins, MCP servers or patterns, separated by commas; "
    "'project', 'all' or 'none'. Can be repeated.",
)
@click.option(
    "--spec", type=click.Path(path_type=Path), help="Also serve the tools that this workflow declares."
)
@click.option(
    "--workflow",
    "workflows",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Serve this workflow as a tool. Can be repeated.",
)
@var_option
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(), help="Write the workflows' artifacts there."
)
@click.option("--force", is_flag=True, help="Let artifacts replace existing files.")
@click.option("--http", "address", metavar="[HOST:]PORT", help="Serve over HTTP, instead of stdio.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name of this server, for --http."
)
@click.option(
    "--project",
    type=click.Path(path_type=Path),
    expose_value=False,
    is_eager=True,
    callback=lambda _ctx, _param, project: _enter_project(project),
    help="The directory of the project, if it is not the current one.",
)
@yes_option
@allow_write_option
@trust_option
def serve(*, address: str | None, hosts: tuple[str, ...], **given: Any) -> None:
    """Serve your tools and workflows to MCP clients.

    Clients start this command and talk to it over standard input and output; 'strands mcp install' writes
    their settings. With --http it listens on a port, and wants the token of STRANDS_MCP_TOKEN, or a new one
    that it prints. Tools that need consent are asked about in the client.
    """
    if hosts and address is None:
        raise UsageError("--allow-host needs --http.", hint="Add --http PORT.")
    place = _parse_address(address) if address is not None else None
    token = _http_token() if place else ""
    from strands_cli.cli.tool import span_export

    with _protocol_streams() as (input_fd, output_fd), span_export() as export:
        catalogue = Catalogue(Serving(**given), export)  # which may run the code of tools
        if place is None:
            run_async(_serve_stdio(catalogue, input_fd, output_fd))
        else:
            run_async(_serve_http(catalogue, *place, frozenset(map(str.lower, hosts)), token))


def _parse_address(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*):)?(?P<port>\d{1,5})", text.strip())
    if match is None or int(match["port"]) > 65_535:
        hint = "Write --http 8000, --http 127.0.0.1:8000 or --http [::1]:8000."
        raise UsageError(f"--http {text!r} is not [HOST:]PORT.", hint=hint)
    return (match["host"] or _DEFAULT_HOST).strip("[]"), int(match["port"])


def _http_token() -> str:
    token = os.environ.get("STRANDS_MCP_TOKEN")
    if token is None:
        from secrets import token_urlsafe

        return token_urlsafe(32)
    if len(token) < _SHORTEST_TOKEN or not re.fullmatch(r"[\x21-\x7e]+", token):
        reason = f"STRANDS_MCP_TOKEN must have at least {_SHORTEST_TOKEN} characters, without spaces."
        hint = "Make one: export STRANDS_MCP_TOKEN=$(openssl rand -hex 32). Without it, one is made for you."
        raise UsageError(reason, hint=hint)
    return token


@contextmanager
def _protocol_streams() -> Iterator[tuple[int, int]]:
    """The descriptors of the client. What tools print goes to standard error, what they read is empty."""
    input_fd, output_fd = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with tool_output_aside():
        yield input_fd, output_fd


async def _serve_stdio(catalogue: "Catalogue", input_fd: int, output_fd: int) -> None:
    from strands_cli.mcp.stdio_server import StdioStreams

    if os.isatty(input_fd):
        print_note("This command talks to MCP clients, which start it themselves: see 'strands mcp install'.")
    streams = StdioStreams(input_fd, output_fd)
    server = catalogue.server()
    protocol = server.protocol
    watching = asyncio.ensure_future(catalogue.follow_changes(server))
    try:
        await protocol.run(streams.input, streams.output, protocol.create_initialization_options())
    finally:
        watching.cancel()
        await catalogue.registry.aclose()


async def _serve_http(
    catalogue: "Catalogue", host: str, port: int, names: frozenset[str], token: str
) -> None:
    from strands_cli.mcp.http_server import PATH, is_loopback, listening_socket, serve_http

    listening = listening_socket(host, port)
    server = catalogue.server()
    shown = f"[{host}]" if ":" in host else host
    print_note(
        f"Serving {count_text(len(catalogue.offer.tools), 'tool')} at "
        f"http://{shown}:{listening.getsockname()[1]}{PATH}"
    )
    if "STRANDS_MCP_TOKEN" not in os.environ:
        print_line(f"Authorization: Bearer {token}", err=True)
    if not is_loopback(host):
        print_warning("Others on the network can reach this server, and the token is sent unencrypted.")
    watching = asyncio.ensure_future(catalogue.follow_changes(server))
    try:
        await serve_http(server, listening, host=host, names=names, token=token)
    finally:
        watching.cancel()
        listening.close()
        await catalogue.registry.aclose()


# --- What is served ---------------------------------------------------------------------------------------


class Catalogue:
    """The tools that the command line asks for, and how they are found again when files change."""

    def __init__(self, how: Serving, listener: "Listener | None" = None) -> None:
        self._how, self._listener = how, listener
        self._warned = ""
        self.registry = ToolRegistry()
        self.registry.settings.refuse_unread()
        warn_of_untrusted(self.registry.settings)
        self.offer = self._make_offer(is_first=True)

    def server(self) -> "ToolServer":
        from strands_cli.mcp.server import ToolServer

        return ToolServer(self.offer, version=__version__, describe=_describe_call, warn=_warn)

    async def follow_changes(self, server: "ToolServer") -> None:
        """Serves the tools as they are in the files now, again and again."""
        from strands_cli.tools.watch import watch

        files = [file for file in (self._how.spec, *self._how.workflows) if file]
        async for changes in watch(self.registry, *files):
            for issue in changes.broken:
                _warn(f"{issue.place}: {issue.reason} {issue.remediation}".strip())
            try:
                self.offer = self._make_offer(is_first=False)
            except (StrandsError, OSError) as error:
                hint = error.hint if isinstance(error, StrandsError) else ""
                self._warn_once(f"The tools stay as they were: {error} {hint}".strip())
            else:
                self._warned = ""
                await server.replace_offer(self.offer)

    def _warn_once(self, text: str) -> None:
        """What stays wrong is found again after every change."""
        if text != self._warned:
            self._warned = text
            _warn(text)

    def _make_offer(self, *, is_first: bool) -> "Offer":
        from strands_cli.mcp.served_call import Offer

        how, registry, context = self._how, self.registry, self._context()
        own: dict[str, Tool] = {}
        contexts: dict[str, CallContext] = {}
        if how.spec is not None:
            for tool, its_context in _declared_tools(
                load_workflow(how.spec, how.pairs), context, how.allowed
            ):
                own[tool.id], contexts[tool.id] = tool, its_context
        tools = self._chosen(own, is_first=is_first)
        for file in how.workflows:
            tool = _workflow_as_tool(load_workflow(file, how.pairs), how)
            if tool.id in tools:
                hint = "Rename the workflow, or choose other tools with --tools."
                raise UsageError(f"{file}: there is already a tool {tool.id!r}.", hint=hint)
            tools[tool.id] = tool
            contexts[tool.id] = msgspec.structs.replace(context, timeout=tool.timeout)

        def load(name: str) -> "Tool":
            tool = tools[name]
            return registry.load(tool) if isinstance(tool, ToolInfo) else tool

        return Offer(tools=tools, load=load, context=context, own_contexts=contexts)

    def _chosen(self, declared: "Mapping[str, Tool]", *, is_first: bool) -> "dict[str, ToolInfo | Tool]":
        """The tools of `--tools`, or all of them. Of two with one name, the workflow's is served."""
        registry = self.registry
        found: dict[str, ToolInfo | Tool] = {}
        parts = [part.strip() for text in self._how.names for part in text.split(",") if part.strip()]
        for part in parts or [ALL_TOOLS]:
            group: dict[str, ToolInfo | Tool] = {}
            group |= {name: registry.require(name) for name in tool_group_ids(part, registry)}
            group |= {
                name: tool for name, tool in declared.items() if part == ALL_TOOLS or fnmatchcase(name, part)
            }
            if not group and part not in (ALL_TOOLS, OWN_TOOLS, NO_TOOLS):
                group = self._named(part, is_first=is_first)
            found |= group
        return found

    def _named(self, reference: str, *, is_first: bool) -> "dict[str, ToolInfo | Tool]":
        try:
            info = self.registry.require(reference)
        except ToolError as error:
            if is_first:
                raise
            self._warn_once(f"--tools {reference}: {error.message}")  # its file is gone
            return {}
        return {info.id: info}

    def _context(self) -> "CallContext":
        from strands_cli.toolkit.context import CallContext
        from strands_cli.toolkit.workspace import Workspace, current_directory

        settings = self.registry.settings
        return CallContext(
            emit=self._listener,
            permit=permit_all if self._how.yes or settings.bypass_consent else None,
            settings=settings,
            workspace=Workspace(settings.workspace, current_directory(), self._how.allowed),
            resolve=self.registry.load,
        )


def _warn(text: str) -> None:
    with suppress(OSError):  # a client may have closed standard error
        print_warning(text)


def _declared_tools(
    spec: "Spec", context: "CallContext", allowed: tuple[Path, ...]
) -> "Iterator[tuple[Tool, CallContext]]":
    """The tools that a workflow declares, with its rules: what it denies is not served."""
    from strands_cli.capability import all_asks
    from strands_cli.loader.run_values import known_inputs, read_secrets
    from strands_cli.runtime.resources import RunResources
    from strands_cli.tools.toolset import ToolSet
    from strands_cli.trust import refuse_untrusted

    tools = ToolSet(spec)
    refuse_untrusted(all_asks(spec, tools), str(spec.file))
    if tools.learn_servers({one.file: read_secrets(one) for one in spec.family}):
        tools = ToolSet(spec)
        refuse_untrusted(all_asks(spec, tools), str(spec.file))  # also for tools that are known only now
    inputs = known_inputs(spec)
    resources = RunResources(spec, inputs=inputs, directory=Path(), tools=tools, allow_write=allowed)
    hide_secrets(resources.redactor)
    resources.load_tools()
    own = msgspec.structs.replace(
        context,
        redactor=resources.redactor,
        settings=resources.settings,
        workspace=resources.workspace,
        resolve=tools.load_named,
    )
    for reference in (*(tool.reference for tool in tools.declared), *tools.executor_ids):
        tool = tools.for_step(reference)
        if tools.rule(tool) != "deny":
            yield tool, own


def _workflow_as_tool(spec: "Spec", how: Serving) -> "Tool":
    from strands_cli.capability import all_asks
    from strands_cli.exec.steps import RunOptions
    from strands_cli.exec.workflow_tool import workflow_tool
    from strands_cli.tools.toolset import ToolSet
    from strands_cli.trust import refuse_untrusted

    refuse_untrusted(all_asks(spec, ToolSet(spec)), str(spec.file))
    options = RunOptions(directory=how.out, force=how.force, allow_write=how.allowed)
    if how.yes:
        options = msgspec.structs.replace(options, ask_consent=grant_all_but_protected(None))
    return workflow_tool(spec, options)


def _describe_call(tool: "Tool", arguments: dict[str, Any], protected: tuple[str, ...]) -> str:
    """The question whether a call may be made, as on a terminal: what it would do stands behind a gutter."""
    from strands_cli.cli.questions import call_summary, content_lines
    from strands_cli.cli.terminal import guarded_text

    effects = (*tool.effects.writes, *tool.effects.reads) if tool.effects else ()
    about = call_summary(tool.id, arguments, effects)
    facts = ", ".join(filter(None, [about.target, about.size]))
    return "\n".join(
        [
            f"{about.tool_id} needs your consent: {facts}",
            *(f"It writes {guarded_text(path)}, which other programs act on." for path in protected),
            *content_lines(arguments, _QUESTION_WIDTH),
            about.question(_QUESTION_WIDTH),
        ]
    )
