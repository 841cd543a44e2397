"""Where spans go, and what a collector costs that does not take them."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Mapping
from time import perf_counter

import pytest

from strands_cli.errors import UnsupportedError, install_hint
from strands_cli.telemetry import SpanExport, missing_exporter, open_telemetry
from strands_cli.types.sections import Telemetry
from tests.telemetry.collector import Collector, collecting
from tests.telemetry.runs import ask, run

LONGEST_CLOSE = 5.0
"""Seconds: the limit is three, and the machine may be busy."""
NOWHERE: Mapping[str, str] = {}


def run_once(exporting: SpanExport) -> None:
    assert exporting.listener is not None
    asyncio.run(run(exporting.listener, "steps/0", body=ask))


def sent(telemetry: Telemetry, environment: Mapping[str, str] = NOWHERE, runs: int = 1) -> list[str]:
    """The warnings of some runs, one after the other, in one opening."""
    warnings: list[str] = []
    with open_telemetry(telemetry, warn=warnings.append, environment=environment) as exporting:
        for _ in range(runs):
            run_once(exporting)
    return warnings


def test_spans_go_to_the_collector_of_the_workflow_under_its_service() -> None:
    with collecting() as collector:
        assert sent(Telemetry(otlp_endpoint=f"{collector.url}/", service_name="reports")) == []
    assert collector.paths == ["/v1/traces"]
    assert {span.service for span in collector.spans} == {"reports"}
    assert len(collector.spans) == 3


def test_an_endpoint_may_be_given_with_its_path() -> None:
    with collecting() as collector:
        assert sent(Telemetry(otlp_endpoint=f"{collector.url}/otlp/v1/traces")) == []
    assert collector.paths == ["/otlp/v1/traces"]


@pytest.mark.parametrize(
    ("variable", "path"),
    [("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/own/path")],
)
def test_without_one_they_go_to_the_collector_of_the_environment(variable: str, path: str) -> None:
    with collecting() as collector:
        environment = {variable: collector.url + path, "OTEL_SERVICE_NAME": "of the environment"}
        assert sent(Telemetry(), environment) == []
    assert collector.paths == [path or "/v1/traces"]
    assert {span.service for span in collector.spans} == {"of the environment"}


def test_the_workflow_s_collector_and_service_count_before_the_environment_s() -> None:
    with collecting() as own, collecting() as other:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": other.url, "OTEL_SERVICE_NAME": "other"}
        assert sent(Telemetry(otlp_endpoint=own.url, service_name="own"), environment) == []
    assert {span.service for span in own.spans} == {"own"}
    assert other.paths == []


def test_where_nobody_wants_spans_there_is_no_listener() -> None:
    with open_telemetry(Telemetry(), environment=NOWHERE) as exporting:
        assert exporting.listener is None


def test_runs_are_sampled_as_a_whole() -> None:
    def got(rate: float, runs: int) -> Collector:
        with collecting() as collector:
            assert sent(Telemetry(otlp_endpoint=collector.url, sample_rate=rate), runs=runs) == []
        return collector

    assert got(0, 5).paths == []
    assert len(got(1, 5).named("run:flow")) == 5
    some = got(0.5, 60)
    assert 5 < len(some.named("run:flow")) < 55
    assert len(some.spans) == 3 * len(some.named("run:flow")), "all spans of a run, or none"


def closing(telemetry: Telemetry) -> tuple[float, str]:
    """How long the end takes, and the one warning."""
    warnings: list[str] = []
    exporting = open_telemetry(telemetry, warn=warnings.append, environment=NOWHERE)
    run_once(exporting)
    started = perf_counter()
    exporting.close()
    seconds = perf_counter() - started
    exporting.close()
    (warning,) = warnings
    return seconds, warning


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_collector_that_is_down_costs_little_and_one_warning() -> None:
    port = unused_port()
    seconds, warning = closing(Telemetry(otlp_endpoint=f"http://user:hunter2@127.0.0.1:{port}"))
    assert seconds < LONGEST_CLOSE
    assert warning == (
        f"The collector at http://127.0.0.1:{port}/v1/traces cannot be reached, 3 spans are lost. "
        "Nothing else is affected."
    )


def test_a_collector_that_refuses_is_told_with_its_answer() -> None:
    with collecting(status=500) as collector:
        seconds, warning = closing(Telemetry(otlp_endpoint=collector.url))
    assert seconds < LONGEST_CLOSE
    assert "refused 3 spans: 500 Internal Server Error." in warning


def test_a_collector_that_is_overloaded_is_asked_again_within_the_limit() -> None:
    with collecting(status=503) as collector:
        seconds, warning = closing(Telemetry(otlp_endpoint=collector.url))
    assert seconds < LONGEST_CLOSE
    assert len(collector.paths) > 1
    assert "503 Service Unavailable" in warning


def test_a_collector_that_never_answers_is_left() -> None:
    with collecting(answers=False) as collector:
        seconds, warning = closing(Telemetry(otlp_endpoint=collector.url))
    assert seconds < LONGEST_CLOSE
    assert collector.url in warning


def test_a_longer_patience_of_the_environment_does_not_hold_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "30")
    warnings: list[str] = []
    with collecting(answers=False) as collector:
        telemetry = Telemetry(otlp_endpoint=collector.url)
        exporting = open_telemetry(
            telemetry, warn=warnings.append, environment={"OTEL_EXPORTER_OTLP_TIMEOUT": "30"}
        )
        run_once(exporting)
        started = perf_counter()
        exporting.close()
        assert perf_counter() - started < LONGEST_CLOSE
    assert ["did not take the last spans within 3 seconds" in text for text in warnings] == [True]


PROGRAM = """
import asyncio, sys
from strands_cli.telemetry import open_telemetry
from strands_cli.types.sections import Telemetry
from tests.telemetry.runs import ask, run
with open_telemetry(Telemetry(otlp_endpoint=sys.argv[1]), warn=lambda text: print(text)) as exporting:
    asyncio.run(run(exporting.listener, "steps/0", body=ask))
"""


def test_nothing_else_is_said_about_a_collector_that_is_down_and_the_program_ends() -> None:
    started = perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"http://127.0.0.1:{unused_port()}"],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert perf_counter() - started < 30
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_a_missing_package_is_an_error_only_where_the_workflow_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    asked = Telemetry(otlp_endpoint="http://127.0.0.1:1")
    with pytest.raises(UnsupportedError, match="opentelemetry-exporter-otlp-proto-http") as caught:
        open_telemetry(asked, environment=NOWHERE)
    assert caught.value.hint == install_hint("otel")
    assert len([*missing_exporter(asked, NOWHERE)]) == 1

    warnings: list[str] = []
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    assert open_telemetry(Telemetry(), warn=warnings.append, environment=environment).listener is None
    assert len(warnings) == 1
    assert [*missing_exporter(Telemetry(), NOWHERE)] == []


def test_a_parent_package_may_be_missing_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.startswith("opentelemetry.exporter"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    assert len([*missing_exporter(Telemetry(otlp_endpoint="http://127.0.0.1:1"), NOWHERE)]) == 1
