"""What a request says: its steps, the arguments it mentions, and what is to be copied as it stands."""

import pytest

from strands_cli.providers.local.prompts import (
    is_argument_mentioned,
    is_grounded,
    request_steps,
    value_as_handed_over,
    value_as_written,
)


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("What is 2 + 2?", ["What is 2 + 2?"]),
        ("Read a.txt and then echo it.", ["Read a.txt", "echo it."]),
        ("Read a.txt, then count the words.", ["Read a.txt", "count the words."]),
        ("Find the order and send it to Ann.", ["Find the order", "send it to Ann."]),
        ("What is the date and time in Rome?", ["What is the date and time in Rome?"]),
        (
            'Read the file a.txt. "hello world" is what to write.',
            ["Read the file a.txt.", '"hello world" is what to write.'],
        ),
        ("Open the door. Close the window.", ["Open the door.", "Close the window."]),
    ],
)
def test_a_request_is_divided_into_its_steps(request_text: str, expected: list[str]) -> None:
    assert [step.strip() for step in request_steps(request_text)] == expected


@pytest.mark.parametrize(
    "request_text",
    ["Echo this: One. Two, then three.", 'Send "Stop. Go home." to Ann', "Translate 'Yes. No.' into French"],
)
def test_what_is_to_be_passed_on_is_never_divided(request_text: str) -> None:
    assert request_steps(request_text) == [request_text]


def test_a_long_text_is_no_list_of_steps() -> None:
    story = " ".join(f"Sentence number {number} says something." for number in range(9))
    assert request_steps(story) == [story]


@pytest.mark.parametrize(
    ("written", "said", "expected"),
    [
        ("He said 'no'.", 'Echo: He said "no".', 'He said "no".'),
        ("two spaces", "Echo: two  spaces", "two  spaces"),
        ("a/b/c", "Echo: a/b\\c", "a/b\\c"),
        (" café", "Echo: café", "café"),
        ("'quoted'", 'Echo: "quoted"', '"quoted"'),
        ("45 + 55 / 4", "Compute (45 + 55) / 4 now", "(45 + 55) / 4"),
        ("Lisboa", "How warm is Lisbon?", "Lisbon"),
        ("Berlin", "How warm is Bern?", "Berlin"),
        ("something else", "Echo: nothing of the kind", "something else"),
        ("", "Echo: x", ""),
    ],
)
def test_a_copied_text_is_taken_as_it_was_written(written: str, said: str, expected: str) -> None:
    assert value_as_written(written, said) == expected


def test_a_value_comes_from_the_conversation_or_was_made_up() -> None:
    assert is_grounded("Asia/Tokyo", "What time is it in Tokyo?")
    assert not is_grounded("London", "Read city.txt")


def test_an_example_of_the_description_is_not_a_value() -> None:
    assert not is_grounded("(2 + 3) * 4", "multiply it by 4", "What to evaluate, such as '(2 + 3) * 4'")


def test_a_word_that_another_argument_has_taken_grounds_nothing_else() -> None:
    assert not is_grounded("*/todo.txt", "Search for TODO", taken=["TODO"])


def test_an_argument_is_mentioned_by_a_value_its_name_or_its_description() -> None:
    unit = {"type": "string", "enum": ["celsius", "fahrenheit"]}
    digits = {"type": "integer", "description": "Digits after the point"}
    assert is_argument_mentioned("unit", unit, "in Fahrenheit please")
    assert not is_argument_mentioned("unit", unit, "how warm is it?")
    assert is_argument_mentioned("precision", digits, "two digits after the point")
    assert not is_argument_mentioned("precision", digits, "what is the point?")


@pytest.mark.parametrize(
    ("value", "request_", "expected"),
    [
        ("greater than 3 μm — 日本", "Echo this message: größer als 3 μm — 日本", "größer als 3 μm — 日本"),
        ("6 * 7", "Calculate: six times seven", "6 * 7"),
        ("Good morning", 'Send "Good morning" to Ada', "Good morning"),
    ],
)
def test_what_is_handed_over_is_passed_on_untranslated(value: str, request_: str, expected: str) -> None:
    assert value_as_handed_over(value, request_) == expected
