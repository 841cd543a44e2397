"""`strands graph`"""

from pathlib import Path

import click

from strands_cli.cli.output import print_note
from strands_cli.cli.workflow_file import file_argument, load_workflow, note_problems
from strands_cli.drawing.overview import outline_of
from strands_cli.drawing.svg import as_svg
from strands_cli.drawing.text_formats import as_dot, as_mermaid
from strands_cli.errors import UsageError
from strands_cli.loader.spec import Spec

_SUFFIXES = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}


@click.command()
@file_argument
@click.option(
    "--format",
    "chosen",
    type=click.Choice(["mermaid", "dot", "svg"]),
    help="By default what --out ends in, else mermaid.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="The file to write, instead of printing."
)
def graph(file: Path, chosen: str | None, out: Path | None) -> None:
    """Draw a workflow: as Mermaid text, for Graphviz, or as an SVG picture. Nothing is run."""
    if out is not None and chosen is None and out.suffix.lower() not in _SUFFIXES:
        endings = ", ".join(_SUFFIXES)
        raise UsageError(
            f"{out} does not say which format is wanted.", hint=f"End it in {endings}, or give --format."
        )
    spec = load_workflow(file)
    text = drawn(spec, chosen or (_SUFFIXES[out.suffix.lower()] if out else "mermaid"))
    if out is None:
        click.echo(text, nl=False)
        note_problems(spec)
        return
    try:
        out.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}", hint="Give another --out.") from None
    print_note(f"Wrote {out}")
    note_problems(spec)


def drawn(spec: Spec, form: str) -> str:
    outline = outline_of(spec)
    if form == "svg":
        return as_svg(outline, spec.name, spec.description)
    return as_dot(outline, spec.name) if form == "dot" else as_mermaid(outline, spec.name)
