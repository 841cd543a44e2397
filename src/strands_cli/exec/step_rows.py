"""`StepRows`: the rows of one step in the journal, and its questions to a person."""

import asyncio
import re
import time
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from strands_cli.errors import BudgetExceeded, Interrupted, Paused, Question, RunError, StrandsError
from strands_cli.events import ModelRetried
from strands_cli.exec.accounts import StepMeter
from strands_cli.exec.journal import decode_row, encode_row
from strands_cli.patterns.pattern import matching_choice
from strands_cli.runtime.compaction import SUMMARY_INSTRUCTION
from strands_cli.runtime.step_log import conversation_after
from strands_cli.runtime.strands_adapter import consent_refusal
from strands_cli.runtime.structured import canonical_json
from strands_cli.types import StepResult, Usage

if TYPE_CHECKING:
    from strands_cli.exec.journal import Journal
    from strands_cli.exec.steps import Run
    from strands_cli.providers.scripts import ScriptedRequest
    from strands_cli.runtime.agent_hooks import AskConsent, PendingCall

T = TypeVar("T")

OWN_NAME = re.compile(
    r"(?P<step>.+?)/(?P<name>begun|question|answer|result|(?:user|model|summary|compaction)/\d+"
    r"|tool/\d+/\d+|(?:consent|ask)/\d+/(?:question|answer))"
)
"""The key of a row. `step` is as short as possible: `steps/0/consent/1/answer` is a row of `steps/0`."""
_ATTEMPTED = re.compile(r".+/tried/\d+/(?:model|summary)/\d+")
_ATTEMPT = re.compile(r".+/tried/\d+")
_MAX_QUESTIONS = 5
"""How often a person is asked again after an answer that is not one of the choices."""
_MAX_SHOWN = 300
"""Characters of an argument in a consent question; the transcript of the run has the full text."""
_AGREED = frozenset({"y", "yes", "ok", "allow", "approve", "approved", "true"})


def rows_by_step(journal: "Journal") -> dict[str, list[tuple[str, Any]]]:
    """The rows of each step, in the order in which they were written, by their names below the step's key."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for key, row in journal.rows():
        if row is not None and (match := OWN_NAME.fullmatch(key)):
            found.setdefault(match["step"], []).append((match["name"], row))
    return found


def spent_on_attempts(journal: "Journal") -> Usage:
    """The usage of all answers that were set aside."""
    keys = journal.keys()
    rows = (journal.get(key) for key in keys if _ATTEMPTED.fullmatch(key))
    return sum((msgspec.convert(row["usage"], Usage) for row in rows if row is not None), Usage())


def asked_before(journal: "Journal", model: str) -> "Iterator[ScriptedRequest]":
    """The requests that a model has already answered in a run, in the form that scripts use."""
    from strands_cli.providers.scripts import ScriptedRequest

    for key, rows in rows_by_step(journal).items():
        if _ATTEMPT.fullmatch(key):
            continue
        system, prompt = "", list[Any]()
        for name, row in rows:
            if name == "begun":
                system = row["prompt"]
            elif name.startswith("user/"):
                prompt = [{"role": "user", "content": row["content"]}]
            elif name.startswith(("model/", "summary/")) and row["model"] == model:
                is_summary = name.startswith("summary/")
                yield ScriptedRequest(prompt, [], SUMMARY_INSTRUCTION if is_summary else system)


def fingerprint(*parts: object) -> str:
    """A hash of everything that a step depends on."""
    return sha256(canonical_json(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def answer_rows(answers: Mapping[str, str], *, by: str) -> dict[str, Any]:
    """The rows with a person's answers, by the keys of their questions."""
    return {f"{key}/answer": {"at": time.time(), "text": text, "by": by} for key, text in answers.items()}


def begun_row(kind: str, title: str, who: str, text: str, turn: int, *parts: str) -> dict[str, Any]:
    """The row `begun` of a step without a model; `parts` is everything that its result depends on."""
    return {
        "kind": kind,
        "title": title,
        "agent": who,
        "model": "",
        "prompt": "",
        "input": text,
        "tools": [who] if kind == "tool" else [],
        "continues": "",
        "fingerprint": fingerprint(kind, who, text, *parts),
        "turn": turn,
    }


