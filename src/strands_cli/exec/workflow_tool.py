"""A workflow as a tool: its inputs are the arguments, its steps the progress, its result the answer."""

from collections.abc import Mapping
from typing import Any

import msgspec

from strands_cli.artifacts import safe_name
from strands_cli.errors import Paused, SpecError, StrandsError, ToolFailed
from strands_cli.events import Event, Listener, RunNoticed, StepFinished, StepRestored, StepStarted
from strands_cli.exec.journal import decode_row
from strands_cli.exec.run import prepare, run_prepared
from strands_cli.exec.step_rows import answer_rows
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import Store, open_store
from strands_cli.loader.spec import Spec
from strands_cli.mcp.served_call import CONSENT_FORM
from strands_cli.providers.choice import require_models
from strands_cli.settings import load_settings
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.contract import Tool
from strands_cli.types import RunResult
from strands_cli.types.sections import Input

_LONGEST_RUN_SECONDS = 7 * 24 * 3600.0
_MOST_PAUSED = 1000
_LONGEST_NAME = 64


def workflow_tool(spec: Spec, options: RunOptions) -> Tool:
    """The tool that runs a workflow. Each call is a run of its own, which is saved like any other."""
    limit = spec.runtime.budgets.max_duration_s
    return Tool(
        id=safe_name(spec.name, letters="A-Za-z0-9_-", longest=_LONGEST_NAME),
        description=spec.description or f"Runs the workflow {spec.name}.",
        input_schema=inputs_schema(spec),
        invoke=_Runs(spec, options).call,
        is_async=True,
        origin=str(spec.file),
        # The run has its own limit; what is left is for its end.
        timeout=limit + 60 if limit else _LONGEST_RUN_SECONDS,
    )


def inputs_schema(spec: Spec) -> dict[str, Any]:
    """The JSON Schema of a workflow's inputs."""
    known = {**spec.inputs.values, **spec.variables}
    declared = spec.inputs.declared or {name: Input() for name in known}
    required = [
        name
        for name, one in spec.inputs.required.items()
        if name not in known and one.default is msgspec.UNSET
    ]
    return {
        "type": "object",
        "properties": {name: _input_schema(one, name, known) for name, one in declared.items()},
        "required": required,
        "additionalProperties": False,
    }


