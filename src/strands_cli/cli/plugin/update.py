"""`strands plugin update`"""

import click
import msgspec

from strands_cli.cli.output import exit_code_of, print_error, print_note
from strands_cli.cli.plugin.approving import ask, show_access, show_files, show_plugin, show_texts
from strands_cli.cli.plugin.arguments import PluginName, yes_option
from strands_cli.cli.plugin.candidates import Candidate, fetched
from strands_cli.cli.plugin.placing import approve_in_place, lock_of, put_plugin
from strands_cli.cli.plugin.sources import source_in
from strands_cli.cli.text import one_line
from strands_cli.errors import SpecError, StrandsError, UsageError
from strands_cli.plugins.contents import digests
from strands_cli.plugins.finding import Approval, Found, find_plugin, find_plugins
from strands_cli.plugins.reading import Plugin
from strands_cli.plugins.state import Approved, Changes, changes_since
from strands_cli.settings import Settings, load_settings


@click.command()
@click.argument("name", type=PluginName(), required=False)
@click.option("--restore", is_flag=True, help="Give up changes that were made here: take the source's files.")
@yes_option
def update(name: str | None, restore: bool, yes: bool) -> int:
    """Show what has changed in a plugin, and approve it; without NAME, in every plugin that was added.

    A plugin is fetched again from where it was added from. One that was changed here since it was approved
    is approved as it is now, or with --restore made again what its source has.
    """
    settings = load_settings()
    if name is not None:
        _update(find_plugin(name, settings), settings, restore=restore, yes=yes)
        return 0
    locked = [found for found in find_plugins(settings) if found.approval]
    if not locked:
        print_note("No plugin is locked: 'strands plugin add' locks what it adds.")
    status = 0
    for found in locked:
        try:
            _update(found, settings, restore=restore, yes=yes)
        except StrandsError as error:  # the others are not its fault
            print_error(error, as_json=False)
            status = exit_code_of(error)
    return status


def _update(found: Found, settings: Settings, *, restore: bool, yes: bool) -> None:
    approval = found.approval
    if approval is None:
        _approve(found, lock=None, settings=settings, yes=yes)
    elif approval.changes and not restore:
        _approve(found, lock=approval, settings=settings, yes=yes)
    elif approval.approved.source:
        with fetched(source_in(approval.approved, approval.lock)) as candidate:
            _replace(found, approval, candidate, yes=yes)
    elif approval.changes:
        raise UsageError(
            f"Nobody knows where {found.name} came from.", hint="Leave --restore out to approve it as it is."
        )
    else:
        click.echo(f"{found.name} is as it was approved.")


def _approve(found: Found, *, lock: Approval | None, settings: Settings, yes: bool) -> None:
    """Approves a plugin as it lies there."""
    plugin = _in_order(found)
    files = digests(plugin.directory)
    if lock:
        print_note(f"{found.name} was changed here since it was approved:")
        show_files(lock.changes)
        _show_changes(found, lock)
    show_plugin(plugin, files, "")
    ask(f"Approve {found.name} as it is now?", yes=yes)
    if lock:  # it is no longer what a commit has
        approved = msgspec.structs.replace(lock.approved, files=files, commit="")
    else:
        approved = Approved(files=files)
    approve_in_place(found.place, lock.lock if lock else lock_of(found.owner, settings), approved)
    click.echo(f"Approved {found.name} {plugin.manifest.version}.")


def _show_changes(found: Found, lock: Approval) -> None:
    """What changed inside the files since they were approved, as far as the source still has those."""
    if not lock.approved.source:
        print_note("  The lines are not shown: nobody knows where it came from.")
        return
    try:
        with fetched(source_in(lock.approved, lock.lock)) as candidate:
            show_texts(_comparable(lock, candidate), candidate.directory, found.place, ("approved", "now"))
    except StrandsError as error:  # it can be approved without its source
        print_note(f"  The lines are not shown, since the source is not there: {one_line(error.message)}")


def _comparable(lock: Approval, candidate: Candidate) -> Changes:
    """The changes to files that the source has as they were approved."""
    approved = lock.approved.files
    same = tuple(name for name in lock.changes.changed if candidate.files.get(name) == approved[name])
    return Changes(added=lock.changes.added, changed=same, removed=())


def _replace(found: Found, approval: Approval, candidate: Candidate, *, yes: bool) -> None:
    """Puts what the source has now in the place of a plugin."""
    if candidate.plugin.name != found.name:
        raise UsageError(
            f"{candidate.source} is now called {candidate.plugin.name}, not {found.name}.",
            hint="Remove the one and add the other.",
        )
    changes = _difference(found, candidate)
    if not changes:
        click.echo(f"{found.name} is up to date.")
        return
    _show_difference(found, approval, candidate, changes)
    ask(f"Replace {found.name}, and let its tools run with this access?", yes=yes)
    approved = msgspec.structs.replace(approval.approved, files=candidate.files, commit=candidate.commit)
    put_plugin(candidate.directory, found.place, approval.lock, approved)
    click.echo(f"Updated {found.name} to {candidate.plugin.manifest.version}.")


def _difference(found: Found, candidate: Candidate) -> Changes:
    """From what lies there to what the source has."""
    return changes_since(Approved(files=digests(found.place.resolve())), candidate.directory)


def _show_difference(found: Found, approval: Approval, candidate: Candidate, changes: Changes) -> None:
    old, new = found.reading.plugin, candidate.plugin
    versions = f"{old.manifest.version if old else '?'} → {new.manifest.version}"
    commits = ""
    if candidate.commit:
        commits = f" ({approval.approved.commit[:12] or '?'} → {candidate.commit[:12]})"
    print_note(f"{found.name} {versions}, from {one_line(str(candidate.source))}{commits}")
    show_files(changes)
    show_access(old, new)
    show_texts(changes, found.place, candidate.directory)


def _in_order(found: Found) -> Plugin:
    if found.reading.plugin is None:
        raise SpecError(f"The plugin {found.name} is not in order.", issues=found.reading.issues)
    return found.reading.plugin
