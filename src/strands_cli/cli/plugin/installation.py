"""`strands plugin add`, `update` and `remove`: plugins put into place, replaced and taken away.

The lock is written first, then the directory is renamed. Whoever is ended in between leaves a plugin that
differs from its lock, which is refused until it is approved, or none at all; never one that nobody approved.
"""

import ctypes
import difflib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

import click
import msgspec

from strands_cli.cli.output import can_ask, count_text, exit_code_of, print_error, print_note, print_warning
from strands_cli.cli.plugin.commands import access_lines, forget_disabled, plugin_argument
from strands_cli.cli.plugin.fetch import Candidate, copy_plugin, fetched_plugin, parse_source, source_in_lock
from strands_cli.cli.questions import confirm
from strands_cli.cli.terminal import clean_text, discard_typed_input, one_line
from strands_cli.errors import SpecError, StrandsError, ToolError, UsageError
from strands_cli.plugins.directories import (
    MANIFEST_NAME,
    Approval,
    Approved,
    Changes,
    Lock,
    changes_since_approval,
    lock_files,
    lock_key,
    plugin_digests,
    plugin_roots,
    read_plugin_lock,
    write_lock_or_state,
)
from strands_cli.plugins.plugin import FoundPlugin, Plugin, find_plugin, find_plugins
from strands_cli.settings import Settings, load_settings

_yes_option = click.option("--yes", "-y", is_flag=True, help="Approve without asking.")


@click.command()
@click.argument("source", metavar="PATH|URL[@REF][#DIRECTORY]")
@click.option("--user", is_flag=True, help="Add it for all your projects, not only this one.")
@_yes_option
def add(source: str, user: bool, yes: bool) -> None:
    """Add a plugin from a directory or a Git repository.

    You first see what the plugin contains and which permissions it wants. If you approve it, it is copied,
    and its hashes are written to a lock file. If a file changes later, its tools do not run until you
    approve the change.
    """
    settings = load_settings()
    owner = "user" if user else "project"
    if owner not in plugin_roots(settings):
        raise UsageError("No home directory found for your plugins.", hint="Set XDG_CONFIG_HOME.")
    with fetched_plugin(parse_source(source)) as candidate:
        name = candidate.plugin.name
        place = plugin_roots(settings)[owner] / name
        _refuse_known_plugin(name, place, owner, settings)
        _show_plugin(candidate.plugin, candidate.files, str(candidate.source))
        _ask_approval(f"Add {name}, and let its tools run with this access?", yes=yes)
        lock = _lock_file(owner, settings)
        approved = candidate.source.approved(candidate.files, candidate.commit, lock, owner)
        _put_plugin(candidate.directory, place, lock, approved)
    click.echo(f"Added {name} {candidate.plugin.manifest.version}: {place}")


def _refuse_known_plugin(name: str, place: Path, owner: str, settings: Settings) -> None:
    for found in find_plugins(settings):
        if name not in (found.name, found.place.name):
            continue
        if found.owner == owner:
            hint = f"'strands plugin update {name}' shows what has changed in its source and updates it."
            raise UsageError(f"The plugin {name} already exists: {found.place}.", hint=hint)
        first = "this one" if owner == "project" else found.place
        both = f"{first} wins where both have a tool"
        print_warning(f"There is a plugin {name} of the {found.owner} too; {both}.")
    if os.path.lexists(place):
        raise UsageError(f"{place} already exists, and is not a plugin.", hint="Move it away.")


