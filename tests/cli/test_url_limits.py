"""Environment variables that narrow what HTTP tools may request, and how long MCP servers may take to start."""

import json
from collections.abc import Iterator

import httpx
import pytest

from strands_cli.errors import SpecError, ToolFailed
from strands_cli.http_tools.transport import check_url_limits
from strands_cli.types.settings_file import read_url_limits
from tests.projects import Outcome, Project
from tests.sites import Site, answer, serving

ALLOWED, BLOCKED = "STRANDS_HTTP_ALLOWED_DOMAINS", "STRANDS_HTTP_BLOCKED_PATTERNS"


@pytest.fixture
def site(project: Project) -> Iterator[Site]:
    project.write("strands.toml", '[http]\nallow = ["127.0.0.1"]\n')
    with serving() as running:
        running.answers["/"] = running.answers["/admin"] = answer(200, "Hello.")
        yield running


def request(project: Project, url: str, **limits: list[str]) -> Outcome:
    variables = {name: json.dumps(value) for name, value in limits.items()}
    return project.strands(
        "tool", "call", "http_request", f"url={url}", "--json", STRANDS_TRUST="1", **variables
    )


def test_requests_are_narrowed_by_the_environment(project: Project, site: Site) -> None:
    assert request(project, site.url).exit_code == 0
    assert request(project, site.url, **{ALLOWED: [r"127\.0\.0\.1"]}).exit_code == 0
    elsewhere = request(project, site.url, **{ALLOWED: [r".*\.example\.com"]})
    assert elsewhere.json["error"]["code"] == "forbidden", elsewhere
    assert ALLOWED in elsewhere.json["error"]["message"]
    blocked = request(project, f"{site.url}/admin", **{ALLOWED: [".*"], BLOCKED: ["/admin"]})
    assert blocked.json["error"]["code"] == "forbidden"
    assert "STRANDS_HTTP_BLOCKED_PATTERNS has '/admin'" in blocked.json["error"]["message"]


def test_a_redirect_is_narrowed_too(project: Project, site: Site) -> None:
    site.answers["/"] = answer(302, "", Location="/admin")
    assert request(project, site.url).exit_code == 0
    assert request(project, site.url, **{BLOCKED: ["/admin"]}).json["error"]["code"] == "forbidden"


def test_an_allowed_domain_opens_no_private_address(project: Project, site: Site) -> None:
    project.write("strands.toml", "")
    outcome = request(project, site.url, **{ALLOWED: [".*"]})
    assert outcome.json["error"]["code"] == "forbidden"
    assert "not a public address" in outcome.json["error"]["message"]


@pytest.mark.parametrize(
    ("url", "allowed", "blocked", "passes"),
    [
        ("https://api.example.com/v1", [r"api\.example\.com"], [], True),
        ("https://API.example.com./v1", [r"api\.example\.com"], [], True),
        ("https://api.example.com/v1", [r"^https://api\.example\.com"], [], True),
        ("http://api.example.com/v1", [r"^https://api\.example\.com"], [], False),
        ("https://evil.net/api.example.com", [r"api\.example\.com"], [], False),
        ("https://api.example.com.evil.net/", [r"api\.example\.com"], [], False),
        ("https://api.example.com/", [], [], False),
        ("https://evil.net/a", None, [r"evil\.net"], False),
        ("https://evil.net./a", None, [r"evil\.net/a"], False),
        ("https://x.net/%61dmin", None, ["/admin"], False),
        ("http://2130706433/", None, [r"127\.0\.0\.1"], False),
        ("https://example.com/", [r"example\.com"], ["example"], False),
    ],
)
def test_limits_judge_the_whole_host_and_any_part_of_the_url(
    url: str, allowed: list[str] | None, blocked: list[str], passes: bool
) -> None:
    environment = {BLOCKED: json.dumps(blocked)} | ({} if allowed is None else {ALLOWED: json.dumps(allowed)})
    limits = read_url_limits(environment)
    if passes:
        check_url_limits(httpx.URL(url), limits)
    else:
        with pytest.raises(ToolFailed, match="may not be reached"):
            check_url_limits(httpx.URL(url), limits)


@pytest.mark.parametrize("value", ["example.com", '"x"', "[1]", '["("]', "[" * 5000])
def test_limits_that_cannot_be_read_are_errors(value: str) -> None:
    for name in (ALLOWED, BLOCKED):
        with pytest.raises(SpecError, match=rf"\${name}"):
            read_url_limits({name: value})


@pytest.mark.parametrize(
    ("name", "value"), [(ALLOWED, "example.com"), (BLOCKED, '["("]'), ("MCP_STARTUP_TIMEOUT_S", "soon")]
)
def test_a_variable_that_cannot_be_read_stops_a_command_before_it_does_anything(
    project: Project, name: str, value: str
) -> None:
    outcome = project.strands("tool", "call", "echo", "message=hi", **{name: value})
    assert (outcome.exit_code, outcome.out) == (3, ""), outcome
    assert outcome.err.startswith(f"${name}  error\n")
    assert project.strands("list-tools", **{name: value}).exit_code == 0


def test_the_environment_sets_how_long_a_server_may_take_to_start(project: Project) -> None:
    project.write("slow.py", "import time\ntime.sleep(60)\n")
    project.write("strands.toml", '[mcp.servers.slow]\ncommand = "python3"\nargs = ["slow.py"]\n')
    outcome = project.strands("mcp", "check", "slow", STRANDS_TRUST="1", MCP_STARTUP_TIMEOUT_S="0.5")
    assert "did not answer within 0.5 s of its start" in outcome.out + outcome.err
