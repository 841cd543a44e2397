"""A `RunView`: everything a run did, read from the rows of its journal. All commands that show runs use it.

Rows may come from another machine (`runs import`), and a running run has incomplete rows: missing values get
a default, and an invalid row is a SessionError that names it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from strands_cli.errors import Question, SessionError
from strands_cli.exec.journal import decode_row
from strands_cli.exec.ownership import Owner, is_alive, this_process
from strands_cli.types.run_results import Usage

T = TypeVar("T")
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
"""A duration or unix time; values beyond the year 5000 are invalid."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]

Status = Literal["queued", "running", "paused", "interrupted", "failed", "budget", "done", "damaged"]
"""The status of a run. A step is running, waiting, interrupted, failed or done."""

CHAT = "chat"
"""The `pattern` in the head of a chat."""
_ROW = re.compile(
    r"(?P<step>.+?)/(?:(?P<once>begun|failed|result)"
    r"|(?P<kind>user|model|summary|compaction|retry)/\d+"
    r"|tool/(?P<turn>\d+)/(?P<place>\d+)"
    r"|(?P<asked>(?:(?:consent|ask)/\d+/)?)(?P<asking>question|answer))"
)
_NUMBER = re.compile(r"[0-9]{1,9}")
_ATTEMPT = re.compile(r"(.+)/tried/\d+")
_NOTICE = re.compile(r"notices/\d+")


# --- What happened in a step ------------------------------------------------------------------------------


class Spent(Usage, frozen=True):
    """Usage, with bounds."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cost: Annotated[float, msgspec.Meta(ge=0, le=1e11)] | None = None


class Happened(msgspec.Struct, tag_field="what"):
    """Something that happened in a step; entries are in the order in which they began."""

    at: Seconds = 0.0
    """When it began, in unix seconds."""


class Sent(Happened, tag="sent"):
    """A message to the model that is not a tool result."""

    content: list[dict[str, Any]] = []


class Answered(Happened, tag="answered"):
    """An answer of the model."""

    seconds: Seconds = 0.0
    model: str = ""
    message: dict[str, Any] = {}
    stop_reason: str = ""
    usage: Spent = Spent()


class Summarised(Answered, tag="summarised"):
    """An answer of the model that is a summary of its conversation."""


class Compacted(Happened, tag="compacted"):
    """The shortened conversation after a summary."""

    messages: list[dict[str, Any]] = []


class Retried(Happened, tag="retried"):
    """A request that failed and was made again."""

    attempt: Count = 0
    wait_seconds: Seconds = 0.0
    reason: str = ""


class Called(Happened, tag="called"):
    """A call of a tool."""

    seconds: Seconds = 0.0
    tool: str = ""
    version: str = ""
    arguments: Any = None
    result: Any = None
    code: str | None = None
    """The error code if it failed."""


class GivenAnswer(msgspec.Struct):
    at: Seconds = 0.0
    text: str = ""
    by: str = ""
    """person (at the terminal), resume (--answer) or default."""
    granted: list[str] | None = None
    """For a consent question: the ids of the calls that the user allowed."""


class Asked(Happened, tag="asked"):
    """A question to a person."""

    key: str = ""
    """The KEY in `strands resume --answer KEY=TEXT`."""
    kind: str = "human"
    question: str = ""
    title: str = ""
    default: str | None = None
    timeout_s: float | None = None
    choices: list[Any] | None = None
    answer: GivenAnswer | None = None


def id_in_title(title: str) -> str:
    """The id of a step: `news: review, time 2` is the title of `review`."""
    return title.rpartition(": ")[2].partition(", time ")[0]


def question_names(questions: Iterable[Asked | Question]) -> dict[str, str]:
    """The NAME of each question in `--answer NAME=TEXT`: the step's id if it is unambiguous, else the key."""
    ids = {one.key: id_in_title(one.title) for one in questions}
    counted = Counter(ids.values())
    return {key: id if counted[id] == 1 and id == quote(id) else key for key, id in ids.items()}


class Noticed(Happened, tag="noticed"):
    """A notice for the user."""

    text: str = ""
    step: str = ""


StepEntry = Sent | Answered | Summarised | Compacted | Retried | Called | Asked | Noticed
_ENTRIES: Mapping[str, type[StepEntry]] = {
    "user": Sent,
    "model": Answered,
    "summary": Summarised,
    "compaction": Compacted,
    "retry": Retried,
}


class Span(msgspec.Struct, frozen=True):
    """A period in which a step did one thing."""

    kind: Literal["model", "tool", "person"]
    start: float
    end: float


# --- Steps and runs ---------------------------------------------------------------------------------------


class _Begun(msgspec.Struct):
    at: Seconds = 0.0
    kind: str = "agent"
    title: str = ""
    agent: str = ""
    model: str = ""
    prompt: str = ""
    input: Any = ""
    tools: list[str] = []
    continues: str = ""
    turn: Count = 0


