"""`strands mcp list`, `show`, `check` and `trust`: the servers of the settings, and what they offer."""

import os
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from strands_cli.cli.options import completed_words, json_option, trust_option
from strands_cli.cli.output import (
    Styled,
    can_ask,
    count_text,
    issue_document,
    print_columns,
    print_findings,
    print_issues,
    print_json,
    print_line,
    print_note,
)
from strands_cli.cli.terminal import duration_text, one_line, tokens_text, wrapped_text
from strands_cli.documents.shared_servers import SHARED_SERVERS_NAME
from strands_cli.errors import Issue, StrandsError, ToolFailed, TrustError, UsageError, did_you_mean
from strands_cli.mcp.listing import ListedTool, listed_tools, listing_difference
from strands_cli.mcp.records import ServerRecord, read_record, write_record
from strands_cli.secrets import MASK
from strands_cli.settings import Settings, load_settings, settings_to_look_at
from strands_cli.trust import ask_issue
from strands_cli.types.servers import DeclaredServer

_SHOWN_CHARACTERS = 2000
_SHOWN_AROUND = 60


def complete_servers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        servers = load_settings().servers
    except StrandsError:  # completion in a shell cannot show errors
        return []
    return completed_words(((one.name, one.server.text) for one in servers), incomplete)


server_argument = click.argument("name", metavar="NAME", shell_complete=complete_servers)
workflow_option = click.option(
    "--workflow",
    "workflow",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The workflow that declares the server, if it is not in the settings.",
)


def servers_of(workflow: Path | None, settings: Settings) -> tuple[DeclaredServer, ...]:
    """The servers of the settings, or those that a workflow declares."""
    if workflow is None:
        return settings.servers
    from strands_cli.capability import all_asks
    from strands_cli.loader import load_spec
    from strands_cli.tools.toolset import ToolSet

    spec = load_spec(workflow)
    tools = ToolSet(spec)
    refused = {ask.value for ask in all_asks(spec, tools) if not ask.trusted}
    return tuple(
        msgspec.structs.replace(one.declared, trusted=f"{one.id}: {one.declared.server.text}" not in refused)
        for one in tools.servers
        if one.declared is not None and one.is_own
    )


def find_server(name: str, settings: Settings, workflow: Path | None = None) -> DeclaredServer:
    """Finds a server by name, or raises UsageError with the closest name."""
    servers = servers_of(workflow, settings)
    found = next((one for one in servers if one.name == name), None)
    if found is not None:
        return found
    known = [one.name for one in servers]
    hint = did_you_mean(name, known) or (
        "'strands mcp list' shows all of them." if known else "'strands mcp add NAME -- COMMAND' adds one."
    )
    raise UsageError(f"There is no MCP server {name!r}.", hint=hint)


class _Known(msgspec.Struct, frozen=True):
    """A server as far as it is known without starting it."""

    declared: DeclaredServer
    record: ServerRecord | None
    tools: list[ListedTool]

    @property
    def state(self) -> str:
        if not self.declared.trusted:
            return "not trusted"
        if self.record is None:
            return "not started yet"
        return "accepted" if self.record.changed is None else "changed: blocked"

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.tools if one.info)

    def document(self) -> dict[str, Any]:
        declared, record = self.declared, self.record
        return {
            "name": declared.name,
            "state": self.state,
            "declared_in": declared.file,
            "line": declared.line,
            "trusted": declared.trusted,
            "server": _server_document(declared),
            "title": record.title if record else "",
            "version": record.version if record else "",
            "protocol": record.protocol if record else "",
            "tokens": self.tokens,
            "tools": [_tool_document(one) for one in self.tools],
        }


def _server_document(declared: DeclaredServer) -> dict[str, Any]:
    """The declaration; values that are written in it may be keys, so only their names are shown."""
    shown: dict[str, Any] = msgspec.to_builtins(declared.server)
    for key in ("env", "headers", "oauth"):
        if isinstance(shown.get(key), dict):
            values = shown[key].items()
            shown[key] = {name: text if text.startswith("${") else MASK for name, text in values}
    return shown


