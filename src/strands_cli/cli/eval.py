"""`strands eval`"""

from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli.artifacts import write_named_file
from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import (
    ProviderName,
    grant_all_but_protected,
    json_option,
    log_option,
    permit_all,
    trust_option,
    yes_option,
)
from strands_cli.cli.output import (
    Styled,
    print_columns,
    print_json,
    print_line,
    print_message,
    print_note,
    tool_output_aside,
)
from strands_cli.cli.terminal import duration_text, tokens_text
from strands_cli.errors import EXIT_INTERRUPTED, EXIT_TESTS_FAILED, ArtifactError, UsageError

if TYPE_CHECKING:
    from strands_cli.evals.cases import EvalFile
    from strands_cli.evals.checks import Mismatch
    from strands_cli.evals.evaluate import Attempt, CaseResult, EvalOptions, EvalResult


@click.command("eval")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--case", "names", multiple=True, metavar="NAME", help="Run only this case. Can be repeated.")
@click.option("-k", "part", default="", metavar="TEXT", help="Run only cases whose names contain this text.")
@click.option("--provider", type=ProviderName(), help="Evaluate this provider instead of the file's models.")
@click.option("--model", help="Evaluate this model instead of the file's models.")
@click.option("--host", help="The address of the provider.")
@click.option("--repeat", type=click.IntRange(1, 1000), help="How often each case is run, for all cases.")
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=4, show_default=True, help="How many runs go on at once."
)
@click.option(
    "--record", type=click.Path(path_type=Path), metavar="DIR", help="Record all model requests and answers."
)
@click.option(
    "--replay", type=click.Path(path_type=Path), metavar="DIR", help="Use the answers of recordings."
)
@click.option(
    "--replay-ignore",
    multiple=True,
    metavar="TOOL",
    help="Let the results of this tool differ from the recorded ones. Can be repeated.",
)
@click.option("--force", is_flag=True, help="Let recordings replace existing ones.")
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write a JUnit XML report.")
@yes_option
@trust_option
@json_option
@log_option
def evaluate_file(file: Path, **given: Any) -> int:
    """Run test cases for a workflow, an agent or a tool, and compare the answers with what is expected.

    The exit code is 0 if all cases pass, 1 if some fail, and 3 if the file is invalid. Press Ctrl-C to stop;
    finished runs are shown.
    """
    from strands_cli.evals.evaluate import evaluate
    from strands_cli.evals.reports import eval_document, junit_report

    loaded, options = _prepared(file, **given)
    assert options.cancel is not None
    if (report := given["junit"]) is not None and (report.is_dir() or not report.absolute().parent.is_dir()):
        reason = f"{report} cannot be written: it is not a file in an existing directory."
        raise ArtifactError(reason, hint="Choose another file.")
    with tool_output_aside():
        result = run_async(evaluate(loaded, options), on_interrupt=options.cancel.set)
    if given["as_json"]:
        print_json(eval_document(result))
    else:
        _print_result(result)
    if report is not None:
        try:
            write_named_file(report, junit_report(result))
        except OSError as error:
            reason = f"{report} cannot be written: {error.strerror or error}."
            raise ArtifactError(reason, hint="Choose another file.") from error
    if result.is_interrupted:
        print_note("Interrupted: the other runs were not made.")
        return EXIT_INTERRUPTED
    return 0 if result.passed else EXIT_TESTS_FAILED