class StepRows:
    """The rows of one step. Without a journal, nothing is stored or found.

    `RunOptions.on_row` is called in any case.
    """

    def __init__(self, run: "Run", key: str, title: str) -> None:
        self._run, self.key, self.title = run, key, title

    @property
    def place(self) -> str:
        return f"{self._run.id}/{self.key}"

    # --- rows -------------------------------------------------------------------------------------------

    def get(self, name: str) -> Any | None:
        journal = self._run.journal
        return None if journal is None else journal.get(f"{self.key}/{name}")

    def put(self, name: str, value: Any) -> None:
        key, run = f"{self.key}/{name}", self._run
        if name.startswith("model/") and value is not None and not run.redactor.is_empty:
            inputs = _inputs_in(value)
            if run.redactor.value(inputs) != inputs:
                value = {**value, "masked": True}
        if run.journal is not None:
            run.journal.put(key, value)
        elif run.options.on_row is not None:
            run.options.on_row(key, decode_row(encode_row(run.redactor.value(value))))

    def has_masked_calls(self, rows: Mapping[str, Sequence[tuple[str, Any]]]) -> bool:
        """Whether the last answer requests calls that were not all made and that contain redacted secrets."""
        own = rows.get(self.key, ())
        answers = [row for name, row in own if name.startswith("model/")]
        turns = sum(bool(_inputs_in(row)) for row in answers)
        done = sum(name.startswith(f"tool/{turns}/") for name, _ in own)
        return bool(answers) and "masked" in answers[-1] and done < len(_inputs_in(answers[-1]))

    async def committed(self) -> None:
        if self._run.journal is not None:
            await self._run.journal.committed()

    def begin(self, row: Mapping[str, Any]) -> None:
        if self.get("begun") is None:
            self.put("begun", {"at": time.time(), **row})

    def keep_retry(self, event: ModelRetried) -> None:
        """Records a retry, for display only: a resumed run ignores it."""
        number = 1
        while self.get(f"retry/{number}") is not None:
            number += 1
        row = {"attempt": event.attempt, "wait_seconds": event.wait_seconds, "reason": event.reason}
        self.put(f"retry/{number}", {"at": time.time(), **row})

    def result(self) -> StepResult | None:
        row = self.get("result")
        return None if row is None else msgspec.convert(row, StepResult)

    def set_aside(self, rows: Mapping[str, Sequence[tuple[str, Any]]] | None = None) -> Usage:
        """Moves the rows so far to `tried/N`: they stay visible, but no longer answer a resumed run.

        `rows` are the rows of all steps, if the caller already has them. Returns the usage of their answers.
        """
        journal, number = self._run.journal, 1
        if rows is None:
            rows = rows_by_step(journal) if journal is not None else {}
        while self.get(f"tried/{number}/begun") is not None:
            number += 1
        spent = Usage()
        for name, row in rows.get(self.key, ()):
            if name.startswith(("model/", "summary/")):
                spent += msgspec.convert(row["usage"], Usage)
            self.put(f"tried/{number}/{name}", row)
            self.put(name, None)
        return spent

    # --- people -----------------------------------------------------------------------------------------

    def consent_function(self, meter: StepMeter) -> "AskConsent | None":
        """The function that asks for consent. If nobody can be asked, a run with a journal pauses.

        A call that a tool makes while it runs comes too late for a pause, and is refused.
        """
        if self._run.options.ask_consent is not None:
            return self._run.ask_consent
        if self._run.journal is None:
            return None

        async def refuse(calls: "Sequence[PendingCall]") -> Collection[str]:
            free = self._free_calls(calls)
            if asked := [call.tool.id for call in calls if call.call_id not in free]:
                for tool_id in asked:
                    meter.refuse(tool_id)
                raise consent_refusal(", ".join(asked))
            return free

        return refuse

    def _free_calls(self, calls: "Sequence[PendingCall]") -> set[str]:
        """The ids of the calls that the settings allow."""
        agrees = self._run.resources.settings.bypass_consent
        return {call.call_id for call in calls if agrees and not call.protected}

    async def consent(self, name: str, calls: "Sequence[PendingCall]") -> Collection[str]:
        free = self._free_calls(calls)
        calls = [call for call in calls if call.call_id not in free]
        return {*free, *(await self._consent(name, calls) if calls else ())}

    async def _consent(self, name: str, calls: "Sequence[PendingCall]") -> Collection[str]:
        ask, known = self._run.options.ask_consent, self.get(f"{name}/answer")
        asked_before = self.get(f"{name}/question")
        if asked_before is not None and not self._has_shown(asked_before, calls):
            known = None  # the person who answered has not seen these calls
            for part in ("question", "answer"):
                self.put(f"{name}/{part}", None)
        if known is not None:
            asked = [call.call_id for call in calls]
            return {*known.get("granted", asked if agrees(known["text"]) else ())}
        question = consent_question(calls)
        if ask is not None:
            agreed = await self._run.ask_consent(calls)
            granted = [call.call_id for call in calls if call.call_id in agreed]
            if self._run.stopped_by is None:  # otherwise nobody has decided
                self._keep_answer(name, "yes" if agreed else "no", "person", granted=granted)
            return agreed
        listed = [
            {
                "id": call.call_id,
                "tool": call.tool.id,
                "arguments": call.arguments,
                "protected": call.protected,
            }
            for call in calls
        ]
        raise await self._waiting(name, "consent", question, choices=("yes", "no"), calls=listed)

    def _has_shown(self, asked: Mapping[str, Any], calls: "Sequence[PendingCall]") -> bool:
        """Whether a consent question showed these calls.

        Our own question may also show calls that are done by now. An imported question may hide anything, so
        its text must be exactly the one that we would ask.
        """
        own, shown = self._run.redactor.text, asked["question"]
        if asked.get("imported"):
            return bool(shown == own(consent_question(calls)))
        return all(own(_call_text(call)) in shown for call in calls)

    async def ask(self, asker: str, question: str) -> str:
        number = 1
        while (row := self.get(f"ask/{number}/question") or self.get(f"ask/{number}/answer")) is not None:
            if row.get("asker") == asker:
                break
            number += 1
        text = self._run.redactor.text(question)
        return await self.answer(f"ask/{number}", "interrupt", text, asker=asker)

    async def answer(
        self,
        name: str,
        kind: str,
        question: str,
        *,
        default: str | None = None,
        timeout_s: float | None = None,
        choices: Sequence[str] = (),
        **more: Any,
    ) -> str:
        """Returns a person's answer from the journal or from `ask_human`, or the default.

        The timeout starts with the question and also counts while the run is paused. With 0, the run waits
        for an answer even if there is a default. After an answer that is not one of the choices, the question
        is asked again. `more` is stored with question and answer.
        """
        if (known := self.get(_below(name, "answer"))) is not None:
            if (chosen := _chosen(known["text"], choices)) is not None:
                return chosen
            question = f"{known['text']!r} is not one of the answers. {question}"
        asked = self.get(_below(name, "question"))
        left = timeout_s or None
        if asked is not None and left is not None:
            left -= time.time() - asked["at"]
        is_alone = self._run.options.ask_human is None
        if left is not None and left <= 0:
            return self._late_answer(name, question, default, timeout_s)
        if default is not None and is_alone and (timeout_s is None or self._run.journal is None):
            return self._keep_answer(name, default, "default")
        if is_alone:
            raise await self._waiting(
                name, kind, question, default=default, timeout_s=timeout_s, choices=choices, **more
            )
        try:
            given = self._run.unless_stopped(self._persons_answer(question, default, choices))
            answer = await asyncio.wait_for(given, left)
        except TimeoutError:
            return self._late_answer(name, question, default, timeout_s)
        except Interrupted:
            if default is None or self._run.stopped_by is not None:
                raise
            return self._keep_answer(name, default, "default")
        return self._keep_answer(name, answer, "person", **more)

    async def _persons_answer(self, question: str, default: str | None, choices: Sequence[str]) -> str:
        ask, text = self._run.options.ask_human, question
        assert ask is not None
        for _ in range(_MAX_QUESTIONS):
            answer = await ask(text) or default or ""
            if (chosen := _chosen(answer, choices)) is not None:
                return chosen
            text = f"{answer!r} is not one of the answers. {question}"
        raise RunError(f"None of {_MAX_QUESTIONS} answers was one of the choices: {', '.join(choices)}.")

    def _late_answer(self, name: str, question: str, default: str | None, timeout_s: float | None) -> str:
        if default is not None and self._run.stopped_by is None:
            return self._keep_answer(name, default, "default")
        raise RunError(
            f"No answer within {timeout_s:g} s: {question}",
            hint="Give the step a default, or more time.",
        )

    def _keep_answer(self, name: str, text: str, by: str, **more: Any) -> str:
        self.put(_below(name, "answer"), {"at": time.time(), "text": text, "by": by, **more})
        return text

    async def _waiting(self, name: str, kind: str, question: str, **more: Any) -> Paused:
        """Stores a question for later; returns the Paused to raise."""
        row = {"at": time.time(), "kind": kind, "question": question, "title": self.title, **more}
        if self.get(_below(name, "question")) is None:
            self.put(_below(name, "question"), row)
        await self.committed()
        key = f"{self.key}/{name}" if name else self.key
        return paused_run([Question(key=key, title=self.title, kind=kind, text=question)])


