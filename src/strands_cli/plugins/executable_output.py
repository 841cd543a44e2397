"""From what an executable printed, and how it ended, to a value or a ToolFailed."""

import json
from contextlib import suppress
from typing import Any, NoReturn

from strands_cli.documents.reader import is_nested_deeper, parse_strict_json
from strands_cli.errors import ToolFailed
from strands_cli.sandbox.confined_executable import Exit, Why
from strands_cli.sandbox.executables import Finished
from strands_cli.sandbox.process_tree import signal_name
from strands_cli.secrets import Redactor

MAX_LEVELS = 200
"""How deep an answer may be nested: what hides secrets in it, checks it and writes it again recurses."""
PROGRESS_MARK = "strands:progress "
"""A line on standard error that begins so is progress; all else there is for people."""

EXIT_CODES = {
    66: "not_found",
    68: "network",
    69: "unavailable",
    75: "network",
    77: "forbidden",
    78: "unavailable",
    126: "unavailable",
    127: "unavailable",
}
"""Exit statuses that say why, as sysexits.h and shells have them; every other one is `failed`."""
OWN_CODES = frozenset({"failed", "not_found", "forbidden", "conflict", "network"})
"""The codes that an executable may give its own error: `{"error": {"code": …, "message": …}}`."""

_WHY_CODES: dict[Why, str] = {
    "timeout": "timeout",
    "idle": "timeout",
    "cancelled": "cancelled",
    "output": "output_invalid",
}
_SIGNAL_TEXTS = {
    "SIGXCPU": "used more CPU time than it may",
    "SIGXFSZ": "wrote a larger file than it may",
    "SIGSYS": "made a system call that it may not make",
}
_WHY_HINTS: dict[Why, str] = {
    "timeout": "Ask for less at a time, or give the tool a higher 'timeout' in plugin.json.",
    "idle": "Let the tool say how far it has come, or give it a higher 'idle_timeout' in plugin.json.",
}
_TAIL_CHARACTERS = 1500
REFUSED_MARK = "The sandbox refused something during this call, so its answer may be wrong. "
"""A remark beside an answer begins so."""
_STREAMS_HINT = "A tool prints one JSON value on standard output, and everything else on standard error."


def executable_answer(
    tool_id: str, finished: Finished, redactor: Redactor, *, is_read_only: bool = False
) -> Any:
    """The answer of an executable that has ended; ToolFailed where it failed or has none.

    A tool that only reads has nothing left to do once it has answered: how it ends then does not count.
    """
    ending = finished.exit
    text = finished.stdout.decode("utf-8", "replace").strip()
    if is_read_only and is_whole_answer(finished.stdout):
        return _with_refusal(printed_answer(text, redactor), finished, redactor)
    if ending.why != "exited" or ending.status != 0:
        _raise_executable_failure(tool_id, finished, text, redactor)
    if not text:
        errors = stderr_tail(finished.stderr, redactor)
        raise ToolFailed(
            f"{tool_id} exited without an answer",
            code="output_invalid",
            hint=f"{_STREAMS_HINT} It printed: {errors}" if errors else _STREAMS_HINT,
        )
    return _with_refusal(printed_answer(text, redactor), finished, redactor)


def _with_refusal(value: Any, finished: Finished, redactor: Redactor) -> Any:
    """An answer with a remark where the sandbox refused something: its program may not have noticed."""
    if finished.hint is None:
        return value
    is_result = isinstance(value, dict)
    content = (
        value["content"] if is_result else [{"text": value if isinstance(value, str) else json.dumps(value)}]
    )
    return _success_result(*content, {"text": REFUSED_MARK + redactor.text(finished.hint.text)})


def is_whole_answer(printed: bytes) -> bool:
    """Whether what was printed so far is one JSON object or array, with the end of its line."""
    begins, ends = printed.lstrip()[:1], printed.rstrip()[-1:]
    if not printed.endswith(b"\n") or (begins, ends) not in ((b"{", b"}"), (b"[", b"]")):
        return False
    try:
        parse_printed_json(printed.decode("utf-8", "replace"))
    except ValueError:
        return False
    return True


