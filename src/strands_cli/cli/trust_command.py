"""`strands trust`: shows requests that reach beyond a project, and records the user's decision."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strands_cli.cli.options import json_option
from strands_cli.cli.output import (
    Styled,
    can_ask,
    count_text,
    print_columns,
    print_json,
    print_line,
    print_note,
)
from strands_cli.cli.validate import workflow_files
from strands_cli.errors import TrustError, UsageError
from strands_cli.settings import TRUST_VARIABLE, is_trusted, load_settings, project_key, trusted_projects
from strands_cli.trust import record_trust, revoke_trust
from strands_cli.types.asks import IGNORED, Ask

if TYPE_CHECKING:
    from strands_cli.plugins.permissions import PendingPlugin
    from strands_cli.settings import Settings

Asked = Mapping[Path, Mapping[str, Ask]]
"""The asks, by project and id."""
Pending = dict[Path, "tuple[Settings, PendingPlugin]"]
"""The plugins that need more than the default permissions and are not approved in their current state."""


@click.command()
@click.argument("paths", metavar="[DIR | FILE…]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--list",
    "lists",
    is_flag=True,
    help="List what you have trusted, in all projects, and the plugins that you approved.",
)
@click.option(
    "--revoke", is_flag=True, help="Revoke your trust in a project and the approval of its plugins."
)
@click.option("--yes", "-y", is_flag=True, help="Trust it without asking.")
@json_option
def trust(paths: tuple[Path, ...], *, lists: bool, revoke: bool, yes: bool, as_json: bool) -> None:
    """Show what a project asks for beyond its own directory, and trust it.

    Settings, workflows and plugins can ask for more than their project: files elsewhere, calls without your
    consent, your keys. None of it has an effect until you trust it. Without DIR or FILE, the current project
    and all its workflows are shown. Nothing is run.
    """
    if lists:
        _list_trusted(as_json)
        return
    if revoke:
        for path in paths or (Path(),):
            _revoke(path)
        return
    asked, pending = _asked_for(paths or (Path(),))
    gone = {project: _no_longer_asked(project, asks) for project, asks in asked.items()}
    if as_json:
        print_json(_document(asked, pending))
    else:
        _show(asked, gone, pending)
    new = {project: [ask for ask in asks.values() if not ask.trusted] for project, asks in asked.items()}
    number = sum(map(len, new.values())) + len(pending)
    if number and (yes or (not as_json and _is_agreed(_question(new, pending)))):
        for project, asks in new.items():
            record_trust(project, asks, dropped=gone[project])
        _approve(pending)
    if not as_json:
        print_note(
            f"Trusted {count_text(number, 'request')}." if number else "There is nothing new to trust."
        )


def _approve(pending: "Pending") -> None:
    from strands_cli.plugins.permissions import approve_plugin

    for settings, one in pending.values():
        approve_plugin(one.plugin, one.files, settings)


def _question(new: Mapping[Path, list[Ask]], pending: "Pending") -> str:
    """The question, with number and kinds: the beginning of a long list may have scrolled away."""
    kinds = [ask.kind for asks in new.values() for ask in asks] + ["plugin"] * len(pending)
    if len(kinds) == 1:
        return "Trust it?"
    return f"Trust all {len(kinds)} ({', '.join(dict.fromkeys(kinds))})?"


def _is_agreed(question: str) -> bool:
    if not can_ask():
        raise TrustError("Nobody can be asked here.", hint="To trust everything above: strands trust --yes")
    from strands_cli.cli.questions import confirm

    if not confirm(question):
        raise TrustError("Nothing was trusted.")
    return True


def _asked_for(paths: tuple[Path, ...]) -> tuple[Asked, Pending]:
    """Everything that projects and workflows ask for, each with whether it is trusted.

    Files are read as if they were trusted, to see what a file of another user asks for. The result is only
    shown, never used.
    """
    environment = dict(os.environ)
    decided = {name: value for name, value in environment.items() if name != TRUST_VARIABLE}
    os.environ[TRUST_VARIABLE] = "1"
    found: dict[Path, dict[str, Ask]] = {}
    pending: Pending = {}
    try:
        for project, ask in (pair for path in paths for pair in _asks_below(path)):
            known = is_trusted(project, ask, decided)
            found.setdefault(project, {})[ask.id] = msgspec.structs.replace(ask, trusted=known)
        for path in paths:
            pending |= _pending_plugins(path)
    finally:
        os.environ.pop(TRUST_VARIABLE)
        os.environ.update(environment)
    return found, pending


def _pending_plugins(path: Path) -> Pending:
    from strands_cli.plugins.permissions import plugins_to_approve

    settings = load_settings(path if path.is_dir() else path.parent)
    return {one.plugin.place: (settings, one) for one in plugins_to_approve(settings)}


def _asks_below(path: Path) -> Iterator[tuple[Path, Ask]]:
    from strands_cli.capability import all_asks
    from strands_cli.loader.load import examine_workflow
    from strands_cli.tools.toolset import ToolSet

    if not path.exists():
        raise UsageError(f"Not found: {path}.", hint="Name a directory or a workflow file.")
    settings = load_settings(path if path.is_dir() else path.parent)
    yield from ((_project_of(ask, settings.project), ask) for ask in settings.asks)
    try:
        files, _ = workflow_files(path)
    except UsageError:
        files = []  # a project without workflows
    for file in files:
        spec, _ = examine_workflow(file)
        if spec is not None:
            tools = ToolSet(spec)
            project = tools.registry.settings.project
            yield from ((_project_of(ask, project), ask) for ask in all_asks(spec, tools))


def _project_of(ask: Ask, project: Path) -> Path:
    return Path(ask.file).parent if ask.kind in IGNORED else project


def _no_longer_asked(project: Path, asks: Mapping[str, Ask]) -> dict[str, str]:
    """Trusted asks that the examined files no longer contain."""
    files = {ask.shown_file for ask in asks.values()}
    known = trusted_projects().get(project_key(project), {})
    return {
        old: text for old, text in known.items() if old not in asks and text.partition(" asks ")[0] in files
    }


def _show(asked: Asked, gone: Mapping[Path, Mapping[str, str]], pending: "Pending") -> None:
    for project, asks in asked.items():
        print_line(Styled(str(project)))
        rows = [
            ("trusted" if ask.trusted else "new", ask.place, f"{ask.text}. {ask.reason}")
            for ask in asks.values()
        ]
        print_columns([*rows, *(("gone", "", text) for text in gone[project].values())])
    for _, one in pending.values():
        state = "changed" if one.changes else "new"
        print_line(Styled(f"{one.plugin.name} ({one.plugin.place})"))
        rows = [(state, f"{issue.file}:{issue.line}", issue.reason) for issue in one.asks]
        print_columns([*rows, *([("changed", "", str(one.changes))] if one.changes else [])])


def _document(asked: Asked, pending: "Pending") -> dict[str, Any]:
    projects = [
        {
            "project": str(project),
            "asks": [
                {"id": ask.id, "text": ask.text, "reason": ask.reason} | msgspec.structs.asdict(ask)
                for ask in asks.values()
            ],
        }
        for project, asks in asked.items()
    ]
    plugins = [
        {
            "plugin": one.plugin.name,
            "place": str(one.plugin.place),
            "asks": [issue.reason for issue in one.asks],
        }
        for _, one in pending.values()
    ]
    pin = ",".join(ask.id for asks in asked.values() for ask in asks.values())
    return {"projects": projects, "plugins": plugins, "pin": pin}


def _list_trusted(as_json: bool) -> None:
    from strands_cli.plugins.approvals import read_approvals

    trusted, approved = trusted_projects(), read_approvals().plugins
    if as_json:
        plugins = {place: one.permissions for place, one in approved.items()}
        print_json({"projects": trusted, "plugins": plugins})
        return
    for project, asks in trusted.items():
        print_line(Styled(project))
        print_columns([(text,) for text in asks.values()])
    for place, one in approved.items():
        print_line(Styled(f"{one.name} ({place})"))
        print_columns([(line,) for line in one.permissions])
    if not trusted and not approved:
        print_note("You have trusted nothing.")


def _revoke(path: Path) -> None:
    """Revokes all trust in a project; the path need not exist any more."""
    from strands_cli.plugins.approvals import forget_approvals, read_approvals

    project = path.resolve()
    if project_key(project) not in trusted_projects() and path.exists():
        project = load_settings(path if path.is_dir() else path.parent).project
    ours = (project / "plugins").resolve()
    approved = [place for place in map(Path, read_approvals().plugins) if place.parent == ours]
    if approved:
        forget_approvals(*approved)
    if not revoke_trust(project) and not approved:
        raise UsageError(
            f"Nothing is trusted in {project}.", hint="See what is trusted: strands trust --list"
        )
    print_note(f"Revoked all trust in {project}.")
