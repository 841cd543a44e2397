"""Checks of one attempt: what was expected, compared with what came."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any

import msgspec

from strands_cli.documents.problems import json_pointer, pointer_steps, shorten_text, value_at
from strands_cli.evals.cases import (
    AnswerExpectation,
    AttemptLimits,
    CallExpectation,
    CallsExpectation,
    Expectations,
    JsonExpectation,
    TextExpectation,
)
from strands_cli.schema.validator import Validator
from strands_cli.templates.meter import TooMuch
from strands_cli.templates.pattern_search import search_pattern
from strands_cli.types import Usage

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(?P<text>.*?)```", re.DOTALL | re.IGNORECASE)
_LONGEST = 300
"""Characters of an answer that a mismatch shows."""
_MOST_DIFFERENT_LINES = 20
_MOST_SCHEMA_PROBLEMS = 3


class MadeCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of an agent."""

    tool: str
    arguments: Any = None
    """The input as the model sent it: an object, or text that is not JSON."""
    result: Any = None
    code: str | None = None
    """The error code if it failed."""

    @property
    def request(self) -> dict[str, Any]:
        """The call without its result, for a judge."""
        asked = {"tool": self.tool, "arguments": self.arguments}
        return {**asked, "failed": self.code} if self.code else asked

    def __str__(self) -> str:
        text = f"{self.tool} {_json_text(self.arguments)}"
        return f"{text} (failed: {self.code})" if self.code else text


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked in one attempt, and what came."""

    asked: Mapping[str, Any] = {}
    """For a judge: the inputs, the prompt of an agent as it was rendered, or the input of a tool."""
    text: str = ""
    data: Any = None
    """The answer as data, if it is more than text."""
    calls: tuple[MadeCall, ...] = ()
    steps: Mapping[str, tuple[str, Any]] = {}
    """The text and the data of the steps' answers, by their ids."""
    usage: Usage = Usage()
    seconds: float = 0
    code: str = ""
    """The error code if the run or the call failed."""
    error: str = ""
    is_stopped: bool = False
    """Whether it was stopped at `limits.seconds`: there is neither an answer nor an error then."""


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """An expectation that was not met."""

    expectation: str
    """The key in the file: `text.contains`, `calls`, `limits.tokens`."""
    expected: str
    got: str
    diff: tuple[str, ...] = ()


def check_attempt(expect: Expectations, observed: Observed) -> Iterator[Mismatch]:
    """The expectations that an attempt does not meet, all but those of the judge.

    It blocks while it searches for `matches`: in an event loop, iterate in a thread.
    """
    if observed.is_stopped:
        pass  # the limit is the only thing to report
    elif expect.code is not None and observed.code != expect.code:
        got = f"{observed.code}: {observed.error}" if observed.code else "success"
        yield Mismatch(expectation="code", expected=expect.code, got=got)
    elif expect.code is None and observed.code:
        yield Mismatch(expectation="error", expected="success", got=f"{observed.code}: {observed.error}")
    if not observed.is_stopped and (not observed.code or expect.code is not None):
        yield from _check_answer(expect, observed.text, observed.data)
        yield from _check_steps(expect, observed)
        yield from check_calls(expect.calls or CallsExpectation(), observed.calls)
    yield from _check_limits(expect.limits, observed)


def _check_limits(limits: AttemptLimits, observed: Observed) -> Iterator[Mismatch]:
    used = {"tokens": observed.usage.total_tokens, "calls": len(observed.calls)}
    for name, number in used.items():
        most = getattr(limits, name)
        if most is not None and number > most:
            yield Mismatch(expectation=f"limits.{name}", expected=f"at most {most:g}", got=str(number))
    if limits.seconds is not None and (observed.is_stopped or observed.seconds > limits.seconds):
        got = f"{'stopped after ' if observed.is_stopped else ''}{observed.seconds:.3f} s"
        wanted = f"at most {limits.seconds:g} s"
        yield Mismatch(expectation="limits.seconds", expected=wanted, got=got)