def printed_answer(text: str, redactor: Redactor) -> Any:
    """The value of a printed text; ToolFailed where it is one of the error forms."""
    try:
        value = parse_printed_json(text)
    except ValueError as error:
        return _plain_text_answer(text, error, redactor)
    return json_answer(value, redactor)


def json_answer(value: Any, redactor: Redactor) -> Any:
    """A JSON value as a tool's: all its keys are kept, whatever they are; the error forms raise."""
    value = redactor.value(value)
    if isinstance(value, dict):
        refuse_error_answer(value)
    return _success_result({"json": value}) if isinstance(value, dict | list) else value


def refuse_error_answer(value: dict[str, Any]) -> None:
    """ToolFailed for `{"error": …}` and for `{"success": false, …}`."""
    error, success = value.get("error"), value.get("success")
    if success is not False and (not error or success is True):
        return
    code = error.get("code") if isinstance(error, dict) else None
    others = {key: inner for key, inner in value.items() if key not in ("error", "success")}
    raise ToolFailed(
        _error_text(value),
        code=code if isinstance(code, str) and code in OWN_CODES else "failed",
        details=[others] if others else [],
    )


def parse_printed_json(text: str) -> Any:
    """Strict JSON; ValueError otherwise."""
    try:
        value = parse_strict_json(text)
        is_too_deep = is_nested_deeper(value, MAX_LEVELS)
    except RecursionError:
        is_too_deep = True
    if is_too_deep:
        raise ValueError("it is nested too deep")
    return value


def stderr_tail(stderr: bytes, redactor: Redactor) -> str:
    """The end of what stands on standard error, without progress."""
    text = redactor.text(stderr.decode("utf-8", "replace"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(PROGRESS_MARK)]
    return "\n".join(lines).strip()[-_TAIL_CHARACTERS:]


def ending_text(ending: Exit) -> str:
    """How an executable ended, as the rest of a sentence."""
    name = signal_name(ending.signal) if ending.why == "exited" and ending.signal else ""
    return _SIGNAL_TEXTS.get(name, ending.text)


def error_code_of_exit(ending: Exit) -> str:
    if ending.why == "exited" and ending.signal is None:
        return EXIT_CODES.get(ending.status or 0, "failed")
    return _WHY_CODES.get(ending.why, "crashed")


def _raise_executable_failure(tool_id: str, finished: Finished, text: str, redactor: Redactor) -> NoReturn:
    ending = finished.exit
    if ending.why == "exited" and ending.status is not None:
        # What the executable itself says about its failure counts more than its exit status.
        with suppress(ValueError):
            json_answer(parse_printed_json(text), redactor)
    code = error_code_of_exit(ending)
    if finished.hint is not None and code in ("failed", "crashed"):
        code = "forbidden"
    message = f"{tool_id} {ending_text(ending)}"
    if ending.why in _WHY_HINTS:
        message += f" and was ended after {finished.seconds:.3g} s"
    output = stderr_tail(finished.stderr, redactor) or redactor.text(text)[-_TAIL_CHARACTERS:]
    raise ToolFailed(
        f"{message}: {output}" if output else message,
        code=code,
        hint=redactor.text(finished.hint.text) if finished.hint else _WHY_HINTS.get(ending.why, ""),
    )


def _error_text(value: dict[str, Any]) -> str:
    error = value.get("error")
    if isinstance(error, dict):
        error = error.get("message") or error
    for reason in (error, value.get("message"), value.get("output")):
        if reason:
            return reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False)
    return "The tool reported a failure without a reason"


def _plain_text_answer(text: str, error: ValueError, redactor: Redactor) -> Any:
    """Plain text is an answer too; what was meant as JSON comes with a remark, as does what precedes it."""
    if text[0] in "{[":
        remark = f"This looks like JSON but is not: {error}. The tool's author must quote its values."
        return _success_result({"text": redactor.text(text)}, {"text": remark})
    before, _, last = text.rpartition("\n")
    if before and last[:1] == "{":
        try:
            value = json_answer(parse_printed_json(last), redactor)
        except ValueError:
            return redactor.text(text)
        remark = f"Before its answer it printed: {redactor.text(before.strip())}"
        return _success_result(*value["content"], {"text": remark})
    return redactor.text(text)


def _success_result(*content: dict[str, Any]) -> dict[str, Any]:
    return {"status": "success", "content": list(content)}
