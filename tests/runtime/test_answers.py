"""What a model said, made fit for the history."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_cli.runtime.model_output import INVALID_NAME, MALFORMED_KEY, ToolUseCollector, kept_text, mend


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
def test_the_inputs_are_heard_as_the_sdk_hears_them(chunks: list[dict[str, Any]], texts: list[str]) -> None:
    listening = ToolUseCollector()
    for chunk in chunks:
        listening.hear(chunk)
    assert listening.texts == texts


def message(*uses: tuple[str, str, Any]) -> Any:
    blocks = [{"toolUse": {"toolUseId": id, "name": name, "input": sent}} for id, name, sent in uses]
    return {"role": "assistant", "content": [{"text": "well"}, *blocks]}


def uses_of(said: Any) -> list[Any]:
    return [block["toolUse"] for block in said["content"] if "toolUse" in block]


def test_an_answer_that_came_without_chunks_is_mended_by_what_it_holds() -> None:
    said = message(("1", "a", [1]), ("2", "a", None), ("3", "a", {"x": 1}))
    assert mend(said, []) == {}
    assert [use["input"] for use in uses_of(said)] == [
        {MALFORMED_KEY: "[1]"},
        {MALFORMED_KEY: "null"},
        {"x": 1},
    ]


def test_an_answer_that_was_mended_before_stays_as_it_is() -> None:
    said = message(("1", "a", {MALFORMED_KEY: "{"}))
    mend(said, [])
    assert kept_text(uses_of(said)[0]["input"]) == "{"


@pytest.mark.parametrize(
    "sent", [{}, {"a": 1}, {MALFORMED_KEY: "x", "a": 1}, {MALFORMED_KEY: '{"a": 1}'}, "x", None]
)
def test_an_ordinary_input_is_no_kept_text(sent: object) -> None:
    assert kept_text(sent) is None


@given(st.lists(st.tuples(st.sampled_from(["x", "x-2", "y"]), st.text(max_size=70), st.text(max_size=5))))
def test_whatever_a_model_says_comes_out_as_calls_that_a_history_may_contain(
    spoken: list[tuple[str, str, str]],
) -> None:
    said = message(*((call_id, name, {}) for call_id, name, _ in spoken))
    misnamed = mend(said, [text for _, _, text in spoken])
    uses = uses_of(said)
    assert len({use["toolUseId"] for use in uses}) == len(spoken)
    for use, (_, name, text) in zip(uses, spoken, strict=True):
        assert isinstance(use["input"], dict)
        assert use["name"] == name or (use["name"] == INVALID_NAME and misnamed[use["toolUseId"]] == name)
        assert text.strip() == "" or kept_text(use["input"]) == text or use["input"] == {}
