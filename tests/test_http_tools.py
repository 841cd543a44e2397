"""HTTP executors against real servers: what arrives, where, and what must never arrive anywhere."""

import asyncio
import json
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_cli.errors import SpecError, ToolFailed
from strands_cli.http_tools.executors import http_tools
from strands_cli.http_tools.targets import parse_target
from strands_cli.loader.spec import Spec
from strands_cli.patterns.chain import Chain
from strands_cli.secrets import Redactor
from strands_cli.settings import Settings
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import error_of
from strands_cli.tools.http_request import TOOL_SPEC
from strands_cli.types.sections import HttpExecutor, Runtime, Tools
from strands_cli.types.settings_file import HttpSettings
from tests.exploring import examples
from tests.sites import Answer, Site, answer, endlessly, failing, serving

TOKEN = "t0p-s3cret/+token"


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as running:
        yield running


@pytest.fixture
def other() -> Iterator[Site]:
    with serving() as running:
        yield running


def workflow(*executors: HttpExecutor) -> Spec:
    return Spec(
        version=0,
        name="demo",
        runtime=Runtime(provider="ollama"),
        agents={},
        pattern=Chain(steps=()),
        tools=Tools(http_executors=executors),
        file=Path("flow.yaml"),
        positions={"/tools/http_executors": ("flow.yaml", 7, 3)},
    )


def executor(base_url: str, **options: Any) -> Tool:
    """The tool of an executor that sends the token, as a run makes it."""
    headers = options.pop("headers", {"Authorization": "Bearer {{ secrets.TOKEN }}"})
    declared = HttpExecutor(id="api", base_url=base_url, headers=headers, **options)
    [tool] = http_tools(workflow(declared), {"secrets": {"TOKEN": TOKEN}}, Redactor([TOKEN]))
    return tool


def call(tool: Tool, path: str = "/", *, max_bytes: int = 10_000, **arguments: Any) -> Any:
    here = Path.cwd()
    http = HttpSettings(max_bytes=max_bytes)
    context = CallContext(settings=Settings(project=here, workspace=(here,), http=http))
    use: Any = {"toolUseId": "1", "input": {"path": path, **arguments}}
    result = asyncio.run(call_tool(tool, use, context))
    assert TOKEN not in json.dumps(result)
    return result


def fetch(tool: Tool, path: str = "/", **arguments: Any) -> dict[str, Any]:
    result = call(tool, path, **arguments)
    assert result["status"] == "success", result
    answered: dict[str, Any] = result["content"][0]["json"]
    return answered


def failure(tool: Tool, path: str = "/", **arguments: Any) -> dict[str, Any]:
    error = error_of(call(tool, path, **arguments))
    assert error is not None
    return error


# --- What is sent, and what comes back --------------------------------------------------------------------


def test_a_request_goes_below_the_base_url_with_the_authors_headers(site: Site) -> None:
    site.answers["/v1/items/7"] = answer(body='{"id": 7}', Content_Type="application/json")
    answered = fetch(executor(f"{site.url}/v1"), "/items/7")
    assert (answered["status_code"], answered["body"]) == (200, '{"id": 7}')
    assert answered["headers"]["content-type"] == "application/json"
    assert site.seen[0].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("base", "path", "sent"),
    [
        ("", "", "/"),
        ("", "/", "/"),
        ("/v1", "", "/v1"),
        ("/v1/", "", "/v1"),
        ("/v1", "/", "/v1/"),
        ("/v1/", "items", "/v1/items"),
        ("/v1", "items/äöü & co", "/v1/items/%C3%A4%C3%B6%C3%BC%20&%20co"),
        ("/v1", "group%2Fproject", "/v1/group%2Fproject"),
        ("/v1", "items:search", "/v1/items:search"),
        ("/v1", "user@example.com:80/x", "/v1/user@example.com:80/x"),
        ("/v1", "/@me", "/v1/@me"),
        ("/v1", "100%25", "/v1/100%25"),
        ("/v1", "./a...b/.hidden", "/v1/a...b/.hidden"),
        ("/v1?key=1", "items?page=2&q=a+b", "/v1/items?key=1&page=2&q=a+b"),
    ],
)
def test_ordinary_paths_arrive_as_they_are_meant(site: Site, base: str, path: str, sent: str) -> None:
    fetch(executor(site.url + base), path)
    assert site.seen[0].path == sent


