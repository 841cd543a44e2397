"""The rows `head` and `spec`, which describe how a run was started, and how to start it again from them."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from strands_cli import __version__
from strands_cli.documents.files import read_regular_file
from strands_cli.documents.problems import JsonPath, json_pointer
from strands_cli.documents.reader import MAX_BYTES, read_document_file
from strands_cli.errors import (
    AnswerError,
    ArtifactError,
    BudgetExceeded,
    Interrupted,
    Paused,
    ProviderError,
    Question,
    RunError,
    SessionError,
    SpecError,
    StrandsError,
    ToolError,
    TrustError,
    UnsupportedError,
    UsageError,
)
from strands_cli.exec.history import CHAT as CHAT
from strands_cli.exec.history import read_run
from strands_cli.exec.journal import decode_row, encode_row
from strands_cli.exec.steps import RunOptions
from strands_cli.loader import StoredFiles, load_spec, stored_name
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import PROVIDERS, with_model_options
from strands_cli.settings import marked_project_root
from strands_cli.types import RunResult, StepResult, Usage


def run_head(
    spec: Spec,
    options: RunOptions,
    *,
    id: str,
    variables: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The row `head`. `variables` are given in addition to those of the Spec.

    `directory` is where the run begins: settings, tools and relative paths are found from there.
    """
    directory = Path.cwd()
    return {
        "id": id,
        "name": spec.name,
        "pattern": spec.pattern.kind,
        "file": str(spec.file.absolute()),
        "project": str(marked_project_root(directory) or directory),
        "directory": str(directory),
        "created": time.time(),
        "variables": {**spec.variables, **(variables or {})},
        "environment": {
            use.name: use.value for one in spec.family for use in one.environment if use.value is not None
        },
        "options": {
            **{name: spec.model_given.get(name, "") for name in ("provider", "model_id", "host")},
            "out": str(options.directory),
            "force": options.force,
            "trace": options.trace,
            "allow_write": [str(path.absolute()) for path in options.allow_write],
        },
        "version": __version__,
    }


KEPT_IN_HEAD = ("created", "imported", "engine", "workflow")
"""What a run that continues with a changed workflow keeps of its head."""


def status_row(status: str, error: StrandsError | None = None) -> dict[str, Any]:
    """What the row `status` says about a run that no process works on any more."""
    message, code, hint = (error.message, error.code, error.hint) if error else ("", "", "")
    return {
        "status": status,
        "updated": time.time(),
        "error": message,
        "code": code,
        "hint": hint,
        "owner": None,
    }


def submitted_rows(
    spec: Spec, options: RunOptions, *, run: str, workflow: str, yes: bool = False
) -> dict[str, bytes]:
    """The rows of a run that waits for a worker. Its directory is the project, which workers have too."""
    head = run_head(spec, options, id=run)
    project = Path(head["project"])
    head |= {"directory": str(project), "file": str(project / path_in_project(spec.file, project))}
    head["options"]["yes"] = yes
    head |= {"engine": "temporal", "workflow": workflow}
    rows = {"head": head, "spec": {"files": spec_files(spec)}, "status": status_row("queued")}
    return {key: encode_row(row) for key, row in rows.items()}


def path_in_project(path: Path, project: Path) -> Path:
    """The path relative to the project, which is elsewhere on the machine of a worker."""
    real, root = Path(os.path.realpath(path.parent), path.name), os.path.realpath(project)
    if not real.is_relative_to(root):
        hint = "Submit runs in their project: workers look for its tools and files in their copy of it."
        raise UsageError(f"{path} is outside the project {project}.", hint=hint)
    return real.relative_to(root)


def failed_rows(
    error: StrandsError, file: Path, project: Path, *, run: str, workflow: str
) -> dict[str, bytes]:
    """The rows of a run whose workflow could not be loaded."""
    head = {
        "id": run,
        "name": file.stem,
        "pattern": "",
        "file": str(file),
        "project": str(project),
        "directory": str(project),
        "created": time.time(),
        "engine": "temporal",
        "workflow": workflow,
    }
    return {"head": encode_row(head), "status": encode_row(status_row("failed", error))}


def stored_result(rows: Mapping[str, bytes]) -> RunResult:
    """The result of a finished run."""
    head, status = decode_row(rows["head"]), decode_row(rows["status"])
    steps = [decode_row(rows[f"{key}/result"]) for key in status["done"]]
    return RunResult(
        name=head["name"],
        pattern=head["pattern"],
        **status["answer"],
        steps=tuple(msgspec.convert(step, StepResult) for step in steps),
        usage=msgspec.convert(status["usage"], Usage),
        duration=status["seconds"],
        artifacts=tuple(map(Path, decode_row(rows.get("artifacts", b"{}")))),
        run_id=head["id"],
    )


_FAILURES: dict[str, Callable[..., StrandsError]] = {
    kind.code: kind
    for kind in (
        AnswerError,
        ArtifactError,
        BudgetExceeded,
        Interrupted,
        ProviderError,
        RunError,
        SessionError,
        SpecError,
        TrustError,
        UnsupportedError,
        UsageError,
    )
}