@click.command()
@plugin_argument(required=False)
@click.option("--restore", is_flag=True, help="Discard local changes and restore the files from the source.")
@_yes_option
def update(name: str | None, restore: bool, yes: bool) -> int:
    """Update a plugin from its source, or approve local changes. Without NAME, update all added plugins.

    You first see what would change. If you changed the plugin's files yourself, your changes are approved;
    with --restore, they are replaced with the files from the source.
    """
    settings = load_settings()
    if name is not None:
        _update_plugin(find_plugin(name, settings), settings, restore=restore, yes=yes)
        return 0
    locked = [found for found in find_plugins(settings) if found.approval]
    if not locked:
        print_note("No plugin is locked: 'strands plugin add' adds and locks one.")
    status = 0
    for found in locked:
        try:
            _update_plugin(found, settings, restore=restore, yes=yes)
        except StrandsError as error:  # the others are not its fault
            print_error(error, as_json=False)
            status = exit_code_of(error)
    return status


def _update_plugin(found: FoundPlugin, settings: Settings, *, restore: bool, yes: bool) -> None:
    approval = found.approval
    if approval is None or (approval.changes and not restore):
        _approve_plugin(found, settings, yes=yes)
    elif approval.approved.source:
        with fetched_plugin(source_in_lock(approval.approved, approval.lock)) as candidate:
            _replace_plugin(found, approval, candidate, yes=yes)
    elif approval.changes:
        hint = "Leave --restore out to approve it as it is."
        raise UsageError(f"The source of {found.name} is unknown.", hint=hint)
    else:
        click.echo(f"{found.name} is unchanged since it was approved.")


def _approve_plugin(found: FoundPlugin, settings: Settings, *, yes: bool) -> None:
    """Approves a plugin as it lies there."""
    plugin, approval = found.reading.plugin, found.approval
    if plugin is None:
        raise SpecError(f"The plugin {found.name} is invalid.", issues=found.reading.issues)
    files = plugin_digests(plugin.directory)
    lock, approved = _lock_file(found.owner, settings), Approved(files=files)
    if approval:
        print_note(f"{found.name} was changed here since it was approved:")
        _show_changed_files(approval.changes)
        _show_changes(found, approval)
        # It is no longer what a commit has.
        lock, approved = approval.lock, msgspec.structs.replace(approval.approved, files=files, commit="")
    _show_plugin(plugin, files, "")
    _ask_approval(f"Approve {found.name} as it is now?", yes=yes)
    with _lock_entry(found.place, lock, approved):
        pass  # the files stay where they are
    click.echo(f"Approved {found.name} {plugin.manifest.version}.")


def _show_changes(found: FoundPlugin, approval: Approval) -> None:
    """What changed inside the files since they were approved, as far as the source still has those."""
    changes, approved = approval.changes, approval.approved
    if not approved.source:
        print_note("  The changed lines are not shown: its source is unknown.")
        return
    try:
        with fetched_plugin(source_in_lock(approved, approval.lock)) as candidate:
            same = tuple(
                name for name in changes.changed if candidate.files.get(name) == approved.files[name]
            )
            comparable = Changes(added=changes.added, changed=same, removed=())
            _show_text_changes(comparable, candidate.directory, found.place, ("approved", "now"))
    except StrandsError as error:  # it can be approved without its source
        print_note(
            f"  The changed lines are not shown, because its source is gone: {one_line(error.message)}"
        )


def _replace_plugin(found: FoundPlugin, approval: Approval, candidate: Candidate, *, yes: bool) -> None:
    """Puts what the source has now in the place of a plugin."""
    old, new = found.reading.plugin, candidate.plugin
    if new.name != found.name:
        reason = f"{candidate.source} is now called {new.name}, not {found.name}."
        raise UsageError(reason, hint="Remove the old one and add the new one.")
    here = Approved(files=plugin_digests(found.place.resolve()))
    changes = changes_since_approval(here, candidate.directory)
    if not changes:
        click.echo(f"{found.name} is up to date.")
        return
    before, after = approval.approved.commit[:12] or "?", candidate.commit[:12]
    commits = f" ({before} → {after})" if after else ""
    versions = f"{old.manifest.version if old else '?'} → {new.manifest.version}"
    print_note(f"{found.name} {versions}, from {one_line(str(candidate.source))}{commits}")
    _show_changed_files(changes)
    _show_access_changes(old, new)
    _show_text_changes(changes, found.place, candidate.directory)
    _ask_approval(f"Replace {found.name}, and let its tools run with this access?", yes=yes)
    approved = msgspec.structs.replace(approval.approved, files=candidate.files, commit=candidate.commit)
    _put_plugin(candidate.directory, found.place, approval.lock, approved)
    click.echo(f"Updated {found.name} to {new.manifest.version}.")