def test_query_parameters_are_encoded(site: Site) -> None:
    query = {"q": "a&b=c #d", "n": 3, "on": True, "ids": [1, "x"], "none": None}
    fetch(executor(site.url), "/find?p=1", query=query)
    assert site.seen[0].path == "/find?p=1&q=a%26b%3Dc+%23d&n=3&on=true&ids=1&ids=x"


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        ({"a": [1]}, "application/json", b'{"a": [1]}'),
        ([1, 2], "application/json", b"[1, 2]"),
        ('{"a": 1}', "application/json", b'{"a": 1}'),
        ("héllo", "text/plain; charset=utf-8", "héllo".encode()),
        ("7", "text/plain; charset=utf-8", b"7"),
    ],
)
def test_a_body_is_json_or_text(site: Site, body: Any, content_type: str, data: bytes) -> None:
    fetch(executor(site.url), "/", method="post", body=body)
    assert (site.seen[0].method, site.seen[0].body) == ("POST", data)
    assert site.seen[0].headers["content-type"] == content_type


def test_the_model_may_add_headers_and_name_the_type_of_its_body(site: Site) -> None:
    fetch(executor(site.url), method="PUT", body="<a/>", headers={"Content-Type": "text/xml", "X-Run": "1"})
    assert site.seen[0].headers["content-type"] == "text/xml"
    assert site.seen[0].headers["x-run"] == "1"


def test_the_names_of_arguments_in_other_runners_are_understood_and_not_shown(site: Site) -> None:
    tool = executor(site.url)
    fetch(tool, method="POST", json_data={"a": 1}, headers_override={"X-Lang": "de"})
    assert (site.seen[0].body, site.seen[0].headers["x-lang"]) == (b'{"a": 1}', "de")
    assert "json_data" not in tool.input_schema["properties"]
    both = failure(tool, method="POST", json_data={}, body={})
    assert "/json_data is unknown" in both["message"]
    assert failure(tool, headers_override={"Authorization": "x"})["code"] == "forbidden"


def test_the_answer_has_the_form_of_http_request() -> None:
    tool = executor("https://api.example")
    assert tool.output_schema == TOOL_SPEC["outputSchema"]["json"]  # type: ignore[index]
    assert tool.annotations == {"openWorldHint": True}


def test_a_long_body_is_cut_and_marked(site: Site) -> None:
    site.answers["/"] = endlessly(answer(length=10**9), b"a" * 1000)
    answered = fetch(executor(site.url), max_bytes=1500)
    assert (len(answered["body"]), answered["truncated"]) == (1500, True)


def test_the_description_says_where_it_goes_and_keeps_the_query_to_itself() -> None:
    tool = executor("https://api.example:8443/v1/?key=abc", description="Orders of the shop.")
    assert tool.description == (
        "Orders of the shop. Sends an HTTP request to https://api.example:8443/v1 and answers with its "
        "status_code, headers and body."
    )


# --- Where nothing may go ---------------------------------------------------------------------------------

TRICKS = [
    "http://{other}/x",
    "HTTPS://{other}/x",
    " http://{other}/",
    "http:/{other}/",
    "http:\\\\{other}\\",
    "//{other}/x",
    "///{other}/x",
    "//user:pw@{other}/x",
    "/\\{other}/x",
    "\\\\{other}\\x",
    "%5c%5c{other}",
    "%2f%2f{other}/x",
    "http%3a%2f%2f{other}/",
    "..",
    "../admin",
    "/../admin",
    "a/../../admin",
    "..%2fadmin",
    "%2e%2e/admin",
    "%2E%2E%2Fadmin",
    ".%2e/admin",
    "%252e%252e%252fadmin",
    "%25252e%25252e/admin",
    "..;/admin",
    "..;x=1/admin",
    "%2e%2e%3b/admin",
    "a/.. /admin",
    "a/%2e%2e%20/admin",
    "..\\admin",
    "..%5cadmin",
    "\uff0e\uff0e/admin",
    "\u2025/admin",
    "%EF%BC%8E%EF%BC%8E/admin",
    "\uff0f\uff0f{other}/x",
]
MALFORMED = [
    "%c0%ae%c0%ae/admin",
    "%u002e%u002e/admin",
    "%",
    "a%zz",
    "a\r\nX-Evil: 1",
    "a%0d%0aX-Evil:%201",
    "a%00b",
    "a\x7fb",
    "a\u2028b",
    "\ud800",
    "a#b",
    quote(quote(quote(quote(quote(quote(quote(quote(quote(quote(quote("%"))))))))))),
]


