"""`strands doctor`"""

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import msgspec

from strands_cli import __version__
from strands_cli.cli.event_loop import run_async
from strands_cli.cli.options import json_option, log_option
from strands_cli.cli.output import count_text, print_columns, print_json
from strands_cli.errors import SpecError, StrandsError, install_hint
from strands_cli.secrets import URL_CREDENTIALS
from strands_cli.settings import cache_directory, settings_to_look_at
from strands_cli.toolkit.info import missing_requirements
from strands_cli.tools.registry import ToolRegistry

_MARKS = {"ok": "ok", "note": "--", "problem": "!!"}


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    topic: str
    state: str
    """`ok`, `note` or `problem`."""
    text: str


@click.command()
@json_option
@log_option
def doctor(as_json: bool) -> int:
    """Check this machine and this project for problems."""
    found = [
        *_machine_findings(),
        *_sandbox_findings(),
        *_executable_findings(),
        *_project_and_tools(),
        *_cluster_findings(),
    ]
    findings = [URL_CREDENTIALS.value(finding) for finding in found]
    if as_json:
        print_json({"findings": [msgspec.to_builtins(finding) for finding in findings]})
    else:
        print_columns([(_MARKS[item.state], item.topic, item.text) for item in findings], indent="")
    return SpecError.exit_code if any(item.state == "problem" for item in findings) else 0


def _machine_findings() -> Iterator[Finding]:
    yield Finding("strands-cli", "ok", f"{__version__}, Python {platform.python_version()} on {sys.platform}")
    yield Finding("agent engine", "ok", f"strands-agents {version('strands-agents')}")
    cache = cache_directory()
    existing = next(path for path in (cache, *cache.parents) if path.exists())
    writable = os.access(existing, os.W_OK)
    slow = "" if writable else " not writable: every listing reads all tools again"
    yield Finding("cache", "ok" if writable else "note", f"{cache}{slow}")
    compiled = Path(__file__).with_name("__pycache__").is_dir()
    yield Finding(
        "bytecode", "ok" if compiled else "note", "compiled" if compiled else "not compiled: starts slowly"
    )


def _sandbox_findings() -> Iterator[Finding]:
    """How code that a model writes is confined here, and what would confine it better."""
    from strands_cli.sandbox.python_code import python_level_now

    level = python_level_now()
    texts = {
        "disabled": "python_exec is unavailable",
        "interpreter": "python_exec runs only a subset of Python",
    }
    text = f"{level.name}: {texts.get(level.name, ', '.join(sorted(level.layers)))}"
    yield Finding("sandbox", "ok" if level.name == "full" else "note", f"{text} {level.reason}".strip())
    for layer, need in level.missing.items():
        yield Finding("sandbox", "note", f"without {layer}: {need}")
    if level.name == "disabled":
        yield Finding("sandbox", "note", f"pydantic-monty can run Python instead. {install_hint('monty')}")


def _executable_findings() -> Iterator[Finding]:
    """How the executables of plugins are confined here, and what that leaves open."""
    from strands_cli.sandbox.executables import executables_level

    level = executables_level()
    is_best = level.name == "full" and not level.weaknesses
    unavailable = f"plugins are unavailable: {level.reason}"
    text = ", ".join(sorted(level.layers)) if level.layers else unavailable
    yield Finding("plugins", "ok" if is_best else "note", f"{level.name}: {text}; memory: {level.memory}")
    for layer, need in level.missing.items() if level.layers else ():
        yield Finding("plugins", "note", f"without {layer}: {need}")
    for weakness in level.weaknesses:
        yield Finding("plugins", "note", f"plugins {weakness}")


def _cluster_findings() -> Iterator[Finding]:
    """Whether the store and the engine answer, where they are set."""
    settings = settings_to_look_at()
    if not (settings.runs.store or settings.engine.use):
        return
    from strands_cli.exec.stores import open_store
    from strands_cli.exec.temporal_engine import TemporalEngine

    store = open_store(settings)
    topic, state = "store", "problem"
    try:
        if settings.runs.store:
            store.load("")  # connects
            yield Finding(topic, "ok", settings.runs.store)
        topic, state = "temporal", "problem" if settings.engine.use else "note"
        going = run_async(TemporalEngine(settings, store).list())
        yield Finding(topic, "ok", f"{count_text(len(going), 'run')} going on")
    except StrandsError as error:
        yield Finding(topic, state, error.message)
    finally:
        store.close()


def _project_and_tools() -> Iterator[Finding]:
    registry = ToolRegistry.to_look_at()
    settings = registry.settings
    yield Finding("project", "ok", str(settings.project))
    if not settings.issues:
        yield Finding("settings", "ok", str(settings.file) if settings.file else "none: using defaults")
    for issue in settings.issues:
        yield Finding("settings", "problem", f"{issue.place}: {issue.reason} {issue.remediation}".strip())
    for root in settings.workspace:
        state = "ok" if root.is_dir() else "problem"
        yield Finding("workspace", state, str(root) if root.is_dir() else f"{root} is not a directory")
    for ask in settings.asks:
        state = "trusted" if ask.trusted else "no effect until you trust it: strands trust"
        yield Finding("trust", "ok" if ask.trusted else "note", f"{ask.place} {ask.text}; {state}")
    if settings.bypass_consent:
        yield Finding("consent", "note", "BYPASS_TOOL_CONSENT is set: no tool asks for consent")
    infos = registry.list_all()
    yield Finding("tools", "ok", count_text(len(infos), "tool"))
    for info in infos:
        reasons = missing_requirements(info.requires)
        if reasons:
            yield Finding("tool", "note", f"{info.id} is unavailable: {'; '.join(reasons)}")
    for issue in registry.problems[len(settings.issues) :]:
        state = "problem" if issue.severity == "error" else "note"
        yield Finding("tool", state, f"{issue.place}: {issue.reason}")