def stored_failure(run: str, rows: Mapping[str, bytes]) -> StrandsError:
    """The error that ended a run, or what it waits for; as the run itself raised it."""
    view = read_run(run, rows, time.time())
    status = view.status
    if status.status == "paused":
        questions = [
            Question(key=one.key, title=one.title, kind=one.kind, text=one.question) for one in view.waiting
        ]
        error: StrandsError = Paused(status.error, hint=status.hint, questions=questions)
    elif (code := status.code or status.status) in _FAILURES:
        error = _FAILURES[code](status.error or "Interrupted.", hint=status.hint)
    else:
        error = ToolError(status.error or "The run has failed.", code=code or "failed", hint=status.hint)
    error.run_id = run
    return error


def spec_files(spec: Spec) -> dict[str, str]:
    """The files of a workflow, by their paths relative to its directory; its own file comes first.

    A Spec that a program built has none.
    """
    directory = spec.file.absolute().parent
    return {stored_name(path, directory): text for path, text in spec.texts.items()}


def stored_files(rows: Mapping[str, Any]) -> StoredFiles:
    """The stored files of a run, for `load_spec`: its workflow and the workflows that it runs."""
    head, files = rows["head"], rows.get("spec", {}).get("files", {})
    if not files:
        reason = f"The run {head['id']} has no workflow file: a program started it."
        raise SessionError(reason, hint="Resume it in that program, with RunOptions(resume=…).")
    directory = Path(head["file"]).parent
    return StoredFiles(
        directory=directory,
        files=files,
        environment=head.get("environment", {}),
        are_imported=bool(head.get("imported")),
        are_foreign=bool(head.get("imported")) and not _are_on_disk(files, directory),
    )


def _are_on_disk(files: Mapping[str, str], directory: Path) -> bool:
    """Whether the project has files with exactly these texts."""
    roots = (marked_project_root(directory) or directory,)
    try:
        return all(
            read_regular_file(directory / name, MAX_BYTES, roots) == text.encode("utf-8", "surrogatepass")
            for name, text in files.items()
        )
    except (OSError, ValueError):
        return False


def stored_spec(rows: Mapping[str, Any]) -> Spec:
    """The workflow as it was when the run began, with its variables and its model options."""
    head, stored = rows["head"], stored_files(rows)
    spec = load_spec(workflow_path(head), head["variables"], stored=stored)
    return with_stored_models(spec, head)


def with_stored_models(spec: Spec, head: Mapping[str, Any]) -> Spec:
    """The workflow with the models that were chosen when the run began."""
    provider, model, host = (head["options"].get(name) or None for name in ("provider", "model_id", "host"))
    if provider and provider not in PROVIDERS:
        hint = "Install it, or start the workflow again with another one."
        raise SessionError(
            f"The run was started with the provider {provider!r}, which is not known here.", hint=hint
        )
    return with_model_options(spec, provider=provider, model=model, host=host)


def as_imported(spec: Spec) -> Spec:
    """Marks a workflow, and the workflows that it runs, as part of an imported run."""
    inner = {name: as_imported(cast(Spec, one)) for name, one in spec.workflows.items()}
    return msgspec.structs.replace(spec, is_imported=True, workflows=inner)


def stored_options(head: Mapping[str, Any], **changes: Any) -> RunOptions:
    """The options with which a run began."""
    given = head["options"]
    options = RunOptions(
        directory=Path(given.get("out", "")),
        force=given.get("force", False),
        trace=given.get("trace", False),
        allow_write=tuple(map(Path, given.get("allow_write", ()))),
    )
    return msgspec.structs.replace(options, **changes)


def changes_since(rows: Mapping[str, Any]) -> list[str]:
    """The changes in the workflow's files since the run began, such as `flow.yaml:7 agents.a.prompt`.

    Empty if the workflow's own file is gone: then there is no newer workflow to continue with.
    """
    stored, found = stored_files(rows), list[str]()
    here = Path(os.path.realpath(stored.directory))
    roots = (here, marked_project_root(here) or here)
    own = Path(rows["head"]["file"]).name
    for name in stored.files:
        path = stored.directory / name
        if name != own and not any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots):
            found.append(f"{name} is outside the project")
            continue
        if not path.exists():
            if name == own:
                return []
            found.append(f"{name} is gone")
            continue
        before, now = stored.read(path), read_document_file(path, "")
        if now.issues and now.value is None:
            found.append(f"{name} cannot be read")
            continue
        for place in _differences(before.value, now.value):
            pointer = json_pointer(place)
            line = f":{now.positions[pointer][1]}" if pointer in now.positions else ""
            missing = "" if line else " is gone"
            found.append(f"{name}{line} {'.'.join(map(str, place))}{missing}".replace("  ", " "))
    return found


def _differences(before: Any, now: Any, place: JsonPath = ()) -> Iterator[JsonPath]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**now, **before}:
            if key not in before or key not in now:
                yield (*place, key)
            else:
                yield from _differences(before[key], now[key], (*place, key))
    elif isinstance(before, list) and isinstance(now, list):
        for at, (old, new) in enumerate(zip(before, now, strict=False)):
            yield from _differences(old, new, (*place, at))
        yield from ((*place, at) for at in range(*sorted((len(before), len(now)))))
    elif before != now:
        yield place


def workflow_path(head: Mapping[str, Any]) -> Path:
    """The workflow's file, relative to the current directory if possible, as in the messages of a new run."""
    file, directory = Path(head["file"]), Path.cwd()
    return file.relative_to(directory) if file.is_relative_to(directory) else file
