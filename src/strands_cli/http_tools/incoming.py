"""From a response to the tool's result: never more than the limit in memory, packed bodies included."""

import codecs
import re
import zlib
from base64 import b64encode
from typing import Any

import httpx  # noqa: TID253 - only the bodies of tools import this module

from strands_cli.http_tools.failures import request_failed

_GZIP_MAGIC = b"\x1f\x8b"
_TEXTUAL = re.compile(r"text/|\S*\b(json|xml|javascript|yaml|csv|graphql|x-www-form-urlencoded)\b", re.I)

# Codecs of Python that are no character sets of the web: slow on long input, or yielding half characters.
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7"})


class Gunzip:
    """Unpacks a stream of gzip members, never yielding more than there is room for."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(31)
        self._begun = False

    def unpack(self, data: bytes, room: int) -> bytes:
        self._begun = True
        out = self._member.decompress(data, room)
        while self._member.unused_data.startswith(_GZIP_MAGIC) and len(out) < room:
            rest = self._member.unused_data
            self._member = zlib.decompressobj(31)
            out += self._member.decompress(rest, room - len(out))
        return out

    @property
    def is_over(self) -> bool:
        """Whether what follows the last member is no further one; it would pile up unseen."""
        return len(self._member.unused_data) >= len(_GZIP_MAGIC)

    @property
    def is_cut_short(self) -> bool:
        return self._begun and not self._member.eof


async def read_result(response: httpx.Response, limit: int) -> dict[str, Any]:
    """`status_code`, `headers`, `body`; `body_base64` where it is not text, `truncated` where it was cut."""
    try:
        data = await _read(response, limit + 1)
    except zlib.error:
        raise request_failed(
            "the body is not the gzip data that its headers announce",
            hint="This is a fault of the server; another address may give the same content.",
        ) from None
    cut = len(data) > limit
    text = as_text(data[:limit], response.headers.get("content-type", ""), response.charset_encoding, cut)
    result: dict[str, Any] = {
        "status_code": response.status_code,
        "headers": dict(response.headers),
        "body": text or "",
    }
    if text is None:
        result["body_base64"] = b64encode(data[:limit]).decode()
    return result | ({"truncated": True} if cut else {})


async def _read(response: httpx.Response, most: int) -> bytes:
    """The unpacked body, up to so many bytes.

    httpx would unpack whole chunks, and an encoding within an encoding multiplies by a thousand each time. So
    only gzip is asked for and unpacked, once; other encodings stay as they are and end up in `body_base64`.
    """
    packed = response.headers.get("content-encoding", "").strip().lower() in ("gzip", "x-gzip")
    gunzip = Gunzip() if packed else None
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += gunzip.unpack(chunk, most - len(data)) if gunzip else chunk[: most - len(data)]
        if len(data) >= most or (gunzip and gunzip.is_over):
            return bytes(data)
    if gunzip and gunzip.is_cut_short:
        raise request_failed("the packed body broke off", code="network", hint="Try again.")
    return bytes(data)


def as_text(data: bytes, content_type: str, charset: str | None, cut: bool) -> str | None:
    """The text that the bytes are, or None. A declared text is shown with � for what does not fit."""
    errors = "replace" if _TEXTUAL.match(content_type) else "strict"
    try:
        if charset and codecs.lookup(charset).name not in _NO_CHARSETS:
            return data.decode(charset, errors)
    except (LookupError, ValueError):
        pass
    try:
        text = codecs.getincrementaldecoder("utf-8")(errors).decode(data, final=not cut)
    except UnicodeDecodeError:
        return None
    return None if errors == "strict" and "\0" in text else text
