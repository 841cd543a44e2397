"""What the model does next: call a tool, or say something.

What it writes of a call is held to a grammar (LLGuidance's Lark), made from the tools.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from strands_cli.providers.local.engine import DECISIONS, Completion, Engine, OnText, Sampling
from strands_cli.providers.local.prompts import (
    CALL_OPENING,
    ToolEntry,
    chat_with_tools,
    first_sentence,
    is_argument_mentioned,
    is_grounded,
    latest_request,
    meaningful_words,
    messages_by_step,
    plain_chat,
    request_steps,
    schema_of,
    spoken_text,
    spoken_words,
    tool_uses,
    value_as_handed_over,
    value_as_written,
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


class LocalCall(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


class LocalTurn(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision rests on: the conversation, and what may be done."""

    messages: Sequence[Any]
    system: str = ""
    tools: Sequence[ToolEntry] = ()
    must_call: bool = False
    sampling: Sampling = Sampling()
    stopping: OnText = lambda text: False
    """Whether to stop; asked while the model decides."""

    @property
    def request(self) -> str:
        """What the user asked for last."""
        place = latest_request(self.messages)
        return spoken_text(self.messages[place : place + 1])

    @property
    def spoken(self) -> str:
        return spoken_text(self.messages, self.system)

    @property
    def calls(self) -> list[LocalCall]:
        """The calls since that request."""
        since = self.messages[latest_request(self.messages) :]
        return [LocalCall(use["name"], use["input"]) for use in tool_uses(since)]


class LocalAnswer(msgspec.Struct, frozen=True):
    """A call, or none where the answer was text; and what it took."""

    call: LocalCall | None
    completions: tuple[Completion, ...]


def next_answer(engine: Engine, turn: LocalTurn, on_text: OnText) -> LocalAnswer:
    """A call of one of the tools with arguments that fit, or text. No call is made twice in one turn."""
    done: list[Completion] = []
    call = _call_for_request(engine, turn, done) if turn.tools else None
    if call is None:
        prompt = engine.render(plain_chat(turn.messages, turn.system))
        done.append(engine.complete(prompt, turn.sampling, on_text))
    return LocalAnswer(call, tuple(done))


def _call_for_request(engine: Engine, turn: LocalTurn, done: list[Completion]) -> LocalCall | None:
    """The call for the first step of the request that wants one and has none yet.

    Asked about the whole request again, a small model repeats itself or calls anything at all. So it is asked
    about one step at a time, with the steps before and their results, and about no more steps than there are.
    """
    calls, parts = turn.calls, request_steps(turn.request)
    if turn.must_call:
        return draft_call(engine, turn, _prompt_for_steps(engine, turn, [turn.request]), turn.request, done)
    for place in range(len(calls), len(parts)):
        prompt = _prompt_for_steps(engine, turn, parts[: place + 1])
        if wants_call(engine, turn, prompt, parts[place], done):
            call = draft_call(engine, turn, prompt, parts[place], done)
            return None if call in calls else call
    return None


def _prompt_for_steps(engine: Engine, turn: LocalTurn, parts: Sequence[str]) -> str:
    return engine.render(
        chat_with_tools(messages_by_step(turn.messages, parts), turn.system, turn.tools, engine.persona)
    )


def wants_call(engine: Engine, turn: LocalTurn, prompt: str, step: str, done: list[Completion]) -> bool:
    """Whether the model is about to write something structured: so it opens a call, whatever its wrapper."""
    opening = engine.complete(prompt, _GLANCE, turn.stopping, alternatives=_LIKELIEST, slot=DECISIONS)
    done.append(opening)
    # Special tokens have no text of their own.
    mass = sum(share for text, share in opening.probabilities.items() if not text or text[0] in "{`<[")
    named = any(_tool_words(spec) & spoken_words(step) for spec in turn.tools)
    return mass >= (SURE_WHEN_NAMED if named else SURE)


def draft_call(
    engine: Engine, turn: LocalTurn, prompt: str, step: str, done: list[Completion]
) -> LocalCall | None:
    """The call that the model would make for a step; None if its arguments found no end.

    Tools that the step names come first, then all of them. A required text that nobody spoke of is a sign of
    the wrong tool: then the next likely one is tried too.
    """
    rejected: list[LocalCall] = []
    for _ in range(_DRAFTS):
        left = [spec for spec in turn.tools if spec["name"] not in {call.name for call in rejected}]
        call = _write_call(engine, turn, most_named_tools(left, step), prompt, done) if left else None
        if call is None or turn.must_call or _is_call_grounded(call, turn):
            return call or next(iter(rejected), None)
        rejected.append(call)
    return rejected[0]


def most_named_tools(tools: Sequence[ToolEntry], step: str) -> Sequence[ToolEntry]:
    """The tools that a step has most words of; all of them where it has none.

    The words of their names and of their arguments' values count; among equals, those of their descriptions.
    """
    spoken_here = spoken_words(step)
    named = {spec["name"]: len(_tool_words(spec) & spoken_here) for spec in tools}
    most = max(named.values())
    if not most:
        return tools
    equals = [spec for spec in tools if named[spec["name"]] == most]
    described = {
        spec["name"]: len(meaningful_words(first_sentence(spec.get("description", ""))) & spoken_here)
        for spec in equals
    }
    return [spec for spec in equals if described[spec["name"]] == max(described.values())]


