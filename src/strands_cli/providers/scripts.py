"""Scripts for `provider: scripted`, and the parts of scripted answers.

The request alone determines the rule and the position in its answers, so a script gives the same answers in
parallel steps and in a resumed run. Only answers outside of rules are used in order; after a resume, those in
the journal are skipped.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.documents.problems import JsonPath, json_pointer, shorten_text
from strands_cli.documents.reader import Document, read_document_file
from strands_cli.errors import Issue, ProviderError
from strands_cli.providers.choice import FailureKind, ModelChoice
from strands_cli.schema.validator import published_schema
from strands_cli.settings import marked_project_root
from strands_cli.templates import Meter, names_in_template, render

if TYPE_CHECKING:
    from strands.types.content import Messages
    from strands.types.tools import ToolSpec

DEFAULT_SCRIPT = "answers.yaml"
_HINT = "Set model_id to the path of a script, relative to the workflow file."
_FORMAT_HINT = "docs/guides/testing.md describes scripts."
_NAMES = ("prompt", "result", "results", "system")
"""The names for templates in a script."""
_STATUSES: dict[FailureKind, int] = {
    "busy": 409,
    "credentials": 401,
    "not_found": 404,
    "refused": 400,
    "server": 500,
    "throttled": 429,
}
FAILURES = {*_STATUSES, "connection", "timeout", "overflow"}


# --- What an answer is made of -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ScriptedCall:
    """One tool call in a model's answer; `input` is an object, or the raw text that the model sends."""

    name: str
    input: dict[str, Any] | str
    id: str = ""
    pieces: int = 1
    """The number of deltas in which the input is streamed."""


@dataclass(frozen=True)
class ScriptedPause:
    """A pause in the model's answer, before or between its parts."""

    seconds: float


@dataclass(frozen=True)
class ScriptedUsage:
    """The tokens of one answer, if they differ from the model's default."""

    input: int = 5
    output: int = 5


class ScriptedError(Exception):
    """The exception that a provider's client raises for an HTTP error status."""

    def __init__(self, text: str, status_code: int) -> None:
        super().__init__(text)
        self.status_code = status_code


def failure(kind: FailureKind, text: str = "") -> Exception:
    """An error of a model request: `throttled`, `server`, `connection`, `timeout`, `overflow`…"""
    text = text or f"the script says {kind}"
    if kind == "connection":
        return ConnectionResetError(text)
    if kind == "timeout":
        return TimeoutError(text)
    if kind == "overflow":
        return ScriptedError(f"context window exceeded: {text}", _STATUSES["refused"])
    if kind not in _STATUSES:
        raise ValueError(f"There is no failure {kind!r}: use one of {', '.join(sorted(FAILURES))}")
    return ScriptedError(text, _STATUSES[kind])


Part = str | ScriptedCall | ScriptedPause | ScriptedUsage


def tool_call(name: str, /, **arguments: Any) -> ScriptedCall:
    """A tool call in a model's answer."""
    return ScriptedCall(name, arguments)


def pause(seconds: float) -> ScriptedPause:
    """A pause in a model's answer, before or between its parts."""
    return ScriptedPause(seconds)