class _Failed(msgspec.Struct):
    at: Seconds = 0.0
    error: str = ""
    code: str = ""


class _Result(msgspec.Struct):
    at: Seconds = 0.0
    response: str = ""
    output: Any = None
    usage: Spent = Spent()
    seconds: Seconds = 0.0


class StepView(msgspec.Struct):
    """One step of a run."""

    key: str
    title: str = ""
    kind: str = ""
    """agent, human, tool, workflow, each or review."""
    agent: str = ""
    model: str = ""
    status: str = "running"
    at: float = 0.0
    """When it began, and when it ended or last wrote a row, in unix seconds."""
    end: float = 0.0
    seconds: float = 0.0
    """How long it worked, without the time it waited for a person."""
    usage: Usage = Usage()
    error: str = ""
    """Its last error; if the step is done, a later attempt succeeded."""
    code: str = ""
    continues: str = ""
    """The step whose conversation it continues."""
    depth: int = 0
    """How many outer steps contain it."""
    turn: int = 0
    prompt: str = ""
    input: Any = ""
    tools: list[str] = []
    response: str = ""
    output: Any = None
    entries: list[StepEntry] = []
    attempts: list["StepView"] = []
    """Attempts that were set aside, so that the step could start again."""

    def has_started_again(self, attempt: "StepView") -> bool:
        """Whether the step started again after one of its attempts. The last of them may have ended it."""
        return attempt is not self.attempts[-1] or self.status != "failed" or bool(self.entries)

    @property
    def calls(self) -> list[Called]:
        return [entry for entry in self.entries if isinstance(entry, Called)]

    @property
    def retries(self) -> int:
        return sum(isinstance(entry, Retried) for entry in self.entries)

    @property
    def waiting(self) -> list[Asked]:
        """The open questions."""
        asked = (entry for entry in self.entries if isinstance(entry, Asked) and entry.answer is None)
        return [] if self.status == "done" else [*asked]

    def spans(self) -> Iterator[Span]:
        for attempt in self.attempts:
            yield from attempt.spans()
        for entry in self.entries:
            if isinstance(entry, Answered):
                yield Span("model", entry.at, entry.at + entry.seconds)
            elif isinstance(entry, Called):
                yield Span("tool", entry.at, entry.at + entry.seconds)
            elif isinstance(entry, Asked):
                end = entry.answer.at if entry.answer else self.end
                yield Span("person", entry.at, max(entry.at, end))


class RunHead(msgspec.Struct):
    """The facts about a run that are known when it begins."""

    name: str = ""
    pattern: str = ""
    file: str = ""
    project: str = ""
    directory: str = ""
    created: Seconds = 0.0
    version: str = ""
    variables: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    options: dict[str, Any] = {}
    engine: str = ""
    """`temporal` if workers run it."""
    workflow: str = ""
    """Its id in the engine."""


class RunStatus(msgspec.Struct):
    """The current state of a run."""

    status: Status = "interrupted"
    updated: Seconds = 0.0
    error: str = ""
    code: str | None = ""
    hint: str = ""
    usage: Spent = Spent()
    seconds: Seconds = 0.0
    steps: Count = 0
    owner: Owner | None = None


class RunSummary(msgspec.Struct):
    """A run in a list."""

    id: str
    name: str
    status: Status
    steps: int
    usage: Usage
    seconds: float
    created: float
    updated: float
    error: str
    """The error that ended it, or its open question."""
    file: str
    project: str
    """The directory of the project in which it began; empty if it cannot be read."""
    engine: str = ""
    """`temporal` if workers run it."""

    @property
    def is_in_use(self) -> bool:
        """Whether a process works on it, or the engine keeps it until its questions are answered."""
        return self.status in ("queued", "running") or (self.status == "paused" and self.engine != "")


class _Stored(msgspec.Struct):
    files: dict[str, str] = {}


class RunView(msgspec.Struct):
    """One run with everything it did."""

    id: str
    head: RunHead
    status: RunStatus
    steps: list[StepView]
    """In the order of the file, not of their start."""
    notices: list[Noticed]
    artifacts: list[str]
    """The files that it has written."""
    files: dict[str, str]
    """The text of the workflow file and of the files it refers to, as they were when the run began."""

    @property
    def waiting(self) -> list[Asked]:
        return [asked for step in self.steps for asked in step.waiting]


# --- Reading rows -----------------------------------------------------------------------------------------