def _inputs_in(row: Mapping[str, Any]) -> list[Any]:
    """The tool inputs in an answer of the model."""
    return [block["toolUse"]["input"] for block in row["message"]["content"] if "toolUse" in block]


def _chosen(answer: str, choices: Sequence[str]) -> str | None:
    """The answer if it is one of the choices, or if there are none; otherwise None."""
    return matching_choice(answer, choices) if choices else answer


def _below(name: str, part: str) -> str:
    return f"{name}/{part}" if name else part


def agrees(text: str) -> bool:
    """Whether an answer to a consent question means yes."""
    return text.strip().lower() in _AGREED


def consent_question(calls: "Sequence[PendingCall]") -> str:
    which = "this call" if len(calls) == 1 else "these calls"
    return f"Allow {which}? {'; '.join(map(_call_text, calls))}"


def _call_text(call: "PendingCall") -> str:
    """A call in short: long content must not push its target out of sight."""
    protected = f" (writes {', '.join(call.protected)})" if call.protected else ""
    shown = canonical_json({name: _cut(value) for name, value in call.arguments.items()})
    return f"{call.tool.id} {shown}{protected}"


def _cut(value: Any) -> Any:
    text = value if isinstance(value, str) else canonical_json(value)
    if len(text) <= _MAX_SHOWN:
        return value
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[:_MAX_SHOWN]}… ({len(text):,} characters, sha256 {digest})"