def _input_schema(declared: Input, name: str, known: Mapping[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": declared.type} if declared.type else {}
    if declared.description:
        schema["description"] = declared.description
    if declared.enum:
        schema["enum"] = list(declared.enum)
    default = known.get(name, declared.default)
    if default is not msgspec.UNSET and default is not None:
        schema["default"] = default
    return schema


class _PausedRun(msgspec.Struct):
    """A run that waits for answers, which come when the call is made again."""

    run_id: str
    questions: dict[str, Any]
    """What to ask, by the question's key in the journal."""
    times: int
    """How often the run has paused: an answer that did not fit is asked for again."""


class _Runs:
    def __init__(self, spec: Spec, options: RunOptions) -> None:
        self._spec, self._options = spec, options
        self._paused: dict[str, _PausedRun] = {}
        """By the key of the call."""

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Runs the workflow; if it asks a person, so does the call."""
        store = self._options.store or open_store(load_settings())
        paused, result = self._paused.pop(context.key, None), None
        try:
            while result is None:
                answers = await self._answers(paused, context) if paused else {}
                result, paused = await self._attempt(arguments, context, store, paused, answers)
            return _answer_of(result)
        except StrandsError as error:
            raise _failure_of(error) from error
        finally:
            if self._options.store is None:
                store.close()

    async def _attempt(
        self,
        arguments: dict[str, Any],
        context: ToolContext,
        store: Store,
        paused: _PausedRun | None,
        answers: Mapping[str, str],
    ) -> tuple[RunResult | None, _PausedRun | None]:
        """The result of the run, or what it waits for."""
        try:
            return await self._run(arguments, context, store, paused, answers), None
        except Paused as error:
            if not error.run_id or not error.questions:
                raise
            times = paused.times + 1 if paused else 1
            return None, _PausedRun(error.run_id, _questions_of(error, store), times)

    async def _run(
        self,
        arguments: dict[str, Any],
        context: ToolContext,
        store: Store,
        paused: _PausedRun | None,
        answers: Mapping[str, str],
    ) -> RunResult:
        options = msgspec.structs.replace(
            self._options,
            store=store,
            listeners=(*self._options.listeners, _reporter(context)),
            resume=paused.run_id if paused else "",
            rows=answer_rows(answers, by="client"),
        )
        prepared = prepare(self._spec, arguments, options)
        if options.model is None:
            require_models(self._spec, self._spec.agents)
        return await run_prepared(prepared, arguments)

    async def _answers(self, paused: _PausedRun, context: ToolContext) -> dict[str, str]:
        """The answers to all questions of a paused run. The call ends at the first that has none yet."""
        answers = {}
        self._paused[context.key] = paused
        if len(self._paused) > _MOST_PAUSED:
            del self._paused[next(iter(self._paused))]
        for key, question in paused.questions.items():
            answers[key] = await _answer_to(question, paused, key, context)
        self._paused.pop(context.key, None)
        return answers


async def _answer_to(question: dict[str, Any], paused: _PausedRun, key: str, context: ToolContext) -> str:
    is_consent = question["requestedSchema"] is CONSENT_FORM
    try:
        form = await context.interrupt(f"{paused.run_id}/{paused.times}/{key}", question)
    except ToolFailed as failed:
        if is_consent and failed.code == "denied":
            return "no"
        raise ToolFailed(
            f"The run {paused.run_id} waits for an answer: {question['message']}",
            code="consent_required",
            hint=f"{failed.hint} Or answer in a terminal: strands resume {paused.run_id}".removeprefix(
                " Or "
            ),
        ) from None
    return ("yes" if form.get("allow") is True else "no") if is_consent else str(form.get("answer", ""))


def _questions_of(error: Paused, store: Store) -> dict[str, Any]:
    """The forms that a paused run waits for."""
    rows = store.load(error.run_id)
    questions = {}
    for question in error.questions:
        row = decode_row(rows[f"{question.key}/question"]) if f"{question.key}/question" in rows else {}
        answer: dict[str, Any] = {"type": "string", "title": "Answer"}
        if row.get("choices"):
            answer["enum"] = [str(choice) for choice in row["choices"]]
        form = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
        questions[question.key] = {
            "message": question.text,
            "requestedSchema": CONSENT_FORM if question.kind == "consent" else form,
        }
    return questions


def _failure_of(error: StrandsError) -> ToolFailed:
    hint = error.hint
    if error.run_id:
        hint = f"{hint} Resume: strands resume {error.run_id}".strip()
    details = [msgspec.to_builtins(issue) for issue in error.issues] if isinstance(error, SpecError) else ()
    return ToolFailed(error.message, code=error.code or "failed", hint=hint, details=details)


def _reporter(context: ToolContext) -> Listener:
    """Reports the steps of a run as the progress of the call."""

    def report(event: Event) -> None:
        if isinstance(event, StepStarted):
            context.progress(f"{event.title}: started")
        elif isinstance(event, StepRestored):
            context.progress(f"{event.title}: done before")
        elif isinstance(event, StepFinished):
            state = "waits for an answer" if event.waiting else event.error or "done"
            context.progress(f"{event.title}: {state}")
        elif isinstance(event, RunNoticed):
            context.progress(event.text)

    return report


def _answer_of(result: RunResult) -> dict[str, Any]:
    """The last answer, as data if it is data, and where the artifacts are."""
    content = [{"text": result.last_response} if result.output is None else {"json": result.output}]
    if result.artifacts:
        paths = "\n".join(str(path.absolute()) for path in result.artifacts)
        content.append({"text": f"Files that were written:\n{paths}"})
    return {"status": "success", "content": content}