@pytest.mark.parametrize("trick", TRICKS)
def test_a_path_that_leads_elsewhere_is_refused_before_anything_is_sent(
    site: Site, other: Site, trick: str
) -> None:
    error = failure(executor(f"{site.url}/v1"), trick.replace("{other}", f"127.0.0.1:{other.port}"))
    assert error["code"] == "forbidden"
    assert "leads out of what this tool may reach" in error["message"]
    assert site.seen == other.seen == []


@pytest.mark.parametrize("path", MALFORMED)
def test_a_malformed_path_is_refused_before_anything_is_sent(site: Site, path: str) -> None:
    assert failure(executor(f"{site.url}/v1"), path)["code"] == "input_invalid"
    assert site.seen == []


DOTS = ("..", ".", "%2e", "\uff0e", "\u2024")
SLASHES = ("/", "//", "\\", "%2f", "%5c", "\uff0f")
OTHERS = ("%25", "http:", "@", ":", "?", ";", "%00", " ", "\t", "[", "]", "é", "evil.example")
PIECES = st.sampled_from((*DOTS, *SLASHES, *OTHERS))


@settings(max_examples=examples(400))
@given(st.lists(PIECES, max_size=9).map("".join) | st.text(max_size=30))
def test_whatever_the_path_its_url_is_below_the_base_or_there_is_none(path: str) -> None:
    target = parse_target("https://api.example/v1")
    try:
        url = target.url(path, {})
    except ToolFailed:
        return
    assert (url.scheme, url.host, url.port, url.userinfo) == ("https", "api.example", None, b"")
    sent = url.raw_path.decode().partition("?")[0]
    assert sent == "/v1" or sent.startswith("/v1/")
    for _ in range(5):
        assert ".." not in sent.replace("\\", "/").split("/")
        assert not sent.startswith("//")
        sent = unquote(sent)


@pytest.mark.parametrize(
    "name",
    ["Authorization", "authorization", "Cookie", "Proxy-Foo", "X-Forwarded-Host", "X-Original-URL", "X_Key"],
)
def test_credentials_and_the_authors_headers_are_not_the_models(site: Site, name: str) -> None:
    error = failure(executor(site.url, headers={"X-Key": "1"}), headers={name: "mine"})
    assert error["code"] == "forbidden"
    assert site.seen == []


@pytest.mark.parametrize("name", ["Host", "Content-Length", "Transfer-Encoding", "Bad Name", "X-Line"])
def test_headers_that_would_change_the_request_are_refused(site: Site, name: str) -> None:
    failure(executor(site.url), headers={name: "a\r\nX-Evil: 1" if name == "X-Line" else "a"})
    assert site.seen == []


# --- Redirects --------------------------------------------------------------------------------------------


def redirect(status: int, location: str) -> Answer:
    return answer(status, Location=location)


def test_a_redirect_within_the_api_is_followed_with_the_headers(site: Site) -> None:
    site.answers["/v1/old"] = redirect(302, "/v1/new")
    tool = executor(f"{site.url}/v1", headers={"Cookie": "c={{ secrets.TOKEN }}", "X-Key": "k"})
    answered = fetch(tool, "old")
    assert (answered["body"], answered["url"]) == ("hello", f"{site.url}/v1/new")
    assert [seen.headers.get("x-key") for seen in site.seen] == ["k", "k"]
    assert [seen.headers.get("cookie") for seen in site.seen] == [f"c={TOKEN}"] * 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_origin_is_not_followed(site: Site, other: Site, status: int) -> None:
    site.answers["/v1/away"] = redirect(status, f"{other.url}/v1/x?t={quote(TOKEN)}")
    error = failure(executor(f"{site.url}/v1"), "away", method="POST", body="x")
    assert error["code"] == "forbidden"
    assert f"another origin, http://127.0.0.1:{other.port}" in error["message"]
    assert other.seen == []


