"""`tools.http_executors`: each is a tool that sends requests to one API, with the author's headers."""

import json
from base64 import b64decode
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import httpx
import msgspec

from strands_cli.documents.problems import JsonPath, Refusal, json_pointer
from strands_cli.errors import Issue, SpecError, ToolFailed
from strands_cli.http_tools.exchange import (
    DEFAULT_HEADERS,
    LONGEST_PAUSE_SECONDS,
    REPEATABLE,
    check_header,
    exchange,
    header_problem,
    send_with_retries,
)
from strands_cli.http_tools.targets import Target, parse_target
from strands_cli.http_tools.transport import (
    GuardedTransport,
    allowed_host,
    known_addresses,
    parse_allowed,
    request_failed,
)
from strands_cli.secrets import NOTHING_SECRET, Redactor, looks_secret
from strands_cli.templates import render
from strands_cli.toolkit.context import ToolContext, settings_of
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.info import ToolCategory
from strands_cli.types import BaseSpec
from strands_cli.types.sections import HttpExecutor

_SCALAR = {"type": ["string", "number", "boolean", "null"]}
INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "maxLength": 8000,
            "description": "The path below the base URL, such as /items/7; never a whole URL",
        },
        "method": {
            "type": "string",
            "enum": ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"],
            "description": "HTTP method",
            "default": "GET",
        },
        "query": {
            "type": "object",
            "additionalProperties": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]},
            "description": "Query parameters; a list is sent as one parameter for each item",
        },
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "More headers; credentials are added for you",
        },
        "body": {
            "type": ["object", "array", "string"],
            "description": "What to send: an object or a list goes as JSON, a string as it is",
        },
    },
    "required": ["path"],
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status_code": {"type": "integer"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "body": {"type": "string", "description": "The body as text; empty where it is not text"},
        "body_base64": {"type": "string", "description": "The body where it is not text"},
        "truncated": {"const": True, "description": "Whether the body was cut"},
        "url": {"type": "string", "description": "Where the answer came from, after redirects"},
    },
    "required": ["status_code", "headers", "body"],
}

# Credentials are the author's, and so is what makes a server or a proxy take a request for another one.
_NOT_FOR_MODELS = frozenset(
    {
        "authorization",
        "cookie",
        "forwarded",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-host",
        "x-original-url",
        "x-rewrite-url",
    }
)
_PREFIX_NOT_FOR_MODELS = ("proxy-", "x-forwarded-")
_LATE = "Ask for less at a time. The workflow's author can raise the executor's timeout."
_MARGIN_SECONDS = 5.0


def http_tools(spec: BaseSpec, scope: Mapping[str, Any], redactor: Redactor = NOTHING_SECRET) -> list[Tool]:
    """A tool for each HTTP executor of a workflow.

    `scope` is what headers may use: the inputs by their names, `inputs` and `secrets`. SpecError, with an
    issue for each problem, where a base URL or a header cannot be used.
    """
    tools: list[Tool] = []
    issues: list[Issue] = []
    for index, declared in enumerate(spec.tools.http_executors):
        at = ("tools", "http_executors", index)
        found = len(issues)
        try:
            target = parse_target(declared.base_url)
        except Refusal as error:
            place = json_pointer((*at, "base_url"))
            issues.append(spec.issue(place, f"The base_url {error.reason}.", error.remedy))
        headers = _render_headers(spec, (*at, "headers"), declared.headers, scope, issues)
        if len(issues) == found:
            own = redactor.also(_credentials_in(headers))
            tools.append(_executor_tool(spec, declared, target, headers, own))
    if issues:
        shown = [redactor.value(issue) for issue in issues]
        raise SpecError(f"{shown[0].place}: {shown[0].reason}", hint=shown[0].remediation, issues=shown)
    return tools


def _render_headers(
    spec: BaseSpec, at: JsonPath, headers: Mapping[str, str], scope: Mapping[str, Any], issues: list[Issue]
) -> dict[str, str]:
    rendered: dict[str, str] = {}
    for name, template in headers.items():
        place = json_pointer((*at, name))
        try:
            value = rendered[name] = render(template, scope, spec=spec, pointer=place).strip()
        except SpecError as error:
            issues += error.issues
            continue
        if problem := header_problem(name, value):
            issues.append(spec.issue(place, f"{problem[0][:1].upper()}{problem[0][1:]}.", problem[1]))
    return rendered


