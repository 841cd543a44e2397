"""`strands runs export` and `strands runs import`: move a run to another machine."""

import sys
from pathlib import Path

import click

from strands_cli.cli.options import complete_runs, json_option
from strands_cli.cli.output import print_json, print_note, print_text
from strands_cli.documents.files import read_regular_file, unread_reason
from strands_cli.errors import ArtifactError, SessionError
from strands_cli.exec.history import CHAT
from strands_cli.exec.journal import decode_row
from strands_cli.exec.run_archive import MAX_BYTES, archive_lines, moved_run, read_archive
from strands_cli.exec.stores import Store, find_run, new_run_id, open_store
from strands_cli.settings import load_settings


@click.command("export")
@click.argument("run_id", metavar="ID", shell_complete=complete_runs)
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing file.")
def export_run(run_id: str, file: Path | None, force: bool) -> None:
    """Write a run to a file, to continue it on another machine.

    FILE is run-ID.jsonl by default; '-' is standard output. It contains the prompts, answers and tool
    results, without secrets.
    """
    store = open_store(load_settings())
    run_id = find_run(store, run_id)
    rows = store.load(run_id)
    store.close()
    if decode_row(rows.get("head", b"{}")).get("pattern") == CHAT:
        hint = f"Print it: strands runs show {run_id} --transcript"
        raise SessionError(f"Run {run_id} is a chat, which cannot be exported.", hint=hint)
    data = b"".join(archive_lines(run_id, rows))
    if str(file) == "-":
        print_text(data.decode().removesuffix("\n"))
        return
    file = file or Path(f"run-{run_id}.jsonl")
    from strands_cli.artifacts import write_named_file

    try:
        write_named_file(file, data, replace=force)
    except FileExistsError:
        raise ArtifactError(
            f"{file} already exists.", hint="Use --force to replace it, or choose another file."
        ) from None
    except OSError as error:
        raise ArtifactError(
            f"{file} cannot be written: {error.strerror}.", hint="Choose another file."
        ) from None
    print_note(f"Wrote {file}. In the other project: strands runs import {file}")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--new-id", is_flag=True, help="Import the run under a new id.")
@click.option("--force", is_flag=True, help="Replace the run with the same id.")
@json_option
def import_run(file: Path, new_id: bool, force: bool, as_json: bool) -> None:
    """Import a run from a file that 'strands runs export' has written; '-' is standard input.

    The run continues in this project. Its consent, --force, --host and --allow-write are not imported.
    """
    settings, archive = load_settings(), read_archive(_file_data(file), str(file))
    run_id = new_run_id() if new_id else archive.id
    moved = moved_run(archive, run_id, project=settings.project, directory=Path.cwd())
    rows = moved.encoded()
    store = open_store(settings)
    _make_room(store, run_id, force=force)
    fence = store.take(run_id)
    store.put(run_id, fence, rows)
    store.release(run_id, fence)
    store.close()
    if as_json:
        status = moved.rows["status"].get("status", "")
        print_json({"run_id": run_id, "status": status, "left_behind": moved.left})
        return
    if moved.left:
        print_note(f"Not imported: {', '.join(moved.left)}.")
    print_note(f"Imported run {run_id}. Resume it: strands resume {run_id}")


def _file_data(file: Path) -> bytes:
    if str(file) == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise SessionError(f"The input has more than {MAX_BYTES} bytes.", hint="Use an exported run.")
        return data
    try:
        return read_regular_file(file, MAX_BYTES)
    except (OSError, ValueError) as error:
        is_gone = isinstance(error, FileNotFoundError)
        reason = f"{file} was not found." if is_gone else f"{file} cannot be read: {unread_reason(error)}"
        raise SessionError(reason, hint="Use a file that 'strands runs export' has written.") from None


def _make_room(store: Store, run_id: str, *, force: bool) -> None:
    """Deletes a run with the same id if `force` is set; otherwise, or if it is running, SessionError."""
    if run_id not in store.runs():
        return
    if not force:
        hint = "Use --new-id to import it under another id, or --force to replace the existing run."
        raise SessionError(f"Run {run_id} already exists.", hint=hint)
    store.take(run_id)
    store.delete(run_id)
