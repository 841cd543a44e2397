"""OAuth: the tokens of servers elsewhere, and signing in with a browser.

The protocol is the official package's; here are where tokens are kept, and how the user gets to the page.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from strands_cli.documents.files import read_regular_file, write_file
from strands_cli.errors import ToolFailed
from strands_cli.mcp.server_process import expanded
from strands_cli.settings import data_directory, foreign_owner
from strands_cli.types.servers import DeclaredServer

OpenPage = Callable[[str], Awaitable[None]]
"""Shows the user a page on which to sign in."""

_MAX_BYTES = 1_000_000
_SIGN_IN_SECONDS = 300.0
_LONGEST_REQUEST = 16_000
_DONE = b"<!doctype html><title>strands</title><p>You are signed in. You can close this page."


class TokenFile:
    """The tokens of one server, in a file that only the user can read."""

    def __init__(self, declared: DeclaredServer) -> None:
        self._declared = declared
        key = sha256(os.fsencode(f"{declared.scope}\0{declared.name}\0{declared.server.url}")).hexdigest()
        self._file: Path = data_directory() / "mcp" / f"{key[:32]}.tokens.json"

    def _read(self) -> dict[str, Any]:
        try:
            if foreign_owner((self._file,), os.environ) is not None:
                return {}
            return msgspec.json.decode(read_regular_file(self._file, _MAX_BYTES), type=dict[str, Any])
        except (OSError, msgspec.DecodeError, msgspec.ValidationError):
            return {}

    def _write(self, key: str, value: Any) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(self._file, msgspec.json.encode({**self._read(), key: value}))

    async def get_tokens(self) -> OAuthToken | None:
        try:
            return OAuthToken.model_validate(self._read().get("tokens"))
        except ValidationError:
            return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._write("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        try:
            return OAuthClientInformationFull.model_validate(self._read().get("client"))
        except ValidationError:
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write("client", client_info.model_dump(mode="json", exclude_none=True))

    def get_metadata(self) -> OAuthMetadata | None:
        """Where the authorization server gives tokens, as it was found when the user signed in."""
        try:
            return OAuthMetadata.model_validate(self._read().get("server"))
        except ValidationError:
            return None

    def set_metadata(self, metadata: OAuthMetadata) -> None:
        self._write("server", metadata.model_dump(mode="json", exclude_none=True))


class SignWhenNeeded(httpx2.Auth):
    """Sends the token that there is; only who is refused gets to the package's way to sign in.

    That way holds a lock while it waits for an answer: with it around every request, one that is never
    answered would hold up all the others. It also does not know when a token of an earlier program ends, so
    a refused one is renewed first.
    """

    def __init__(self, provider: OAuthClientProvider, storage: TokenFile) -> None:
        self._provider, self._storage = provider, storage

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token, context = await self._storage.get_tokens(), self._provider.context
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token.access_token}"
        response = yield request
        if response.status_code not in (401, 403):
            return
        if token is not None and response.status_code == 401:
            context.token_expiry_time = time.time() - 1
            context.oauth_metadata = context.oauth_metadata or self._storage.get_metadata()
        flow = self._provider.async_auth_flow(request)
        outgoing = await anext(flow)
        known = response if outgoing is request else None
        try:
            while True:
                answer = known if known is not None else (yield outgoing)
                known = None
                outgoing = await flow.asend(answer)
        except StopAsyncIteration:
            if context.oauth_metadata is not None:
                self._storage.set_metadata(context.oauth_metadata)
        finally:
            await flow.aclose()


class SignIn:
    """One listener on this machine, to which the browser comes back with a code."""

    def __init__(self, declared: DeclaredServer, open_page: OpenPage | None) -> None:
        self._declared, self._open_page = declared, open_page
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None
        self._listener: asyncio.Server | None = None
        self.address = "http://127.0.0.1:1/callback"

    async def listen(self, known: OAuthClientInformationFull | None) -> None:
        """Only where a page can be opened: without one, nothing comes back.

        If possible at the address that was registered: many servers let a client come back to no other.
        """
        if self._open_page is None:
            return
        before = [one.port for one in (known.redirect_uris or ()) if one.port] if known else []
        for port in (*before, 0):
            try:
                self._listener = await asyncio.start_server(
                    self._receive, "127.0.0.1", port, limit=_LONGEST_REQUEST
                )
                break
            except OSError:
                continue
        assert self._listener is not None
        port = self._listener.sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/callback"

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()

    async def open(self, page: str) -> None:
        if self._open_page is None:
            name = self._declared.name
            raise ToolFailed(
                f"The MCP server {name} wants you to sign in",
                code="unavailable",
                hint=f"Sign in: strands mcp check {self._declared.argument}",
            )
        self._answer = asyncio.get_running_loop().create_future()
        await self._open_page(page)

    async def answer(self) -> AuthorizationCodeResult:
        assert self._answer is not None
        try:
            async with asyncio.timeout(_SIGN_IN_SECONDS):
                return await self._answer
        except TimeoutError:
            reason = f"Nobody signed in to the MCP server {self._declared.name} in time"
            raise ToolFailed(reason, code="timeout") from None

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                first = (await reader.readuntil(b"\r\n")).decode("latin-1").split(" ")
                await reader.readuntil(b"\r\n\r\n")
            target = urlsplit(first[1] if len(first) > 1 else "")
            given = {name: values[0] for name, values in parse_qs(target.query).items()}
            is_answer = target.path == "/callback" and self._answer is not None and not self._answer.done()
            status, body = ("200 OK", _DONE) if is_answer else ("404 Not Found", b"")
            if is_answer and self._answer is not None:
                self._settle(self._answer, given)
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not the browser that we wait for
        finally:
            writer.close()

    def _settle(self, answer: "asyncio.Future[AuthorizationCodeResult]", given: dict[str, str]) -> None:
        if "code" in given:
            result = AuthorizationCodeResult(
                code=given["code"], state=given.get("state"), iss=given.get("iss")
            )
            answer.set_result(result)
            return
        reason = given.get("error_description") or given.get("error") or "no code came back"
        message = f"Signing in to the MCP server {self._declared.name} failed: {reason}"
        answer.set_exception(ToolFailed(message, code="denied"))


def oauth_of(declared: DeclaredServer, sign_in: SignIn) -> SignWhenNeeded:
    """What signs requests to a server, and gets a token where the server wants one."""
    oauth = declared.server.oauth
    client_id, secret = (
        expanded(text, os.environ, name=declared.name) for text in (oauth.client_id, oauth.client_secret)
    )
    storage = TokenFile(declared)
    if oauth.grant == "client_credentials":
        return SignWhenNeeded(
            ClientCredentialsOAuthProvider(
                declared.server.url, storage, client_id, secret, scope=oauth.scope or None
            ),
            storage,
        )
    is_document = client_id.startswith("https://")
    if client_id and not is_document:
        storage = _Registered(declared, client_id, secret, sign_in.address)
    metadata = OAuthClientMetadata(
        client_name="strands-cli",
        redirect_uris=[AnyUrl(sign_in.address)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=oauth.scope or None,
    )
    provider = OAuthClientProvider(
        declared.server.url,
        metadata,
        storage,
        redirect_handler=sign_in.open,
        callback_handler=sign_in.answer,
        client_metadata_url=client_id if is_document else None,
    )
    return SignWhenNeeded(provider, storage)


class _Registered(TokenFile):
    """For a client that was registered by hand: its id is not asked for."""

    def __init__(self, declared: DeclaredServer, client_id: str, secret: str, address: str) -> None:
        super().__init__(declared)
        self._client = OAuthClientInformationFull(
            client_id=client_id,
            client_secret=secret or None,
            redirect_uris=[AnyUrl(address)],
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client
