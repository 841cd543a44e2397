"""`web_fetch` against real servers on loopback: pages as people write them, and as nobody should."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strands_cli.settings import Settings
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.results import error_of
from strands_cli.tools.web_fetch import web_fetch
from strands_cli.types.settings_file import HttpSettings
from tests.sites import Site, answer, serving

PAGE = b"""<!doctype html><html><head><title> The
 Page </title><style>p {color: red}</style></head><body>
<nav><a href=/>Home</a></nav><script>evil()</script>
<main><h1 onclick="evil()">News</h1><p>A <b>bold</b> <a href="more.html#x">link</a>,
<a href="javascript:evil()">no link</a>.</p><!-- hidden --><ul><li>one<li>two</ul>
<img src="data:image/png;base64,AAAA" alt="dot"><form><input name=q>Search</form></main>
<footer>Imprint</footer></body></html>"""
MARKDOWN = """# News

A **bold** [link]({}/more.html#x),
no link.

- one
- two"""


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as running:
        yield running


def fetch(
    url: str, *, allow: tuple[str, ...] = ("127.0.0.1",), max_bytes: int = 5_000_000, **given: Any
) -> Any:
    here = Path.cwd()
    http = HttpSettings(allow=allow, max_bytes=max_bytes)
    context = CallContext(settings=Settings(project=here, workspace=(here,), http=http), max_output=0)
    result = asyncio.run(call_tool(web_fetch, {"toolUseId": "1", "input": {"url": url, **given}}, context))
    error = error_of(result)
    return error or result["content"][0]["json"]


def serve(site: Site, page: bytes, kind: str = "text/html") -> str:
    site.answers["/page"] = answer(body=page, content_type=kind)
    return f"{site.url}/page"


def test_a_page_becomes_markdown_without_what_surrounds_it(site: Site) -> None:
    found = fetch(serve(site, PAGE))
    assert found["content"].startswith(MARKDOWN.format(site.url))
    assert found["title"] == "The Page"
    assert (found["status_code"], found["content_type"]) == (200, "text/html")
    assert found["url"] == f"{site.url}/page"
    for gone in ("evil", "Home", "Imprint", "Search", "hidden", "base64"):
        assert gone not in found["content"]


def test_clean_html_and_the_page_as_it_was_are_to_be_had_too(site: Site) -> None:
    found = fetch(serve(site, PAGE), mode="html", include_raw_html=True)
    assert found["content"].startswith("<main><h1>News</h1>")
    assert f'<a href="{site.url}/more.html#x">link</a>' in found["content"]
    assert "evil" not in found["content"]
    assert found["raw_html"].encode() == PAGE


@pytest.mark.parametrize(
    ("page", "content"),
    [
        (b"<article>One.</article><p>Other.", "One."),
        (b"<article>One.</article><article>Two.</article>", "One.\n\nTwo."),
        (b"<body><form><p>All of it is a form.</p></form>", "All of it is a form."),
        (b"<main></main><p>Beside.", "Beside."),
        (b"", ""),
        (b"<p>unclosed <b>and <i>mixed</b> up", "unclosed **and *mixed* up**"),
    ],
)
def test_the_main_part_is_what_has_text(site: Site, page: bytes, content: str) -> None:
    assert fetch(serve(site, page))["content"].replace("*", "") == content.replace("*", "")


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("<p>caf\u00e9".encode("latin-1"), "text/html; charset=latin-1"),
        ('<meta charset="latin-1"><p>caf\u00e9'.encode("latin-1"), "text/html"),
        ("<p>caf\u00e9".encode(), "text/html; charset=nonsense"),
        ("<html><p>caf\u00e9".encode(), ""),
    ],
)
def test_the_encoding_is_the_one_that_header_or_page_declare(site: Site, page: bytes, kind: str) -> None:
    assert fetch(serve(site, page, kind))["content"] == "caf\u00e9"


def test_bytes_that_fit_no_encoding_are_shown_as_far_as_they_do(site: Site) -> None:
    assert "good" in fetch(serve(site, b"<p>good \xff\xfe\x80 bytes", "text/html; charset=utf-8"))["content"]


def test_what_is_not_html_is_returned_as_text_or_refused(site: Site) -> None:
    assert fetch(serve(site, b'{"a": "<b>"}', "application/json"))["content"] == '{"a": "<b>"}'
    image = fetch(serve(site, b"\x89PNG\0\0", "image/png"))
    assert image["message"].endswith("/page is not a page: it is image/png, 6 bytes")
    assert "body_base64" in image["hint"]


def test_a_page_of_a_hundred_thousand_nested_tags_is_read(site: Site) -> None:
    assert "deep" in fetch(serve(site, b"<ul><li>" * 50_000 + b"deep"), timeout=60)["content"]


def test_a_huge_page_is_cut_and_says_so(site: Site) -> None:
    found = fetch(serve(site, b"<p>start " + b"x" * 10_000_000), max_bytes=20_000_000)
    assert found["truncated"] is True
    assert (found["content"][:6], len(found["content"])) == ("start ", 2_000_000 - 3)
    assert fetch(serve(site, b"<p>start " + b"x" * 1000), max_bytes=100)["truncated"] is True


def test_short_links_of_a_page_with_a_long_address_are_cut(site: Site) -> None:
    path = f"/{'a' * 30_000}/"
    site.answers[path] = answer(body=b"<a href=b>c</a>" * 200, content_type="text/html")
    found = fetch(site.url + path)
    assert found["truncated"] is True
    assert len(found["content"]) == 2_000_000


def test_what_reads_a_page_knows_no_secrets(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        f"import os\nopen({str(tmp_path / 'seen')!r}, 'w').write(' '.join(os.environ))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SOME_API_KEY", "sk-1")
    assert fetch(serve(site, PAGE))["title"] == "The Page"
    seen = (tmp_path / "seen").read_text().split()
    assert "PATH" in seen
    assert "SOME_API_KEY" not in seen


def test_a_page_that_takes_too_long_to_read_is_an_error(site: Site) -> None:
    started = time.monotonic()
    error = fetch(serve(site, b"<b>x</b>" * 250_000), timeout=1)
    assert "could not be made readable within 1 s" in error["message"]
    assert time.monotonic() - started < 10
    assert fetch(serve(site, b"<!--" * 250_000))["content"] == ""


def test_redirects_are_followed_and_private_addresses_refused(site: Site) -> None:
    serve(site, b"<p>Here.")
    site.answers["/old"] = answer(status=302, location=f"{site.url}/page")
    found = fetch(f"{site.url}/old")
    assert (found["content"], found["url"]) == ("Here.", f"{site.url}/page")
    assert fetch(f"{site.url}/page", allow=())["code"] == "forbidden"
    assert fetch("ftp://example.com/")["code"] == "forbidden"


def test_headers_are_sent_and_a_late_server_is_not_waited_for(site: Site) -> None:
    fetch(serve(site, b"<p>x"), headers={"Accept-Language": "de"})
    assert site.seen[-1].headers["accept-language"] == "de"
    assert site.seen[-1].headers["accept"].startswith("text/html")
    site.answers["/slow"] = lambda request: time.sleep(3)
    assert fetch(f"{site.url}/slow", timeout=1)["code"] == "timeout"