def _prepared(file: Path, **given: Any) -> "tuple[EvalFile, EvalOptions]":
    """The file and the options that the command line means."""
    from strands_cli.evals.cases import EvalModel, load_eval
    from strands_cli.evals.evaluate import EvalOptions, case_filter
    from strands_cli.settings import load_settings
    from strands_cli.toolkit.cancellation import Cancellation

    if given["record"] is not None and given["replay"] is not None:
        raise UsageError("--record cannot be combined with --replay.", hint="Use one of them.")
    if given["replay_ignore"] and given["replay"] is None:
        raise UsageError("--replay-ignore needs --replay.", hint="Add --replay DIR.")
    loaded = load_eval(file)
    wanted = {"provider": given["provider"], "model_id": given["model"], "host": given["host"]}
    if loaded.target == "tool" and any(wanted.values()):
        reason = f"{file} evaluates a tool, which has no model."
        raise UsageError(reason, hint="Leave out --provider, --model and --host.")
    if given["repeat"] is not None:
        cases = [msgspec.structs.replace(case, repeat=given["repeat"]) for case in loaded.cases]
        loaded = msgspec.structs.replace(loaded, cases=tuple(cases))
    grants = given["yes"] or load_settings().bypass_consent
    options = EvalOptions(
        cases=case_filter(given["names"], given["part"], loaded),
        instead=EvalModel(**wanted) if any(wanted.values()) else None,
        record=given["record"],
        replay=given["replay"],
        replay_ignore=given["replay_ignore"],
        force=given["force"],
        jobs=given["jobs"],
        ask_consent=grant_all_but_protected(None) if grants else None,
        permit=permit_all if grants else None,
        cancel=Cancellation(),
        on_attempt=_print_attempt,
    )
    return loaded, options


# --- What people see --------------------------------------------------------------------------------------


def _print_attempt(case: str, model: str, attempt: "Attempt") -> None:
    """One line of progress."""
    label = f" [{model}]" if model else ""
    number = f" #{attempt.number}" if attempt.number > 1 else ""
    seconds = duration_text(attempt.observed.seconds)
    print_line(_mark(attempt.passed), f" {case}{label}{number}  {seconds}", err=True)


def _mark(passed: bool) -> Styled:
    return Styled("pass", "green") if passed else Styled("FAIL", "red")


def _print_result(result: "EvalResult") -> None:
    """The table, then the cases that failed."""
    by_case: dict[str, list[CaseResult]] = {}
    for one in result.cases:
        by_case.setdefault(one.case, []).append(one)
    heads = ("passed", "tokens", "time") if result.models == ("",) else result.models
    rows = [["case", *heads]] + [[name, *_cells(found)] for name, found in by_case.items()]
    print_columns([*rows, ["", *_totals(result)]], indent="")
    for one in result.cases:
        if one.is_complete and not one.passed:
            _print_failure(one)
    good = sum(one.passed for one in result.cases)
    judge = result.judge_usage.total_tokens
    parts = [
        f"{good} of {len(result.cases)} passed",
        tokens_text(result.usage.total_tokens),
        *([f"{tokens_text(judge)} of the judge"] if judge else []),
        duration_text(result.seconds),
    ]
    print_line("")
    print_line(", ".join(parts) + ".")


def _cells(found: "Sequence[CaseResult]") -> Iterator[str]:
    is_one = len(found) == 1 and not found[0].model
    for one in found:
        rate = f"{one.passes}/{one.repeat}" if one.is_complete else "not run"
        if one.is_complete and not one.passed:
            rate += " FAIL"
        parts = [rate, tokens_text(one.usage.total_tokens), duration_text(one.seconds)]
        if is_one:
            yield from parts
        else:
            yield " · ".join(parts)


def _totals(result: "EvalResult") -> Iterator[str]:
    for model in result.models:
        ones = [one for one in result.cases if one.model == model]
        passed = f"{sum(one.passed for one in ones)}/{len(ones)} cases"
        tokens = tokens_text(sum(one.usage.total_tokens for one in ones))
        seconds = duration_text(sum(one.seconds for one in ones))
        if model:
            yield " · ".join((passed, tokens, seconds))
        else:
            yield from (passed, tokens, seconds)


def _print_failure(case: "CaseResult") -> None:
    from strands_cli.evals.reports import mismatch_lines

    label = f" [{case.model}]" if case.model else ""
    needed = ceil(case.min_pass_rate * case.repeat)
    rate = f": {case.passes} of {case.repeat} passed, and {needed} must" if case.repeat > 1 else ""
    print_line("")
    print_line(Styled(f"{case.case}{label}"), rate or ": failed")
    numbers: dict[Mismatch, list[str]] = {}
    for attempt in case.attempts:
        for mismatch in attempt.mismatches:
            numbers.setdefault(mismatch, []).append(f"#{attempt.number}")
    for mismatch, found in numbers.items():
        in_runs = f"  (in {', '.join(found)})" if case.repeat > 1 else ""
        print_line(f"  {mismatch.expectation}{in_runs}")
        for line in mismatch_lines(mismatch):
            print_message(line, err=False, indent="    ")