@pytest.mark.parametrize(
    "location",
    [
        "/admin",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1x",
        "http://localhost:{port}/v1/x",
        "https://127.0.0.1:{port}/v1/",
        "//127.0.0.1.evil.example/v1/",
        "file:///etc/passwd",
        f"/{quote(TOKEN)}",
    ],
)
def test_a_redirect_out_of_the_base_url_is_not_followed(site: Site, location: str) -> None:
    site.answers["/v1/away"] = redirect(307, location.replace("{port}", str(site.port)))
    assert failure(executor(f"{site.url}/v1"), "away")["code"] == "forbidden"
    assert len(site.seen) == 1


def test_redirects_without_an_end_are_given_up(site: Site) -> None:
    site.answers["/"] = redirect(302, "/")
    assert "more than 10 times" in failure(executor(site.url))["message"]


def test_a_redirects_own_credentials_are_not_used(site: Site) -> None:
    site.answers["/"] = redirect(302, f"http://a:b@127.0.0.1:{site.port}/x")
    fetch(executor(site.url))
    assert site.seen[1].headers["authorization"] == f"Bearer {TOKEN}"


# --- Secrets ----------------------------------------------------------------------------------------------


def test_a_server_that_repeats_the_token_does_not_tell_it(site: Site) -> None:
    site.answers["/"] = answer(body=f"{TOKEN} {quote(TOKEN, safe='')}", X_Echo=TOKEN)
    answered = fetch(executor(site.url))
    assert (answered["body"], answered["headers"]["x-echo"]) == ("*** ***", "***")


def test_a_body_that_is_cut_within_the_token_tells_no_part_of_it(site: Site) -> None:
    site.answers["/"] = answer(body=f"is: {TOKEN}")
    assert fetch(executor(site.url), max_bytes=10)["body"] == "is: "


def test_an_answer_that_is_no_http_does_not_tell_the_token(site: Site) -> None:
    site.answers["/"] = lambda request: request.write(f"{TOKEN} garbage\r\n\r\n".encode())
    assert failure(executor(site.url))["code"] == "network"


# --- Time, and again --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_what_may_pass_is_tried_again_after_the_pause_that_the_server_asks_for(
    site: Site, status: int
) -> None:
    site.answers["/"] = failing(2, answer(status, Retry_After="0"))
    assert fetch(executor(site.url, retries=2))["body"] == "at last"
    assert len(site.seen) == 3


def test_a_connection_that_breaks_off_is_tried_again(site: Site) -> None:
    site.answers["/"] = failing(1, lambda request: request.connection.close())
    assert fetch(executor(site.url, retries=1), method="PUT", body="x")["body"] == "at last"
    assert [seen.body for seen in site.seen] == [b"x", b"x"]


def test_the_last_answer_is_the_answer(site: Site) -> None:
    site.answers["/"] = answer(503, body="down", Retry_After="0")
    answered = fetch(executor(site.url, retries=2))
    assert (answered["status_code"], answered["body"], len(site.seen)) == (503, "down", 3)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_what_may_not_be_done_twice_is_sent_once(site: Site, method: str) -> None:
    site.answers["/"] = answer(503, Retry_After="0")
    assert fetch(executor(site.url, retries=3), method=method)["status_code"] == 503
    assert len(site.seen) == 1


LATE = formatdate(time.time() + 3600, usegmt=True)


@pytest.mark.parametrize("pause", ["3600", LATE, "9" * 5000], ids=["seconds", "date", "digits"])
def test_a_pause_that_is_too_long_is_not_waited_for(site: Site, pause: str) -> None:
    site.answers["/"] = answer(429, Retry_After=pause)
    answered = fetch(executor(site.url, retries=3))
    assert (answered["status_code"], len(site.seen)) == (429, 1)
    assert answered["headers"]["retry-after"] == pause