@click.command()
@plugin_argument()
@_yes_option
def remove(name: str, yes: bool) -> None:
    """Remove a plugin and its entry in the lock file. If it is a link, only the link is removed."""
    settings = load_settings()
    found = find_plugin(name, settings)
    print_note(f"{found.place}  ({found.owner}'s)")
    _ask_approval(f"Remove {found.name}?", yes=yes)
    directory = str(found.place.resolve())
    lock = found.approval.lock if found.approval else _lock_file(found.owner, settings)
    with staging_directory(found.place.parent) as stage, ExitStack() as undo:
        gone = found.place.rename(stage / found.place.name)
        undo.callback(gone.rename, found.place)
        with _lock_entry(found.place, lock, None):
            undo.pop_all()
    if not found.is_enabled:
        forget_disabled(directory)
    click.echo(f"Removed {found.name}.")


# --- What a person sees before approving a plugin -----------------------------------------------------------

_MAX_LINES = 100
_MAX_BYTES = 200_000


def _ask_approval(question: str, *, yes: bool) -> None:
    """Returns when it is approved; ToolError (`consent_required`, `denied`) when it is not."""
    if yes:
        return
    if not can_ask():
        reason = "There is no terminal to ask on, so nothing was changed."
        hint = "Review what is shown above, then approve it with --yes."
        raise ToolError(reason, code="consent_required", hint=hint)
    discard_typed_input()
    if not confirm(question):
        raise ToolError("You said no; nothing was changed.", code="denied")


def _show_plugin(plugin: Plugin, files: dict[str, str], source: str) -> None:
    """All that an approval would allow."""
    manifest = plugin.manifest
    origin = f" from {one_line(source)}" if source else ""
    print_note(f"{manifest.name} {manifest.version}{origin}, {count_text(len(files), 'file')}")
    if manifest.description:
        print_note(f"  {one_line(manifest.description)}")
    for tool in manifest.cli_tools:
        about = f": {one_line(tool.description)}" if tool.description else ""
        print_note(f"  {manifest.tool_id(tool)}  {one_line(tool.path)}{about}")
        for access in access_lines(manifest, tool):
            print_note(f"    {one_line(access)}")


def _show_changed_files(changes: Changes) -> None:
    for what, names in (("new", changes.added), ("changed", changes.changed), ("gone", changes.removed)):
        for name in names:
            print_note(f"  {what:<7}  {one_line(name)}")


def _show_access_changes(old: Plugin | None, new: Plugin) -> None:
    """The access that is asked for and was not before, and the other way round."""
    before, after = (
        [
            f"{plugin.manifest.tool_id(tool)}  {access}"
            for tool in plugin.manifest.cli_tools
            for access in access_lines(plugin.manifest, tool)
        ]
        if plugin
        else []
        for plugin in (old, new)
    )
    lost = [f"- {line}" for line in before if line not in after]
    gained = [f"+ {line}" for line in after if line not in before]
    print_note("  access:" if lost or gained else "  access: as before")
    for line in (*lost, *gained):
        print_note(f"    {one_line(line)}")


