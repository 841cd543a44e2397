"""The embedded model with everything around it: a workflow, and its engine as a server for another provider."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from strands_cli.events import ToolFinished
from strands_cli.exec.run import run
from strands_cli.exec.steps import RunOptions
from strands_cli.loader import load_spec
from strands_cli.providers.choice import ModelChoice, build_model, with_model_options
from strands_cli.types.sections import Inference
from tests.projects import Project

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

MESSAGES = ["Hello, World!", 'She said "yes" at 7:45', "größer als 3 μm — 日本"]


@pytest.mark.parametrize("message", MESSAGES)
def test_the_echo_demo_writes_the_message_as_it_is(weights: Path, tmp_path: Path, message: str) -> None:
    file = tmp_path / "echo.yaml"
    text = (EXAMPLES / "echo-demo.yaml").read_text("utf-8")
    file.write_text(text.replace("Hello, World!", message.replace('"', '\\"')), "utf-8")
    heard: list[object] = []
    options = RunOptions(directory=tmp_path, listeners=(heard.append,))
    result = asyncio.run(run(with_model_options(load_spec(file), provider="local"), None, options))
    assert [event.tool_id for event in heard if isinstance(event, ToolFinished)] == ["echo"]
    assert message in (tmp_path / "echo-result.txt").read_text("utf-8")
    assert result.usage.total_tokens > 0


@pytest.mark.parametrize("seconds", [n * 0.2 for n in range(10)])
def test_ctrl_c_ends_a_run_cleanly_while_the_engine_loads_and_computes(
    weights: Path, project: Project, seconds: float
) -> None:
    text = (EXAMPLES / "local-three-tools.yaml").read_text("utf-8")
    project.write("flow.yaml", text.replace("You are a clerk.", "You are a clerk. " + "Be careful. " * 300))
    command = [sys.executable, "-m", "strands_cli", "run", "flow.yaml", "--model", str(weights)]
    with subprocess.Popen(
        command, cwd=project.root, env=project.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert any(b"price: started" in line for line in process.stderr)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130, said
    assert said.count("error:") == 1


@pytest.fixture
def server(weights: Path) -> Iterator[str]:
    """llama.cpp's own server, which speaks OpenAI's protocol."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.n_ctx = 2048
    parameters.port = 0
    served = xllamacpp.Server(parameters)
    yield served.listening_address
    del served


def test_the_openai_provider_talks_to_the_engines_own_server(
    server: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strands import Agent

    choice = ModelChoice("openai", "any", f"{server}/v1", None, Inference(temperature=0, max_tokens=20))
    agent = Agent(model=build_model(choice), callback_handler=None)
    answer = str(agent("What is the capital of France? Answer with one word."))
    assert "Paris" in answer
    assert agent.event_loop_metrics.accumulated_usage["totalTokens"] > 0
