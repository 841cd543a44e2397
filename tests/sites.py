"""HTTP servers on loopback that remember what they saw, and answer as a test tells them."""

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Request:
    """What a server saw of one request."""

    def __init__(self, received: BaseHTTPRequestHandler) -> None:
        self.method = received.command
        self.path = received.path
        self.headers = {name.lower(): value for name, value in received.headers.items()}
        self.body = received.rfile.read(int(self.headers.get("content-length", "0")))
        self.connection = received.connection
        self.write = received.wfile.write


Answer = Callable[[Request], object]


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that goes away is part of many tests."""


class Site:
    """A server on loopback. Paths that have no answer of their own get `hello`."""

    def __init__(self, certificate: Path | None = None) -> None:
        site = self
        self.seen: list[Request] = []
        self.answers: dict[str, Answer] = {}
        self.broken_off = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                self.close_connection = True
                if self.raw_requestline and self.parse_request():
                    site.handle(Request(self))

        self._server = Server(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def handle(self, request: Request) -> None:
        self.seen.append(request)
        try:
            self.answers.get(request.path, answer(body="hello"))(request)
        except OSError:
            self.broken_off.set()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def answer(status: int = 200, body: str | bytes = b"", length: int | None = None, **headers: str) -> Answer:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(data) if length is None else length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return lambda request: request.write(head if request.method == "HEAD" else head + data)


def endlessly(first: Answer, chunk: bytes, pause: float = 0.0) -> Answer:
    def write(request: Request) -> None:
        first(request)
        while True:
            request.write(chunk)
            time.sleep(pause)

    return write


def failing(times: int, first: Answer, then: Answer | None = None) -> Answer:
    """So many times the first answer, then the other, or `at last`."""
    left = [first] * times

    def reply(request: Request) -> object:
        return (left.pop() if left else then or answer(body="at last"))(request)

    return reply


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[Site]:
    site = Site(certificate)
    try:
        yield site
    finally:
        site.close()
