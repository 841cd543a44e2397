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
    is_exhaustive,
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
        "inputs.topic == 't\\x65a' and \"it's\" == 'it\\'s' and 'a\\\\d' == 'a\\d' and 'ä' == '\\u00e4'",
        "last_response",
        "3 > -1",
        "nodes.review contains 'output'",
        "nodes.contains.null == null and not nodes.null",
        "' contains ' contains 'TAIN' and [-1] contains -1",
        "'approved' in nodes.review.response.lower()",
        "{{ 'approved' in nodes.review.response.lower() and 'x' not in nodes.review.response.upper() }}",
        "nodes.score.response | int >= 85 and nodes.score.response | float == 85.0",
        "nodes.score.response.strip() == '85' and nodes.score.response | trim | length == 2",
        "nodes.real.response.strip().upper() == 'DONE' and nodes.real.upper() == 'DONE'",
        "len(nodes.review.output.tags) == 2 and len(nodes.real) == 4 and len(nodes.review.output) == 2",
        "len(nodes.never.response | default('')) == 0 and nodes.never.response | length == 0",
        "nodes.never.response | default('x') == 'x' and (nodes.never | default(inputs.topic)).upper() == 'TEA'",
        "not nodes.never.response.lower() and nodes.never | int == null and not (nodes.never | int < 3)",
        "nodes.real.response | int == 0 and int('7.9') == 7 and float('x') == 0 and int(nodes.review.output) == 0",
        "str(nodes.review.output.score) == '85' and str(inputs.strict) == 'true'",
        "inputs.topic contains 'TE' | lower and inputs.topic contains 'Te'.upper()",
        "nodes.review.response | search('^approved: \\d+$') and not nodes.never | search('x')",
        "not (inputs.topic | search('coffee'))",
        "nodes.lower.upper == null",
        "else",
        " {{ ELSE }} ",
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
        (r"a == '\x'", 5, "Invalid escape in a text", "Write two backslashes"),
        ("(a or b", 7, "')' is missing", "Add ')'."),
        ("a b", 2, "'b' is not expected", "Join"),
        ("a and", 5, "The condition ends", ""),
        ("a < b < c", 8, "Comparisons do not follow", "Write 'a < b and b < c'."),
        ("a..b", 2, "A name is expected after '.'", ""),
        ("a[b]", 1, "A number or a text is expected", "Write a[0] or a['b']."),
        ("== 3", 0, "'==' found where a value is expected", ""),
        ("[1, 2", 5, "',' is missing", ""),
        ("a.b()", 3, "There is no method 'b'", "Available: lower, upper, strip."),
        ("a.lowr()", 6, "There is no method 'lowr'", "Did you mean 'lower'?"),
        ("a.startswith('x')", 12, "There is no method 'startswith'", "Available: lower"),
        ("a.strip('x')", 7, "The method 'strip' takes no other arguments", "Leave them out."),
        ("a | lengt > 3", 4, "There is no filter 'lengt'", "Did you mean 'length'?"),
        ("a | default", 4, "The filter 'default' takes one value", "Write default('…')."),
        ("a | default(*b)", 12, "'*' has no meaning", ""),
        ("a || b", 2, "'||' has no meaning", "Write 'or'."),
        ("eval(a)", 4, "There is no function 'eval'", "Available: len, int, float, str."),
        ("len()", 3, "'(' is not expected", ""),
        ("len(a, b)", 3, "The function 'len' takes no other arguments", ""),
        ("a.b()()", 5, "'(' is not expected", ""),
        ("a.strip().b", 9, "'.' is not expected", ""),
        ("a.__class__", 1, "'__class__' cannot be used", "Name a part"),
        ("a['__class__'].b", 14, "'__class__' cannot be used", ""),
        ("a.b and else", 8, "'else' found where a value is expected", ""),
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
    changed = "b" + ".lower()" * 100 + "|int" * 280
    for text in (
        "a or " * 399 + "b",
        "a or b and " * 180 + "b",
        "(" * 40 + "b" + ")" * 40,
        changed,
        "str(" * 40 + "b" + ")" * 40,
    ):
        assert condition_holds(parse_condition(text), {"b": 1})
    for text in ("a" + ".b" * 990, "a" + "[0]" * 660):
        assert not condition_holds(parse_condition(text), {"a": {"b": 1}})