@dataclass(frozen=True)
class ScriptedRequest:
    """A request to the model."""

    messages: "Messages"
    tool_specs: "list[ToolSpec]"
    system_prompt: str | None
    tool_choice: Any = None

    @property
    def prompt(self) -> str:
        """The last text from the user, before the tool calls that followed it."""
        return _text_of(self.messages[self._prompt_index]) if self.messages else ""

    @property
    def results(self) -> list[dict[str, Any]]:
        """The tool results in the last message."""
        return [dict(block["toolResult"]) for block in self.messages[-1]["content"] if "toolResult" in block]

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model can call."""
        return [spec["name"] for spec in self.tool_specs]

    @property
    def turn(self) -> int:
        """How often the model has answered since the prompt."""
        return sum(message["role"] == "assistant" for message in self.messages[self._prompt_index :])

    @property
    def _prompt_index(self) -> int:
        asked = [at for at, one in enumerate(self.messages) if one["role"] == "user" and _text_of(one)]
        return asked[-1] if asked else 0


def _text_of(message: Any) -> str:
    return "\n".join(block["text"] for block in message["content"] if "text" in block)


def _result_text(result: Mapping[str, Any]) -> str:
    parts = result.get("content", ())
    return "\n".join(
        str(part["text"]) if "text" in part else json.dumps(part["json"], ensure_ascii=False)
        for part in parts
        if "text" in part or "json" in part
    )


# --- The file ----------------------------------------------------------------------------------------------


class _Answer(msgspec.Struct, frozen=True):
    text: str = ""
    call: str = ""
    arguments: Any = msgspec.field(name="with", default_factory=dict)
    calls: tuple[dict[str, Any], ...] = ()
    output: Any = msgspec.UNSET
    error: FailureKind | None = None
    wait: float = 0
    tokens: dict[str, int] | None = None


class _Rule(msgspec.Struct, frozen=True):
    place: str
    """`answers.yaml:3`"""
    answers: tuple[_Answer, ...]
    when: str = ""
    system: str = ""

    def fits(self, request: ScriptedRequest) -> bool:
        return self.when in request.prompt and self.system in (request.system_prompt or "")


@dataclass
class Script:
    """A script file, used as the `reply` of a ScriptedModel."""

    file: str
    rules: Sequence[_Rule] = ()
    answers: Sequence[_Answer] = ()
    """Answers outside of rules, used in order."""
    usage: ScriptedUsage = ScriptedUsage()
    _given: int = 0
    _failures: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many scripted errors each request has had so far."""

    def __call__(self, request: ScriptedRequest) -> list[Part | Exception]:
        """The answer to a request, or a scripted error; ProviderError if there is no answer."""
        rule = next((rule for rule in self.rules if rule.fits(request)), None)
        if rule is not None:
            answer = self._of_rule(rule, request)
        elif self._given < len(self.answers):
            answer = self.answers[self._given]
            self._given += 1
        else:
            raise self._unanswered(request)
        with Meter().running():  # all templates of an answer share the limits of one
            parts = [*_parts(answer, request)]
        if answer.error is not None:
            text = next((part for part in parts if isinstance(part, str)), "")
            failed = failure(answer.error, text)
            if not answer.wait:
                raise failed
            return [ScriptedPause(answer.wait), failed]
        return [*parts, ScriptedUsage(**answer.tokens) if answer.tokens else self.usage]

    def count_off(self, answered: Iterable[ScriptedRequest]) -> None:
        """Skips the answers that were used in an earlier process, and the errors before them."""
        for request in answered:
            if not any(rule.fits(request) for rule in self.rules):
                left = range(self._given, len(self.answers))
                self._given = 1 + next((at for at in left if self.answers[at].error is None), self._given)

    def _of_rule(self, rule: _Rule, request: ScriptedRequest) -> _Answer:
        """The answer for this turn. Each error before it fails one attempt; an error at the end fails all."""
        ends = [at for at, answer in enumerate(rule.answers) if answer.error is None]
        turn = request.turn
        if turn > len(ends) or (turn == len(ends) and rule.answers[-1].error is None):
            raise ProviderError(
                f"The script has no answer {turn + 1} to the prompt {shorten_text(request.prompt)!r}: "
                f"the rule at {rule.place} has only {len(ends)}.",
                hint="Add an answer to the rule.",
            )
        begin = ends[turn - 1] + 1 if turn else 0
        answers = rule.answers[begin : ends[turn] + 1 if turn < len(ends) else None]
        if len(answers) == 1:
            return answers[0]
        key = (rule.place, json.dumps(request.messages, default=str))
        failed = self._failures.pop(key, 0)
        answer = answers[min(failed, len(answers) - 1)]
        if answer.error is not None:
            self._failures[key] = failed + 1
        return answer

    def _unanswered(self, request: ScriptedRequest) -> ProviderError:
        prompt = shorten_text(request.prompt)
        if not self.rules:
            return ProviderError(
                f"The script {self.file} has no answer {len(self.answers) + 1}; the prompt is {prompt!r}.",
                hint="Add an answer to the script.",
            )

        def likeness(rule: _Rule) -> float:
            return SequenceMatcher(None, rule.when[:1000], request.prompt[:1000]).ratio()

        nearest = max(self.rules, key=likeness)
        wanted = [
            f"{name} {text!r}" for name, text in (("when", nearest.when), ("system", nearest.system)) if text
        ]
        return ProviderError(
            f"No rule in {self.file} matches the prompt {prompt!r}.",
            hint=f"The closest is at {nearest.place}: {' and '.join(wanted)}. Change it, or add a rule.",
        )