def test_a_date_in_the_past_means_at_once(site: Site) -> None:
    site.answers["/"] = failing(1, answer(429, Retry_After=formatdate(time.time() - 60, usegmt=True)))
    assert fetch(executor(site.url, retries=1))["body"] == "at last"


@pytest.mark.parametrize("pause", ["soon", "nan", "Mon, 01 Jan 2026 00:00:00 +99999999999999"])
def test_a_pause_that_cannot_be_read_is_ours_to_choose(site: Site, pause: str) -> None:
    site.answers["/"] = failing(1, answer(503, Retry_After=pause))
    assert fetch(executor(site.url, retries=1))["body"] == "at last"


def test_what_is_forbidden_is_not_tried_again(site: Site, other: Site) -> None:
    site.answers["/"] = redirect(302, other.url)
    assert failure(executor(site.url, retries=3))["code"] == "forbidden"
    assert (len(site.seen), other.seen) == (1, [])


def test_a_client_error_is_not_tried_again(site: Site) -> None:
    site.answers["/"] = answer(404)
    assert fetch(executor(site.url, retries=3))["status_code"] == 404
    assert len(site.seen) == 1


def test_a_late_server_is_given_up_after_the_timeout(site: Site) -> None:
    site.answers["/"] = lambda request: time.sleep(2)
    begun = time.perf_counter()
    error = failure(executor(site.url, timeout=0.2))
    assert (error["code"], time.perf_counter() - begun < 1.9) == ("timeout", True)
    assert "timeout_ms" not in error["hint"]


def test_a_server_that_is_down_is_told(other: Site) -> None:
    other.close()
    error = failure(executor(other.url))
    assert (error["code"], error["retryable"]) == ("network", True)
    assert "could not connect to 127.0.0.1" in error["message"]


def test_a_private_host_is_reached_because_the_author_names_it_and_no_proxy_is_asked(
    site: Site, other: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", other.url)
    assert fetch(executor(f"http://localhost:{site.port}"))["body"] == "hello"
    assert other.seen == []


# --- Declarations -----------------------------------------------------------------------------------------


def refusal(*executors: HttpExecutor, **scope: Any) -> SpecError:
    with pytest.raises(SpecError) as caught:
        http_tools(workflow(*executors), scope, Redactor([TOKEN]))
    return caught.value


@pytest.mark.parametrize(
    ("base_url", "reason"),
    [
        ("https://", "has no http or https host"),
        ("ftp://host.example", "has no http or https host"),
        ("https://user:pw@host.example", "has a user or a password in it"),
        ("https://host.example/#x", "has a fragment"),
        ("https://host.example:0/", "has a port"),
        ("https://[::1", "is not a URL"),
    ],
)
def test_a_base_url_that_cannot_be_used_is_told_with_its_place(base_url: str, reason: str) -> None:
    error = refusal(HttpExecutor(id="api", base_url=base_url))
    [issue] = error.issues
    assert reason in issue.reason
    assert (issue.pointer, issue.line) == ("/tools/http_executors/0/base_url", 7)
    assert "pw" not in error.message


def test_all_bad_headers_are_told_at_once_and_no_value_of_them() -> None:
    headers = {
        "X-Line": "a\n{{ secrets.TOKEN }}",
        "Host": "evil.example",
        "Bad Name/": "x",
        "X-Missing": "{{ secrets.NONE }}",
        "X-Number": "{{ 1 / 0 }}",
    }
    error = refusal(
        HttpExecutor(id="api", base_url="https://api.example", headers=headers), secrets={"TOKEN": TOKEN}
    )
    assert [issue.pointer.rpartition("/headers/")[2] for issue in error.issues] == [
        "X-Line",
        "Host",
        "Bad Name~1",
        "X-Missing",
        "X-Number",
    ]
    assert all(issue.remediation for issue in error.issues)
    assert TOKEN not in repr(error.issues)


def test_headers_see_inputs_too(site: Site) -> None:
    declared = HttpExecutor(id="api", base_url=site.url, headers={"X-Team": "{{ team }}/{{ inputs.team }}"})
    [tool] = http_tools(workflow(declared), {"team": "a", "inputs": {"team": "a"}, "secrets": {}})
    fetch(tool)
    assert site.seen[0].headers["x-team"] == "a/a"
