"""A web page as readable text, made in a process of its own.

A page is a stranger's, and parsing one may take long and much memory. This file is run as a program, with
limits for both, and imports nothing of ours. Its input is a line of JSON and then the page, its output JSON.
"""

import json
import re
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

MAX_BYTES = 2_000_000
"""How much of a page is converted."""
_MAX_CHARACTERS = 2_000_000
"""How much of the result is returned: a short page may have many links, each relative to a long URL."""
_MAX_MEMORY = 1 << 30
_DEEPEST = 100
_NOT_CONTENT = [
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "canvas",
    "iframe",
    "object",
    "embed",
    "head",
]
_BOILERPLATE = ["nav", "footer", "form", "dialog", "menu", "button", "select"]
_KEPT_ATTRIBUTES = ("href", "src", "alt", "title", "colspan", "rowspan", "lang", "start")
_ADDRESSES = ("href", "src")
_FOLLOWABLE = re.compile(r"(https?|mailto|tel):", re.IGNORECASE)


def readable_page(page: bytes, mode: str, *, url: str, charset: str | None) -> dict[str, Any]:
    """The page's `title`, and its `content` as `markdown` or as clean `html`."""
    from bs4 import BeautifulSoup, UnicodeDammit

    text = UnicodeDammit(page, [charset] if charset else [], is_html=True).unicode_markup
    soup = BeautifulSoup(text or page.decode("utf-8", "replace"), "lxml")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for tag in soup(_NOT_CONTENT):
        tag.decompose()
    main = _main_part(soup)
    _flatten(main)
    if any(text.strip() and not text.find_parent(_BOILERPLATE) for text in main.find_all(string=True)):
        for tag in main(_BOILERPLATE):
            tag.decompose()
    _clean(main, url)
    if mode == "html":
        return {"title": title, "content": str(main).strip()}
    from markdownify import MarkdownConverter

    text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(main)
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return {"title": title, "content": re.sub(r"\n{3,}", "\n\n", lines).strip()}


def _main_part(soup: Any) -> Any:
    """What the page is about, as far as it says so: its main part, its only article, or else all of it."""
    articles = soup("article", limit=2)
    for part in (soup.find("main"), soup.find(role="main"), articles[0] if len(articles) == 1 else None):
        if part is not None and part.get_text(strip=True):
            return part
    return soup.body or soup


def _flatten(root: Any) -> None:
    """Makes plain text of what is nested too deeply: converters are recursive."""
    depth = {id(root): 0}
    for tag in root(True):
        above = depth.get(id(tag.parent), _DEEPEST)
        if above < _DEEPEST:
            depth[id(tag)] = above + 1
        if above == _DEEPEST - 1:
            tag.string = tag.get_text(" ", strip=True)


def _clean(root: Any, url: str) -> None:
    from bs4.element import PreformattedString  # comments and the like

    for text in root.find_all(string=lambda text: isinstance(text, PreformattedString)):
        text.extract()
    for tag in (root, *root(True)):
        kept = {name: str(tag.attrs[name]) for name in _KEPT_ATTRIBUTES if name in tag.attrs}
        for name in kept.keys() & set(_ADDRESSES):
            kept[name] = _absolute(url, kept[name])
        tag.attrs = {name: value for name, value in kept.items() if value}
        if tag.name == "img" and "src" not in tag.attrs:
            tag.decompose()


def _absolute(url: str, address: str) -> str:
    """The address as seen from the page; nothing for scripts and data."""
    with suppress(ValueError):
        joined = urljoin(url, address.strip())
        return joined if _FOLLOWABLE.match(joined) else ""
    return ""


def main() -> None:
    head, _, page = sys.stdin.buffer.read().partition(b"\n")
    request = json.loads(head)
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"]))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    sys.setrecursionlimit(20 * _DEEPEST)
    answer = readable_page(page, request["mode"], url=request["url"], charset=request["charset"])
    content = answer["content"]
    answer |= {"content": content[:_MAX_CHARACTERS], "is_cut": len(content) > _MAX_CHARACTERS}
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