def _check_steps(expect: Expectations, observed: Observed) -> Iterator[Mismatch]:
    for name, part in expect.steps.items():
        if name not in observed.steps:
            known = ", ".join(observed.steps) or "none"
            wanted = "an answer of this step"
            yield Mismatch(expectation=f"steps.{name}", expected=wanted, got=f"steps: {known}")
            continue
        for found in _check_answer(part, *observed.steps[name]):
            yield msgspec.structs.replace(found, expectation=f"steps.{name}.{found.expectation}")


# --- Answers ----------------------------------------------------------------------------------------------


def _check_answer(expect: AnswerExpectation, text: str, data: Any) -> Iterator[Mismatch]:
    shown = shorten_text(text, _LONGEST)
    if expect.text is not None:
        yield from _check_text(expect.text, text, shown)
    if expect.matches is not None:
        yield from _check_matches(expect.matches, text, shown)
    if expect.json is None and expect.schema is None:
        return
    value = data if data is not None and not isinstance(data, str) else _json_in(text)
    if value is msgspec.UNSET:
        yield Mismatch(expectation="json" if expect.json else "schema", expected="JSON", got=shown)
        return
    if expect.json is not None:
        yield from _check_json(expect.json, value)
    for problem in Validator(expect.schema or {}).problems(value, _MOST_SCHEMA_PROBLEMS):
        wanted = f"{problem.pointer or 'the answer'} must {problem.requirement}"
        yield Mismatch(expectation="schema", expected=wanted, got=problem.got)


def _check_text(expect: TextExpectation, text: str, shown: str) -> Iterator[Mismatch]:
    for part in expect.contains:
        if part not in text:
            yield Mismatch(expectation="text.contains", expected=part, got=shown)
    for part in expect.excludes:
        if part in text:
            yield Mismatch(expectation="text.excludes", expected=f"not: {part}", got=shown)
    wanted = expect.equals
    if wanted is not None and text.strip() != wanted.strip():
        diff = _diff(wanted.strip(), text.strip())
        yield Mismatch(expectation="text.equals", expected=wanted, got=shown, diff=diff)


def _check_matches(pattern: str, text: str, shown: str) -> Iterator[Mismatch]:
    try:
        if search_pattern(pattern, text, ignore_case=False) is not None:
            return
    except (TooMuch, ValueError) as error:
        shown = str(error)
    yield Mismatch(expectation="matches", expected=pattern, got=shown)


def _json_in(text: str) -> Any:
    """Returns the JSON value of a text or of its first fenced block, or UNSET."""
    fenced = _FENCED.search(text)
    for part in (text, fenced["text"] if fenced else ""):
        try:
            return json.loads(part)
        except (ValueError, RecursionError):
            continue
    return msgspec.UNSET


def _check_json(expect: JsonExpectation, value: Any) -> Iterator[Mismatch]:
    for key in pointer_steps(expect.at):
        inner = value_at(value, json_pointer([key]))
        if inner is msgspec.UNSET:
            got = f"no {key!r} in {shorten_text(_json_text(value), _LONGEST)}"
            yield Mismatch(expectation="json.at", expected=f"a value at {expect.at}", got=got)
            return
        value = inner
    got = shorten_text(_json_text(value), _LONGEST)
    if expect.equals is not msgspec.UNSET and not _is_same(expect.equals, value):
        diff = _diff(_json_text(expect.equals, 2), _json_text(value, 2))
        yield Mismatch(expectation="json.equals", expected=_json_text(expect.equals), got=got, diff=diff)
    if expect.contains is not msgspec.UNSET and not is_part(expect.contains, value):
        yield Mismatch(expectation="json.contains", expected=_json_text(expect.contains), got=got)


