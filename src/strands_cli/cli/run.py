"""`strands run`"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from strands_cli import __version__
from strands_cli.cli.options import ProviderName, complete_runs, load_workflow, var_option
from strands_cli.cli.output import (
    can_ask,
    count_text,
    markdown_text,
    print_issues,
    print_note,
    print_warning,
    without_secrets,
)
from strands_cli.cli.running import Execution, execute, execution_options
from strands_cli.documents.files import read_regular_file
from strands_cli.errors import ArtifactError, Issue, UnsupportedError, UsageError
from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.patterns import HumanStep
from strands_cli.providers.choice import require_models, with_model_options
from strands_cli.settings import load_settings
from strands_cli.types.sections import Artifact

if TYPE_CHECKING:
    from strands_cli.exec.steps import RunOptions

_REPORT = "<!-- A report of 'strands run', which may replace it. -->"
_LARGEST_REPORT = 10_000_000
_OF_RESUMED_RUNS = {"run_id", "trust", "debug", "hitl_responses", *Execution.__struct_fields__}


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@var_option
@click.option(
    "--engine",
    type=click.Choice(["local", "temporal"]),
    help="Run it in this process, or on workers; by default as your settings say.",
)
@click.option("--ask", "-a", is_flag=True, help="Ask for missing inputs.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(), help="Write artifacts to this directory."
)
@click.option("--trace", is_flag=True, help="Write a record of the run next to the artifacts.")
@click.option("--dry-run", is_flag=True, help="Check everything and show the plan, without running it.")
@click.option("--provider", type=ProviderName(), help="Use this provider instead of the file's.")
@click.option("--model", help="Use this model instead of the file's.")
@click.option("--host", help="The address of the provider.")
@click.option("--record", type=click.Path(path_type=Path), help="Record all model requests and answers.")
@click.option("--replay", type=click.Path(path_type=Path), help="Use the answers of a recording.")
@click.option(
    "--replay-ignore",
    multiple=True,
    metavar="TOOL",
    help="Let the results of this tool differ from the recorded ones. Can be repeated.",
)
@click.option(
    "--save-session/--no-save-session",
    "save",
    default=True,
    help="Save the run, so you can resume it and look at it later. On by default.",
)
@click.option(
    "--resume",
    "-r",
    "run_id",
    metavar="ID",
    shell_complete=complete_runs,
    help="Resume this run, without FILE.",
)
@click.option(
    "--auto-resume",
    is_flag=True,
    help="Resume the latest unfinished run of FILE with the same inputs, or start a new run.",
)
@execution_options
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    file: Path | None,
    run_id: str | None,
    auto_resume: bool,
    how: Execution,
    **given: Any,
) -> None:
    """Run a workflow: prompt its agents, call their tools, write its artifacts.

    The last answer goes to standard output, progress to standard error. Press Ctrl-C to cancel the run.
    Finished steps are kept: 'strands resume' continues a run that did not finish.
    """
    if run_id is not None:
        from strands_cli.cli.resume import resume_run

        others = {parameter.name or "" for parameter in ctx.command.params} - _OF_RESUMED_RUNS
        _refuse_options(ctx, others, "cannot be combined with --resume")
        resume_run(run_id, how)
        return
    if auto_resume:
        _refuse_options(ctx, {"record", "replay", "replay_ignore"}, "cannot be combined with --auto-resume")
    else:
        _refuse_options(
            ctx,
            {"answers", "hitl_responses", "accept_changes", "take_over"},
            "needs --resume ID or --auto-resume",
        )
    if file is None:
        raise UsageError("The FILE of the workflow is missing.", hint="'strands run --help' shows its usage.")
    if given["replay"] and ctx.get_parameter_source("save") is ParameterSource.DEFAULT:
        given["save"] = False  # else 'strands resume' would go on with it, and ask a model
    _run_file(file, how, auto_resume=auto_resume, **given)


def _run_file(
    file: Path,
    how: Execution,
    *,
    pairs: tuple[str, ...],
    ask: bool,
    out: Path,
    trace: bool,
    dry_run: bool,
    provider: str | None,
    model: str | None,
    host: str | None,
    record: Path | None,
    replay: Path | None,
    replay_ignore: tuple[str, ...],
    save: bool,
    auto_resume: bool,
    engine: str | None,
) -> None:
    spec = load_workflow(file, pairs)
    spec = load_spec(file, {**spec.variables, **_ask_inputs(spec)}) if ask else spec
    spec = with_model_options(spec, provider=provider, model=model, host=host, base=Path())
    from strands_cli.exec.run import prepare
    from strands_cli.exec.steps import RunOptions

    options = RunOptions(
        directory=out,
        force=how.force,
        trace=trace,
        allow_write=how.allowed,
        record=record,
        replay=replay,
        replay_ignore=replay_ignore,
    )
    if not dry_run and (engine or load_settings().engine.use) == "temporal":
        _run_on_workers(spec, options, how, save=save, auto_resume=auto_resume)
        return
    if auto_resume and not dry_run and _resumes(spec, options, how):
        return
    if not save and not dry_run and replay is None and not can_ask():
        _refuse_questions(spec)
    with nullcontext() if dry_run else _report_written(spec, out, force=how.force):
        prepared = prepare(spec, options=options)
    if replay is None:
        require_models(spec, spec.agents)
    print_issues(prepared.resources.redactor.value(prepared.warnings), err=True)
    if dry_run:
        from strands_cli.cli.plan import show_plan

        show_plan(spec, prepared.resources.tools, "json" if how.as_json else "text", verbose=how.verbose)
        return
    if save:
        from strands_cli.exec.stores import open_store

        options = msgspec.structs.replace(options, store=open_store(prepared.resources.settings))
    execute(msgspec.structs.replace(prepared, options=options), how)


def _run_on_workers(
    spec: Spec, options: "RunOptions", how: Execution, *, save: bool, auto_resume: bool
) -> None:
    local = {
        "--record": options.record is not None,
        "--replay": options.replay is not None,
        "--auto-resume": auto_resume,
        "--no-save-session": not save,
    }
    if given := [name for name, is_given in local.items() if is_given]:
        reason = f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} for runs in this process."
        raise UsageError(reason, hint="Add --engine local, or leave it out.")
    from strands_cli.cli.cluster import submit_run

    submit_run(spec, options, yes=how.yes, verbose=how.verbose, as_json=how.as_json)


def _resumes(spec: Spec, options: "RunOptions", how: Execution) -> bool:
    """Resumes the latest unfinished run of the same file and inputs, if there is one."""
    from strands_cli.cli.resume import resume_run, run_to_go_on_with

    if found := run_to_go_on_with(spec, options):
        resume_run(found, how)
    elif how.answers:
        reason = f"There is no unfinished run of {spec.file} with these inputs, so there is no open question."
        raise UsageError(reason, hint="Leave out --answer to start a new run.")
    return bool(found)


def _refuse_questions(spec: Spec) -> None:
    """UsageError for a question without a default: a run that is not saved cannot wait for its answer."""
    for one in spec.family:
        for place in one.pattern.places(one) if isinstance(one, Spec) else ():
            if isinstance(place.step, HumanStep) and place.step.default is None:
                where = one.issue(place.text_pointer, "").place
                reason = f"{where}: a human is asked here, but nobody can be asked, and the run is not saved."
                hint = "Leave out --no-save-session, run it in a terminal, or give the question a default."
                raise UsageError(reason, hint=hint)


@contextmanager
def _report_written(spec: Spec, out: Path, *, force: bool) -> Iterator[None]:
    """Writes a report if the workflow turns out to be unsupported."""
    try:
        yield
    except UnsupportedError as error:
        _write_report(spec, error.issues, out, force=force)
        raise


def _write_report(spec: Spec, issues: Sequence[Issue], out: Path, *, force: bool) -> None:
    """Writes why a workflow cannot run to OUT/NAME-unsupported.md. It overwrites only its own reports."""
    from strands_cli.artifacts import safe_name, write_artifacts

    name = f"{safe_name(spec.name)}-unsupported.md"
    with suppress(OSError, ValueError):
        force = force or read_regular_file(out / name, _LARGEST_REPORT).startswith(_REPORT.encode())
    artifact = Artifact(path=name, content="{{ report }}")
    outputs = msgspec.structs.replace(spec.outputs, artifacts=(artifact,))
    report = without_secrets("\n".join(_report_lines(spec, issues)))
    try:
        (written,) = write_artifacts(
            msgspec.structs.replace(spec, outputs=outputs), {"report": report}, out, force=force
        )
    except ArtifactError as failed:
        print_warning(f"{out / name} was not written: {failed.message.rpartition(': ')[2]} {failed.hint}")
    else:
        print_note(f"Wrote {written}: why this workflow cannot run.")


def _report_lines(spec: Spec, issues: Sequence[Issue]) -> Iterator[str]:
    yield from (_REPORT, "", f"# {markdown_text(spec.name)} cannot run", "")
    yield from (f"File: {markdown_text(str(spec.file))}", "")
    yield f"{count_text(len(issues), 'problem')} with strands-cli {__version__}:"
    for number, issue in enumerate(issues, 1):
        yield from ("", f"{number}. {markdown_text(issue.place or str(spec.file))}", "")
        yield from (f"   {markdown_text(text)}" for text in (issue.reason, issue.remediation) if text)
    yield ""


def _refuse_options(ctx: click.Context, names: set[str], why: str) -> None:
    """UsageError if one of some parameters is given on the command line."""
    for parameter in ctx.command.params:
        given = parameter.name in names and ctx.get_parameter_source(parameter.name or "")
        if given is ParameterSource.COMMANDLINE:
            name = parameter.opts[0] if isinstance(parameter, click.Option) else "FILE"
            raise UsageError(f"{name} {why}.", hint=f"'{ctx.command_path} --help' shows its usage.")


def _ask_inputs(spec: Spec) -> dict[str, str]:
    """The inputs that are missing, typed at the terminal; the loader judges them like those of --var."""
    known, answers = {**spec.inputs.values, **spec.variables}, dict[str, str]()
    for name, declared in spec.inputs.required.items():
        if name in known or declared.default is not msgspec.UNSET:
            continue
        if not can_ask():
            raise UsageError("--ask needs a terminal.", hint=f"Give --var {name}=…")
        about = "; ".join(filter(None, [declared.description, " or ".join(map(str, declared.enum))]))
        from strands_cli.cli.questions import typed_answer

        answers[name] = typed_answer(f"{name} ({about}):" if about else f"{name}:")
    return answers
