"""`strands models`: the weights of the embedded model."""

import sys
from pathlib import Path
from typing import Any

import click

from strands_cli.cli.app import LazyGroup
from strands_cli.cli.options import json_option
from strands_cli.cli.output import own_stream, print_columns, print_json, print_line, print_note, print_text
from strands_cli.errors import ProviderError
from strands_cli.providers.local import weights
from strands_cli.providers.local.weights import CATALOGUE, DEFAULT, SMALLEST, CatalogueModel, model_named


@click.group(cls=LazyGroup)
def models() -> None:
    """List, download and remove the models that run on this machine."""


@models.command("list")
@json_option
def list_models(as_json: bool) -> None:
    """List the models you can download, and which of them you have."""
    if as_json:
        print_json({"models": [_model_document(model) for model in CATALOGUE.values()], "default": DEFAULT})
        return
    rows = []
    for model in CATALOGUE.values():
        state = "here" if weights.is_on_this_machine(model) else "-"
        title = f"{model.title} (default)" if model.name == DEFAULT else model.title
        rows.append((model.name, f"{model.size // 1_000_000} MB", model.licence, state, title))
    print_columns(rows)


def _model_document(model: CatalogueModel) -> dict[str, Any]:
    told = ("name", "title", "size", "licence", "sha256", "publisher")
    return {
        **{name: getattr(model, name) for name in told},
        "packages": [f"{package.name}=={package.version}" for package in model.packages],
        "path": str(weights.weights_path(model)) if weights.is_on_this_machine(model) else None,
    }


@models.command()
@click.argument("name", default=DEFAULT)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Use this copy of the file instead of downloading it.",
)
def pull(name: str, source: Path | None) -> None:
    """Download a model, verify it and print its path.

    Without NAME, this is the default model, which chat and the demo use.
    """
    model = model_named(name)
    try:
        file = _pull_with_progress(model, source)
    except ProviderError as error:
        if model.name != DEFAULT or source is not None:
            raise
        print_note(f"{error.message}\n{SMALLEST} takes its place: smaller, and worse at choosing tools.")
        file = _pull_with_progress(CATALOGUE[SMALLEST], None)
    print_text(str(file))


def _pull_with_progress(model: CatalogueModel, source: Path | None) -> Path:
    is_here = source is None and weights.is_on_this_machine(model)
    if is_here or not sys.stderr.isatty():
        return weights.pull_weights(model, given=source)
    with click.progressbar(length=model.size, label=model.name, file=own_stream(sys.stderr)) as bar:
        return weights.pull_weights(
            model, given=source, progress=lambda done, total: bar.update(done - bar.pos)
        )


@models.command()
@click.argument("name", default=DEFAULT)
def path(name: str) -> None:
    """Print the path of a downloaded and verified model."""
    print_text(str(weights.weights_file(model_named(name).name)))


@models.command()
@click.argument("name")
def remove(name: str) -> None:
    """Delete a downloaded model."""
    model = model_named(name)
    if weights.remove_weights(model):
        print_line(f"Removed {model.name}.")
    else:
        print_note(f"{model.name} is not on this machine.")