def is_part(part: Any, whole: Any) -> bool:
    """Whether all keys of `part`, at any depth, have the same values in `whole`."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and is_part(value, whole[name]) for name, value in part.items())
    return _is_same(part, whole)


def _is_same(one: Any, other: Any) -> bool:
    """Equality of JSON values: 1 is 1.0, but not true."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def _diff(expected: str, got: str) -> tuple[str, ...]:
    """A short diff, if there is more than one line to compare."""
    if "\n" not in expected + got:
        return ()
    lines = [*unified_diff(expected.splitlines(), got.splitlines(), "expected", "got", n=1, lineterm="")]
    rest = len(lines) - _MOST_DIFFERENT_LINES
    return (*lines[:_MOST_DIFFERENT_LINES], *([f"… {rest} more lines"] if rest > 0 else []))


def _json_text(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=indent is not None, default=str)


# --- Calls ------------------------------------------------------------------------------------------------


def check_calls(expect: CallsExpectation, made: Sequence[MadeCall]) -> Iterator[Mismatch]:
    """Expected calls that were not made, and calls that should not have been."""
    for name in expect.forbidden:
        for call in made:
            if call.tool == name:
                yield Mismatch(expectation="calls.forbidden", expected=f"no call of {name}", got=str(call))
    if expect.expected is None:
        return
    match = _in_any_order if expect.order == "any" else _in_order
    found = match(expect.expected, made)
    left = [call for at, call in enumerate(made) if at not in found.values()]
    for at, wanted in enumerate(expect.expected):
        if at not in found:
            alike = [call for call in left if call.tool == wanted.tool] or made
            got = shorten_text(", ".join(map(str, alike)) or "no calls", _LONGEST)
            yield Mismatch(expectation="calls", expected=_call_text(wanted), got=got)
    if len(found) == len(expect.expected) and not expect.others:
        for call in left:
            got = shorten_text(str(call), _LONGEST)
            yield Mismatch(expectation="calls", expected="no other calls", got=got)


def _in_order(wanted: Sequence[CallExpectation], made: Sequence[MadeCall]) -> dict[int, int]:
    """Which call meets which expectation, both in the same order."""
    found: dict[int, int] = {}
    begin = 0
    for at, one in enumerate(wanted):
        place = next((place for place in range(begin, len(made)) if _fits(one, made[place])), None)
        if place is not None:
            found[at], begin = place, place + 1
    return found


def _in_any_order(wanted: Sequence[CallExpectation], made: Sequence[MadeCall]) -> dict[int, int]:
    """A largest matching, so that a vague expectation does not take the call that another one needs."""
    fitting = [[place for place, call in enumerate(made) if _fits(one, call)] for one in wanted]
    taken: dict[int, int] = {}

    def place_for(at: int, tried: set[int]) -> bool:
        for place in fitting[at]:
            if place not in tried:
                tried.add(place)
                if place not in taken or place_for(taken[place], tried):
                    taken[place] = at
                    return True
        return False

    for at in range(len(wanted)):
        place_for(at, set())
    return {at: place for place, at in taken.items()}


def _fits(wanted: CallExpectation, call: MadeCall) -> bool:
    if wanted.tool != call.tool:
        return False
    if wanted.arguments is not None:
        compare = _is_same if wanted.exact else is_part
        if not compare(wanted.arguments, call.arguments):
            return False
    elif wanted.exact and call.arguments:
        return False
    if wanted.schema is not None and not Validator(wanted.schema).accepts(call.arguments):
        return False
    if wanted.result is msgspec.UNSET:
        return True
    result = call.result
    if isinstance(result, str) and not isinstance(wanted.result, str):
        result = _json_in(result)
    return is_part(wanted.result, result.strip() if isinstance(result, str) else result)


def _call_text(wanted: CallExpectation) -> str:
    parts = [wanted.tool]
    if wanted.arguments is not None:
        parts.append(f"{'exactly ' if wanted.exact else ''}{_json_text(wanted.arguments)}")
    if wanted.schema is not None:
        parts.append("with arguments that fit its schema")
    if wanted.result is not msgspec.UNSET:
        parts.append(f"with the result {_json_text(wanted.result)}")
    return " ".join(parts)
