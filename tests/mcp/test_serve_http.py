"""The server over HTTP: who may use it, and that it does the same as over stdio."""

import asyncio
import http.client
import json
import subprocess
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.mcp.serving import ANY_ERA, MODES, SERVE, TOKEN, Person, connected_to, eventually, http_server
from tests.projects import Project

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def post(
    url: str, body: bytes | None = None, path: str = "", **headers: str
) -> tuple[int, dict[str, str], str]:
    """The status, the headers and the body of an answer; `Host` and the others replace the usual ones."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=10)
    sent = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    for name, value in headers.items():
        sent.pop(name, None) if not value else sent.update({name: value})
    connection.request(
        "POST", path or place.path, json.dumps(INITIALIZE).encode() if body is None else body, sent
    )
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


@pytest.mark.asyncio
async def test_clients_of_both_eras_are_served(project: Project) -> None:
    with http_server(project) as url:
        for mode in MODES:
            person = Person(allow=True)
            async with connected_to(url, mode=mode, person=person) as client:
                assert "echo" in {tool.name for tool in (await client.list_tools()).tools}
                assert not (await client.call_tool("echo", {"message": "hi"})).is_error
                written = await client.call_tool("file_write", {"path": f"{mode}.txt", "content": "x"})
                assert not written.is_error
            assert len(person.questions) == 1
            assert (project.root / f"{mode}.txt").exists()


def test_a_token_is_needed(project: Project) -> None:
    with http_server(project) as url:
        assert post(url)[0] == 200
        for wrong in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xe4"):
            status, headers, body = post(url, Authorization=wrong)
            assert status == 401
            assert headers["www-authenticate"].startswith("Bearer")
            assert "Authorization: Bearer" in json.loads(body)["error"]["message"]


def test_a_page_in_a_browser_gets_nothing(project: Project) -> None:
    with http_server(project) as url:
        port = urlsplit(url).port
        for host in (
            "evil.example.com",
            f"evil.example.com:{port}",
            f"127.0.0.1.evil.com:{port}",
            "[::1",
            "::1",
        ):
            assert post(url, Host=host)[0] == 421
        for origin in ("http://evil.example.com", "null", "http://localhost.evil.com", "http://[::1", "x"):
            assert post(url, Origin=origin)[0] in (400, 403)
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "LOCALHOST"):
            assert post(url, Host=host, Origin=f"http://{host}")[0] == 200


def test_a_name_can_be_allowed(project: Project) -> None:
    with http_server(project, "--allow-host", "Tools.example.com") as url:
        assert post(url, Host="tools.example.com")[0] == 200
        assert post(url, Host="other.example.com")[0] == 421


def test_bad_requests_are_refused(project: Project) -> None:
    with http_server(project) as url:
        assert post(url, path="/")[0] == 404
        assert post(url, b"x" * (33 * 1024 * 1024))[0] == 413
        assert post(url, b"not json")[0] == 400
        assert post(url, b"[]")[0] == 400
        assert post(url, **{"Mcp-Session-Id": "unknown"})[0] == 404
        assert post(url)[0] == 200


@pytest.mark.long
@pytest.mark.parametrize("version", ["", "2025-11-25"])
def test_sessions_are_limited_and_can_be_closed(version: str, project: Project) -> None:
    with http_server(project) as url:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=10)

        def send(method: str, session: str = "") -> tuple[int, str]:
            headers = {
                "Authorization": f"Bearer {TOKEN}",
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
                **({"Mcp-Session-Id": session} if session else {}),
                **({"Mcp-Protocol-Version": version} if version else {}),
            }
            connection.request(
                method, place.path, json.dumps(INITIALIZE) if method == "POST" else None, headers
            )
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.headers.get("mcp-session-id") or ""

        opened = [send("POST") for _ in range(1000)]
        assert {status for status, _ in opened} == {200}
        assert send("POST")[0] == 503
        assert send("DELETE", opened[0][1])[0] == 200
        assert send("POST")[0] == 200
        connection.close()


@pytest.mark.asyncio
@ANY_ERA
async def test_a_cancelled_call_stops_its_body(project: Project, mode: str) -> None:
    body = """def wait(context: ToolContext) -> str:
    open("began", "w").close()
    while not context.cancelled:
        time.sleep(0.02)
    open("stopped", "w").close()
"""
    project.tool("wait", body, options="context=True")

    async def has(name: str) -> bool:
        return (project.root / name).exists()

    with http_server(project) as url:
        async with connected_to(url, mode=mode) as client:
            call = asyncio.ensure_future(client.call_tool("wait", {}))
            await eventually(lambda: has("began"))
            call.cancel()
            await eventually(lambda: has("stopped"))


def test_a_new_token_is_printed_and_wanted(project: Project) -> None:
    environment = {**project.environment}
    environment.pop("STRANDS_MCP_TOKEN", None)
    command = [*SERVE, "--http", "127.0.0.1:0"]
    process = subprocess.Popen(
        command,
        cwd=project.root,
        env=environment,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    url = process.stderr.readline().rpartition(" ")[2].strip()
    line = process.stderr.readline().strip()
    try:
        assert line.startswith("Authorization: Bearer ")
        assert len(line) > 50
        assert post(url)[0] == 401
        assert post(url, Authorization=line.partition(": ")[2])[0] == 200
    finally:
        process.terminate()
        assert process.wait(timeout=10) == 143
        process.stderr.close()


@pytest.mark.parametrize(
    ("options", "env", "message"),
    [
        (["--http", "localhost"], {}, "is not [HOST:]PORT"),
        (["--http", "1.2.3.4:99999"], {}, "is not [HOST:]PORT"),
        (["--http", "host.invalid:0"], {}, "Cannot listen on host.invalid:0"),
        (["--http", "192.0.2.1:0"], {}, "Cannot listen on 192.0.2.1:0"),
        (["--http", "0"], {"STRANDS_MCP_TOKEN": "short"}, "at least 16 characters"),
        (["--http", "0"], {"STRANDS_MCP_TOKEN": "with a space in it"}, "without spaces"),
        (["--allow-host", "x"], {}, "--allow-host needs --http"),
        (["--project", "missing"], {}, "--project missing: No such file or directory"),
        (["--tools", "ehco"], {}, "Did you mean 'echo'?"),
        (["--spec", "missing.yaml"], {}, "missing.yaml"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_to_do(
    project: Project, options: list[str], env: dict[str, Any], message: str
) -> None:
    outcome = project.strands("mcp", "serve", *options, **env)
    assert message in outcome.err
    assert outcome.exit_code in (2, 3)
    assert outcome.out == ""


def test_a_websocket_gets_past_no_check(project: Project) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Authorization": "",
    }
    with http_server(project) as url:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=10)
        connection.request("GET", place.path, headers=upgrade)
        assert connection.getresponse().status == 401
        connection.close()