def _credentials_in(headers: Mapping[str, str]) -> Iterator[str]:
    """What a server may repeat of the headers that it was sent, in parts and decoded too."""
    for name, value in headers.items():
        if not looks_secret(name.replace("-", "_")):
            continue
        scheme, _, rest = value.partition(" ")
        yield from (value, rest)
        if scheme.lower() == "basic":
            with suppress(ValueError):
                pair = b64decode(rest, validate=True).decode()
                yield from (pair, pair.partition(":")[2])
        elif name.lower() == "cookie":
            yield from (part.partition("=")[2] for part in value.split(";"))


def _executor_tool(
    spec: BaseSpec, declared: HttpExecutor, target: Target, headers: dict[str, str], redactor: Redactor
) -> Tool:
    async def invoke(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        http = settings_of(context).http
        allowed = parse_allowed(http.allow)
        # A host that is plainly not public was asked for. One whose name turns out to lead into a private
        # network was not, unless a program made the workflow by itself.
        if known_addresses(target.host) or not spec.positions:
            allowed = (allowed_host(target.host, target.port), *allowed)

        def send() -> Awaitable[dict[str, Any]]:
            return exchange(
                request,
                GuardedTransport(allowed),
                target.check,
                seconds=declared.timeout,
                max_bytes=http.max_bytes,
                late=_LATE,
            )

        try:
            request = _executor_request(target, headers, arguments)
            result = await send_with_retries(send, declared.retries if request.method in REPEATABLE else 0)
        except ToolFailed as failed:
            message, hint = redactor.text(failed.message), redactor.text(failed.hint)
            # The cause may quote what was sent.
            raise ToolFailed(message, code=failed.code, hint=hint) from None
        if result.get("truncated"):  # perhaps within a secret, whose beginning would be left
            for name in result.keys() & {"body", "body_base64"}:
                result[name] = redactor.stream().feed(result[name])
        shown: dict[str, Any] = redactor.value(result)
        return shown

    about = f"Sends an HTTP request to {target.shown} and answers with its status_code, headers and body."
    pauses = declared.retries * LONGEST_PAUSE_SECONDS
    return Tool(
        id=declared.id,
        description=f"{declared.description.strip()} {about}".strip(),
        input_schema=INPUT_SCHEMA,
        output_schema=OUTPUT_SCHEMA,
        invoke=invoke,
        is_async=True,
        family="http_executors",
        category=ToolCategory.HTTP,
        origin=str(spec.file),
        annotations={"openWorldHint": True},
        aliases={"json_data": "body", "headers_override": "headers"},
        # Above what the attempts may take, so that it is the tool itself that tells of a late server.
        timeout=(declared.retries + 1) * declared.timeout + pauses + _MARGIN_SECONDS,
    )


def _executor_request(target: Target, own: dict[str, str], arguments: dict[str, Any]) -> httpx.Request:
    url = target.url(arguments["path"], arguments.get("query") or {})
    content, content_type = _request_content(arguments.get("body"))
    headers = httpx.Headers(DEFAULT_HEADERS)
    if content_type:
        headers["Content-Type"] = content_type
    authors = {name.lower().replace("_", "-") for name in own}
    for name, value in (arguments.get("headers") or {}).items():
        check_header(name, value)
        small = name.lower().replace("_", "-")  # many servers make no difference between the two
        if small in authors or small in _NOT_FOR_MODELS or small.startswith(_PREFIX_NOT_FOR_MODELS):
            raise request_failed(
                f"the header {name} is set by the workflow's author alone",
                code="forbidden",
                hint="Leave it out: what the API needs is sent anyway.",
            )
        headers[name] = value.strip()
    headers.update(own)
    return httpx.Request(arguments["method"], url, headers=headers, content=content)


def _request_content(body: Any) -> tuple[bytes | None, str]:
    """What is sent, and its type. A text that is a JSON object or list counts as one: models write such."""
    if body is None:
        return None, ""
    if not isinstance(body, str):
        return json.dumps(body).encode(), "application/json"
    data = body.encode("utf-8", "replace")
    try:
        is_json = isinstance(msgspec.json.decode(data), dict | list)
    except (msgspec.DecodeError, RecursionError):
        is_json = False
    return data, "application/json" if is_json else "text/plain; charset=utf-8"
