"""Where an executor's requests go: to its own origin, below the path of its base URL, and nowhere else.

A path is judged as every server that might get it could read it: as it stands, and percent-decoded once or
several times, with the letters that some take for dots and slashes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from unicodedata import category, normalize
from urllib.parse import parse_qsl, quote, unquote, urlencode

import httpx
import msgspec

from strands_cli.documents.problems import Refusal
from strands_cli.errors import ToolFailed
from strands_cli.http_tools.transport import request_failed

DEFAULT_PORTS = {"http": 80, "https": 443}

_WHOLE_URL = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:\s*[/\\]")
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UPWARDS = re.compile(r"[\s.]*\.[\s.]*\.[\s.]*")
_ENDS_NAME = re.compile(r"[;?#]")
"""Where some server, having decoded a path once more, takes the name of a directory to end."""
_LOOK_ALIKE = {
    **dict.fromkeys(map(ord, "∕⁄⧸╱⟋〳᜵⫽⫻"), "/"),
    **dict.fromkeys(map(ord, "∖⧵⧹⟍╲〵"), "\\"),
    **dict.fromkeys(map(ord, "。·・∙⋅•۔ꓸ⸱⸳᛫"), "."),
}
"""What NFKC leaves alone, and some server or file system makes a slash or a dot of."""
_IN_PATHS = "/:@!$&'()*+,;=~-._%"
_MAX_ENCODINGS = 10


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A base URL, taken apart. `path` ends without a slash."""

    scheme: str
    host: str
    port: int
    path: str
    query: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        """The base URL without its query."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    def check(self, url: httpx.URL) -> None:
        """ToolFailed where a URL, such as that of a redirect, is not below the base URL."""
        scheme, host, port = _url_origin(url)
        path = url.raw_path.partition(b"?")[0].decode("ascii")
        if (scheme, host, port) != (self.scheme, self.host, self.port):
            where = f"another origin, {scheme}://{host}:{port}"
        elif not f"{path}/".startswith(f"{self.path}/") or _path_problem(path.removeprefix(self.path)):
            where = f"{path}, which is not below {self.shown}"
        else:
            return
        raise request_failed(
            f"the server redirects to {where}; this tool may not go there",
            code="forbidden",
            hint="Request another path. The workflow's author can fix base_url.",
        )

    def url(self, path: str, query: Mapping[str, Any]) -> httpx.URL:
        """The URL of a path and a query as a model gives them; ToolFailed where it would lead elsewhere."""
        path, _, more = path.partition("?")
        if problem := _path_problem(path):
            raise problem
        below = quote(path.removeprefix("/"), safe=_IN_PATHS)
        pairs = [*self.query, *parse_qsl(more, keep_blank_values=True), *_query_pairs(query)]
        text = f"{self.shown}/{below}" if path else self.shown
        url = httpx.URL(f"{text}?{urlencode(pairs)}" if pairs else text)
        self.check(url)
        return url


_FORM = "Write it as https://host.example/path."


def parse_target(base_url: str) -> Target:
    """The base URL, taken apart; Refusal where it cannot be one."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise Refusal(f"is not a URL: {str(error).rstrip('.')}", _FORM) from None
    if url.scheme not in DEFAULT_PORTS or not url.raw_host:
        raise Refusal("has no http or https host", _FORM)
    if url.userinfo:
        remedy = "Put them into an Authorization header, from a secret."
        raise Refusal("has a user or a password in it, which would be shown", remedy)
    if url.fragment:
        raise Refusal("has a fragment, which is never sent", "Remove the '#' and everything after it.")
    scheme, host, port = _url_origin(url)
    if not 0 < port < 65536:
        raise Refusal("has a port that is not between 1 and 65535", "Fix it, or leave it out.")
    path = url.raw_path.partition(b"?")[0].decode("ascii").rstrip("/")
    query = tuple(parse_qsl(url.query.decode("ascii"), keep_blank_values=True))
    return Target(scheme=scheme, host=host, port=port, path=path, query=query)


def _url_origin(url: httpx.URL) -> tuple[str, str, int]:
    port = DEFAULT_PORTS.get(url.scheme, 0) if url.port is None else url.port
    return url.scheme, url.raw_host.decode("ascii"), port


def _query_pairs(query: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in query.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                yield name, str(item).lower() if isinstance(item, bool) else str(item)


def _path_problem(path: str) -> ToolFailed | None:
    """Why a path is not one below the base URL."""
    if _NO_ESCAPE.search(path):
        return _invalid_path("it has a % that is not an escape", "Write a % itself as %25.")
    if "#" in path:
        return _invalid_path("it has a '#'", "Write it as %23 if it is part of a name.")
    try:
        readings = [_plain_letters(reading) for reading in _decoded_paths(path)]
    except UnicodeDecodeError:
        return _invalid_path("its escapes are not UTF-8", "Encode names as UTF-8.")
    if readings[-1] == "%":
        return _invalid_path("it is percent-encoded several times", "Encode names once.")
    if any(category(letter) in ("Cc", "Cs", "Zl", "Zp") for text in readings for letter in text):
        return _invalid_path("it contains control characters", "Leave them out.")
    reason = next((found for text in readings if (found := _outside_base_reason(text))), "")
    if not reason:
        return None
    return request_failed(
        f"the path leads out of what this tool may reach: {reason}",
        code="forbidden",
        hint="Give a path below the base URL, such as /items/7, without a host.",
    )


def _plain_letters(text: str) -> str:
    """A path as it would be with the nearest ASCII letters, and without marks that nobody sees."""
    letters = (letter for letter in normalize("NFKD", text) if category(letter) not in ("Cf", "Mn", "Me"))
    return normalize("NFKC", "".join(letters)).translate(_LOOK_ALIKE)


def _decoded_paths(path: str) -> Iterator[str]:
    """The path as it stands, and each time it is decoded once more; `%` at the end means too often."""
    for _ in range(_MAX_ENCODINGS):
        yield path
        decoded = unquote(path, errors="strict")
        if decoded == path:
            return
        path = decoded
    yield "%"


def _outside_base_reason(text: str) -> str:
    if _WHOLE_URL.match(text):
        return "it is a whole URL"
    if text.lstrip().startswith("//"):
        return "it begins with '//', and so with a host"
    if "\\" in text:
        return "it has a backslash"
    if any(_UPWARDS.fullmatch(name) for part in text.split("/") for name in _ENDS_NAME.split(part)):
        return "it has '..' in it"
    return ""


def _invalid_path(reason: str, hint: str) -> ToolFailed:
    return request_failed(f"the path cannot be used: {reason}", code="input_invalid", hint=hint)
