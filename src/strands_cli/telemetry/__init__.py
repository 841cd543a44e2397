"""Listeners that tell outsiders what a run does: spans for OpenTelemetry, a trace as one JSON document.

Neither holds anything of prompts and answers. Of tools they hold inputs and outputs only where the workflow's
`telemetry.redact` allows it, and secrets never.
"""

from strands_cli.telemetry.exporting import Exporting as Exporting
from strands_cli.telemetry.exporting import missing_exporter as missing_exporter
from strands_cli.telemetry.exporting import open_telemetry as open_telemetry
from strands_cli.telemetry.spans import span_listener as span_listener
from strands_cli.telemetry.trace import Trace as Trace
