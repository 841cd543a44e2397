"""Conditions: what they say, what they refuse, and what their form shows."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_cli.conditions import (
    ConditionError,
    condition_holds,
    evaluate_expression,
    is_certain,
    is_impossible,
    names_in_condition,
    negated_condition,
    parse_condition,
)
from strands_cli.templates import Name


class Result(msgspec.Struct):
    response: str

    def __str__(self) -> str:
        return self.response


SCOPE: dict[str, Any] = {
    "nodes": {
        "review": {"response": "APPROVED: 85", "output": {"score": 85, "tags": ["a", "b"]}},
        "score": {"response": " 85 "},
        "real": Result("done"),
    },
    "inputs": {"strict": True, "topic": "tea"},
    "last_response": "fine",
}


@pytest.mark.parametrize(
    "text",
    [
        "nodes.review.response contains 'approved'",
        "nodes.review.response not contains 'rejected'",
        "{{ nodes.review.output.score >= 80 }}",
        "nodes.score.response > 80",
        "nodes.score.response == 85.0",
        "nodes['review'].output['tags'][0] == 'a'",
        'nodes.review.output.tags[-1] == "b"',
        "nodes.review.output.tags[9] == null",
        "'b' in nodes.review.output.tags and 'c' not in nodes.review.output.tags",
        "nodes.review.output.score in [1, 85]",
        "nodes.never.response == null",
        "not nodes.never",
        "not (inputs.strict and nodes.never.output.score > 3) or false",
        "inputs.topic != 'coffee' and inputs.topic < 'u'",
        "nodes.real == 'done' and nodes.real.response contains 'on'",
        "not not inputs.strict",
        "inputs.topic == 'te\\a'",
        "last_response",
        "3 > -1",
        "nodes.review contains 'output'",
        "nodes.contains.null == null and not nodes.null",
        "' contains ' contains 'TAIN' and [-1] contains -1",
    ],
)
def test_it_holds(text: str) -> None:
    assert condition_holds(parse_condition(text), SCOPE)
    assert not condition_holds(negated_condition(parse_condition(text)), SCOPE)


@pytest.mark.parametrize("order", ["<", "<=", ">", ">="])
def test_the_opposite_of_an_order_is_true_of_what_is_not_there(order: str) -> None:
    condition = parse_condition(f"nodes.never.output {order} 3")
    assert not condition_holds(condition, SCOPE)
    assert condition_holds(negated_condition(condition), SCOPE)


@pytest.mark.parametrize(
    ("text", "column", "reason", "hint"),
    [
        ("", 0, "The condition ends", "Write a value"),
        ("a = b", 2, "'=' has no meaning", "Write '=='."),
        ("a && b", 2, "'&&' has no meaning", "Write 'and'."),
        ("!a", 0, "'!' has no meaning", "Write 'not'."),
        ("a == 'x", 5, "The text does not end", "Close it with '"),
        ("(a or b", 7, "')' is missing", "Add ')'."),
        ("a b", 2, "'b' is not expected", "Join"),
        ("a and", 5, "The condition ends", ""),
        ("a < b < c", 8, "Comparisons do not follow", "Write 'a < b and b < c'."),
        ("a..b", 2, "A name is expected after '.'", ""),
        ("a[b]", 1, "A number or a text is expected", "Write a[0] or a['b']."),
        ("== 3", 0, "'==' found where a value is expected", ""),
        ("[1, 2", 5, "',' is missing", ""),
        ("a.b()", 3, "'(' is not expected", ""),
        ("a[1.5]", 1, "A number or a text is expected", ""),
        ("a $ b", 2, "'$' has no meaning", ""),
        ("(" * 100, 40, "The condition is nested more than 40", ""),
        ("not " * 400 + "a", 160, "The condition is nested more than 40", ""),
        ("a and or b", 6, "'or' found where a value is expected", ""),
        ("contains 'x'", 0, "'contains' is not expected", ""),
        ("a in ['x' 'y']", 10, "\"'y'\" is not expected", ""),
        ("a > (3,5)", 6, "',' is not expected", ""),
        ("a is defined", 2, "'is' is not expected", ""),
        ("a.b(1)[0]", 6, "A number or a text is expected", ""),
        ("[" * 1900, 40, "The condition is nested more than 40", ""),
        ("a or " * 1000 + "a", 0, "The condition has more than 2000", ""),
    ],
)
def test_what_is_no_condition_is_told_with_its_column(text: str, column: int, reason: str, hint: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_condition(text)
    assert caught.value.message.startswith(reason)
    assert caught.value.hint.startswith(hint)
    assert caught.value.column == column


def test_long_conditions_are_read_and_decided_as_short_ones() -> None:
    for text in ("a or " * 399 + "b", "a or b and " * 180 + "b", "(" * 40 + "b" + ")" * 40):
        assert condition_holds(parse_condition(text), {"b": 1})
    for text in ("a" + ".b" * 990, "a" + "[0]" * 660):
        assert not condition_holds(parse_condition(text), {"a": {"b": 1}})


@pytest.mark.parametrize("text", ["inputs.strict > 1", "inputs.topic < 3", "1 in 2"])
def test_what_cannot_be_compared_is_an_error(text: str) -> None:
    with pytest.raises(ConditionError):
        condition_holds(parse_condition(text), SCOPE)


def test_nothing_but_data_can_be_reached() -> None:
    for text in ("last_response.__class__", "nodes.real.__class__", "nodes.real.__str__", "nodes.keys"):
        assert evaluate_expression(parse_condition(text), SCOPE) is None


def test_the_paths_of_a_condition() -> None:
    found = names_in_condition(parse_condition("a.b == c[0] and not (d in [e, 1]) or 'x' contains f"))
    assert [*found] == [Name("a", ("b",)), Name("c", (0,)), Name("d"), Name("e"), Name("f")]


@pytest.mark.parametrize(
    "text",
    [
        "false",
        "1 == 2",
        "'a' < 1",
        "x == 'a' and x == 'b'",
        "x > 5 and y and x < 3",
        "x >= 3 and x < 3",
        "x >= y and x < y",
        "x == 3 and x > 4",
        "x and not x",
        "(x == 1 and x == 2) or false",
    ],
)
def test_a_condition_that_is_never_true_is_seen(text: str) -> None:
    assert is_impossible(parse_condition(text))


@pytest.mark.parametrize("text", ["true", "1 < 2", "x or not x", "x or true", "not (x == 1 and x == 2)"])
def test_a_condition_that_is_always_true_is_seen(text: str) -> None:
    assert is_certain(parse_condition(text))


@pytest.mark.parametrize(
    "text",
    [
        "x == 'a' or x == 'b'",
        "x == 3 and x == '3'",
        "x > 3 and x < 5",
        "x >= 3 and x <= 3",
        "x == 1 and y == 2",
        "x",
        "x != 3",
        "x < 3 or x >= 3",  # null is neither
    ],
)
def test_a_condition_that_may_be_true_or_not_is_neither(text: str) -> None:
    condition = parse_condition(text)
    assert not is_impossible(condition)
    assert not is_certain(condition)


@given(st.text(alphabet="ab.[]()'\"=<>!0 1-,andorti\\", max_size=60))
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    try:
        condition_holds(parse_condition(text), {"a": {"b": [1, "x"]}, "b": None})
    except ConditionError as error:
        column = error.column
    else:
        column = 0
    assert 0 <= column <= len(text)
