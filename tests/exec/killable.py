"""A process that has imported everything, and forks one that runs or resumes a workflow for each order.

So a run begins in milliseconds, is a process of its own, and can be killed. Orders come as lines of JSON:
`{"start": …}` is answered with the new process's number, `{"wait": number}` with its exit code when it has
ended, `{"poll": number}` at once, with null if it runs.
"""

import json
import os
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import strands_cli.cli.run
import strands_cli.exec.journal
import strands_cli.runtime.strands_adapter  # noqa: F401 - so that no child has to
from strands_cli.cli.app import run_command_line
from strands_cli.errors import StrandsError
from strands_cli.exec.run import run_sync
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import SqliteStore
from tests.fakes import Call, Part, Pause, Request, ScriptedModel, installed

LABEL = re.compile(r"\b[MT][0-9a-f]{12}\b")
_IMPORTED = ("strands", "asyncio", "jinja2", "sqlite3", "email", "opentelemetry", "pydantic", "mcp", "httpx")
LOG_VARIABLE = "KILLED_RUN_LOG"
_SECONDS = 0.008
"""What a model or a tool takes: long enough to be killed in."""


# --- The model: an answer follows from the conversation alone -------------------------------------------------


def write_line(label: str, causes: set[str]) -> None:
    """Says in the log that something is done, and of what that was made."""
    file = os.open(os.environ[LOG_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{' '.join([label, *sorted(causes)])}\n".encode())
    os.close(file)


def reply(request: Request) -> list[Part]:
    """Calls `mark` as often as the question says (`calls=2`), then answers.

    Labels stand for what was said so far: M for an answer of the model, T for the call that it asks for.
    """
    said = [_text(message["content"]) for message in request.messages]
    conversation = "\n".join([request.system_prompt or "", *said])
    number = sha256(conversation.encode()).hexdigest()[:12]
    write_line(f"M{number}", {*LABEL.findall(conversation)})
    asked = max(place for place, message in enumerate(request.messages) if _is_question(message))
    left = int(said[asked].partition("calls=")[2][0]) - (len(said) - 1 - asked) // 2
    begin: list[Part] = [Pause(_SECONDS), f"M{number} "]
    if left > 0:
        return [*begin, Call("mark", {"label": f"T{number}"})]
    if any(spec["name"] == "answer" for spec in request.tool_specs):
        return [*begin, Call("answer", {"tasks": [f"part {part}, calls=1" for part in "abc"]})]
    stars = "*" * (said[asked].count("*") + 1)
    return [*begin, stars if "loop" in said[asked] else "done"]


def _is_question(message: Any) -> bool:
    return message["role"] == "user" and not any("toolResult" in block for block in message["content"])


def _text(content: Any) -> str:
    parts = []
    for block in content:
        if "toolUse" in block:
            parts.append(json.dumps([block["toolUse"]["name"], block["toolUse"]["input"]], sort_keys=True))
        elif "toolResult" in block:
            parts.append(_text(block["toolResult"]["content"]))
        else:
            parts.append(str(block.get("text", json.dumps(block, sort_keys=True))))
    return "\n".join(parts)


# --- Stores that are broken on purpose ------------------------------------------------------------------------


class ForgetfulStore(SqliteStore):
    """Keeps no result of a tool, and does not say so."""

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        super().put(run, fence, {key: value for key, value in rows.items() if "/tool/" not in key})


class LazyStore(SqliteStore):
    """Keeps the beginning, and says that all the rest is written."""

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        kept = ("head", "spec", "status", "steps/0")
        super().put(run, fence, {key: value for key, value in rows.items() if key.startswith(kept)})


class ShufflingStore(SqliteStore):
    """Takes what one step answered for what another did."""

    def load(self, run: str) -> dict[str, bytes]:
        rows = super().load(run)
        results = [key for key in rows if key.endswith("/result")]
        return {**rows, **{key: rows[other] for key, other in zip(results, results[::-1], strict=True)}}


STORES = {kind.__name__: kind for kind in (SqliteStore, ForgetfulStore, LazyStore, ShufflingStore)}


# --- Processes ------------------------------------------------------------------------------------------------


def main() -> None:
    orders: dict[int, Any] = {}
    while line := sys.stdin.readline():
        [(order, given)] = json.loads(line).items()
        if order == "start":
            answer: Any = os.fork()
            if answer == 0:
                _run_order(given)
            orders[answer] = given
        else:
            done, status = os.waitpid(given, os.WNOHANG if order == "poll" else 0)
            answer = os.waitstatus_to_exitcode(status) if done else None
            if answer == 0:
                _import_modules(Path(orders[given]["out"] + ".modules"))
        print(json.dumps(answer), flush=True)


def _run_order(order: dict[str, Any]) -> None:
    """In the child, which never comes back."""
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(order["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(os.open(order["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.chdir(order["directory"])
        os.environ.update(order["environment"])
        with installed(ScriptedModel(reply=reply)):
            code = run_command_line(order["command"]) if "command" in order else _run_in_python(order)
    except BaseException:  # noqa: BLE001 - nothing of it may get back to the parent's loop
        traceback.print_exc()
    Path(order["out"] + ".modules").write_text("\n".join(sys.modules))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _import_modules(file: Path) -> None:
    """What a child had to import, the next ones find."""
    for name in file.read_text().splitlines():
        if name not in sys.modules and name.startswith(_IMPORTED):
            with suppress(ImportError):
                import_module(name)


def _run_in_python(order: dict[str, Any]) -> int:
    store = STORES[order["store"]](Path(order["journal"]))
    try:
        options = RunOptions(store=store, resume=order["resume"], take_over=order.get("take_over", False))
        result = run_sync("flow.yaml", options=options)
        steps = [{"key": step.key, "response": step.response} for step in result.steps]
        print(json.dumps({"last_response": result.last_response, "steps": steps}))
    except StrandsError as error:
        print(f"{error.message} | {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    main()
