"""EvalFile: a file with cases as a value. `load_eval` reads it and reports every problem with its place."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from strands_cli.artifacts import safe_name
from strands_cli.documents.problems import JsonPath, json_pointer
from strands_cli.documents.reader import Document, read_document_file, with_whole_numbers
from strands_cli.errors import Issue, SpecError, ToolError, did_you_mean
from strands_cli.loader import load_spec
from strands_cli.loader.run_values import resolve_inputs
from strands_cli.loader.spec import Spec, spec_of
from strands_cli.providers.choice import PROVIDERS, with_model_options
from strands_cli.schema.validator import SchemaInvalid, Validator, published_schema
from strands_cli.settings import marked_project_root
from strands_cli.templates.pattern_search import check_pattern
from strands_cli.tools.registry import ToolRegistry
from strands_cli.tools.sources.modules import is_file_reference
from strands_cli.types.sections import Inference, Position, Runtime

_FILE_HINT = "Give a YAML or JSON file with cases."
_FORMAT_HINT = "'strands schema eval' prints the format."
_GIVEN_AS = {"workflow": "inputs", "agent": "prompt", "tool": "input"}
"""The key of a case that goes to what is evaluated."""
_PROMPT = "/pattern/config/steps/0/input"
"""The prompt of a case of an agent, in the workflow that the case runs."""
_MOST_PROBLEMS = 100


class TextExpectation(msgspec.Struct, frozen=True, kw_only=True):
    contains: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    equals: str | None = None


class JsonExpectation(msgspec.Struct, frozen=True, kw_only=True):
    equals: Any = msgspec.UNSET
    contains: Any = msgspec.UNSET
    at: str = ""


class CallExpectation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    tool: str
    arguments: dict[str, Any] | None = None
    exact: bool = False
    schema: dict[str, Any] | None = None
    result: Any = msgspec.UNSET


class CallsExpectation(msgspec.Struct, frozen=True, kw_only=True):
    expected: tuple[CallExpectation, ...] | None = None
    order: Literal["strict", "any"] = "strict"
    others: bool = False
    forbidden: tuple[str, ...] = ()


class JudgeExpectation(msgspec.Struct, frozen=True, kw_only=True):
    rubric: str
    min_score: float = 0


class AttemptLimits(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int | None = None
    seconds: float | None = None
    calls: int | None = None


class AnswerExpectation(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected of one answer."""

    text: TextExpectation | None = None
    json: JsonExpectation | None = None
    matches: str | None = None
    schema: dict[str, Any] | None = None


class Expectations(AnswerExpectation, frozen=True, kw_only=True):
    steps: dict[str, AnswerExpectation] = {}
    calls: CallsExpectation | None = None
    judge: JudgeExpectation | None = None
    code: str | None = None
    limits: AttemptLimits = AttemptLimits()