def _show_text_changes(
    changes: Changes, old: Path, new: Path, labels: tuple[str, str] = ("now", "new")
) -> None:
    """What changed inside the files, definitions first; the labels are what the two versions are called."""
    for name in sorted((*changes.changed, *changes.added), key=lambda name: (name != MANIFEST_NAME, name)):
        before = [] if name in changes.added else _text_lines(old / name)
        after = _text_lines(new / name)
        if before is None or after is None:
            continue
        one, other = (f"{label}/{name}" for label in labels)
        lines = [*difflib.unified_diff(before, after, one, other, lineterm="")]
        for line in lines[:_MAX_LINES]:
            print_note(clean_text(line).replace("\n", " "))
        if len(lines) > _MAX_LINES:
            print_note(f"… {count_text(len(lines) - _MAX_LINES, 'line')} more")


def _text_lines(file: Path) -> list[str] | None:
    """The lines of a text; None if it is not text, or too long to be read here."""
    if file.is_symlink() or not file.exists():
        return []
    with suppress(UnicodeDecodeError):
        if file.stat().st_size <= _MAX_BYTES:
            return file.read_text("utf-8").splitlines()
    return None


# --- Whole or not at all ----------------------------------------------------------------------------------

_STAGE = ".staging-"
"""Beside the plugins, so that a rename is enough; names that begin with a dot are nobody's plugin."""
_STALE_SECONDS = 3600.0
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def _lock_file(owner: str, settings: Settings) -> Path:
    """The lock for the plugins of the project, or of the user."""
    return dict(zip(("project", "user"), lock_files(settings.project), strict=False))[owner]


def _put_plugin(directory: Path, place: Path, lock: Path, approved: Approved) -> None:
    """A copy of a plugin at its place, approved; what was there before is replaced."""
    with staging_directory(place.parent) as stage:
        copy = stage / place.name
        copy_plugin(directory, copy)
        if plugin_digests(copy) != approved.files:
            raise StrandsError(f"{directory} was changed while it was copied.", hint="Try it again.")
        with _lock_entry(place, lock, approved), ExitStack() as undo:
            if os.path.lexists(place) and _exchange_directories(copy, place):
                return
            if os.path.lexists(place):
                old = place.rename(stage / f"{place.name}.old")
                undo.callback(old.rename, place)
            copy.rename(place)
            undo.pop_all()


def _exchange_directories(one: Path, other: Path) -> bool:
    """Gives each the other's name in one step; false where the system or the file system cannot."""
    if sys.platform == "win32":
        return False
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    return bool(renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


@contextmanager
def staging_directory(root: Path) -> Iterator[Path]:
    """A directory beside the plugins of a root for what is not yet, or no longer, one; gone afterwards."""
    is_new = not root.exists()
    root.mkdir(parents=True, exist_ok=True)
    for left in root.glob(f"{_STAGE}*"):  # by commands that were killed
        with suppress(FileNotFoundError):  # its own command has ended meanwhile
            if left.lstat().st_mtime < time.time() - _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
    stage = Path(mkdtemp(prefix=_STAGE, dir=root))
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if is_new and not any(root.iterdir()):
            root.rmdir()


@contextmanager
def _lock_entry(place: Path, file: Path, approved: Approved | None) -> Iterator[None]:
    """Writes what the lock says of a plugin, and takes it back if the rest fails."""
    key = lock_key(place, file)
    if key is None:
        reason = f"{place} lies outside {file.parent}, so {file.name} cannot name it."
        raise UsageError(reason, hint="'plugins' must be a directory there, not a link.")
    with _exclusive_lock(file.parent), ExitStack() as undo:
        before = read_plugin_lock(file)
        if file.exists():
            undo.callback(write_lock_or_state, file, before)
        else:
            undo.callback(file.unlink, missing_ok=True)
        after = {**before.plugins, key: approved}
        if approved is not None or key in before.plugins:
            write_lock_or_state(file, Lock(plugins={name: entry for name, entry in after.items() if entry}))
        yield
        undo.pop_all()


@contextmanager
def _exclusive_lock(directory: Path) -> Iterator[None]:
    """One command at a time changes a lock; the directory itself is what they wait for."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as undo:
        with suppress(ImportError):  # Windows, which cannot lock a directory
            import fcntl

            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            undo.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
