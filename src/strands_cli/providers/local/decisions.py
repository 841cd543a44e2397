"""What the model does next: call a tool, or say something.

What it writes of a call is held to a grammar (LLGuidance's Lark), made from the tools.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from strands_cli.providers.local.engine import DECISIONS, Completion, LlamaEngine, OnText, Sampling
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


def next_answer(engine: LlamaEngine, turn: LocalTurn, on_text: OnText) -> LocalAnswer:
    """A call of one of the tools with arguments that fit, or text. No call is made twice in one turn."""
    decision = Decision(engine, turn)
    call = decision.next_call() if turn.tools else None
    if call is None:
        prompt = engine.render(plain_chat(turn.messages, turn.system))
        decision.done.append(engine.complete(prompt, turn.sampling, on_text))
    return LocalAnswer(call, tuple(decision.done))


class Decision:
    """One decision of the model's, in as many completions as it takes."""

    def __init__(self, engine: LlamaEngine, turn: LocalTurn) -> None:
        self.engine, self.turn = engine, turn
        self.done: list[Completion] = []

    def next_call(self) -> LocalCall | None:
        """The call for the first step of the request that wants one and has none yet.

        Asked about the whole request again, a small model repeats itself or calls anything at all. So it is
        asked about one step at a time, with the steps before and their results, and about no more steps than
        there are.
        """
        turn = self.turn
        if turn.must_call:
            return self.draft_call(self._prompt([turn.request]), turn.request)
        calls, steps = turn.calls, request_steps(turn.request)
        for place in range(len(calls), len(steps)):
            prompt = self._prompt(steps[: place + 1])
            if self.wants_call(prompt, steps[place]):
                call = self.draft_call(prompt, steps[place])
                return None if call in calls else call
        return None

    def _prompt(self, steps: Sequence[str]) -> str:
        turn, persona = self.turn, self.engine.persona
        messages = messages_by_step(turn.messages, steps)
        return self.engine.render(chat_with_tools(messages, turn.system, turn.tools, persona))

    def _complete(self, prompt: str, sampling: Sampling, **options: Any) -> Completion:
        completion = self.engine.complete(prompt, sampling, self.turn.stopping, slot=DECISIONS, **options)
        self.done.append(completion)
        return completion

    def wants_call(self, prompt: str, step: str) -> bool:
        """Whether the model is about to write something structured: that is how it opens a call."""
        opening = self._complete(prompt, _GLANCE, alternatives=_LIKELIEST)
        # Special tokens have no text of their own.
        mass = sum(share for text, share in opening.probabilities.items() if not text or text[0] in "{`<[")
        named = any(_tool_words(spec) & spoken_words(step) for spec in self.turn.tools)
        return mass >= (SURE_WHEN_NAMED if named else SURE)

    def draft_call(self, prompt: str, step: str) -> LocalCall | None:
        """The call that the model would make for a step; None if its arguments found no end.

        Tools that the step names come first, then all of them. A required text that nobody spoke of is a sign
        of the wrong tool: then the next likely one is tried too.
        """
        rejected: list[LocalCall] = []
        left = list(self.turn.tools)
        while left and len(rejected) < _DRAFTS:
            call = self._write_call(most_named_tools(left, step), prompt)
            if call is None:
                break
            if self.turn.must_call or self._is_grounded(call):
                return call
            rejected.append(call)
            left = [spec for spec in left if spec["name"] != call.name]
        return rejected[0] if rejected else None

    def _is_grounded(self, call: LocalCall) -> bool:
        spec = next(spec for spec in self.turn.tools if spec["name"] == call.name)
        schema = schema_of(spec)
        return all(
            is_grounded(value, self.turn.spoken, str(schema.get("properties", {}).get(name)))
            for name, value in call.arguments.items()
            if name in schema.get("required", []) and isinstance(value, str)
        )

    def _write_call(self, tools: Sequence[ToolEntry], prompt: str) -> LocalCall | None:
        opening = prompt + CALL_OPENING
        chosen = self._complete(opening, _SHORT, grammar=name_grammar(spec["name"] for spec in tools))
        name = chosen.text.removesuffix('"')
        spec = next((spec for spec in tools if spec["name"] == name), None)
        if spec is None:
            return None
        arguments = self._write_arguments(schema_of(spec), f'{opening}{name}", "arguments": ')
        return None if arguments is None else LocalCall(name, arguments)

    def _write_arguments(self, schema: dict[str, Any], opening: str) -> dict[str, Any] | None:
        """Arguments that fit the schema; where the optional ones found no end, the required ones alone."""
        turn, form, room = self.turn, schema, self.turn.sampling.max_tokens
        # Who forces a call wants the answer in that form, what the model adds of its own included.
        if not turn.must_call:
            form, room = narrowed_schema(schema, turn.spoken), min(room, _LONGEST)
        sampling = msgspec.structs.replace(turn.sampling, temperature=0.0, stop=(), max_tokens=room)
        for tried in (form, required_schema(schema)):
            written = self._complete(opening, sampling, grammar=arguments_grammar(tried))
            arguments = _json_object(written.text)
            if arguments is None and written.cut:
                # A text found no end: its first line is taken, since the rest is rambling.
                arguments = _json_object(written.text.partition("\\n")[0] + '"}')
            if arguments is not None:
                return arguments if turn.must_call else settled_arguments(arguments, schema, turn)
        return None


def most_named_tools(tools: Sequence[ToolEntry], step: str) -> Sequence[ToolEntry]:
    """The tools that a step has most words of; all of them where it has none.

    The words of their names and of their arguments' values count; among equals, those of their descriptions.
    """
    spoken_here = spoken_words(step)

    def likeness(spec: ToolEntry) -> tuple[int, int]:
        described = meaningful_words(first_sentence(spec.get("description", "")))
        return len(_tool_words(spec) & spoken_here), len(described & spoken_here)

    most = max(map(likeness, tools))
    return [spec for spec in tools if likeness(spec) == most] if most[0] else tools


def _tool_words(spec: ToolEntry) -> set[str]:
    parts = schema_of(spec).get("properties", {}).values()
    values = [str(value) for part in parts if isinstance(part, dict) for value in part.get("enum", [])]
    return meaningful_words(" ".join([spec["name"], *values]))


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def settled_arguments(arguments: dict[str, Any], schema: dict[str, Any], turn: LocalTurn) -> dict[str, Any]:
    """The arguments without optional text that nobody said, and with copied text as it was written."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    spoken = turn.spoken
    taken = [value for name, value in arguments.items() if name in required and isinstance(value, str)]
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        part = properties.get(name, {})
        if isinstance(value, str) and "enum" not in part:
            value = value_as_written(value, spoken)
            if name in required:
                value = value if value in spoken else value_as_handed_over(value, turn.request)
            elif not is_grounded(value, spoken, str(part), taken):
                continue
        kept[name] = value

    def mentions(name: str) -> int:
        described = f"{name} {properties.get(name, {}).get('description', '')}"
        return len(meaningful_words(described) & meaningful_words(spoken))

    for name in [name for name, value in kept.items() if name not in required and isinstance(value, str)]:
        # Of optional arguments with one and the same text, the one that is spoken of most is meant.
        rivals = [other for other in kept if kept[other] == kept[name]]
        if any(mentions(rival) > mentions(name) for rival in rivals):
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
