"""A collector: a real server that takes OTLP over HTTP, and can be slow or refuse."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Received:
    """A span as it came over the wire."""

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    service: str
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    status: int
    status_text: str
    start: int
    end: int


@dataclass
class Collector:
    url: str = ""
    status: int = 200
    answers: bool = True
    """Whether it answers at all before the test is over."""
    spans: list[Received] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> Received:
        (span,) = self.named(name)
        return span

    def parent_of(self, span: Received) -> str:
        return next((other.name for other in self.spans if other.id == span.parent), "")

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        self.bodies.append(body)
        if self.status == 200:
            self.spans += spans_in(body)


def spans_in(body: bytes) -> Iterator[Received]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _values(resource.resource.attributes)["service.name"]
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            yield Received(
                span.name, span.span_id, span.parent_span_id, span.trace_id, service,
                _values(span.attributes), [(event.name, _values(event.attributes)) for event in span.events],
                span.status.code, span.status.message, span.start_time_unix_nano, span.end_time_unix_nano,
            )  # fmt: skip


def _values(attributes: Any) -> dict[str, Any]:
    return {item.key: _value(item.value) for item in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def collecting(**options: Any) -> Iterator[Collector]:
    collector = Collector(**options)

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            if not collector.answers:
                collector.over.wait(60)
                return
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