def _tool_document(listed: ListedTool) -> dict[str, Any]:
    info = listed.info
    return {
        "name": listed.name,
        "id": info.id if info else None,
        "description": info.description if info else "",
        "input_schema": info.input_schema if info else None,
        "output_schema": info.output_schema if info else None,
        "annotations": dict(info.annotations) if info else {},
        "requires_consent": info.requires_consent if info else False,
        "tokens": listed.tokens,
        "repairs": list(listed.repairs),
        "refusal": listed.refusal,
    }


def _known_server(declared: DeclaredServer) -> _Known:
    record = read_record(declared)
    tools = listed_tools(declared, record.accepted, record.version) if record else []
    return _Known(declared, record, tools)


# --- list and show ------------------------------------------------------------------------------------------


@click.command("list")
@workflow_option
@json_option
def list_servers(workflow: Path | None, as_json: bool) -> None:
    """List all MCP servers with their tools and status. Starts none of them."""
    settings = settings_to_look_at()
    print_issues(settings.issues, err=True)
    known = [_known_server(one) for one in servers_of(workflow, settings)]
    unread = [ask for ask in settings.asks if ask.kind == "unread" and ask.file.endswith(SHARED_SERVERS_NAME)]
    remedy = "Correct the file."
    problems = [msgspec.structs.replace(ask_issue(ask), remediation=remedy) for ask in unread]
    if as_json:
        documents = [issue_document(issue) for issue in (*settings.issues, *problems)]
        print_json({"servers": [one.document() for one in known], "problems": documents})
        return
    print_issues(problems, err=True)
    if not known and not settings.issues:
        print_note("There are no MCP servers. 'strands mcp add NAME -- COMMAND' adds one.")
    rows = []
    for one in known:
        used = [tool for tool in one.tools if tool.info]
        cost = tokens_text(one.tokens, about=True) if used else "-"
        tools = count_text(len(used), "tool") if one.record else "-"
        rows.append((one.declared.name, one.state, tools, cost, one_line(one.declared.server.text)))
    print_columns(rows, indent="")


@click.command()
@server_argument
@workflow_option
@json_option
def show(name: str, workflow: Path | None, as_json: bool) -> None:
    """Show a server, its tools and what they cost in tokens. Does not start it."""
    known = _known_server(find_server(name, settings_to_look_at(), workflow))
    if as_json:
        print_json(known.document())
        return
    declared, record = known.declared, known.record
    print_line(Styled(declared.name), f"  {known.state}")
    print_line(f"  {one_line(declared.server.text)}")
    print_line(f"  declared in {declared.file}{f':{declared.line}' if declared.line else ''}")
    if record is None:
        check = f"'strands mcp check {declared.argument}' starts it and lists them."
        print_note(f"Its tools are not known: {check}" if declared.trusted else declared.trust_hint)
        return
    print_line(f"  {one_line(record.title)} {one_line(record.version)}, MCP {one_line(record.protocol)}")
    used = [one for one in known.tools if one.info]
    left = len(record.accepted) - len(used)
    others = f", {left} not used" if left else ""
    print_line(f"  {count_text(len(used), 'tool')}, {tokens_text(known.tokens, about=True)}{others}")
    rows = []
    for one in used:
        assert one.info is not None
        consent = "asks" if one.info.requires_consent else ""
        text = one_line(one.info.description)
        rows.append((one.info.id, tokens_text(one.tokens, about=True), consent, text))
    print_columns(rows)


# --- check --------------------------------------------------------------------------------------------------


