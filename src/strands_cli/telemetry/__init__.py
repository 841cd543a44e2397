"""Listeners that export what a run does: spans for OpenTelemetry, a trace as one JSON document.

Neither holds anything of prompts and answers. Of tools they hold inputs and outputs only if the workflow's
`telemetry.redact` allows it, and secrets never.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec

from strands_cli.errors import UnsupportedError, install_hint
from strands_cli.events import Listener
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.telemetry.recorders import Trace as Trace
from strands_cli.telemetry.recorders import span_listener as span_listener
from strands_cli.types.sections import Telemetry

_PATH = "/v1/traces"
_log = logging.getLogger("strands_cli.telemetry")


class SpanExport:
    """An open export of spans. Closing it takes milliseconds, and at most three seconds."""

    def __init__(self, listener: Listener | None, close: Callable[[], None] = lambda: None) -> None:
        self.listener = listener
        """Makes spans of the run's events; None if spans go nowhere."""
        self._close = close

    def close(self) -> None:
        """Sends the remaining spans."""
        self._close()

    def __enter__(self) -> "SpanExport":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_telemetry(
    telemetry: Telemetry,
    redactor: Redactor = NOTHING_SECRET,
    warn: Callable[[str], None] = _log.warning,
    environment: Mapping[str, str] = os.environ,
) -> SpanExport:
    """Opens the export of spans for one run: to the workflow's collector, or the program's tracer provider,
    or the collector in the environment, or nowhere.

    `warn` is called once, at the end, if spans were lost. Raises UnsupportedError if the workflow names a
    collector and the package is missing.
    """
    url, redact = _collector_url(telemetry, environment), telemetry.redact
    if telemetry.otlp_endpoint is None:
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
    from strands_cli.telemetry.collector import connect_collector

    return SpanExport(*connect_collector(str(url), telemetry, redactor, warn, environment))


def missing_exporter(
    telemetry: Telemetry, environment: Mapping[str, str] = os.environ
) -> Iterator[tuple[str, str]]:
    """Yields what is missing to send spans, each with a fix."""
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
            install_hint("otel"),
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
