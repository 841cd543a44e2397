"""What the model does next: call a tool, or say something."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from strands_cli.providers.local.engine import DECISIONS, Completion, Engine, Heard, Sampling
from strands_cli.providers.local.grammar import arguments_grammar, name_grammar, narrowed, required_only
from strands_cli.providers.local.prompting import (
    CALL_OPENING,
    Spec,
    chat,
    latest_request,
    plain_chat,
    schema_of,
    spoken,
    stepwise,
)
from strands_cli.providers.local.wording import (
    as_handed_over,
    as_written,
    first_sentence,
    is_grounded,
    spoken_words,
    steps,
    words,
)

SURE = 0.75
"""How likely an answer must open like a call to be one, measured on the tuning half of the benchmark."""
SURE_WHEN_NAMED = 0.2
"""The same for a step with a word of a tool's name, or of its arguments' values, in it."""

_LIKELIEST = 60
_DRAFTS = 3
_LONGEST = 256
"""Tokens of a call's arguments. What is longer has lost its way."""
_GLANCE = Sampling(max_tokens=1)
_SHORT = Sampling(max_tokens=24)


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision rests on: the conversation, and what may be done."""

    messages: Sequence[Any]
    system: str = ""
    tools: Sequence[Spec] = ()
    must_call: bool = False
    sampling: Sampling = Sampling()
    stopping: Heard = lambda text: False
    """Whether to stop; asked while the model decides."""

    @property
    def request(self) -> str:
        """What the user asked for last."""
        place = latest_request(self.messages)
        return spoken(self.messages[place : place + 1])

    @property
    def spoken(self) -> str:
        return spoken(self.messages, self.system)

    @property
    def made(self) -> list[Call]:
        """The calls since that request."""
        since = self.messages[latest_request(self.messages) :]
        uses = (block["toolUse"] for message in since for block in message["content"] if "toolUse" in block)
        return [Call(use["name"], use["input"]) for use in uses]


class Move(msgspec.Struct, frozen=True):
    """A call, or the text that was heard; and what it took."""

    call: Call | None
    completions: tuple[Completion, ...]


def next_move(engine: Engine, turn: Turn, heard: Heard) -> Move:
    """A call of one of the tools with arguments that fit, or text. No call is made twice in one turn."""
    done: list[Completion] = []
    call = _call(engine, turn, done) if turn.tools else None
    if call is None:
        prompt = engine.render(plain_chat(turn.messages, turn.system))
        done.append(engine.complete(prompt, turn.sampling, heard))
    return Move(call, tuple(done))


def _call(engine: Engine, turn: Turn, done: list[Completion]) -> Call | None:
    """The call for the first step of the request that wants one and has none yet.

    Asked about the whole request again, a small model repeats itself or calls anything at all. So it is asked
    about one step at a time, with the steps before and their results, and about no more steps than there are.
    """
    made, parts = turn.made, steps(turn.request)
    if turn.must_call:
        return draft_call(engine, turn, _prompt(engine, turn, [turn.request]), turn.request, done)
    for place in range(len(made), len(parts)):
        prompt = _prompt(engine, turn, parts[: place + 1])
        if wants_call(engine, turn, prompt, parts[place], done):
            call = draft_call(engine, turn, prompt, parts[place], done)
            return None if call in made else call
    return None


def _prompt(engine: Engine, turn: Turn, parts: Sequence[str]) -> str:
    return engine.render(chat(stepwise(turn.messages, parts), turn.system, turn.tools, engine.persona))


def wants_call(engine: Engine, turn: Turn, prompt: str, step: str, done: list[Completion]) -> bool:
    """Whether the model is about to write something structured: so it opens a call, whatever its wrapper."""
    opening = engine.complete(prompt, _GLANCE, turn.stopping, alternatives=_LIKELIEST, slot=DECISIONS)
    done.append(opening)
    # Special tokens have no text of their own.
    mass = sum(share for text, share in opening.probabilities.items() if not text or text[0] in "{`<[")
    named = any(_own_words(spec) & spoken_words(step) for spec in turn.tools)
    return mass >= (SURE_WHEN_NAMED if named else SURE)


def draft_call(engine: Engine, turn: Turn, prompt: str, step: str, done: list[Completion]) -> Call | None:
    """The call that the model would make for a step; None if its arguments found no end.

    Tools that the step names come first, then all of them. A required text that nobody spoke of is a sign of
    the wrong tool: then the next likely one is tried too.
    """
    rejected: list[Call] = []
    for _ in range(_DRAFTS):
        left = [spec for spec in turn.tools if spec["name"] not in {call.name for call in rejected}]
        call = _draft(engine, turn, most_named(left, step), prompt, done) if left else None
        if call is None or turn.must_call or _is_grounded(call, turn):
            return call or next(iter(rejected), None)
        rejected.append(call)
    return rejected[0]


def most_named(tools: Sequence[Spec], step: str) -> Sequence[Spec]:
    """The tools that a step has most words of; all of them where it has none.

    The words of their names and of their arguments' values count; among equals, those of their descriptions.
    """
    said = spoken_words(step)
    named = {spec["name"]: len(_own_words(spec) & said) for spec in tools}
    most = max(named.values())
    if not most:
        return tools
    equals = [spec for spec in tools if named[spec["name"]] == most]
    described = {
        spec["name"]: len(words(first_sentence(spec.get("description", ""))) & said) for spec in equals
    }
    return [spec for spec in equals if described[spec["name"]] == max(described.values())]


def _own_words(spec: Spec) -> set[str]:
    parts = schema_of(spec).get("properties", {}).values()
    values = [str(value) for part in parts if isinstance(part, dict) for value in part.get("enum", [])]
    return words(" ".join([spec["name"], *values]))


def _is_grounded(call: Call, turn: Turn) -> bool:
    spec = next(spec for spec in turn.tools if spec["name"] == call.name)
    schema, given = schema_of(spec), call.arguments
    texts = {name: given[name] for name in schema.get("required", []) if isinstance(given.get(name), str)}
    described = schema.get("properties", {})
    return all(is_grounded(text, turn.spoken, str(described.get(name))) for name, text in texts.items())


def _draft(
    engine: Engine, turn: Turn, tools: Sequence[Spec], prompt: str, done: list[Completion]
) -> Call | None:
    opening = prompt + CALL_OPENING
    names = name_grammar(spec["name"] for spec in tools)
    chosen = engine.complete(opening, _SHORT, turn.stopping, grammar=names, slot=DECISIONS)
    done.append(chosen)
    name = chosen.text.removesuffix('"')
    spec = next((spec for spec in tools if spec["name"] == name), None)
    if spec is None:
        return None
    arguments = _arguments(engine, turn, schema_of(spec), f'{opening}{name}", "arguments": ', done)
    return None if arguments is None else Call(name, arguments)


def _arguments(
    engine: Engine, turn: Turn, schema: dict[str, Any], opening: str, done: list[Completion]
) -> dict[str, Any] | None:
    """Arguments that fit the schema; where the optional ones found no end, the required ones alone."""
    said = turn.spoken
    # Who forces a call wants the answer in that form, what the model adds of its own included.
    forms = [schema if turn.must_call else narrowed(schema, said), required_only(schema)]
    room = turn.sampling.max_tokens if turn.must_call else min(turn.sampling.max_tokens, _LONGEST)
    sampling = msgspec.structs.replace(turn.sampling, temperature=0.0, stop=(), max_tokens=room)
    for form in forms:
        grammar = arguments_grammar(form)
        written = engine.complete(opening, sampling, turn.stopping, grammar=grammar, slot=DECISIONS)
        done.append(written)
        arguments = _object(written.text) or (_object(_first_line(written.text)) if written.cut else None)
        if arguments is not None:
            return arguments if turn.must_call else settled(arguments, schema, said, turn.request)
    return None


def _first_line(text: str) -> str:
    """Arguments whose last text found no end, up to the end of its first line: the rest is rambling."""
    return text.partition("\\n")[0] + '"}'


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def settled(
    arguments: dict[str, Any], schema: dict[str, Any], spoken: str, request: str = ""
) -> dict[str, Any]:
    """The arguments without optional text that nobody said, and with copied text as it was written."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    taken = [value for name, value in arguments.items() if name in required and isinstance(value, str)]
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        part = properties.get(name, {})
        if isinstance(value, str) and "enum" not in part:
            value = as_written(value, spoken)
            value = as_handed_over(value, request) if name in required and value not in spoken else value
            if name not in required and not is_grounded(value, spoken, str(part), taken):
                continue
        kept[name] = value
    return _without_doubles(kept, properties, required, spoken)


def _without_doubles(
    arguments: dict[str, Any], properties: dict[str, Any], required: Sequence[str], spoken: str
) -> dict[str, Any]:
    """Of optional arguments with one and the same text, the one that is spoken of most."""

    def weight(name: str) -> int:
        return len(words(f"{name} {properties.get(name, {}).get('description', '')}") & words(spoken))

    kept = dict(arguments)
    for name, value in arguments.items():
        rivals = [other for other in kept if other != name and kept[other] == value]
        if (
            name not in required
            and isinstance(value, str)
            and any(weight(rival) > weight(name) for rival in rivals)
        ):
            del kept[name]
    return kept
