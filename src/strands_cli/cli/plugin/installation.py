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

from strands_cli.cli.output import (
    can_ask,
    count_text,
    exit_code_of,
    print_error,
    print_line,
    print_note,
    print_warning,
)
from strands_cli.cli.plugin.commands import plugin_argument
from strands_cli.cli.plugin.fetch import Candidate, fetched_plugin, parse_source, source_in_lock
from strands_cli.cli.questions import confirm
from strands_cli.cli.terminal import clean_text, one_line
from strands_cli.errors import StrandsError, ToolError, UsageError
from strands_cli.plugins.approvals import (
    copy_plugin,
    forget_approvals,
    kept_copy,
    read_approvals,
    recorded_approval,
)
from strands_cli.plugins.directories import (
    MANIFEST_NAME,
    Approved,
    Changes,
    changed_lock,
    file_changes,
    lock_files,
    plugin_digests,
    plugin_roots,
    switch_plugin,
)
from strands_cli.plugins.permissions import (
    FoundPlugin,
    access_lines,
    approve_plugin,
    copied_plugin,
    find_plugin,
    find_plugins,
    permission_lines,
)
from strands_cli.plugins.plugin import Plugin, read_plugin
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
        _put_plugin(candidate, place, lock, approved)
    print_line(f"Added {name} {candidate.plugin.manifest.version}: {place}")


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
        _update_plugin(find_plugin(name, settings, anywhere=True), settings, restore=restore, yes=yes)
        return 0
    decided = [found for found in find_plugins(settings) if found.standing.lock or found.standing.approval]
    if not decided:
        print_note("No plugin is locked: 'strands plugin add' adds and locks one.")
    status = 0
    for found in decided:
        try:
            _update_plugin(found, settings, restore=restore, yes=yes)
        except StrandsError as error:  # the others are not its fault
            print_error(error, as_json=False)
            status = exit_code_of(error)
    return status


def _update_plugin(found: FoundPlugin, settings: Settings, *, restore: bool, yes: bool) -> None:
    standing = found.standing
    locked, lock = standing.locked, standing.lock
    is_as_decided = standing.state in ("approved", "locked")
    if locked and lock and locked.source and (is_as_decided or restore):
        with fetched_plugin(source_in_lock(locked, lock)) as candidate:
            _replace_plugin(found, candidate, lock, locked, yes=yes)
    elif restore and not is_as_decided:
        hint = "Leave --restore out to approve it as it is."
        raise UsageError(f"The source of {found.name} is unknown.", hint=hint)
    elif standing.state == "approved":
        print_line(f"{found.name} is unchanged since it was approved.")
    else:
        _approve_plugin(found, settings, yes=yes)


def _approve_plugin(found: FoundPlugin, settings: Settings, *, yes: bool) -> None:
    """Approves a plugin as it lies there."""
    standing = found.standing
    with copied_plugin(found.place) as (plugin, files):
        if standing.state == "duplicate" and standing.refusal:
            print_note(one_line(standing.refusal.reason))
        if changes := standing.changes:
            print_note(f"{found.name} was changed here since it was approved:")
            _show_changed_files(changes)
            old = kept_copy(standing.approval) if standing.approval else None
            if old:
                _show_text_changes(changes, old, plugin.directory, ("approved", "now"))
            else:
                print_note("  The changed lines are not shown: there is no copy of what was approved.")
        _show_plugin(plugin, files, "")
        _ask_approval(f"Approve {found.name} as it is now?", yes=yes)
        shown = msgspec.structs.replace(plugin, place=found.place)
        lock = None if found.owner == "path" else _lock_file(found.owner, settings)
        approve_plugin(shown, files, settings, lock)
    print_line(f"Approved {found.name} {plugin.manifest.version}.")


