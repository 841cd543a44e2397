"""`strands tool call` with a collector: the real command, and spans as they come over the wire."""

import socket

import pytest

from tests.projects import Project
from tests.telemetry.collector import collecting

NOTE = """async def note(context: ToolContext):
    return await context.call("echo", message="hi")"""


@pytest.mark.parametrize(
    ("variable", "path"),
    [("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces")],
)
def test_a_call_sends_its_span_to_the_collector_of_the_environment(
    project: Project, variable: str, path: str
) -> None:
    with collecting() as collector:
        outcome = project.strands(
            "tool", "call", "echo", "message=hunter2", **{variable: collector.url + path}
        )
    assert (outcome.exit_code, outcome.out, outcome.err) == (0, "hunter2\n", "")
    span = collector.one("tool:echo")
    assert (span.attributes["tool.id"], span.attributes["tool.output_size"]) == ("echo", 7)
    assert span.end > span.start
    assert b"hunter2" not in b"".join(collector.bodies)


def test_a_call_that_fails_sends_its_code(project: Project) -> None:
    with collecting() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "mine"}
        outcome = project.strands("tool", "call", "calculator", "expression=1/0", **env)
    assert outcome.exit_code == 10, outcome
    span = collector.one("tool:calculator")
    assert (span.service, span.attributes["tool.code"], span.status) == ("mine", "failed", 2)


def test_a_call_inside_a_call_is_below_it(project: Project) -> None:
    project.tool("note", NOTE, options="version='1.0.0'")
    with collecting() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        outcome = project.strands("tool", "call", "note", **env)
    assert outcome.exit_code == 0, outcome
    assert collector.parent_of(collector.one("tool:echo")) == "tool:note"


def test_a_collector_that_is_down_costs_a_warning_and_not_the_answer(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outcome = project.strands(
        "tool", "call", "echo", "message=hi", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}"
    )
    assert (outcome.exit_code, outcome.out) == (0, "hi\n")
    assert outcome.err.count("cannot be reached") == 1
