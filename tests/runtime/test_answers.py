"""What a model answer, made fit for the history."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_cli.runtime.model_output import (
    INVALID_NAME,
    MALFORMED_KEY,
    ToolUseCollector,
    malformed_input_text,
    repair_message,
)


def start(**use: str) -> dict[str, Any]:
    return {"contentBlockStart": {"start": {"toolUse": use} if use else {}}}


def delta(**use: str) -> dict[str, Any]:
    return {"contentBlockDelta": {"delta": {"toolUse": use}}}


STOP: dict[str, Any] = {"contentBlockStop": {}}


@pytest.mark.parametrize(
    ("chunks", "texts"),
    [
        ([start(toolUseId="1", name="a"), delta(input="{"), delta(input="}"), STOP], ["{}"]),
        ([start(toolUseId="1", name="a"), STOP], [""]),
        ([delta(toolUseId="1", name="a", input="{"), delta(input="}"), STOP], ["{}"]),
        ([start(toolUseId="1", name=""), delta(input="{}"), STOP], []),
        ([start(), {"contentBlockDelta": {"delta": {"text": "hi"}}}, STOP], []),
        ([start(toolUseId="1", name="a"), delta(input="x")], []),
        ([{"messageStart": {"role": "assistant"}}, {}], []),
    ],
)
def test_the_inputs_are_collected_as_the_sdk_reads_them(
    chunks: list[dict[str, Any]], texts: list[str]
) -> None:
    collector = ToolUseCollector()
    for chunk in chunks:
        collector.add(chunk)
    assert collector.texts == texts


def message(*uses: tuple[str, str, Any]) -> Any:
    blocks = [{"toolUse": {"toolUseId": id, "name": name, "input": sent}} for id, name, sent in uses]
    return {"role": "assistant", "content": [{"text": "well"}, *blocks]}


def uses_of(answer: Any) -> list[Any]:
    return [block["toolUse"] for block in answer["content"] if "toolUse" in block]


def test_an_answer_that_came_without_chunks_is_repaired_by_what_it_holds() -> None:
    answer = message(("1", "a", [1]), ("2", "a", None), ("3", "a", {"x": 1}))
    assert repair_message(answer, []) == {}
    assert [use["input"] for use in uses_of(answer)] == [
        {MALFORMED_KEY: "[1]"},
        {MALFORMED_KEY: "null"},
        {"x": 1},
    ]


def test_an_answer_that_was_repaired_before_stays_as_it_is() -> None:
    answer = message(("1", "a", {MALFORMED_KEY: "{"}))
    repair_message(answer, [])
    assert malformed_input_text(uses_of(answer)[0]["input"]) == "{"


@pytest.mark.parametrize(
    "sent", [{}, {"a": 1}, {MALFORMED_KEY: "x", "a": 1}, {MALFORMED_KEY: '{"a": 1}'}, "x", None]
)
def test_an_ordinary_input_is_no_kept_text(sent: object) -> None:
    assert malformed_input_text(sent) is None


@given(st.lists(st.tuples(st.sampled_from(["x", "x-2", "y"]), st.text(max_size=70), st.text(max_size=5))))
def test_whatever_a_model_says_comes_out_as_calls_that_a_history_may_contain(
    calls: list[tuple[str, str, str]],
) -> None:
    answer = message(*((call_id, name, {}) for call_id, name, _ in calls))
    misnamed = repair_message(answer, [text for _, _, text in calls])
    uses = uses_of(answer)
    assert len({use["toolUseId"] for use in uses}) == len(calls)
    for use, (_, name, text) in zip(uses, calls, strict=True):
        assert isinstance(use["input"], dict)
        assert use["name"] == name or (use["name"] == INVALID_NAME and misnamed[use["toolUseId"]] == name)
        assert text.strip() == "" or malformed_input_text(use["input"]) == text or use["input"] == {}
