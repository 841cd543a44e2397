"""The real model, through the SDK's own interface: what it calls, what it says, and how it is stopped."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from strands import Agent
from strands.types.exceptions import ContextWindowOverflowException

from strands_cli import tool
from strands_cli.errors import ProviderError
from strands_cli.providers.choice import ModelChoice
from strands_cli.providers.local.engine import engine_for, thread_count
from strands_cli.providers.local.model import LocalModel, local_model

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def model(weights: Path) -> LocalModel:
    model = LocalModel(weights, threads=thread_count())
    model.update_config(max_tokens=60)
    return model


def spec(name: str, description: str, **properties: Any) -> Any:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "inputSchema": {"json": schema}}


WEATHER = spec("get_weather", "Get the weather in a city.", city={"type": "string"})
COUNTER = spec(
    "count_down", "Count down from a number.", start={"type": "integer", "minimum": 1, "maximum": 5}
)


async def events(model: LocalModel, text: str, *specs: Any, **more: Any) -> list[Any]:
    messages: Any = [{"role": "user", "content": [{"text": text}]}]
    return [event async for event in model.stream(messages, list(specs), **more)]


def call_in(heard: list[Any]) -> tuple[str, dict[str, Any]] | None:
    starts = [event["contentBlockStart"]["start"] for event in heard if "contentBlockStart" in event]
    uses = [start["toolUse"]["name"] for start in starts if "toolUse" in start]
    deltas = [event["contentBlockDelta"]["delta"] for event in heard if "contentBlockDelta" in event]
    written = "".join(delta["toolUse"]["input"] for delta in deltas if "toolUse" in delta)
    return (uses[0], json.loads(written)) if uses else None


@pytest.mark.asyncio
async def test_a_request_for_a_tool_becomes_a_call_with_its_arguments(model: LocalModel) -> None:
    heard = await events(model, "What is the weather in Lisbon?", WEATHER)
    assert call_in(heard) == ("get_weather", {"city": "Lisbon"})
    assert heard[-2] == {"messageStop": {"stopReason": "tool_use"}}


@pytest.mark.asyncio
async def test_a_tool_without_arguments_is_called(model: LocalModel) -> None:
    ping = spec("ping_server", "Ping the server and say whether it is up.")
    assert call_in(await events(model, "Ping the server.", ping)) == ("ping_server", {})


@pytest.mark.asyncio
async def test_text_is_streamed_and_counted(model: LocalModel) -> None:
    heard = await events(model, "Name three colours.")
    pieces = [event for event in heard if "contentBlockDelta" in event]
    assert len(pieces) > 2
    usage = heard[-1]["metadata"]["usage"]
    assert usage["inputTokens"] > 5
    assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"]


@pytest.mark.asyncio
async def test_a_forced_call_is_made_and_fits_the_schema_whatever_is_asked(model: LocalModel) -> None:
    for text in ("Hello!", "Count down from 900.", "}}{{"):
        heard = await events(model, text, WEATHER, COUNTER, tool_choice={"tool": {"name": "count_down"}})
        name, arguments = call_in(heard) or ("", {})
        assert name == "count_down"
        assert 1 <= arguments["start"] <= 5


@pytest.mark.asyncio
async def test_a_forced_call_without_room_for_what_is_optional_keeps_to_what_is_required(
    model: LocalModel,
) -> None:
    model.update_config(max_tokens=12)
    diary = spec("write_diary", "Write a diary entry with all that happened.", day={"type": "integer"})
    diary["inputSchema"]["json"]["properties"]["events"] = {"type": "array", "items": {"type": "string"}}
    text = (
        "Day 4: we left at dawn, crossed two rivers, lost a mule, and slept in a barn. Write all of it down."
    )
    heard = await events(model, text, diary, tool_choice={"tool": {"name": "write_diary"}})
    name, arguments = call_in(heard) or ("", {})
    assert name == "write_diary"
    assert isinstance(arguments["day"], int)


@pytest.mark.asyncio
async def test_a_conversation_that_is_too_long_is_told_as_the_sdk_expects(model: LocalModel) -> None:
    with pytest.raises(ContextWindowOverflowException, match="tokens"):
        await events(model, "word " * 9000)


@pytest.mark.asyncio
async def test_who_stops_listening_stops_the_model(model: LocalModel) -> None:
    model.update_config(max_tokens=2000)
    stream = model.stream([{"role": "user", "content": [{"text": "Count to a thousand, in words."}]}])
    async for event in stream:
        if "contentBlockDelta" in event:
            break
    await stream.aclose()
    await assert_no_model_thread_is_left(10)


@pytest.mark.asyncio
async def test_the_sdks_cancel_signal_stops_the_model(model: LocalModel) -> None:
    model.update_config(max_tokens=2000)
    signal = threading.Event()
    messages: Any = [{"role": "user", "content": [{"text": "Count to a thousand, in words."}]}]
    pieces = 0
    async for event in model.stream(messages, cancel_signal=signal):
        pieces += "contentBlockDelta" in event
        if pieces == 3:
            signal.set()
    assert pieces < 10


async def assert_no_model_thread_is_left(seconds: float) -> None:
    end = time.monotonic() + seconds
    while any(thread.name == "strands-local-model" for thread in threading.enumerate()):
        assert time.monotonic() < end, "the model goes on although nobody listens"
        await asyncio.sleep(0.05)


class Person(BaseModel):
    name: str
    age: int


@pytest.mark.asyncio
async def test_structured_output_has_the_form_that_was_asked_for(model: LocalModel) -> None:
    prompt: Any = [{"role": "user", "content": [{"text": "Ada is 36 years old."}]}]
    outputs = [event async for event in model.structured_output(Person, prompt)]
    assert outputs[-1]["output"] == Person(name="Ada", age=36)


def test_an_agent_calls_a_tool_and_answers_with_its_result(model: LocalModel) -> None:
    @tool
    def secret_number(name: str) -> str:
        """Look up a person's secret number.

        Args:
            name: The person's name
        """
        return f"{name}: 7391"

    answer = Agent(model=model, tools=[secret_number], callback_handler=None)(
        "What is the secret number of Ada?"
    )
    assert "7391" in str(answer)


def test_a_model_is_loaded_once_in_a_process(weights: Path) -> None:
    assert engine_for(weights, thread_count()) is engine_for(weights, thread_count())


def test_nobody_else_may_use_the_engines_listener(weights: Path) -> None:
    import http.client
    from urllib.parse import urlsplit

    address = urlsplit(engine_for(weights, thread_count())._server.listening_address)
    assert address.hostname == "127.0.0.1"
    connection = http.client.HTTPConnection(address.hostname, address.port or 0, timeout=5)
    connection.request("POST", "/apply-template", "{}", {"Content-Type": "application/json"})
    assert connection.getresponse().status == 401
    connection.close()


def test_a_damaged_file_is_refused_and_the_process_lives(tmp_path: Path) -> None:
    file = tmp_path / "damaged.gguf"
    file.write_bytes(b"GGUF" + bytes(1000))
    child = f"""
import asyncio
from pathlib import Path
from strands_cli.errors import ProviderError
from strands_cli.providers.local.model import LocalModel
async def ask():
    async for _ in LocalModel(Path({str(file)!r})).stream([{{"role": "user", "content": [{{"text": "Hi"}}]}}]):
        pass
try:
    asyncio.run(ask())
except ProviderError as error:
    print("refused:", error.message)
"""
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=False)
    assert "refused:" in done.stdout, done.stderr
    assert "damaged" in done.stdout


def test_a_model_that_is_not_here_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ProviderError, match="not on this machine"):
        local_model(ModelChoice("local"))
    assert not os.listdir(tmp_path)