def _tool_words(spec: ToolEntry) -> set[str]:
    parts = schema_of(spec).get("properties", {}).values()
    values = [str(value) for part in parts if isinstance(part, dict) for value in part.get("enum", [])]
    return meaningful_words(" ".join([spec["name"], *values]))


def _is_call_grounded(call: LocalCall, turn: LocalTurn) -> bool:
    spec = next(spec for spec in turn.tools if spec["name"] == call.name)
    schema, given = schema_of(spec), call.arguments
    texts = {name: given[name] for name in schema.get("required", []) if isinstance(given.get(name), str)}
    described = schema.get("properties", {})
    return all(is_grounded(text, turn.spoken, str(described.get(name))) for name, text in texts.items())


def _write_call(
    engine: Engine, turn: LocalTurn, tools: Sequence[ToolEntry], prompt: str, done: list[Completion]
) -> LocalCall | None:
    opening = prompt + CALL_OPENING
    names = name_grammar(spec["name"] for spec in tools)
    chosen = engine.complete(opening, _SHORT, turn.stopping, grammar=names, slot=DECISIONS)
    done.append(chosen)
    name = chosen.text.removesuffix('"')
    spec = next((spec for spec in tools if spec["name"] == name), None)
    if spec is None:
        return None
    arguments = _write_arguments(engine, turn, schema_of(spec), f'{opening}{name}", "arguments": ', done)
    return None if arguments is None else LocalCall(name, arguments)


def _write_arguments(
    engine: Engine, turn: LocalTurn, schema: dict[str, Any], opening: str, done: list[Completion]
) -> dict[str, Any] | None:
    """Arguments that fit the schema; where the optional ones found no end, the required ones alone."""
    conversation = turn.spoken
    # Who forces a call wants the answer in that form, what the model adds of its own included.
    forms = [schema if turn.must_call else narrowed_schema(schema, conversation), required_schema(schema)]
    room = turn.sampling.max_tokens if turn.must_call else min(turn.sampling.max_tokens, _LONGEST)
    sampling = msgspec.structs.replace(turn.sampling, temperature=0.0, stop=(), max_tokens=room)
    for form in forms:
        grammar = arguments_grammar(form)
        written = engine.complete(opening, sampling, turn.stopping, grammar=grammar, slot=DECISIONS)
        done.append(written)
        arguments = _json_object(written.text)
        if arguments is None and written.cut:
            # A text found no end: it is taken up to the end of its first line, since the rest is rambling.
            arguments = _json_object(written.text.partition("\\n")[0] + '"}')
        if arguments is not None:
            return (
                arguments
                if turn.must_call
                else settled_arguments(arguments, schema, conversation, turn.request)
            )
    return None


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def settled_arguments(
    arguments: dict[str, Any], schema: dict[str, Any], spoken: str, request: str = ""
) -> dict[str, Any]:
    """The arguments without optional text that nobody said, and with copied text as it was written."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    taken = [value for name, value in arguments.items() if name in required and isinstance(value, str)]
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        part = properties.get(name, {})
        if isinstance(value, str) and "enum" not in part:
            value = value_as_written(value, spoken)
            value = (
                value_as_handed_over(value, request) if name in required and value not in spoken else value
            )
            if name not in required and not is_grounded(value, spoken, str(part), taken):
                continue
        kept[name] = value
    return _without_duplicate_arguments(kept, properties, required, spoken)


def _without_duplicate_arguments(
    arguments: dict[str, Any], properties: dict[str, Any], required: Sequence[str], spoken: str
) -> dict[str, Any]:
    """Of optional arguments with one and the same text, the one that is spoken of most."""

    def weight(name: str) -> int:
        return len(
            meaningful_words(f"{name} {properties.get(name, {}).get('description', '')}")
            & meaningful_words(spoken)
        )

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


# --- Grammars ----------------------------------------------------------------------------------------------

_HEADER = "%llguidance {}\nstart: "
# As the model was trained to write JSON: on one line, with a space after a comma and a colon.
_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
_LONGEST_TEXT = 400
"""Characters of an optional text."""


def name_grammar(names: Iterable[str]) -> str:
    """One of the names, and the quotation mark after it."""
    return _HEADER + " | ".join(json.dumps(name + '"') for name in names)


def arguments_grammar(schema: dict[str, Any]) -> str:
    """A JSON object that is valid under the schema."""
    return f"{_HEADER}%json {json.dumps({**schema, 'x-guidance': _LAYOUT})}"


def narrowed_schema(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """The schema with required properties first, and without optional ones that the text does not mention.

    A small model fills in whatever it may. Optional text stays, not without end, and is judged once written.
    """
    form = required_schema(schema)
    for name, part in schema.get("properties", {}).items():
        if isinstance(part, dict) and part.get("type") == "string" and "enum" not in part:
            form["properties"].setdefault(name, {"maxLength": _LONGEST_TEXT, **part})
        elif isinstance(part, dict) and is_argument_mentioned(name, part, text):
            form["properties"].setdefault(name, part)
    return form


def required_schema(schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", [])
    properties = {name: part for name, part in schema.get("properties", {}).items() if name in required}
    return {"additionalProperties": False, **schema, "type": "object", "properties": properties}
