"""Spans to a collector: OTLP over HTTP. One that is down or slow costs a bounded time and one warning.

Imported only where there is a collector and the package for it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.client import responses
from threading import Thread
from typing import Any, cast

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from requests import Session

from strands_cli.secrets import Redactor, without_credentials
from strands_cli.telemetry.recorders import TRACER, Spans
from strands_cli.types.sections import Telemetry

_REQUEST_SECONDS = 2.0
_LONGEST_CLOSE_SECONDS = 3.0
_MAX_WAITING = 16_384
_MAX_BATCH = 128
"""Spans. With inputs and outputs in each of them, still less than collectors take at once."""

# The exporter logs each attempt. What matters is reported once, when the run is over; without a handler of
# the program's own, the rest would be printed to stderr in the middle of the run.
_QUIET = logging.NullHandler()


def connect_collector(
    url: str,
    telemetry: Telemetry,
    redactor: Redactor,
    warn: Callable[[str], None],
    environment: Mapping[str, str],
) -> tuple[Spans, Callable[[], None]]:
    """The listener that sends spans to a collector, and what ends that."""
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
    is_timed = any(environment.get(f"OTEL_EXPORTER_OTLP_{name}TIMEOUT") for name in ("", "TRACES_"))
    exporter = _WatchedExporter(url, None if is_timed else _REQUEST_SECONDS)
    provider.add_span_processor(
        BatchSpanProcessor(exporter, max_queue_size=_MAX_WAITING, max_export_batch_size=_MAX_BATCH)
    )

    def close() -> None:
        """Sends the remaining spans, within our own limit: some versions of the provider ignore theirs."""
        if exporter.is_shut:
            return
        flush = Thread(target=provider.shutdown, name="strands-telemetry", daemon=True)
        flush.start()
        try:
            flush.join(_LONGEST_CLOSE_SECONDS)
        finally:
            is_late = flush.is_alive()
            exporter.shutdown()
        if is_late or exporter.lost:
            warn(exporter.warning(is_late))

    return Spans(provider.get_tracer(TRACER), telemetry.redact, redactor), close


class _WatchedExporter(OTLPSpanExporter):
    """The exporter, with what became of its batches."""

    def __init__(self, url: str, request_seconds: float | None) -> None:
        session = Session()
        session.hooks["response"].append(self._keep_refusal)
        super().__init__(endpoint=url, session=session, timeout=cast(Any, request_seconds))
        self._place = url
        self._refusal = ""
        self.is_shut = False
        self.lost = 0

    def _keep_refusal(self, response: Any, **_: Any) -> None:
        """Its own words for the status are not repeated: they may hold anything."""
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            self._refusal = f"{response.status_code} {responses.get(response.status_code, '')}".strip()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.lost += len(spans)  # until it is known better: some versions raise
        result = super().export(spans)
        if result is SpanExportResult.SUCCESS:
            self.lost -= len(spans)
        return result

    def shutdown(self) -> None:
        """Ends what is being tried again, too."""
        if not self.is_shut:
            self.is_shut = True
            cast(Any, super()).shutdown()

    def warning(self, is_late: bool) -> str:
        if self._refusal:
            what = f"refused {self.lost} spans: {self._refusal}"
        elif is_late:
            what = f"did not take the last spans within {_LONGEST_CLOSE_SECONDS:g} seconds"
        else:
            what = f"cannot be reached, {self.lost} spans are lost"
        return f"The collector at {without_credentials(self._place)} {what}. Nothing else is affected."
