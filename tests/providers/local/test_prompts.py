"""What a small model is shown."""

import json
from typing import Any

import pytest

from strands_cli.errors import ProviderError
from strands_cli.providers.local.prompts import (
    chat_with_tools,
    messages_by_step,
    plain_chat,
    ranked_tools,
    tool_signature,
    tools_that_fit,
)


def spec(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": []}
    return {"name": name, "description": description, "inputSchema": {"json": schema}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


def called(name: str, arguments: dict[str, Any], result: str) -> list[dict[str, Any]]:
    use = {"toolUseId": "1", "name": name, "input": arguments}
    answer = {"toolUseId": "1", "status": "success", "content": [{"text": result}]}
    return [
        {"role": "assistant", "content": [{"toolUse": use}]},
        {"role": "user", "content": [{"toolResult": answer}]},
    ]


WEATHER = spec(
    "get_weather", "Get the weather. With wind and rain.", city={"type": "string", "default": "Rome"}
)
MONEY = spec("convert_currency", "Convert money.", amount={"type": "number"})


def test_a_tool_is_one_line_with_the_first_sentence_of_its_description() -> None:
    function = json.loads(tool_signature(WEATHER))["function"]
    assert function["description"] == "Get the weather."
    assert function["parameters"]["properties"] == {"city": {"type": "string"}}


def test_the_likeliest_tool_comes_first() -> None:
    assert ranked_tools([MONEY, WEATHER], "weather in Oslo?") == [WEATHER, MONEY]


def test_tools_that_fit_are_all_kept_in_their_order() -> None:
    assert tools_that_fit([MONEY, WEATHER], "weather") == [MONEY, WEATHER]


def test_of_many_tools_the_likeliest_are_kept_in_their_order() -> None:
    many = [spec(f"tool_{number}", "Do something else altogether.") for number in range(200)]
    kept = tools_that_fit([*many, WEATHER], "weather in Oslo?", budget=1000)
    assert kept[-1] == WEATHER
    assert 1 < len(kept) < 20
    assert sum(len(tool_signature(tool)) for tool in kept) <= 1000


def test_one_tool_is_kept_however_long_it_is() -> None:
    assert tools_that_fit([WEATHER], "weather", budget=10) == [WEATHER]


def test_the_model_is_shown_who_it_is_then_the_tools_then_the_agents_prompt() -> None:
    first = chat_with_tools([user("Hi")], "Be brief.", [WEATHER], "You are a model.")[0]["content"]
    assert first.index("You are a model.") < first.index("get_weather") < first.index("Be brief.")


def test_a_request_is_shown_step_by_step_with_what_was_done_for_each() -> None:
    messages = [user("Read a, then echo it."), *called("read", {"path": "a"}, "hello")]
    shown = chat_with_tools(messages_by_step(messages, ["Read a", "echo it."]), "", [WEATHER])
    assert [turn["role"] for turn in shown] == ["system", "user", "assistant", "user", "user"]
    assert shown[1]["content"] == "Read a"
    assert "hello" in shown[3]["content"]
    assert shown[4]["content"] == "echo it."


def test_for_an_answer_in_words_there_are_results_but_no_calls() -> None:
    shown = plain_chat([user("What is 2 + 2?"), *called("calculator", {"expression": "2 + 2"}, "4")], "")
    assert [turn["role"] for turn in shown] == ["system", "user"]
    assert "Result of calculator:\n4" in shown[1]["content"]
    assert "tool_call" not in shown[1]["content"]


def test_a_picture_is_refused_with_what_helps() -> None:
    picture = {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": b""}}}]}
    with pytest.raises(ProviderError, match="reads text only") as refused:
        plain_chat([picture], "")
    assert "provider" in refused.value.hint
