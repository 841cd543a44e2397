"""What all stand-ins share: the server, the script and the record of what was asked."""

import json
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from tests.fakes import Call, Pause


@dataclass(frozen=True)
class Status:
    """An answer that is no success, such as `Status(429, "slow down", {"Retry-After": "1"})`."""

    code: int
    text: str = "the stand-in says no"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """The connection breaks here; as the first part, before anything is answered."""


@dataclass(frozen=True)
class Hang:
    """Nothing more comes, and the connection stays open."""


@dataclass(frozen=True)
class Complaint:
    """An error in the middle of an answer that began well."""

    text: str = "the stand-in is overloaded"


Part = str | Call | Pause | Status | Cut | Hang | Complaint


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    """With names in lower case."""
    body: dict[str, Any]
    at: float
    """The monotonic time at which it came."""


class Standin:
    """A server that answers each request with the next turn of its script.

    `enqueue` tells it one turn: texts, tool calls, pauses, and at the end what goes wrong. A text comes word by
    word. A call whose input is a text sends that very text, for tool input that is no JSON.
    """

    path: ClassVar[re.Pattern[str]]
    """The paths that it answers."""
    content_type: ClassVar[str] = "text/event-stream"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.input_tokens, self.output_tokens = 5, 3
        """What each answer is said to cost."""
        self._turns: deque[list[Part]] = deque()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Answering)
        self._server.standin = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        """What a workflow gives as `host`."""
        return self.origin

    def enqueue(self, *parts: Part) -> Self:
        self._turns.append(list(parts))
        return self

    def next_turn(self) -> list[Part]:
        return (
            self._turns.popleft() if self._turns else [Status(500, "asked more often than the script says")]
        )

    def turn_for(self, request: Request) -> list[Part]:
        """What is answered to a request; by default the next turn, whatever is asked."""
        return self.next_turn()

    # --- what a protocol says -----------------------------------------------------------------------------

    def opening(self) -> Iterator[bytes]:
        yield from ()

    def words(self, text: str) -> Iterator[bytes]:
        raise NotImplementedError

    def call(self, call: Call, number: int) -> Iterator[bytes]:
        raise NotImplementedError

    def closing(self, is_asking: bool) -> Iterator[bytes]:
        raise NotImplementedError

    def complaint(self, text: str) -> bytes:
        raise NotImplementedError

    def refusal(self, status: Status) -> tuple[dict[str, str], dict[str, Any]]:
        """The headers and the body of an answer that is no success."""
        raise NotImplementedError


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    standin: Standin

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is no news."""


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        standin = self.server.standin
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(body), time.monotonic())
        standin.requests.append(request)
        if not standin.path.fullmatch(self.path):
            self._refuse(Status(404, f"there is nothing at {self.path}"))
            return
        try:
            self._answer(standin.turn_for(request))
        except ConnectionError:
            self.close_connection = True  # the client has had enough

    def _answer(self, parts: list[Part]) -> None:
        first = parts[0] if parts else ""
        if isinstance(first, Status):
            self._refuse(first)
            return
        if isinstance(first, Cut | Hang):
            self._break_off(first)
            return
        self.send_response(200)
        self.send_header("Content-Type", self.server.standin.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._stream(parts)

    def _stream(self, parts: list[Part]) -> None:
        standin, calls = self.server.standin, 0
        self._send(standin.opening())
        for part in parts:
            if isinstance(part, Cut | Hang):
                self._break_off(part)
                return
            if isinstance(part, Pause):
                standin._closing.wait(part.seconds)
            elif isinstance(part, Complaint):
                self._send(iter([standin.complaint(part.text)]))
                self.wfile.write(b"0\r\n\r\n")
                return
            elif isinstance(part, Call):
                self._send(standin.call(part, calls))
                calls += 1
            elif isinstance(part, str):
                self._send(standin.words(part))
        self._send(standin.closing(is_asking=calls > 0))
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, frames: Iterator[bytes]) -> None:
        for frame in frames:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))

    def _break_off(self, how: Cut | Hang) -> None:
        if isinstance(how, Hang):
            self.server.standin._closing.wait(60)
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _refuse(self, status: Status) -> None:
        headers, document = self.server.standin.refusal(status)
        content = json.dumps(document).encode()
        self.send_response(status.code)
        for name, value in {"Content-Type": "application/json", **headers, **status.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def pieces(text: str) -> list[str]:
    """A text as it streams: word by word."""
    return re.findall(r"\S+\s*|\s+", text)


def spread(call: Call) -> tuple[str, list[str]]:
    """The input of a call, and the deltas in which it comes."""
    text = call.input if isinstance(call.input, str) else json.dumps(call.input)
    size = max(1, -(-len(text) // call.pieces))
    return text, [text[start : start + size] for start in range(0, len(text), size)]


def event(document: Any, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(document)}\n\n".encode()