@click.command()
@server_argument
@workflow_option
@trust_option
@json_option
def check(name: str, workflow: Path | None, as_json: bool) -> int:
    """Start a server, list its tools, and find problems with it and with them.

    The tools of a server that was never started are accepted with this. If the server wants you to sign in,
    a page is opened in your browser.
    """
    settings = load_settings()
    declared = find_server(name, settings, workflow)
    probe = probe_server(declared, settings)
    listed = listed_tools(declared, probe.listing.tools, probe.listing.version)
    problems = [*_problems(probe, listed)]
    issues = [*_check_issues(declared, probe, problems)]
    used = [one for one in listed if one.info]
    tokens = sum(one.tokens for one in used)
    document = {
        "name": name,
        "title": probe.listing.title,
        "version": probe.listing.version,
        "protocol": probe.listing.protocol,
        "seconds": probe.listing.seconds,
        "tokens": tokens,
        "noise": probe.noise_lines,
        "noise_lines": probe.noise,
        "blocked": probe.blocked,
        "tools": [_tool_document(one) for one in listed],
        "problems": [msgspec.structs.asdict(one) for one in problems],
    }
    title = " ".join(filter(None, (one_line(probe.listing.title), one_line(probe.listing.version))))
    summary = (
        f"{name}: {title or 'a server'}, MCP {one_line(probe.listing.protocol)}, ready after "
        f"{duration_text(probe.listing.seconds)}, {count_text(len(used), 'tool')}, "
        f"{tokens_text(tokens, about=True)}, {count_text(len(issues), 'issue')}."
    )
    return print_findings(issues, document=document, summary=summary, as_json=as_json)


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a server offered when it was started to be looked at."""

    listing: Any
    noise_lines: int = 0
    noise: list[str] = []
    blocked: bool = False
    """Whether what it offers is not what the user accepted."""


def probe_server(declared: DeclaredServer, settings: Settings) -> Probe:
    """Starts a server, has it list its tools, and ends it. What it offers is recorded, or blocked."""
    from strands_cli.cli.event_loop import run_async
    from strands_cli.mcp.connection import ServerConnection, accept_or_block

    if not declared.trusted:
        raise TrustError(declared.distrust, hint=declared.trust_hint)

    async def look() -> Probe:
        connection = ServerConnection(declared, settings, open_page=_open_page if _can_open() else None)
        try:
            await connection.ready()
            blocked = False
            try:
                accept_or_block(declared, connection.listing)
            except ToolFailed:
                blocked = True
            lines, noise = connection.noise
            return Probe(listing=connection.listing, noise_lines=lines, noise=noise, blocked=blocked)
        finally:
            await connection.aclose()

    try:
        return run_async(look())
    except ToolFailed as failed:
        from strands_cli.errors import ToolError

        raise ToolError(failed.message, code=failed.code, hint=failed.hint) from None


def _can_open() -> bool:
    return can_ask() or bool(os.environ.get("BROWSER"))


async def _open_page(address: str) -> None:
    import asyncio
    import webbrowser

    print_note(f"Sign in with your browser: {address}")
    await asyncio.to_thread(webbrowser.open, address)


class _Problem(msgspec.Struct, frozen=True):
    tool: str | None
    """None for a problem of the whole server."""
    message: str
    refused: bool = False
    """Whether the tool cannot be used."""


def _problems(probe: Probe, listed: list[ListedTool]) -> Iterator[_Problem]:
    for one in listed:
        yield from (_Problem(one.name, text, bool(one.refusal)) for text in one.repairs)
        if one.refusal:
            yield _Problem(one.name, one.refusal, refused=True)
    yield from (_Problem(tool, text, refused=True) for tool, text in probe.listing.dropped.items())
    yield from (_Problem(None, text) for text in probe.listing.remarks)


def _check_issues(declared: DeclaredServer, probe: Probe, problems: list[_Problem]) -> Iterator[Issue]:
    for name in declared.server.env if isinstance(declared.server.env, tuple) else ():
        if name not in os.environ:
            reason = f"The environment variable {name}, which it should get, is not set."
            remedy = f"Set {name}, or remove it from 'env'."
            yield Issue(reason=reason, remediation=remedy, severity="warning")
    for one in problems:
        whose = "The server" if one.tool is None else f"The tool {one.tool or 'without a name'}"
        remedy = "Tell the server's author." if one.refused else ""
        reason = f"{whose}{' cannot be used' if one.refused else ''}: {one.message}."
        yield Issue(reason=reason, remediation=remedy, severity="warning")
    if probe.noise_lines:
        lines = count_text(probe.noise_lines, "line")
        reason = f"On standard output it printed {lines} of other text, such as {probe.noise[0]!r}."
        remedy = "Standard output is for the protocol; the server should print to standard error."
        yield Issue(reason=reason, remediation=remedy, severity="warning")
    if probe.blocked:
        reason = "Its tools are not those that you accepted, so none of them can be called."
        remedy = f"Look at the difference and decide: strands mcp trust {declared.argument}"
        yield Issue(reason=reason, remediation=remedy)


# --- trust --------------------------------------------------------------------------------------------------


@click.command()
@server_argument
@click.option("--yes", "-y", is_flag=True, help="Accept it without asking.")
@workflow_option
@json_option
def trust(name: str, workflow: Path | None, yes: bool, as_json: bool) -> None:
    """Show what has changed in a server's tools, and accept it.

    The server is started. A change of names, descriptions, schemas or hints blocks a server, because a model
    reads them as instructions.
    """
    settings = load_settings()
    declared = find_server(name, settings, workflow)
    before = read_record(declared)
    probe = probe_server(declared, settings)
    changes = [*listing_difference(declared, before.accepted if before else (), probe.listing.tools)]
    if as_json:
        is_accepted = yes or not probe.blocked
        shown = [_change_document(*change) for change in changes]
        print_json({"name": name, "accepted": is_accepted, "changes": shown})
    else:
        for change in changes:
            _print_change(*change)
    if before is not None and probe.blocked:
        if not yes and not as_json:
            _confirm(f"Accept the tools of {name} as they are now?", declared.argument)
        if yes or not as_json:
            from strands_cli.mcp.connection import accepted_record

            write_record(declared, accepted_record(declared, probe.listing, before))
    if not as_json:
        print_note(f"The tools of {name} are accepted." if changes else "Nothing has changed.")


def _confirm(question: str, argument: str) -> None:
    if not can_ask():
        raise TrustError(
            "Nobody can be asked here.", hint=f"To accept all of it: strands mcp trust {argument} --yes"
        )
    from strands_cli.cli.questions import confirm

    if not confirm(question):
        raise TrustError("Nothing was accepted.")


def _change_document(tool: str, field: str, before: str, now: str) -> dict[str, str]:
    return {"tool": tool, "field": field, "before": before, "now": now}


def _print_change(tool: str, field: str, before: str, now: str) -> None:
    kind = field or ("the tool is new" if now else "the tool is gone")
    print_line(Styled(one_line(tool)), f"  {kind}")
    for mark, text in zip("-+", _differing_parts(before, now), strict=True):
        for line in text[:_SHOWN_CHARACTERS].splitlines():
            for part in wrapped_text(line, 100) or [""]:
                print_line(f"  {mark} {part}")
        if (left := len(text) - _SHOWN_CHARACTERS) > 0:
            print_line(f"  {mark} … and {left:,} more characters; --json shows all of them")


def _differing_parts(before: str, now: str) -> tuple[str, str]:
    """Of long texts, only what differs, with a little around it: a change must not hide behind the rest."""
    if max(len(before), len(now)) <= _SHOWN_CHARACTERS:
        return before, now
    same = _same_characters(before, now)
    same_end = _same_characters(before[same:][::-1], now[same:][::-1])
    start = max(0, same - _SHOWN_AROUND)
    ends = [len(text) - max(0, same_end - _SHOWN_AROUND) for text in (before, now)]
    first, second = (
        f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
        for text, end in zip((before, now), ends, strict=True)
    )
    return first, second


def _same_characters(one: str, other: str) -> int:
    """How many characters at the beginning are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
