"""`strands convert`"""

import os
from errno import EACCES, EBUSY
from pathlib import Path

import click

from strands_cli.cli.options import file_argument
from strands_cli.cli.output import print_issues, print_note, print_text
from strands_cli.errors import ArtifactError, SpecError


@click.command()
@file_argument
@click.option("--write", "-w", is_flag=True, help="Replace the file instead of printing it.")
def convert(file: Path, write: bool) -> None:
    """Print a workflow file of another runner in the spelling of this one.

    Comments stay, and so does every line that needs no change. What is read in another way than it was
    written is told on standard error. The file must be valid: 'strands validate' finds errors.
    """
    from strands_cli.loader.load import converted_workflow

    before = file.read_bytes() if write and file.is_file() else b""
    text, spec, issues = converted_workflow(file)
    if spec is None or issues:
        more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise SpecError(f"{issues[0].place or file}: {issues[0].reason}{more}", issues=issues)
    print_issues(spec.remarks, err=True)
    if not write:
        print_text(text.removesuffix("\n"))
        return
    if b"\r\n" in before:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    if text == before.decode("utf-8-sig"):
        print_note(f"{file} needs no change.")
        return
    try:
        _replace_text(file.resolve(), before, text.encode())
    except OSError as error:
        raise ArtifactError(f"{file} cannot be written: {error.strerror}.") from None
    print_note(f"{file} is converted.")


def _replace_text(file: Path, before: bytes, after: bytes) -> None:
    """Writes a file in one step; its owner and permissions stay. OSError where it may not be written."""
    from strands_cli.documents.files import Draft

    if not os.access(file, os.W_OK):
        raise PermissionError(EACCES, "you have no permission to write it")
    with Draft(str(file), None, file.stat()) as draft:
        draft.stream.write(after)
        draft.sync()
        if file.read_bytes() != before:
            raise OSError(EBUSY, "it was changed in the meantime")
        draft.publish(replace=True)