class EvalCase(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    inputs: dict[str, Any] = {}
    prompt: str = ""
    input: dict[str, Any] | str = msgspec.field(default_factory=dict)
    expect: Expectations = Expectations()
    repeat: int = 1
    min_pass_rate: float = 1


class _ModelKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of `Runtime` that choose a model, none of which a file must have."""

    provider: str | None = None
    model_id: str | None = None
    host: str | None = None
    inference: Inference = Inference()


class EvalModel(_ModelKeys, frozen=True, kw_only=True):
    """A model that takes the place of the one that a workflow or an agent names."""

    label: str = ""

    @property
    def name(self) -> str:
        """Its name in tables; empty if nothing is replaced."""
        return self.label or " ".join(part for part in (self.provider, self.model_id) if part)


class EvalAgent(_ModelKeys, frozen=True, kw_only=True):
    """An agent that is declared in the file."""

    prompt: str
    tools: tuple[str, ...] = ()
    output_schema: dict[str, Any] | None = None


class EvalJudge(_ModelKeys, frozen=True, kw_only=True):
    prompt: str = ""


class EvalFile(msgspec.Struct, frozen=True, kw_only=True):
    cases: tuple[EvalCase, ...]
    name: str = ""
    description: str = ""
    workflow: str | None = None
    agent: str | EvalAgent | None = None
    tool: str | None = None
    models: tuple[EvalModel, ...] = (EvalModel(),)
    judge: EvalJudge = EvalJudge()
    workspace: str | None = None

    document: Document = msgspec.field(default_factory=lambda: Document(""))
    """About the file, not in it: its text with positions."""
    spec: Spec | None = None
    """The workflow, if there is one."""

    @property
    def file(self) -> Path:
        return Path(self.document.file)

    @property
    def target(self) -> Literal["workflow", "agent", "tool"]:
        return "tool" if self.tool else "agent" if self.agent else "workflow"

    def located(self, reference: str) -> str:
        """Returns a reference to a tool; the path of a file begins where this file is."""
        return str(self.file.absolute().parent / reference) if is_file_reference(reference) else reference

    def workflow_of(self, case: EvalCase) -> tuple[Spec, dict[str, Any]]:
        """The workflow that a case of a workflow or an agent runs, and its variables."""
        if self.spec is not None and self.agent is None:
            return self.spec, case.inputs
        at = next(index for index, one in enumerate(self.cases) if one.name == case.name)
        asked, places = f"/cases/{at}/prompt", self.document.positions
        asked = asked if asked in places else "/defaults/prompt"
        if self.spec is not None:
            step = {"agent": self.agent, "input": case.prompt}
            spec = msgspec.structs.replace(
                self.spec,
                pattern=spec_of(_one_step(self.name, {}, step=step)).pattern,
                outputs=type(self.spec.outputs)(),
                positions={**self.spec.positions, _PROMPT: places.get(asked, (self.document.file, 1, 1))},
                origins={**self.spec.origins, _PROMPT: asked},
            )
            return spec, case.inputs
        assert isinstance(self.agent, EvalAgent)
        own = {"prompt": self.agent.prompt, "output_schema": self.agent.output_schema}
        document = _one_step(
            self.name,
            own,
            step={"agent": "agent", "input": case.prompt},
            runtime=_runtime_of(self.agent),
            tools={"python": list(self.agent.tools)},
            inputs={"values": case.inputs},
        )
        moved = {
            "/agents/agent": "/agent",
            "/runtime": "/agent",
            "/tools/python": "/agent/tools",
            _PROMPT: asked,
        }
        return self._placed(document, moved), {}

    def with_model(self, model: EvalModel, spec: Spec) -> Spec:
        """The workflow with a model of this file, or with another one, which the user has named."""
        base = self.file.parent if model in self.models else Path()
        spec = with_model_options(
            spec, provider=model.provider, model=model.model_id, host=model.host, base=base
        )
        both = [msgspec.to_builtins(part) for part in (spec.runtime.inference, model.inference)]
        inference = msgspec.convert({**both[0], **both[1]}, Inference)
        runtime = msgspec.structs.replace(spec.runtime, inference=inference)
        spec = msgspec.structs.replace(spec, runtime=runtime)
        if model.host is None or model not in self.models:
            return spec
        # What a file names is not what the user names: keys go to its host only if the user trusts that.
        place = self.document.positions[f"/models/{self.models.index(model)}/host"]
        hosts = ["/runtime/host", *(json_pointer(("agents", name, "host")) for name in spec.agents)]
        return _named_by_file(spec, dict.fromkeys(hosts, place))

    def placed_judge(self, prompt: str, asked: str, schema: dict[str, Any]) -> Spec:
        """The workflow of the judge, whose model is that of the file unless `judge` names one."""
        runtime = _runtime_of(self.judge)
        source = self.spec.runtime if self.spec is not None else self.agent
        if isinstance(source, Runtime):  # what is good for its answers may cut a verdict short
            source = msgspec.structs.replace(source, inference=Inference())
        if "provider" not in runtime and isinstance(source, Runtime | EvalAgent):
            runtime = {**_runtime_of(source), **runtime}
        document = _one_step(
            "judge",
            {"prompt": prompt, "output_schema": schema, "tools": []},
            step={"agent": "agent", "input": "{{ asked }}"},  # text with braces is not a template
            runtime=runtime,
            inputs={"values": {"asked": asked}},
        )
        return self._placed(document, {"/agents/agent": "/judge", "/runtime": "/judge"})

    def _placed(self, document: dict[str, Any], moved: Mapping[str, str]) -> Spec:
        """The Spec of a document whose parts are at other places of this file."""
        positions = {"": (self.document.file, 1, 1)} | {
            new + pointer.removeprefix(old): position
            for new, old in moved.items()
            for pointer, position in self.document.positions.items()
            if pointer == old or pointer.startswith(f"{old}/")
        }
        return msgspec.structs.replace(
            spec_of(document), file=self.file, positions=positions, origins=dict(moved)
        )


def _named_by_file(spec: Spec, positions: Mapping[str, Position]) -> Spec:
    """The workflow, and those that it runs, with a model that its user has not named."""
    inner = {
        name: _named_by_file(one, positions) for name, one in spec.workflows.items() if isinstance(one, Spec)
    }
    return msgspec.structs.replace(
        spec, model_given={}, positions={**spec.positions, **positions}, workflows=inner
    )


def _one_step(name: str, agent: dict[str, Any], *, step: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """The document of a workflow with one agent and one step."""
    own = {key: value for key, value in agent.items() if value is not None}
    pattern = {"type": "chain", "config": {"steps": [step]}}
    return {
        "version": 0,
        "name": name,
        "agents": {"agent": {"prompt": "", **own}},
        "pattern": pattern,
        **parts,
    }


def _runtime_of(part: _ModelKeys | Runtime) -> dict[str, Any]:
    """The model of a part, as a workflow file has it under `runtime`."""
    values, names = msgspec.to_builtins(part), ("provider", "model_id", "host", "region", "inference")
    return {name: values[name] for name in names if values.get(name)}


# --- Reading ----------------------------------------------------------------------------------------------


def load_eval(path: str | Path) -> EvalFile:
    """Reads a file with cases, and its workflow. SpecError with all problems if one of them is invalid."""
    document = read_document_file(Path(path), _FILE_HINT)
    issues = document.issues or [*_format_issues(document)]
    loaded = None
    if not issues:
        loaded = _file_of(document)
        issues = [*_file_issues(loaded)]
    if loaded is not None and not issues and loaded.workflow is not None:
        loaded = msgspec.structs.replace(loaded, spec=load_spec(loaded.file.parent / loaded.workflow))
        issues = [*_workflow_issues(loaded)]
    if loaded is None or issues:
        more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise SpecError(f"{issues[0].place or path}: {issues[0].reason}{more}", issues=issues)
    return loaded


def _format_issues(document: Document) -> Iterator[Issue]:
    """Yields what the schema refuses, or that the file is a workflow."""
    value, name = document.value, Path(document.file).name
    if isinstance(value, dict) and "pattern" in value and "cases" not in value:
        form = f"{{workflow: {name}, cases: [{{name: …, inputs: {{…}}, expect: {{…}}}}]}}"
        remedy = f"Write another file with cases for it: {form}. {_FORMAT_HINT}"
        yield document.issue((), "This is a workflow, not an evaluation.", remedy)
        return
    schema = published_schema("eval")
    for problem in schema.problems(value, _MOST_PROBLEMS):
        yield document.schema_issue(problem, "An evaluation", _FORMAT_HINT, schema.schema)


def _file_of(document: Document) -> EvalFile:
    """The value of a valid document, whose short forms and defaults are filled in."""
    value = with_whole_numbers(document.value)
    defaults = value.pop("defaults", {})
    repeated = {name: value.pop(name) for name in ("repeat", "min_pass_rate") if name in value}
    cases = []
    for case in value["cases"]:
        inputs = {**defaults.get("inputs", {}), **case.get("inputs", {})}
        expect = {**defaults.get("expect", {}), **case.get("expect", {})}
        limits = [part.get("expect", {}).get("limits", {}) for part in (defaults, case)]
        expect["limits"] = {**limits[0], **limits[1]}
        cases.append({**repeated, **defaults, **case, "inputs": inputs, "expect": _long_form(expect)})
    value.setdefault("name", Path(document.file).stem)
    loaded = msgspec.convert({**value, "cases": cases}, EvalFile)
    return msgspec.structs.replace(loaded, document=document)


def _long_form(expect: dict[str, Any]) -> dict[str, Any]:
    shaped = {**expect, "steps": {name: _long_form(part) for name, part in expect.get("steps", {}).items()}}
    if isinstance(text := expect.get("text"), str):
        shaped["text"] = {"contains": [text]}
    elif text is not None:
        lists = {name: [text[name]] for name in ("contains", "excludes") if isinstance(text.get(name), str)}
        shaped["text"] = {**text, **lists}
    if isinstance(rubric := expect.get("judge"), str):
        shaped["judge"] = {"rubric": rubric}
    if (calls := expect.get("calls")) is not None:
        calls = {"expected": calls} if isinstance(calls, list) else dict(calls)
        if "expected" in calls:
            calls["expected"] = [{"tool": one} if isinstance(one, str) else one for one in calls["expected"]]
        shaped["calls"] = calls
    return shaped


def _file_issues(loaded: EvalFile) -> Iterator[Issue]:
    issue, value = loaded.document.issue, loaded.document.value
    if loaded.workflow is None and loaded.agent is None and loaded.tool is None:
        yield issue((), "The file does not say what is evaluated.", "Add workflow, agent or tool.")
        return
    clash = [name for name in ("workflow", "agent", "models", "judge") if loaded.tool and name in value]
    if isinstance(loaded.agent, EvalAgent) and loaded.workflow is not None:
        clash.append("workflow")
    for name in clash:
        if name != "judge":
            other = "tool" if loaded.tool else "agent"
            remedy = "Remove one of them, or write two files."
            yield issue((name,), f"{name!r} cannot be combined with this {other!r}.", remedy)
    if isinstance(loaded.agent, str) and loaded.workflow is None:
        remedy = "Add workflow: FILE, or write agent: {prompt: …, tools: […]}."
        yield issue(("agent",), f"The agent {loaded.agent!r} is in no workflow.", remedy)
    yield from _tool_issues(loaded)
    yield from _outside_issues(loaded)
    yield from _duplicate_issues(loaded, ("models",), [model.name for model in loaded.models], "label")
    yield from _duplicate_issues(loaded, ("cases",), [case.name for case in loaded.cases], "name")
    places: dict[JsonPath, Any] = {("models", at): model for at, model in enumerate(loaded.models)}
    for place, part in {**places, ("judge",): loaded.judge, ("agent",): loaded.agent}.items():
        provider = getattr(part, "provider", None)
        if provider is not None and provider not in PROVIDERS:
            remedy = did_you_mean(provider, PROVIDERS) or f"Use one of {', '.join(PROVIDERS)}."
            yield issue((*place, "provider"), f"There is no provider {provider!r}.", remedy)
    for at, case in enumerate(loaded.cases):
        yield from _case_issues(loaded, case, ("cases", at))


def _tool_issues(loaded: EvalFile) -> Iterator[Issue]:
    """Yields tools that do not exist. Otherwise every case would fail, as if its answer were wrong."""
    own = loaded.agent.tools if isinstance(loaded.agent, EvalAgent) else ()
    named: dict[JsonPath, str] = {("agent", "tools", at): name for at, name in enumerate(own)}
    if loaded.tool is not None:
        named = {("tool",): loaded.tool}
    for place, name in named.items():
        try:
            ToolRegistry.of_workflow(loaded.file).require(loaded.located(name))
        except ToolError as error:
            if error.code == "unknown_tool":
                yield loaded.document.issue(place, f"There is no tool {name!r}.", error.hint)


def _outside_issues(loaded: EvalFile) -> Iterator[Issue]:
    """Problems with paths: an evaluation must not copy or run what is outside its project."""
    here = loaded.file.absolute().parent
    root = (marked_project_root(here) or here).resolve()
    for name in ("workflow", "workspace"):
        path = getattr(loaded, name)
        if path is None:
            continue
        real = (here / path).resolve()
        if not real.is_relative_to(root):
            remedy = "Name a path relative to this file, inside the project."
            yield loaded.document.issue((name,), f"{path} is outside the project.", remedy)
        elif name == "workspace" and not real.is_dir():
            remedy = "Name a directory relative to this file."
            yield loaded.document.issue((name,), f"There is no directory {path}.", remedy)


def _duplicate_issues(loaded: EvalFile, place: JsonPath, names: list[str], key: str) -> Iterator[Issue]:
    """Names that are the same, also in the names of recordings."""
    seen: dict[str, str] = {}
    for at, name in enumerate(names):
        other = seen.setdefault(safe_name(name).casefold(), name)
        if at and (name, at) != (other, list(names).index(other)):
            reason = f"Two {place[0]} have the same name, {name!r}."
            if other != name:
                reason = (
                    f"The names {other!r} and {name!r} are too similar: their recordings would be one file."
                )
            yield loaded.document.issue((*place, at), reason, f"Give it another {key}.")


def _case_issues(loaded: EvalFile, case: EvalCase, place: JsonPath) -> Iterator[Issue]:
    issue, written = loaded.document.issue, loaded.document.value["cases"][place[1]]
    wanted = _GIVEN_AS[loaded.target]
    allowed = {wanted, "inputs"} if loaded.target == "agent" else {wanted}
    for name in ("inputs", "prompt", "input"):
        if name in written and name not in allowed:
            reason = f"A case of {_with_article(loaded.target)} has no {name!r}."
            yield issue((*place, name), reason, f"Write {wanted}.")
    if loaded.target == "agent" and not case.prompt:
        yield issue(place, "The key 'prompt' is missing.", "Add what the agent is asked.")
    if loaded.target == "tool" and case.expect.calls is not None:
        remedy = "Remove it; the tool is always called once."
        yield issue((*place, "expect", "calls"), "A case of a tool has no 'calls'.", remedy)
    if case.expect.judge and loaded.target == "tool" and loaded.judge.provider is None:
        reason = "Nothing says which model is the judge."
        yield issue((*place, "expect", "judge"), reason, "Add judge: {provider: …} to the file.")
    answers: dict[JsonPath, AnswerExpectation] = {(): case.expect}
    answers |= {("steps", name): one for name, one in case.expect.steps.items()}
    for inner, answer in answers.items():
        yield from _answer_issues(loaded, answer, (*place, "expect", *inner))
    for at, call in enumerate(case.expect.calls.expected or () if case.expect.calls else ()):
        under = () if isinstance(written.get("expect", {}).get("calls"), list) else ("expected",)
        yield from _schema_issues(loaded, call.schema, (*place, "expect", "calls", *under, at, "schema"))


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _answer_issues(loaded: EvalFile, answer: AnswerExpectation, place: JsonPath) -> Iterator[Issue]:
    yield from _schema_issues(loaded, answer.schema, (*place, "schema"))
    try:
        check_pattern(answer.matches or "")
    except ValueError as error:
        reason = f"{str(error)[0].upper()}{str(error)[1:]}."
        yield loaded.document.issue((*place, "matches"), reason, "Correct it; see Python's re module.")


def _schema_issues(loaded: EvalFile, schema: dict[str, Any] | None, place: JsonPath) -> Iterator[Issue]:
    try:
        Validator(schema or {})
    except SchemaInvalid as error:
        reason = f"It is not a JSON Schema: {error}."
        yield loaded.document.issue((*place, *error.path), reason, "Correct the schema.")


def _workflow_issues(loaded: EvalFile) -> Iterator[Issue]:
    """Problems that show only with the workflow: agents, steps and inputs that it does not have."""
    spec, issue = loaded.spec, loaded.document.issue
    assert spec is not None
    if isinstance(loaded.agent, str) and loaded.agent not in spec.agents:
        remedy = did_you_mean(loaded.agent, spec.agents) or f"The agents are {', '.join(spec.agents)}."
        yield issue(("agent",), f"{loaded.workflow} has no agent {loaded.agent!r}.", remedy)
        return
    for at, case in enumerate(loaded.cases):
        try:
            resolve_inputs(spec, case.inputs)
        except SpecError as error:
            for found in error.issues:
                is_missing = "--var" in found.remediation
                remedy = "Add it to the inputs of the case." if is_missing else found.remediation
                yield issue(("cases", at, "inputs"), found.reason, remedy)
