"""How an agent's answer becomes data that fits a JSON Schema, with any provider.

The agent gets one more tool, whose input is the answer: what does not fit goes back to the model as a coded
error, like any other call, and the first call that fits ends the agent's turn. A model that answers in text
instead is accepted if the text holds fitting JSON, else asked again.
"""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from itertools import islice
from typing import Any, Protocol

import msgspec
from strands import Agent
from strands.hooks import AfterToolsEvent
from strands.types.content import Message

from strands_cli.documents.problems import joined_sentences, relocated_schema
from strands_cli.errors import AnswerError, SpecError, ToolError, ToolFailed
from strands_cli.runtime.model_output import message_text
from strands_cli.schema.validator import Validator
from strands_cli.toolkit.arguments import parse_object
from strands_cli.toolkit.call import prepare_arguments
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.info import free_tool_name
from strands_cli.toolkit.results import error_of

MAX_REPETITIONS = 2
"""How often a model is asked again after an answer in text that does not fit."""
MAX_REFUSED = 10
"""How many calls of the tool may not fit: a model that goes on would never end."""

_WRAPPED = "value"
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(?P<text>.*?)```", re.DOTALL | re.IGNORECASE)
_OPENING = re.compile(r"[{\[]")
_MAX_PLACES = 200
"""How many places of a text are tried: a page of braces must not take for ever."""


class Answer(Protocol):
    """The result of an agent's invocation, such as the SDK's AgentResult."""

    @property
    def message(self) -> Message: ...


Invoke = Callable[[str], Awaitable[Answer]]
"""Invokes the agent with a prompt and returns its answer; raises if the run is to end."""


class Structured:
    """The data that one agent has to answer with.

    Give the agent `tool` among its tools and `instruction` in its system prompt, then `attach` it.
    """

    def __init__(
        self,
        schema: dict[str, Any],
        taken: Collection[str],
        *,
        name: str = "",
        max_retries: int | None = None,
    ) -> None:
        kind = schema.get("type", "object" if "properties" in schema else None)
        self._is_wrapped = kind != "object"
        self._name = f"agent {name!r}" if name else "the agent"
        self._value: Any = msgspec.UNSET
        self._refused: list[str] = []
        self._repetitions = MAX_REPETITIONS if max_retries is None else max_retries
        self._max_refused = MAX_REFUSED if max_retries is None else 1 + max_retries
        self._choice = _only_choice(schema)
        try:
            self.tool = Tool(
                id=free_tool_name(taken, "answer", "final_answer"),
                description="Gives your final answer. Call it once, when you are done, instead of a text.",
                input_schema=_object_schema(schema) if self._is_wrapped else schema,
                invoke=lambda arguments, context: "Accepted.",
                blocking=False,
                annotations={"readOnlyHint": True},
            )
        except ToolError as error:
            reason = error.issue.reason.replace("its input schema", "it") if error.issue else error.message
            raise SpecError(
                f"The output_schema of {self._name} cannot be used: {reason}", hint="Correct the schema."
            ) from error

    @property
    def instruction(self) -> str:
        return f"When you are done, give your final answer by calling the tool {self.tool.id!r}, not as text."

    def attach(self, agent: Agent) -> None:
        """Ends the agent's loop after a turn in which it gave a fitting answer; all calls of the turn run."""
        agent.add_hook(self.end_turn, AfterToolsEvent)

    def end_turn(self, event: AfterToolsEvent) -> None:
        """Takes the answer from the turn's messages, since a result may come from elsewhere than the body."""
        found = (block["toolResult"] for block in event.message["content"] if "toolResult" in block)
        results: dict[str, Any] = {result["toolUseId"]: result for result in found}
        for use in _calls_of_tool(event.agent.messages, self.tool.id):
            result = results.get(use["toolUseId"])
            if result and result["status"] == "success":
                self._value = self._value_of(prepare_arguments(self.tool, {"input": use["input"]}))
                event.end_turn = canonical_json(self._value)
            else:
                error = error_of(result) if result else None
                self._refused.append(str(error["message"]) if error else "it had no result")
        if self._is_hopeless:
            event.end_turn = f"(No call of {self.tool.id} did fit.)"

    @property
    def _is_hopeless(self) -> bool:
        return self._value is msgspec.UNSET and len(self._refused) >= self._max_refused

    async def ask(self, invoke: Invoke, prompt: str) -> tuple[Any, str]:
        """The answer as data, and as text; AnswerError if it still does not fit after all repetitions."""
        self._value, self._refused = msgspec.UNSET, []
        problem = ""
        for attempt in range(1 + self._repetitions):
            if attempt:
                prompt = (
                    f"Your answer cannot be used: {problem}.\nGive it again, complete and corrected, by "
                    f"calling the tool {self.tool.id!r}; if you cannot call tools, "
                    "answer with the JSON alone."
                )
            answer = await invoke(prompt)
            if self._value is not msgspec.UNSET:
                return self._value, canonical_json(self._value)
            if self._is_hopeless:
                often = {1: "once"}.get(len(self._refused), f"{len(self._refused)} times")
                problem = f"it was refused {often}, at last with: {self._refused[-1]}"
                break
            text = message_text(answer.message)
            value, problem = self._read(text)
            if not problem:
                return value, text
        raise AnswerError(
            f"The answer of {self._name} does not fit its output_schema: {problem}",
            hint="Say in the agent's prompt what the answer has to contain, make the schema simpler, "
            "or use a model that calls tools reliably.",
        )

    def _read(self, text: str) -> tuple[Any, str]:
        """The first value in a text that fits, or what is wrong with the first that is JSON at all."""
        problem = ""
        for candidate in self._candidates(text):
            try:
                return self._value_of(prepare_arguments(self.tool, {"input": parse_object(candidate)})), ""
            except ToolFailed as failed:
                if failed.code == "input_invalid" and not problem:
                    problem = failed.message.partition(": ")[2]
        return None, problem or "it is text and holds no JSON that could be the answer"

    def _candidates(self, text: str) -> Iterator[str]:
        for found in (
            text.strip(),
            *(block["text"] for block in _FENCED.finditer(text)),
            *_values_within(text),
        ):
            if self._is_wrapped:
                yield f'{{"{_WRAPPED}": {found}}}'
            yield found
        if self._is_wrapped:
            yield json.dumps({_WRAPPED: text.strip()})  # the schema may ask for a string: the text itself
        elif self._choice:
            yield json.dumps({self._choice: text.strip()})

    def _value_of(self, arguments: dict[str, Any]) -> Any:
        return arguments[_WRAPPED] if self._is_wrapped else arguments


def input_problem(text: str, schema: dict[str, Any]) -> str | None:
    """What is wrong with an agent's input that is JSON; '' if it fits the schema, None if it is not JSON."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return joined_sentences(Validator(schema).problems(value))


def canonical_json(value: Any) -> str:
    """The one text of a value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _only_choice(schema: dict[str, Any]) -> str:
    """The one required property, if it is an enum: a text may be just one of its words."""
    required, properties = schema.get("required"), schema.get("properties")
    if not isinstance(required, list) or len(required) != 1 or not isinstance(properties, dict):
        return ""
    declared = properties.get(required[0])
    return str(required[0]) if isinstance(declared, dict) and "enum" in declared else ""


def _object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """An object schema around any other: tools take nothing but objects."""
    inner = schema
    if "$id" not in schema:  # which would make its references its own
        plain = {key: part for key, part in schema.items() if key != "$schema"}
        inner = relocated_schema(plain, f"/properties/{_WRAPPED}")
    wrapper = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED]}
    return wrapper | {key: schema[key] for key in ("$schema",) if key in schema}


def _calls_of_tool(messages: list[Message], name: str) -> list[Any]:
    """The calls of a tool in the last message that the model sent."""
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    uses = [block["toolUse"] for block in last["content"] if "toolUse" in block] if last else []
    return [use for use in uses if use["name"] == name]


def _values_within(text: str) -> Iterator[str]:
    """The JSON objects and arrays that stand somewhere in a text."""
    decoder = json.JSONDecoder()
    end = 0
    for opening in islice(_OPENING.finditer(text), _MAX_PLACES):
        if opening.start() < end:
            continue
        try:
            _, end = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue
        yield text[opening.start() : end]