def _parts(answer: _Answer, request: ScriptedRequest) -> Iterator[Part]:
    results = [_result_text(result) for result in request.results]
    scope = {
        "prompt": request.prompt,
        "system": request.system_prompt or "",
        "results": results,
        "result": results[-1] if results else "",
    }

    def filled_in(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: filled_in(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [filled_in(inner) for inner in value]
        return render(value, scope) if isinstance(value, str) else value

    if answer.wait:
        yield ScriptedPause(answer.wait)
    if answer.text:
        yield filled_in(answer.text)
    calls = [{"call": answer.call, "with": answer.arguments}] if answer.call else []
    calls += answer.calls
    if answer.output is not msgspec.UNSET:
        calls.append(_output_call(answer.output, request))
    for call, id in zip(calls, _free_ids(request), strict=False):
        yield ScriptedCall(call["call"], filled_in(call.get("with", {})), id)


def _output_call(output: Any, request: ScriptedRequest) -> dict[str, Any]:
    """The call of the SDK's tool for structured output."""
    name = "final_answer" if "final_answer" in request.tools else "answer"
    spec = next((spec for spec in request.tool_specs if spec["name"] == name), None)
    properties = spec["inputSchema"]["json"].get("properties", {}) if spec else {}
    is_wrapped = [*properties] == ["value"] and not (isinstance(output, dict) and "value" in output)
    return {"call": name, "with": {"value": output} if is_wrapped else output}


def _free_ids(request: ScriptedRequest) -> Iterator[str]:
    """Unused call ids for a conversation; the same request gets the same ids."""
    blocks = [block for message in request.messages for block in message["content"]]
    used = {block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block}
    numbers = iter(range(len(used) + 1, 1_000_000))
    return (f"call-{number}" for number in numbers if f"call-{number}" not in used)


def read_script(choice: ModelChoice) -> tuple[Script | None, list[Issue]]:
    """The script of a model choice, or its issues."""
    path = choice.directory / (choice.model_id or DEFAULT_SCRIPT)
    real = Path(os.path.realpath(choice.directory))
    document = read_document_file(path, _HINT, below=(real, marked_project_root(real) or real))
    if document.issues:
        return None, document.issues
    schema = published_schema("script")
    issues = [
        document.schema_issue(problem, "A script", _FORMAT_HINT, schema.schema)
        for problem in schema.problems(document.value, 100)
    ]
    issues += [] if issues else _template_issues(document)
    return (None, issues) if issues else (_script_of(document, path.name), [])


def _script_of(document: Document, name: str) -> Script:
    whole = document.value if isinstance(document.value, dict) else {"answers": document.value}
    at = ("answers",) if isinstance(document.value, dict) else ()
    rules, answers = [], []
    for index, item in enumerate(whole["answers"]):
        if isinstance(item, dict) and "answers" in item:
            line = document.positions[json_pointer((*at, index))][1]
            shaped = tuple(map(_answer_of, item["answers"]))
            rules.append(_Rule(f"{name}:{line}", shaped, item.get("when", ""), item.get("system", "")))
        else:
            answers.append(_answer_of(item))
    return Script(name, rules, answers, ScriptedUsage(**whole.get("tokens", {})))


def _answer_of(item: Any) -> _Answer:
    return msgspec.convert({"text": item} if isinstance(item, str) else item, _Answer)


def _template_issues(document: Document) -> Iterator[Issue]:
    for path, text in _texts(document.value, ()):
        if path[-1:] in (("when",), ("system",)):
            continue
        names, flaws = names_in_template(text)
        reasons = [flaw.reason for flaw in flaws]
        reasons += [f"There is no name {name.name!r} here" for name in names if name.name not in _NAMES]
        for reason in reasons:
            remedy = f"Templates in a script can use {', '.join(_NAMES)}."
            yield document.issue(path, f"{reason.rstrip('.')}.", remedy)


def _texts(value: Any, path: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, part in inner:
        yield from _texts(part, (*path, key))