@pytest.mark.parametrize(
    "text",
    [
        "inputs.strict > 1",
        "inputs.topic < 3",
        "1 in 2",
        "len(3) == 1",
        "nodes.review.output.tags | lower",
        "inputs.topic | search('(')",
    ],
)
def test_what_cannot_be_compared_is_an_error(text: str) -> None:
    with pytest.raises(ConditionError):
        condition_holds(parse_condition(text), SCOPE)


def test_nothing_but_data_can_be_reached() -> None:
    for text in ("last_response.upper", "nodes.real.parts", "nodes.keys"):
        assert evaluate_expression(parse_condition(text), SCOPE) is None


def test_the_paths_of_a_condition() -> None:
    found = names_in_condition(parse_condition("a.b == c[0] and not (d in [e, 1]) or 'x' contains f"))
    assert [*found] == [Name("a", ("b",)), Name("c", (0,)), Name("d"), Name("e"), Name("f")]
    found = names_in_condition(parse_condition("'x' in a.b.lower() and len(c[0] | default(d.e)) > 3"))
    assert [*found] == [Name("a", ("b",)), Name("c", (0,)), Name("d", ("e",))]


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
        "x.lower() == 'a' and x.lower() == 'b'",
        "x | int > 5 and y and x | int < 3",
        "'a' in x.lower() and 'a' not in x.lower()",
        "(x or y) and not x and not y",
    ],
)
def test_a_condition_that_is_never_true_is_seen(text: str) -> None:
    assert is_impossible(parse_condition(text))


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "1 < 2",
        "x or not x",
        "x or true",
        "not (x == 1 and x == 2)",
        "else",
        "len('a') == 1",
        "'a' in x.lower() or not ('a' in x.lower()) and y or not y",
        "x != 1 or x != 2",
    ],
)
def test_a_condition_that_is_always_true_is_seen(text: str) -> None:
    assert is_certain(parse_condition(text))


@pytest.mark.parametrize(
    "text",
    [
        "x == 'a' or x == 'b'",
        "x == 3 and x == '3'",
        "x == 3 and x < 'X'",  # the text '3' is both
        "x > 3 and x < 5",
        "x >= 3 and x <= 3",
        "x == 1 and y == 2",
        "x",
        "x != 3",
        "x < 3 or x >= 3",  # null is neither
        "x.lower() == 'a' and x.upper() == 'B'",
        "x.lower() == 'a' and x == 'b'",
        "x | int < 3 or x | int >= 3",
        " or ".join(f"x == {number}" for number in range(20)) + " or not x == 0",  # more than is looked at
    ],
)
def test_a_condition_that_may_be_true_or_not_is_neither(text: str) -> None:
    condition = parse_condition(text)
    assert not is_impossible(condition)
    assert not is_certain(condition)


@pytest.mark.parametrize(
    ("conditions", "are_exhaustive"),
    [
        (["a", "not (a) and (b)", "not (a) and not (b)"], True),
        (["a", "not (a) and (b)"], False),
        (["'x' in r.lower()", "not ('x' in r.lower()) and (r | int > 3)", "not ('x' in r.lower())"], True),
        (["r == 'x'", "not (r == 'x') and (r == 'y')", "r != 'x' and r != 'y'"], True),
        (["r == 'x'", "r == 'y'"], False),
        (["safe >= 80", "safe >= 50 and safe < 80", "safe < 50"], True),
        (["safe | int >= 80", "safe | int < 80"], True),
        (["r >= 80", "r >= 50 and r < 80", "r < 50"], False),  # null is none of them
        (["safe > 80", "safe < 80"], False),
        ([" or ".join(f"r == {number}" for number in range(20)), "not r"], False),
    ],
)
def test_conditions_of_which_one_is_always_true_are_known_by_their_form(
    conditions: list[str], are_exhaustive: bool
) -> None:
    parsed = [parse_condition(text) for text in conditions]
    assert is_exhaustive(parsed, lambda name: name.name == "safe") == are_exhaustive


def test_a_search_that_would_take_years_is_stopped() -> None:
    condition = parse_condition("last_response | search('(a+)+$')")
    with pytest.raises(ConditionError, match="The condition takes too long to decide"):
        condition_holds(condition, {"last_response": "a" * 60 + "!"})


@given(st.text(alphabet="ab.[]()'\"=<>!0 1-,andorti\\|len", max_size=60))
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    try:
        condition_holds(parse_condition(text), {"a": {"b": [1, "x"]}, "b": None})
    except ConditionError as error:
        column = error.column
    else:
        column = 0
    assert 0 <= column <= len(text)