def _replace_plugin(
    found: FoundPlugin, candidate: Candidate, lock: Path, locked: Approved, *, yes: bool
) -> None:
    """Puts what the source has now in the place of a plugin."""
    new, approval = candidate.plugin, found.standing.approval
    if new.name != found.name:
        reason = f"{candidate.source} is now called {new.name}, not {found.name}."
        raise UsageError(reason, hint="Remove the old one and add the new one.")
    changes = file_changes(plugin_digests(found.place.resolve()), candidate.files)
    if not changes and approval:
        print_line(f"{found.name} is up to date.")
        return
    # What the user approved is kept where nobody changes it.
    copy = kept_copy(approval) if approval and found.standing.state == "approved" else None
    before, after = locked.commit[:12] or "?", candidate.commit[:12]
    commits = f" ({before} → {after})" if after else ""
    old = read_plugin(copy or found.place).plugin
    versions = f"{old.manifest.version if old else '?'} → {new.manifest.version}"
    print_note(f"{found.name} {versions}, from {one_line(str(candidate.source))}{commits}")
    _show_changed_files(changes)
    _show_access_changes(old, new)
    _show_text_changes(changes, copy or found.place, candidate.directory)
    if approval is None:  # all of it is new to this user
        _show_plugin(new, candidate.files, "")
    _ask_approval(f"Replace {found.name}, and let its tools run with this access?", yes=yes)
    approved = msgspec.structs.replace(locked, files=candidate.files, commit=candidate.commit)
    _put_plugin(candidate, found.place, lock, approved)
    print_line(f"Updated {found.name} to {new.manifest.version}.")


@click.command()
@plugin_argument()
@_yes_option
def remove(name: str, yes: bool) -> None:
    """Remove a plugin, its entry in the lock file and your approval. Of a link, only the link is removed."""
    settings = load_settings()
    try:
        found = find_plugin(name, settings)
    except UsageError:
        if not (gone := _approved_and_gone(name, settings)):
            raise
        forget_approvals(*gone)
        print_line(f"Removed your approval of {name}, whose directory is gone.")
        return
    print_note(f"{found.place}  ({found.owner}'s)")
    _ask_approval(f"Remove {found.name}?", yes=yes)
    directory = found.place.resolve()
    lock = found.standing.lock or _lock_file(found.owner, settings)
    with staging_directory(found.place.parent) as stage, ExitStack() as undo:
        gone_to = found.place.rename(stage / found.place.name)
        undo.callback(gone_to.rename, found.place)
        with changed_lock(found.place, lock, None):
            undo.pop_all()
    forget_approvals(found.place)
    if not found.is_enabled:
        switch_plugin(directory, is_enabled=True)
    print_line(f"Removed {found.name}.")


def _approved_and_gone(name: str, settings: Settings) -> list[Path]:
    """Where plugins of a name were approved, here or for all projects, and are no more."""
    roots = [root.resolve() for root in plugin_roots(settings).values()]
    places = (Path(place) for place, one in read_approvals().plugins.items() if name in (one.name, place))
    return [place for place in places if place.parent in roots and not os.path.lexists(place)]


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
        for line in (*access_lines(manifest, tool), f"limits: {tool.limits}"):
            print_note(f"    {one_line(line)}")


def _show_changed_files(changes: Changes) -> None:
    for what, names in (("new", changes.added), ("changed", changes.changed), ("gone", changes.removed)):
        for name in names:
            print_note(f"  {what:<7}  {one_line(name)}")


def _show_access_changes(old: Plugin | None, new: Plugin) -> None:
    """The access that is asked for and was not before, and the other way round."""
    before, after = (permission_lines(plugin.manifest) if plugin else () for plugin in (old, new))
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


def _put_plugin(candidate: Candidate, place: Path, lock: Path, approved: Approved) -> None:
    """A copy of a plugin at its place, approved; what was there before is replaced."""
    name, origin, files = candidate.plugin.name, candidate.directory, candidate.files
    permissions = permission_lines(candidate.plugin.manifest)
    with staging_directory(place.parent) as stage:
        copy = stage / place.name
        copy_plugin(origin, copy)
        if plugin_digests(copy) != files:
            raise StrandsError(f"{origin} was changed while it was copied.", hint="Try again.")
        with (
            recorded_approval(place, name, origin, files, permissions),
            changed_lock(place, lock, approved),
            ExitStack() as undo,
        ):
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