def list_runs(listed: Mapping[str, Mapping[str, bytes]]) -> list[RunSummary]:
    """The runs of `Store.runs()`, the newest first, including those with damaged rows."""
    found = []
    for run, rows in listed.items():
        try:
            head, status = (_read(kind, key, decode(rows.get(key, b"{}"), key)) for key, kind in _LISTED)
        except SessionError as error:
            head, status = RunHead(), RunStatus(status="damaged", error=error.message)
        assert isinstance(head, RunHead)
        assert isinstance(status, RunStatus)
        summary = RunSummary(
            id=run,
            name=head.name,
            status=_true_status(status, head),
            steps=status.steps,
            usage=status.usage,
            seconds=status.seconds,
            created=head.created,
            updated=status.updated or head.created,
            error=status.error,
            file=head.file,
            project=head.project,
            engine=head.engine,
        )
        found.append(summary)
    return sorted(found, key=lambda one: (one.created, one.id), reverse=True)


_LISTED: tuple[tuple[str, type[RunHead | RunStatus]], ...] = (("head", RunHead), ("status", RunStatus))


def read_run(run: str, rows: Mapping[str, bytes], now: float) -> RunView:
    """A run from `Store.load()`; SessionError if a row is damaged."""
    history = RunHistory()
    for key, data in rows.items():
        history.add(key, decode(data, key))
    return history.view(run, now)


def decode(data: bytes, key: str) -> Any:
    try:
        return decode_row(data)
    except (SessionError, ValueError, RecursionError):
        raise _damaged(key) from None


def _read(kind: type[T], key: str, value: Any) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _damaged(key, f": {error}") from None


def _damaged(key: str, why: str = "") -> SessionError:
    hint = "Delete the run: strands runs delete ID"
    return SessionError(f"The row {key!r} of the run is damaged{why}.", hint=hint)


def _true_status(status: RunStatus, head: RunHead) -> Status:
    """The recorded status, or `interrupted` if the run's process is gone and no engine will continue it."""
    owner = status.owner
    if status.status == "running" and owner is not None and not head.engine:
        return "running" if owner.host != this_process().host or is_alive(owner) else "interrupted"
    return status.status


