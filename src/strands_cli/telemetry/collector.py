"""Spans to a collector: OTLP over HTTP. One that is down or slow costs a bounded time and one warning."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from importlib.util import find_spec
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from strands_cli.errors import UnsupportedError
from strands_cli.events import Listener
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.telemetry.recorders import TRACER, Spans, span_listener
from strands_cli.types.sections import Telemetry

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

Warn = Callable[[str], None]

_log = logging.getLogger("strands_cli.telemetry")

_PATH = "/v1/traces"
_REQUEST_SECONDS = 2.0
_LONGEST_CLOSE_SECONDS = 3.0
_MOST_WAITING = 16_384
_LARGEST_BATCH = 128
"""Spans. With inputs and outputs in each of them, still less than collectors take at once."""

# The exporter logs each attempt. What matters is reported once, when the run is over; without a handler of
# the program's own, the rest would be printed to stderr in the middle of the run.
_QUIET = logging.NullHandler()


def open_telemetry(
    telemetry: Telemetry,
    redactor: Redactor = NOTHING_SECRET,
    warn: Warn = _log.warning,
    environment: Mapping[str, str] = os.environ,
) -> "SpanExport":
    """Where the spans of one run go: to the workflow's collector, else to the provider that the program has
    set, else to the collector that the environment names, else nowhere.

    `warn` is called once, at the end, if spans were lost. UnsupportedError if the workflow names a collector
    and the package is missing.
    """
    url = _collector_url(telemetry, environment)
    if telemetry.otlp_endpoint is None:
        redact = telemetry.redact
        listener = span_listener(
            inputs=not redact.tool_inputs, outputs=not redact.tool_outputs, redactor=redactor
        )
        if listener is not None or url is None:
            return SpanExport(listener)
    for reason, remedy in missing_exporter(telemetry, environment):
        if telemetry.otlp_endpoint is not None:
            raise UnsupportedError(reason, hint=remedy)
        warn(f"{reason} {remedy}")  # the environment is for all programs, and does not stop this one
        return SpanExport(None)

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    logging.getLogger("opentelemetry").addHandler(_QUIET)
    service = telemetry.service_name
    if service == Telemetry().service_name:  # left open by the workflow
        service = environment.get("OTEL_SERVICE_NAME") or service
    # A provider of our own, never set as the global one: the agent engine makes spans through the global one,
    # and those may hold prompts and answers. Nor is it ended at exit, which would wait for the collector.
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(telemetry.sample_rate)),
        resource=Resource.create({"service.name": service}),
        shutdown_on_exit=False,
    )
    exporter = _Exporter(str(url), environment)
    provider.add_span_processor(
        BatchSpanProcessor(
            cast("SpanExporter", exporter),
            max_queue_size=_MOST_WAITING,
            max_export_batch_size=_LARGEST_BATCH,
        )
    )
    return SpanExport(
        Spans(provider.get_tracer(TRACER), telemetry.redact, redactor), provider, exporter, warn
    )


def missing_exporter(
    telemetry: Telemetry, environment: Mapping[str, str] = os.environ
) -> Iterator[tuple[str, str]]:
    """What is lacking here to send spans, with what helps; nothing if none are to be sent."""
    if _collector_url(telemetry, environment) is None:
        return
    try:
        is_installed = find_spec("opentelemetry.exporter.otlp.proto.http.trace_exporter") is not None
    except ModuleNotFoundError:  # a parent of it is missing
        is_installed = False
    if not is_installed:
        yield (
            "Spans for a collector need the package opentelemetry-exporter-otlp-proto-http, "
            "which is not installed.",
            "Install it: pip install 'strands-cli[otel]'",
        )


def _collector_url(telemetry: Telemetry, environment: Mapping[str, str]) -> str | None:
    """As OpenTelemetry defines it, the environment's variable for traces is a whole URL, the general one is
    not. The workflow's may be either."""
    if telemetry.otlp_endpoint is not None:
        return telemetry.otlp_endpoint.rstrip("/").removesuffix(_PATH) + _PATH
    if whole := environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        return whole
    base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return base.rstrip("/") + _PATH if base else None


class SpanExport:
    """Where spans go while it is open. Closing it blocks: for milliseconds, and three seconds at most."""

    def __init__(
        self,
        listener: Listener | None,
        provider: "TracerProvider | None" = None,
        exporter: "_Exporter | None" = None,
        warn: Warn | None = None,
    ) -> None:
        self.listener = listener
        """Makes spans of the run's events; None if spans go nowhere."""
        self._provider = provider
        self._exporter = exporter
        self._warn = warn

    def __enter__(self) -> "SpanExport":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Sends what is left. The provider's own limit is not kept by all of its versions, so it is ours."""
        provider, exporter, self._provider = self._provider, self._exporter, None
        if provider is None or exporter is None or self._warn is None:
            return
        flush = Thread(target=provider.shutdown, name="strands-telemetry", daemon=True)
        flush.start()
        try:
            flush.join(_LONGEST_CLOSE_SECONDS)
        finally:
            is_late = flush.is_alive()
            exporter.shutdown()
        if is_late or exporter.lost:
            self._warn(exporter.warning(is_late))


class _Exporter:
    """The exporter, with what became of its batches. It has what a processor asks of a SpanExporter, but
    not that base class, whose import is too heavy for a module that every run imports."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from requests import Session

        session = Session()
        session.hooks["response"].append(self._keep_refusal)
        is_timed = any(environment.get(f"OTEL_EXPORTER_OTLP_{name}TIMEOUT") for name in ("", "TRACES_"))
        self._exporter = OTLPSpanExporter(
            endpoint=url, session=session, timeout=None if is_timed else cast(Any, _REQUEST_SECONDS)
        )
        self._url = url
        self._refusal = ""
        self._is_shut = False
        self.lost = 0

    def _keep_refusal(self, response: Any, **_: Any) -> None:
        """Its own words for the status are not repeated: they may hold anything."""
        from http.client import responses

        if response.status_code >= HTTPStatus.BAD_REQUEST:
            self._refusal = f"{response.status_code} {responses.get(response.status_code, '')}".strip()

    def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
        from opentelemetry.sdk.trace.export import SpanExportResult

        self.lost += len(spans)  # until it is known better: some versions raise
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.lost -= len(spans)
        return result

    def shutdown(self) -> None:
        """Ends what is being tried again, too."""
        if not self._is_shut:
            self._is_shut = True
            cast(Any, self._exporter).shutdown()

    def warning(self, is_late: bool) -> str:
        if self._refusal:
            what = f"refused {self.lost} spans: {self._refusal}"
        elif is_late:
            what = f"did not take the last spans within {_LONGEST_CLOSE_SECONDS:g} seconds"
        else:
            what = f"cannot be reached, {self.lost} spans are lost"
        # Without what may be a password or a key. It may not even be a URL.
        scheme, separator, rest = self._url.partition("?")[0].partition("://")
        place, slash, path = rest.partition("/")
        shown = f"{scheme}{separator}{place.rpartition('@')[2]}{slash}{path}"
        return f"The collector at {shown} {what}. The run itself is not affected."
