"""Listeners that export what a run does: spans for OpenTelemetry, a trace as one JSON document.

Neither holds anything of prompts and answers. Of tools they hold inputs and outputs only if the workflow's
`telemetry.redact` allows it, and secrets never.
"""

from strands_cli.telemetry.collector import SpanExport as SpanExport
from strands_cli.telemetry.collector import missing_exporter as missing_exporter
from strands_cli.telemetry.collector import open_telemetry as open_telemetry
from strands_cli.telemetry.recorders import Trace as Trace
from strands_cli.telemetry.recorders import span_listener as span_listener
