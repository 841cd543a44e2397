"""Fetch a web page as readable text; only public addresses, unless a setting says otherwise."""

import json
import re
from math import ceil
from typing import Any

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.context import ToolContext, settings_of
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs

TOOL_SPEC = {
    "name": "web_fetch",
    "description": (
        "Fetch a web page and return its title and its main content as Markdown, without scripts, navigation "
        "and forms. Redirects are followed; url is where the page came from. A long page is cut and marked "
        "truncated. Only public addresses can be reached. For data and APIs use http_request."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "url": {"type": "string", "format": "uri", "description": "The page, http or https"},
                "timeout": {
                    "type": "number",
                    "minimum": 1,
                    "maximum": 60,
                    "description": "Limit in seconds for the request, and again for reading the page",
                    "default": 10,
                },
                "headers": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "HTTP headers to send",
                },
                "mode": {
                    "type": "string",
                    "enum": ["markdown", "html"],
                    "description": "Whether to return Markdown or clean HTML",
                    "default": "markdown",
                },
                "include_raw_html": {
                    "type": "boolean",
                    "description": "Whether to return the page as it was sent, too",
                    "default": False,
                },
            },
            "required": ["url"],
        }
    },
    "outputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "Where the page came from, after redirects"},
                "status_code": {"type": "integer"},
                "content_type": {"type": "string"},
                "title": {"type": "string"},
                "content": {"type": "string"},
                "truncated": {"const": True, "description": "Whether the page was cut"},
                "raw_html": {"type": "string", "description": "The page as it was sent"},
            },
            "required": ["url", "status_code", "content_type", "title", "content"],
        }
    },
}

_RETRIES = 1
_LATE = "Raise timeout (at most 60), or try another page."
_HTML = re.compile(rb"\s*(<!doctype html|<html|<head|<body|<!--)", re.IGNORECASE)


# The platform's limit lies above those of the request and the conversion, which tell more.
@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    category="http",
    timeout=125.0,
    requires={"markdownify": ">=1.1", "beautifulsoup4": ">=4.13", "lxml": ">=5"},
    annotations={"readOnlyHint": True, "openWorldHint": True},
)
async def web_fetch(
    url: str,
    *,
    context: ToolContext,
    timeout: float = 10,
    headers: dict[str, str] | None = None,
    mode: str = "markdown",
    include_raw_html: bool = False,
) -> dict[str, Any]:
    from strands_cli.http_tools.exchange import send_to_url

    answer = await send_to_url(
        url,
        settings_of(context).http,
        headers={"Accept": "text/html, application/xhtml+xml, text/*;q=0.8, */*;q=0.1"} | (headers or {}),
        seconds=timeout,
        retries=_RETRIES,
        late=_LATE,
        with_bytes=True,
    )
    kind = answer["headers"].get("content-type", "").partition(";")[0].strip().lower()
    page = {"title": "", "content": answer["body"]}
    where = {"url": answer.get("url", url), "status_code": answer["status_code"], "content_type": kind}
    cut = bool(answer.get("truncated"))
    if "html" in kind or (kind in ("", "text/plain") and _HTML.match(answer["bytes"])):
        page, is_long = await _readable_page(answer, where["url"], mode, timeout)
        cut |= is_long
    elif answer["bytes"] and not answer["body"]:
        raise ToolFailed(
            f"{where['url']} is not a page: it is {kind or 'binary data'}, {len(answer['bytes']):,} bytes",
            hint="http_request returns what is not text as body_base64.",
        )
    raw = {"raw_html": answer["body"]} if include_raw_html else {}
    return where | page | ({"truncated": True} if cut else {}) | raw


async def _readable_page(
    answer: dict[str, Any], url: str, mode: str, seconds: float
) -> tuple[dict[str, Any], bool]:
    """The title and the content, and whether a part of the page is missing."""
    import asyncio
    import sys
    from subprocess import PIPE

    from strands_cli.http_tools import page_text
    from strands_cli.secrets import environment_of_helpers

    page = answer["bytes"]
    request = {"mode": mode, "url": url, "charset": answer["charset"], "seconds": ceil(seconds)}
    sent = json.dumps(request).encode() + b"\n" + page[: page_text.MAX_BYTES]
    program = (sys.executable, "-P", page_text.__file__)
    process = await asyncio.create_subprocess_exec(
        *program, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment_of_helpers()
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(sent), seconds)
    except TimeoutError:
        output, errors = b"", b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not output:
        last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        reason = f" ({last})" if last else ""
        raise ToolFailed(
            f"{url} could not be made readable within {seconds:g} s{reason}",
            hint="Raise timeout (at most 60), or use http_request, which returns the page as it is.",
        )
    found = json.loads(output)
    return found, found.pop("is_cut") or len(page) > page_text.MAX_BYTES


__getattr__ = with_tool_specs(__name__)
