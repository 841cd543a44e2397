"""Servers at an address that misbehave, and what a project's declaration of one may send where."""

import gzip
import io
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.hostile_server import ESCAPES
from tests.mcp.servers import ANSWER, START_SECONDS, Servers

pytestmark = pytest.mark.long

LIMIT = 15.0
SECRET = "tok-5f0e2b77aa"
TOOLS = [
    {"name": "good", "description": "Good.", "inputSchema": {"type": "object"}},
    {"name": "hang", "description": "Hangs.", "inputSchema": {"type": "object"}},
]


class Site(ThreadingHTTPServer):
    """A server of the handshake era; `behaviour` is a method of `_Handler` that answers in its place."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = ""
        self.only_for = ""
        """The method that it is for; "" for all."""
        self.target = ""
        """Where a redirect leads to."""
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.sessions: set[str] = set()
        self.open = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        message = json.loads(body or b"{}")
        site = self.server
        if site.behaviour and site.only_for in ("", message.get("method")):
            getattr(self, site.behaviour)(message)
        else:
            self.good(message)

    def do_GET(self) -> None:
        self.server.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, b""))
        self.answer(405, b"")

    do_DELETE = do_GET  # noqa: N815 - the name is given

    def answer(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    # --- Behaviours ---------------------------------------------------------------------------------------

    def good(self, message: dict[str, Any]) -> None:
        method, session = message.get("method"), self.headers.get("mcp-session-id", "")
        headers = {}
        if method == "initialize":
            session = f"session-{len(self.server.sessions)}"
            self.server.sessions.add(session)
            headers["mcp-session-id"] = session
        elif "id" not in message:
            self.answer(202, b"")
            return
        elif method in ("tools/list", "tools/call") and session not in self.server.sessions:
            self.answer(
                404, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "no session"}}'
            )
            return
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "site", "version": "1"},
            },
            "tools/list": {"tools": TOOLS},
            "tools/call": {"content": [{"type": "text", "text": "good ran"}]},
        }
        if method in results:
            made = {"jsonrpc": "2.0", "id": message["id"], "result": results[method]}
        else:
            made = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no method"}}
        self.answer(200, json.dumps(made).encode(), **headers)

    def repeats_authorization(self, message: dict[str, Any]) -> None:
        words = f"Each token is a word; yours is {self.headers['authorization']}."
        result = {"content": [{"type": "text", "text": words}]}
        self.answer(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def silent(self, message: dict[str, Any]) -> None:
        self.server.open.wait(30)

    def hangs(self, message: dict[str, Any]) -> None:
        """Answers all calls but those of the tool `hang`."""
        if message["params"]["name"] == "hang":
            self.silent(message)
        else:
            self.good(message)

    def drips(self, message: dict[str, Any]) -> None:
        self.begin("application/json")
        while not self.server.open.wait(0.2):
            self.chunk(b" ")

    def endless(self, message: dict[str, Any]) -> None:
        self.begin("application/json")
        while not self.server.open.is_set():
            self.chunk(b'{"x": "' + b"x" * 1_000_000)

    def endless_events(self, message: dict[str, Any]) -> None:
        self.begin("text/event-stream")
        while not self.server.open.wait(0.001):
            self.chunk(b'event: message\ndata: {"jsonrpc": "2.0", "method": "notifications/message"}\n\n')

    def bomb(self, message: dict[str, Any]) -> None:
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb") as file:
            file.write(b'{"jsonrpc": "2.0", "x": "')
            for _ in range(500):
                file.write(b"x" * 1_000_000)
        self.answer(200, packed.getvalue(), content_encoding="gzip")

    def page(self, message: dict[str, Any]) -> None:
        self.answer(200, b"<!doctype html><title>Welcome</title>", "text/html")

    def broken(self, message: dict[str, Any]) -> None:
        self.answer(500, f"Out of disk {ESCAPES}".encode() + b"y" * 1_000_000, "text/plain")

    def unknown(self, message: dict[str, Any]) -> None:
        self.answer(404, b"nothing here", "text/plain")

    def garbage(self, message: dict[str, Any]) -> None:
        self.wfile.write(b"\x00\xff\x00 this is not HTTP\r\n\r\n")
        self.close_connection = True

    def hangs_up(self, message: dict[str, Any]) -> None:
        self.close_connection = True

    def redirects(self, message: dict[str, Any]) -> None:
        self.answer(307, b"", location=self.server.target)

    def wants_sign_in(self, message: dict[str, Any]) -> None:
        self.answer(401, b"", www_authenticate="Bearer")

    def begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def running_site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield site
    finally:
        site.open.set()
        site.shutdown()
        thread.join()
        site.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    yield from running_site()


@pytest.fixture
def elsewhere() -> Iterator[Site]:
    yield from running_site()


def configure(servers: Servers, site: Site, **keys: Any) -> None:
    entry = {"url": site.url, "timeout": 2.0, "start_timeout": START_SECONDS, **keys}
    servers.add(servers.user_settings, "far", entry)


def test_a_server_at_an_address_is_used_like_any_other(servers: Servers, site: Site) -> None:
    configure(servers, site)
    check = servers.check("far")
    assert check.exit_code == 0, check
    with servers.calls() as call:
        assert "good ran" in call("far__good").shown


BEHAVIOURS = (
    "silent",
    "drips",
    "endless",
    "endless_events",
    "page",
    "broken",
    "unknown",
    "garbage",
    "hangs_up",
)
SHORT = {("initialize", "page"), ("tools/list", "endless_events"), ("tools/call", "silent")}
"""What `make test` runs."""
MISBEHAVIOUR = [
    pytest.param(method, behaviour, marks=[] if is_short else [pytest.mark.long])
    for method in ("initialize", "tools/list", "tools/call")
    for behaviour in BEHAVIOURS
    for is_short in [(method, behaviour) in SHORT]
]


@pytest.mark.parametrize(("method", "behaviour"), MISBEHAVIOUR)
def test_a_server_that_does_not_answer_properly_is_given_up_in_time(
    method: str, behaviour: str, servers: Servers, site: Site
) -> None:
    configure(servers, site)
    assert servers.check("far").exit_code == 0
    servers.limit_starts(5.0)  # enough for the good answer at the end, on a busy machine
    site.behaviour, site.only_for = behaviour, method
    with servers.calls() as call:
        called = call("far__good")
        assert called.code in ("timeout", "network", "unavailable", "failed", "output_invalid"), called.shown[
            :2000
        ]
        assert called.seconds < LIMIT
        assert len(called.shown) < 50_000
        assert "TaskGroup" not in called.shown
        site.behaviour = ""
        again = call("far__good")
        assert (again.code, again.seconds < LIMIT) == (ANSWER, True), again.shown


def test_a_hanging_call_does_not_hold_up_the_others(servers: Servers, site: Site) -> None:
    configure(servers, site, timeout=4.0)
    servers.check("far")
    site.behaviour, site.only_for = "hangs", "tools/call"
    with servers.calls() as call:
        hanging, *others = call.together(("far__hang", {}), *[("far__good", {})] * 10)
        assert hanging.code == "timeout"
        assert {other.code for other in others} == {ANSWER}
        assert max(other.seconds for other in others) < 3


def test_an_answer_that_unpacks_to_much_more_is_cut(servers: Servers, site: Site) -> None:
    configure(servers, site, timeout=5.0)
    servers.check("far")
    site.behaviour, site.only_for = "bomb", "tools/call"
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
    before = peak_megabytes()
    with servers.calls() as call:
        called = call("far__good")
    assert called.code != ANSWER
    assert peak_megabytes() - before < 300


def peak_megabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def test_an_address_where_nobody_listens_is_named(servers: Servers, site: Site) -> None:
    configure(servers, site)
    servers.check("far")
    port = site.server_address[1]
    settings = servers.user_settings
    settings.write_text(settings.read_text().replace(f":{port}/", ":9/"))
    check = servers.check("far")
    assert check.exit_code != 0
    assert check.seconds < LIMIT
    with servers.calls() as call:
        called = call("far__good")
        assert called.code in ("network", "unavailable")


def test_a_session_that_the_server_forgot_is_begun_again(servers: Servers, site: Site) -> None:
    configure(servers, site)
    servers.check("far")
    with servers.calls() as call:
        assert call("far__good").code == ANSWER
        site.sessions.clear()
        call("far__good")  # may fail: whether it can be repeated is not known
        assert call("far__good").code == ANSWER


def test_a_server_that_wants_a_sign_in_says_how(servers: Servers, site: Site) -> None:
    configure(servers, site)
    servers.check("far")
    site.behaviour = "wants_sign_in"
    with servers.calls() as call:
        called = call("far__good")
        assert called.code in ("unavailable", "denied"), called.shown
        assert "strands mcp check far" in called.shown
        assert called.seconds < LIMIT


def test_a_redirect_does_not_carry_the_key_to_another_address(
    servers: Servers, site: Site, elsewhere: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_KEY", SECRET)
    servers.project.environment["FAR_KEY"] = SECRET
    configure(servers, site, headers={"Authorization": "Bearer ${FAR_KEY}", "X-Key": "${FAR_KEY}"})
    servers.check("far")
    assert SECRET in str(site.seen), "the server itself gets it"
    site.behaviour, site.target = "redirects", elsewhere.url
    with servers.calls() as call:
        call("far__good")
    assert SECRET not in str(elsewhere.seen)


def test_what_a_server_says_about_itself_is_escaped(servers: Servers, site: Site) -> None:
    configure(servers, site)
    site.behaviour = "broken"
    check = servers.here("mcp", "check", "far")
    assert check.exit_code != 0
    assert not {*"\x1b\x07\x9b\u202e\r"} & {*(check.out + check.err)}
    assert len(check.out + check.err) < 20_000


# --- Declared by a project --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"headers": {"X-Key": "${HARMLESS}"}}, {"headers": {"X-Key": "${FAR_KEY}"}}),
        ({}, {"headers": {"X-Key": "${FAR_KEY}"}}),
        (
            {"oauth": {"client_id": "a", "client_secret": "${HARMLESS}"}},
            {"oauth": {"client_id": "a", "client_secret": "${FAR_KEY}"}},
        ),
    ],
)
def test_a_project_that_wants_to_send_another_secret_needs_trust_again(
    before: dict[str, Any],
    after: dict[str, Any],
    servers: Servers,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"FAR_KEY": SECRET, "HARMLESS": "harmless"}.items():
        monkeypatch.setenv(name, value)
        servers.project.environment[name] = value
    settings = servers.project.root / "strands.toml"
    servers.add(settings, "far", {"url": site.url, **before})
    assert servers.here("trust", "--yes").exit_code == 0
    assert servers.check("far").exit_code == 0
    settings.write_text("")
    servers.add(settings, "far", {"url": site.url, **after})
    check = servers.check("far")
    assert check.exit_code != 0
    assert "strands trust" in check.out + check.err
    assert SECRET not in str(site.seen)
    shown = servers.here("trust")
    assert "FAR_KEY" in shown.out + shown.err, "what is asked for is shown"


def test_a_projects_address_is_not_visited_before_it_is_trusted(servers: Servers, site: Site) -> None:
    servers.add(servers.project.root / "strands.toml", "far", {"url": site.url})
    for words in (("list-tools",), ("mcp", "list"), ("mcp", "show", "far"), ("mcp", "check", "far")):
        servers.here(*words)
    with servers.calls() as call:
        assert call("far__good").code in ("unavailable", "unknown_tool")
    time.sleep(0.2)
    assert site.seen == []


# --- Secrets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["token ${FAR_KEY}", f"token {SECRET}"])
def test_of_a_header_only_the_secret_is_hidden(
    header: str, servers: Servers, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_KEY", SECRET)
    servers.project.environment["FAR_KEY"] = SECRET
    configure(servers, site, headers={"Authorization": header})
    servers.check("far")
    site.behaviour, site.only_for = "repeats_authorization", "tools/call"
    with servers.calls() as call:
        called = call("far__good")
    assert SECRET not in called.shown
    assert "Each token is a word; yours is token ***." in called.shown