class RunHistory:
    """Collects the rows of a run one by one, from the store or from the live run."""

    def __init__(self) -> None:
        self.steps: dict[str, StepView] = {}
        self._head, self._status = RunHead(), RunStatus()
        self._begun: set[str] = set()
        self._results: dict[str, _Result] = {}
        self._failed: dict[str, _Failed] = {}
        self._asked: dict[str, Asked] = {}
        self._artifacts: list[str] = []
        self._files: dict[str, str] = {}
        self._notices: list[Noticed] = []

    def add(self, key: str, value: Any) -> tuple[StepView | None, StepEntry | None]:
        """Adds a row. Returns the step it belongs to, and the entry that it added or changed."""
        if value is None:  # it was set aside
            return None, None
        if found := _ROW.fullmatch(key):
            step = self.steps.setdefault(found["step"], StepView(found["step"], title=found["step"]))
            return step, self._add_to(step, found, key, value)
        if key == "head":
            self._head = _read(RunHead, key, value)
        elif key == "status":
            self._status = _read(RunStatus, key, value)
        elif key == "spec":
            self._files = _read(_Stored, key, value).files
        elif key == "artifacts":
            self._artifacts = [*_read(dict[str, Any], key, value)]
        elif _NOTICE.fullmatch(key):
            notice = _read(Noticed, key, value)
            self._notices.append(notice)
            return self.steps.get(notice.step), notice
        return None, None

    def _add_to(self, step: StepView, found: re.Match[str], key: str, value: Any) -> StepEntry | None:
        if found["once"] == "begun":
            begun = _read(_Begun, key, value)
            self._begun.add(step.key)
            for name, one in msgspec.structs.asdict(begun).items():
                setattr(step, name, one)
            step.title = step.title or step.key
        elif found["once"] == "failed":
            failed = self._failed[step.key] = _read(_Failed, key, value)
            step.error, step.code = failed.error, failed.code
        elif found["once"] == "result":
            self._results[step.key] = _read(_Result, key, value)
        elif found["asking"]:
            return self._add_question(step, found, key, value)
        else:
            entry = _read(_ENTRIES.get(found["kind"], Called), key, value)
            step.entries.append(entry)
            return entry
        return None

    def _add_question(self, step: StepView, found: re.Match[str], key: str, value: Any) -> StepEntry | None:
        name = key.rpartition("/")[0]
        asked = self._asked.get(name)
        if found["asking"] == "question":
            question = _read(Asked, key, value)
            question.key = name
            if asked is not None:  # asked again after a resume
                question.answer = asked.answer
                step.entries.remove(asked)
            if not step.kind:
                step.kind, step.title = "review", question.title or step.key
                step.at = question.at
            self._asked[name] = question
            step.entries.append(question)
            return question
        answer = _read(GivenAnswer, key, value)
        if asked is None:  # at the terminal, so that no question was kept
            asked = Asked(key=name, at=answer.at, title=step.title)
            if step.kind == "human":
                asked.at, asked.question = step.at, str(step.input)
            elif found["asked"]:
                asked.kind = "consent" if found["asked"].startswith("consent") else "interrupt"
            self._asked[name] = asked
            step.entries.append(asked)
        asked.answer = answer
        return asked

    def view(self, run: str, now: float) -> RunView:
        """The run as far as its rows are known."""
        self._status.status = _true_status(self._status, self._head)
        for step in self.steps.values():
            self._finish(step, now)
        self._gather_attempts()
        self._wait_with_parts()
        return RunView(
            id=run,
            head=self._head,
            status=self._status,
            steps=self._in_order(),
            notices=self._notices,
            artifacts=self._artifacts,
            files=self._files,
        )

    def _finish(self, step: StepView, now: float) -> None:
        """Computes the fields of a step that depend on all its rows."""
        result, failed = self._results.get(step.key), self._failed.get(step.key)
        times = [entry.at + getattr(entry, "seconds", 0.0) for entry in step.entries]
        unknown = failed.at if failed is not None else self._head.created
        step.at = step.at or min((entry.at for entry in step.entries), default=unknown)
        step.end = max([step.at, *times])
        # An answer is sorted by its end, so it comes after its retries.
        step.entries.sort(key=lambda entry: entry.at + (entry.seconds if isinstance(entry, Answered) else 0))
        for entry in step.entries:
            step.usage += entry.usage if isinstance(entry, Answered) else Usage()
        step.kind = step.kind or "agent"
        if result is not None:
            step.status, step.end = "done", max(result.at, step.end)
            step.at = min(
                step.at, max(result.at - result.seconds, 0.0)
            )  # the row `begun` is written after the preparation
            step.response, step.output, step.usage = result.response, result.output, result.usage
            step.seconds = result.seconds
            return
        if failed is not None and failed.at >= step.at:
            step.status, step.end = "failed", max(failed.at, step.end)
        elif self._status.status == "running":
            step.status, step.end = ("waiting" if step.waiting else "running"), max(now, step.end)
        else:
            step.status = "waiting" if step.waiting else "interrupted"
        step.seconds = step.end - step.at

    def _gather_attempts(self) -> None:
        """Moves attempts that were set aside into their step."""
        for key in [*self.steps]:
            if not (found := _ATTEMPT.fullmatch(key)):
                continue
            attempt = self.steps.pop(key)
            attempt.status = "failed"
            step = self.steps.get(found[1]) or StepView(found[1], status="failed", end=attempt.end)
            self.steps[step.key] = step
            if not step.title or step.title == step.key:
                for name in ("title", "kind", "agent", "model", "turn"):
                    setattr(step, name, getattr(attempt, name))
            step.attempts.append(attempt)
            step.at = min(step.at or attempt.at, attempt.at)
            if step.key not in self._begun:  # it has not started again
                step.seconds = max(step.end - attempt.at, 0.0)
            step.usage += attempt.usage

    def _wait_with_parts(self) -> None:
        """Marks a step as waiting if one of its inner steps is."""
        for step in [*self.steps.values()]:
            above = _above(step.key.split("/")) if step.status == "waiting" else ()
            for whole in filter(None, map(self.steps.get, above)):
                if whole.status == "interrupted":
                    whole.status = "waiting"

    def _in_order(self) -> list[StepView]:
        """By the rounds of the pattern, then by place; names in the order in which they first came."""
        firsts: dict[str, int] = {}
        ranks = {key: [*_ranks(key.split("/"), firsts)] for key in self.steps}
        orders: dict[str, tuple[int, ...]] = {"": ()}
        for key in sorted(self.steps, key=len):  # what a step is part of comes before it
            step, parts = self.steps[key], key.split("/")
            outer = next(above for above in _above(parts) if above in orders)
            step.depth = self.steps[outer].depth + 1 if outer else 0
            own = ranks[key][outer.count("/") + 1 if outer else 0 :]
            orders[key] = (*orders[outer], step.turn, *(number for pair in own for number in pair))
        return sorted(self.steps.values(), key=lambda step: orders[step.key])


def _above(parts: list[str]) -> Iterator[str]:
    """The keys above a key, the longest first."""
    return ("/".join(parts[:length]) for length in range(len(parts) - 1, -1, -1))


def _ranks(parts: list[str], firsts: dict[str, int]) -> Iterator[tuple[int, int]]:
    """The position of each part of a key, and the number of its visit."""
    for index, part in enumerate(parts):
        name, _, visit = part.partition("#")
        path = "/".join([*parts[:index], name])
        place = int(name) if _NUMBER.fullmatch(name) else firsts.setdefault(path, len(firsts))
        yield place, int(visit) if _NUMBER.fullmatch(visit) else 1
