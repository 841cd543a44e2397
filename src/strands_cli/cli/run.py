"""`strands run`"""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import (
    ProviderName,
    file_argument,
    grant_all,
    json_option,
    load_workflow,
    var_option,
    yes_option,
)
from strands_cli.cli.output import (
    can_ask,
    print_issues,
    print_json,
    print_text,
    redact_logs,
    result_document,
    tool_output_aside,
)
from strands_cli.errors import UsageError
from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import require_models, with_model_options
from strands_cli.types import RunResult

if TYPE_CHECKING:
    from strands_cli.exec.run import Prepared
    from strands_cli.toolkit.cancellation import Cancellation


@click.command()
@file_argument
@var_option
@click.option("--ask", is_flag=True, help="Ask for missing inputs.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path(), help="Write artifacts to this directory."
)
@click.option("--force", is_flag=True, help="Let artifacts replace existing files.")
@click.option("--trace", is_flag=True, help="Write a record of the run next to the artifacts.")
@click.option("--verbose", "-v", is_flag=True, help="Show the inputs of tools.")
@click.option("--dry-run", is_flag=True, help="Check everything and show the plan, without running it.")
@yes_option
@click.option("--provider", type=ProviderName(), help="Use this provider instead of the file's.")
@click.option("--model", help="Use this model instead of the file's.")
@click.option("--host", help="The address of the provider.")
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
    """Run a workflow: prompt its agents, call their tools, write its artifacts.

    The last answer goes to standard output, progress to standard error. Press Ctrl-C to cancel the run;
    finished steps are kept.
    """
    spec = load_workflow(file, pairs)
    spec = load_spec(file, {**spec.variables, **_ask_inputs(spec)}) if ask else spec
    spec = with_model_options(spec, provider=provider, model=model, host=host)
    from strands_cli.exec.run import prepare
    from strands_cli.exec.steps import RunOptions
    from strands_cli.toolkit.cancellation import Cancellation

    prepared = prepare(spec, options=RunOptions(directory=out, force=force, trace=trace))
    require_models(spec, spec.agents)
    print_issues(prepared.resources.redactor.value(prepared.warnings), err=True)
    if dry_run:
        from strands_cli.cli.plan import show_plan

        show_plan(spec, prepared.resources.tools, as_json=as_json)
        return
    redact_logs(prepared.resources.redactor)
    cancel = Cancellation()
    with tool_output_aside():
        result = run_async(
            _run_with_progress(prepared, cancel, verbose=verbose, yes=yes), on_interrupt=cancel.set
        )
    if as_json:
        print_json(result_document(result))
    else:
        print_text(result.last_response)


def _ask_inputs(spec: Spec) -> dict[str, str]:
    """The inputs that are missing, typed at the terminal; the loader judges them like those of --var."""
    from strands_cli.cli.terminal import clean_text

    known, answers = {**spec.inputs.values, **spec.variables}, dict[str, str]()
    for name, declared in spec.inputs.required.items():
        if name in known or declared.default is not msgspec.UNSET:
            continue
        if not can_ask():
            raise UsageError("--ask needs a terminal.", hint=f"Give --var {name}=…")
        about = "; ".join(filter(None, [declared.description, " or ".join(map(str, declared.enum))]))
        answers[name] = click.prompt(clean_text(f"{name} ({about})" if about else name), err=True)
    return answers


async def _run_with_progress(
    prepared: "Prepared", cancel: "Cancellation", *, verbose: bool, yes: bool
) -> RunResult:
    from strands_cli.cli.progress import open_progress
    from strands_cli.exec.run import run_prepared

    with open_progress(verbose=verbose) as progress:
        options = msgspec.structs.replace(prepared.options, listeners=(progress,), cancel=cancel)
        if can_ask():
            from strands_cli.cli.questions import Questions

            questions = Questions(lambda: cancel, progress.asking)
            options = msgspec.structs.replace(options, ask_human=questions.ask, ask_consent=questions.consent)
        if yes or prepared.resources.settings.bypass_consent:
            options = msgspec.structs.replace(options, ask_consent=grant_all)
        return await run_prepared(msgspec.structs.replace(prepared, options=options))