def paused_run(questions: Sequence[Question]) -> Paused:
    """The exception that pauses a run with these questions."""
    first = questions[0]
    if len(questions) == 1:
        message = f"Waiting for an answer: {first.text}"
    else:
        listed = "\n".join(f"{question.title}: {' '.join(question.text.split())}" for question in questions)
        message = f"Waiting for {len(questions)} answers:\n{listed}"
    return Paused(
        message, hint="Run it in a terminal to answer, or set a default for the step.", questions=questions
    )


def main_failure(failures: Sequence[BaseException]) -> BaseException:
    """The first real failure; if all steps only wait for a person, one Paused with all their questions."""
    paused = [failure for failure in failures if isinstance(failure, Paused)]
    if len(paused) < len(failures):
        return next(failure for failure in failures if not isinstance(failure, Paused))
    questions = {question.key: question for failure in paused for question in failure.questions}
    return paused_run([*questions.values()]) if questions else paused[0]


async def all_results(run: "Run", work: Sequence[Awaitable[T]]) -> list[T]:
    """Runs work in parallel and returns the results in order. If one fails, the others are cancelled.

    A step that the budget refuses, or that waits for a person, does not cancel the others: they may finish.
    """

    def stop_others(task: "asyncio.Future[Any]") -> None:
        failure = None if task.cancelled() else task.exception()
        if isinstance(failure, StrandsError):
            if not isinstance(failure, BudgetExceeded | Paused):
                run.stop(failure)
        elif failure is not None:
            run.stop(Interrupted(f"{type(failure).__name__}: {failure}"))

    tasks = [asyncio.ensure_future(one) for one in work]
    for task in tasks:
        task.add_done_callback(stop_others)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for failure in failures:
        run.fail(failure)
    if failures:
        # A bug comes first, then the error that stopped the run: the others are only consequences.
        bugs = [failure for failure in failures if not isinstance(failure, StrandsError)]
        raise bugs[0] if bugs else run.stopped_by or main_failure(failures)
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


class Talk:
    """The conversation of one agent in a sequence of steps: later steps continue where earlier ones ended."""

    def __init__(self) -> None:
        self.last = ""
        """The key of the latest step."""
        self.mark = ""
        """The fingerprint of the conversation so far."""
        self._messages: list[Any] = []
        self._restored: list[str] = []

    def restore(self, key: str, mark: str) -> None:
        """Adds a finished step whose messages are in the journal."""
        self._restored.append(key)
        self.last, self.mark = key, mark

    def messages(self, rows: Mapping[str, list[tuple[str, Any]]]) -> list[Any]:
        for key in self._restored:
            own = rows.get(key, [])
            if f"{key}/tried/1" in rows:  # rows that were set aside keep their place
                own = sorted(own, key=lambda one: float(one[1]["at"]))
            self._messages = conversation_after(self._messages, own)
        self._restored.clear()
        return self._messages

    def go_on(self, key: str, messages: list[Any], mark: str) -> None:
        self.last, self._messages, self.mark = key, messages, mark
