"""What can go wrong, sorted by who must act.

StrandsError                 for the user: one line, a hint, an exit code
├── UsageError          2    the command line
├── SpecError           3    a file that people write (.issues)
├── ToolError          10    a tool that cannot be found, loaded or called (.code)
├── ProviderError      10    a model that cannot be had, reached or used
├── RunError           10    a run that cannot go on (.step)
│   ├── AnswerError    10    an answer that does not fit what was asked for
│   └── BudgetExceeded 20    a limit of the run's own
├── TrustError         21    a project asks for more than the user has trusted
├── SessionError       17    a run's journal that cannot be found, read, written or taken
├── ArtifactError      12    an output that cannot be written
└── UnsupportedError   18    something this machine or version does not have
Paused                  19    not an error: the run waits for a human
(no error)               1    cases of an evaluation failed
ToolFailed                   for the model: becomes a tool result, never ends a run

Interrupted           130    Ctrl-C; what is finished is kept; 143 for SIGTERM, 129 for SIGHUP
OSError                12    nowhere to write: a full disk, a closed stream
anything else          70    a bug: traceback
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

EXIT_TESTS_FAILED = 1
EXIT_INTERRUPTED = 130
EXIT_UNWRITABLE = 12
EXIT_BUG = 70

Severity = Literal["error", "warning"]


class Issue(msgspec.Struct, frozen=True, kw_only=True):
    """A problem in a file, with its place and a fix."""

    reason: str
    remediation: str = ""
    pointer: str = ""
    severity: Severity = "error"
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def place(self) -> str:
        """`file:line:column /pointer`, as much of it as is known."""
        position = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        return "  ".join(part for part in (position, self.pointer) if part)


def written_pointer(pointer: str, origins: Mapping[str, str]) -> str:
    """A pointer as the file's text has it, where its parts were moved: `origins` says where from."""
    head, rest = pointer, ""
    while head and head not in origins:
        head, _, last = head.rpartition("/")
        rest = f"/{last}{rest}"
    return f"{origins[head]}{rest}" if head else pointer


def install_hint(extra: str) -> str:
    """How to get the packages of an extra. strands-cli is installed from a clone."""
    return f"Install it: pip install '/path/to/strands-cli[{extra}]', with the path of your clone."


class StrandsError(Exception):
    """A failure that a user can understand and act on."""

    exit_code = 1
    code = "error"
    kept: Any = None
    """If it ended a run: the RunResult with the finished steps."""
    step: str = ""
    """If it ended a run: the key of the step that failed."""
    run_id: str = ""
    """If it ended a run that is in a journal: its id, to resume it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(StrandsError):
    exit_code = 2
    code = "usage"


class SpecError(StrandsError):
    exit_code = 3
    code = "invalid_file"

    def __init__(self, message: str, *, hint: str = "", issues: Sequence[Issue] = ()) -> None:
        super().__init__(message, hint=hint)
        self.issues = tuple(issues)


def variable_error(name: str, reason: str, remedy: str = "Correct it, or unset it.") -> SpecError:
    """For an environment variable whose value cannot be used."""
    issue = Issue(file=f"${name}", reason=f"{reason}.", remediation=remedy)
    return SpecError(f"{issue.place}: {issue.reason}", hint=remedy, issues=[issue])


class ToolError(StrandsError):
    """A tool cannot be found, loaded or called. `code` is one of `toolkit.results.CODES`."""

    exit_code = 10

    def __init__(
        self, message: str, *, code: str = "failed", hint: str = "", issue: Issue | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.issue = issue


class ProviderError(StrandsError):
    """A model is missing, cannot be reached or cannot be used."""

    exit_code = 10
    code = "provider"


class RunError(StrandsError):
    """A run failed. `step` is the key of the step that failed."""

    exit_code = 10
    code = "run"

    def __init__(self, message: str, *, hint: str = "", step: str = "") -> None:
        super().__init__(message, hint=hint)
        self.step = step


class AnswerError(RunError):
    """An answer is invalid, even after retries."""

    code = "answer"


class BudgetExceeded(RunError):
    """A budget of the workflow is used up. Finished steps are kept."""

    exit_code = 20
    code = "budget"


class TrustError(StrandsError):
    """A project asks for more than its own directory, and the user has not trusted it."""

    exit_code = 21
    code = "untrusted"


class SessionError(StrandsError):
    """The journal of a run cannot be found, read or written, or another process has the run."""

    exit_code = 17
    code = "session"


class ArtifactError(StrandsError):
    exit_code = EXIT_UNWRITABLE
    code = "artifact"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a paused run waits for."""

    key: str
    """Its place in the run, which names it in an answer."""
    title: str
    kind: str
    text: str


class Paused(StrandsError):
    """Not a failure: the run needs an answer from a human, and nobody can be asked here."""

    exit_code = 19
    code = "paused"

    def __init__(self, message: str, *, hint: str = "", questions: Sequence[Question] = ()) -> None:
        super().__init__(message, hint=hint)
        self.questions = tuple(questions)


class Interrupted(StrandsError):
    """The run was cancelled with Ctrl-C. Finished steps are kept."""

    exit_code = EXIT_INTERRUPTED
    code = "interrupted"


class UnsupportedError(StrandsError):
    """This machine, version or workflow cannot do something; see `issues`."""

    exit_code = 18
    code = "unsupported"

    def __init__(self, message: str, *, hint: str = "", issues: Sequence[Issue] = ()) -> None:
        super().__init__(message, hint=hint)
        self.issues = tuple(issues)


class ToolFailed(Exception):
    """Raise it in a tool's body to report a failure. The model gets the message.

    `code` is one of `toolkit.results.CODES`, or a code that you make up, which is treated as `failed`.
    Arguments of a wrong type are converted to text, so that a mistake in an error does not hide the error.
    """

    message = ""
    code = "failed"
    hint = ""
    details: Sequence[dict[str, Any]] = ()

    def __init__(
        self,
        message: object,
        *,
        code: str = "failed",
        hint: str = "",
        details: Iterable[dict[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.message = str(message)
        self.code = str(code)
        self.hint = str(hint)
        self.details = list(details)


_MOST_COMPARED = 5_000


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` was probably meant to be."""
    from difflib import get_close_matches

    meant, names = word.lower(), {name.lower(): name for name in known}
    likely = list(names)
    if len(likely) > (
        most := _MOST_COMPARED // (len(word) + 1)
    ):  # comparing is slow, and there may be thousands
        likely.sort(key=lambda name: (name[:1] != meant[:1], abs(len(name) - len(meant))))
        del likely[most:]
    matches = get_close_matches(meant, likely, n=1, cutoff=0.6)
    return names[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or nothing."""
    match = closest(word, known)
    return f"Did you mean {match!r}?" if match else ""
