"""The result of an evaluation for programs: a JSON document, and a JUnit report."""

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import msgspec

from strands_cli.evals.checks import Mismatch
from strands_cli.evals.evaluate import Attempt, CaseResult, EvalResult
from strands_cli.types import Usage

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def eval_document(result: EvalResult) -> dict[str, Any]:
    """The result as JSON values."""
    return {
        "name": result.name,
        "file": result.file,
        "passed": result.passed,
        "interrupted": result.is_interrupted,
        "seconds": round(result.seconds, 3),
        "usage": _usage(result.usage),
        "judge_usage": _usage(result.judge_usage),
        "cases": [
            {
                "case": case.case,
                "model": case.model,
                "passed": case.passed,
                "passes": case.passes,
                "repeat": case.repeat,
                "pass_rate": case.pass_rate,
                "min_pass_rate": case.min_pass_rate,
                "attempts": [_attempt(attempt) for attempt in case.attempts],
            }
            for case in result.cases
        ],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    observed = attempt.observed
    document: dict[str, Any] = {
        "number": attempt.number,
        "passed": attempt.passed,
        "text": observed.text,
        "calls": msgspec.to_builtins(observed.calls),
        "seconds": round(observed.seconds, 3),
        "usage": _usage(observed.usage),
        "mismatches": msgspec.to_builtins(attempt.mismatches),
    }
    if observed.data is not None and observed.data != observed.text:
        document["data"] = observed.data
    if observed.code:
        document["error"] = {"code": observed.code, "message": observed.error}
    if attempt.verdict is not None:
        document["verdict"] = msgspec.to_builtins(attempt.verdict)
        document["judge_usage"] = _usage(attempt.judge_usage)
    return document


def _usage(usage: Usage) -> dict[str, Any]:
    return {**msgspec.structs.asdict(usage), "total_tokens": usage.total_tokens}


def junit_report(result: EvalResult) -> bytes:
    """The result as JUnit XML: a test suite for each model, a test case for each case."""
    root = ElementTree.Element("testsuites", name=_xml_text(result.name))
    for model in result.models:
        cases = [case for case in result.cases if case.model == model]
        failed = [case for case in cases if case.is_complete and not case.passed]
        skipped = [case for case in cases if not case.is_complete]
        name = f"{result.name} [{model}]" if model else result.name
        counts = {"tests": cases, "failures": failed, "skipped": skipped}
        attributes = {key: str(len(found)) for key, found in counts.items()}
        attributes |= {
            "errors": "0",
            "time": f"{sum(case.seconds * len(case.attempts) for case in cases):.3f}",
        }
        suite = ElementTree.SubElement(root, "testsuite", {"name": _xml_text(name), **attributes})
        for case in cases:
            element = ElementTree.SubElement(
                suite,
                "testcase",
                classname=_xml_text(name),
                name=_xml_text(case.case),
                time=f"{case.seconds * len(case.attempts):.3f}",
            )
            if case in skipped:
                ElementTree.SubElement(element, "skipped", message="interrupted")
            elif case in failed:
                message = f"{case.passes} of {case.repeat} passed"
                failure = ElementTree.SubElement(element, "failure", message=message)
                failure.text = _xml_text("\n".join(_failure_lines(case)))
    ElementTree.indent(root)
    return (
        b'<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode").encode() + b"\n"
    )


def _failure_lines(case: CaseResult) -> Iterator[str]:
    for attempt in case.attempts:
        for mismatch in attempt.mismatches:
            yield f"attempt {attempt.number}: {mismatch.expectation}"
            yield from (f"  {line}" for line in mismatch_lines(mismatch))


def mismatch_lines(mismatch: Mismatch) -> Iterator[str]:
    """What was expected and what came; a diff instead, if there is one."""
    if mismatch.diff:
        yield from mismatch.diff
        return
    yield f"expected: {mismatch.expected}"
    yield f"got:      {mismatch.got}"


def _xml_text(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return _NOT_IN_XML.sub("\ufffd", text)
