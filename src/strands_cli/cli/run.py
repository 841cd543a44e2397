"""`strands run`"""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from strands_cli.cli.logs import prepare_logs
from strands_cli.cli.loops import run_async
from strands_cli.cli.options import ProviderName, json_option, var_option
from strands_cli.cli.output import print_json, print_text, result_document, tool_output_aside
from strands_cli.cli.plan import show_plan
from strands_cli.cli.workflow_file import file_argument, load_workflow
from strands_cli.errors import ProviderError, UsageError
from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import missing, model_of, with_choice
from strands_cli.types import RunResult

if TYPE_CHECKING:
    from strands_cli.exec.run import Prepared
    from strands_cli.toolkit.cancellation import Cancellation


@click.command()
@file_argument
@var_option
@click.option("--ask", is_flag=True, help="Ask for inputs that are missing.")
@click.option("--out", type=click.Path(path_type=Path), default=Path(), help="The directory for artifacts.")
@click.option("--force", is_flag=True, help="Let artifacts take the place of files that are there.")
@click.option("--trace", is_flag=True, help="Write a record of the run beside the artifacts.")
@click.option("--verbose", "-v", is_flag=True, help="Show what goes to tools.")
@click.option("--dry-run", is_flag=True, help="Check everything, show the plan, and ask no model.")
@click.option("--yes", "-y", is_flag=True, help="Give consent to whatever asks for it.")
@click.option("--provider", type=ProviderName(), help="Another provider than the file's.")
@click.option("--model", help="Another model than the file's.")
@click.option("--host", help="Where the provider listens.")
@json_option
def run(
    *,
    file: Path,
    pairs: tuple[str, ...],
    ask: bool,
    out: Path,
    force: bool,
    trace: bool,
    verbose: bool,
    dry_run: bool,
    yes: bool,
    provider: str | None,
    model: str | None,
    host: str | None,
    as_json: bool,
) -> None:
    """Run a workflow: ask its agents, call their tools, write its artifacts.

    The last answer goes to standard output, progress to standard error. Ctrl-C ends the run cleanly; what
    is finished is kept.
    """
    spec = load_workflow(file, pairs)
    spec = load_spec(file, {**spec.variables, **_ask_inputs(spec)}) if ask else spec
    spec = with_choice(spec, provider=provider, model=model, host=host)
    _require_models(spec)
    from strands_cli.exec.run import prepare
    from strands_cli.exec.steps import RunOptions
    from strands_cli.toolkit.cancellation import Cancellation

    prepared = prepare(spec, options=RunOptions(directory=out, force=force, trace=trace))
    if dry_run:
        show_plan(spec, as_json=as_json)
        return
    prepare_logs(prepared.resources.redactor)
    cancel = Cancellation()
    with tool_output_aside():
        result = run_async(_run(prepared, cancel, verbose=verbose, yes=yes), on_interrupt=cancel.set)
    if as_json:
        print_json(result_document(result))
    else:
        print_text(result.last_response)


def _ask_inputs(spec: Spec) -> dict[str, str]:
    """The inputs that are missing, from the person at the terminal."""
    from strands_cli.cli.questions import ask_for
    from strands_cli.cli.terminal import can_ask

    known = {**spec.inputs.values, **spec.variables}
    missing_inputs = {
        name: declared
        for name, declared in spec.inputs.required.items()
        if name not in known and declared.default is msgspec.UNSET
    }
    if missing_inputs and not can_ask():
        raise UsageError("--ask needs a terminal.", hint=f"Give --var {next(iter(missing_inputs))}=…")
    return {name: ask_for(name, declared) for name, declared in missing_inputs.items()}


def _require_models(spec: Spec) -> None:
    """What is missing is reported before anything is done, not when its step begins."""
    for agent in spec.agents:
        choice = model_of(spec, agent)
        for reason, remedy in missing(choice) if choice else ():
            raise ProviderError(reason, hint=remedy)


async def _run(prepared: "Prepared", cancel: "Cancellation", *, verbose: bool, yes: bool) -> RunResult:
    from strands_cli.cli.progress import open_progress
    from strands_cli.cli.questions import Questions, consent_for
    from strands_cli.cli.terminal import can_ask
    from strands_cli.exec.run import run_prepared

    with open_progress(verbose=verbose) as progress:
        questions = Questions(lambda: cancel, progress.asking) if can_ask() else None
        options = msgspec.structs.replace(
            prepared.options,
            listeners=(progress,),
            ask_human=questions.ask if questions else None,
            ask_consent=consent_for(prepared.resources.settings, yes=yes, questions=questions),
            cancel=cancel,
        )
        return await run_prepared(msgspec.structs.replace(prepared, options=options))
