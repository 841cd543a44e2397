"""`strands plugin new`"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import click

from strands_cli.cli.output import print_note, print_warning
from strands_cli.cli.plugin.placing import staging
from strands_cli.cli.plugin.starters import STARTERS, TOOL, Starter, manifest_of, readme_of
from strands_cli.errors import SpecError, UnsupportedError, UsageError
from strands_cli.plugins.contents import digests
from strands_cli.plugins.manifest import manifest_schema
from strands_cli.plugins.places import MANIFEST_NAME, plugin_roots
from strands_cli.plugins.reading import read_plugin
from strands_cli.settings import load_settings
from strands_cli.toolkit.info import name_problem
from strands_cli.toolkit.requirements import missing_requirements

_BUILD_SECONDS = 60


@click.command()
@click.argument("name")
@click.option(
    "--language", type=click.Choice([*STARTERS]), default="python", show_default=True, help="Of its tool."
)
def new(name: str, language: str) -> None:
    """Create a plugin in this project's plugins/, with a tool that works."""
    _refuse_bad_name(name)
    project, starter = load_settings().project, STARTERS[language]
    place = plugin_roots(load_settings())["project"] / name
    if place.exists() or place.is_symlink():
        raise UsageError(f"{place} is there already; nothing was written.", hint="Choose another name.")
    with staging(place.parent) as stage:
        made = stage / name
        _write(made, name, starter)
        reading = read_plugin(made)
        if reading.plugin is None:
            raise SpecError("The new plugin is not in order.", issues=reading.issues)
        made.rename(place)
    for path in digests(place):
        click.echo(str((place / path).relative_to(project)))
    if missing := missing_requirements({"binaries": list(starter.binaries)}):
        print_warning(f"It cannot be called here: {'; '.join(missing)}.")
    print_note(f"Try it: strands tool call {name}__{TOOL} name=Ada")


def _write(place: Path, name: str, starter: Starter) -> None:
    manifest = json.dumps(manifest_of(name, starter), indent=2) + "\n"
    files = {MANIFEST_NAME: manifest, "README.md": readme_of(name, starter), **starter.files}
    for path, text in files.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        if path == starter.path:
            file.chmod(0o755)
    if starter.build:
        _build(place, starter)


def _build(place: Path, starter: Starter) -> None:
    compiler = shutil.which(starter.build[0])
    if compiler is None:
        raise UnsupportedError(
            f"There is no {starter.build[0]!r} on the PATH, so nothing was written.",
            hint="Install a C compiler, or choose another --language.",
        )
    (place / starter.path).parent.mkdir(exist_ok=True)
    done = subprocess.run(
        [compiler, *starter.build[1:]],
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise UnsupportedError(
            f"{compiler} failed, so nothing was written: {done.stderr.strip()}",
            hint="Mend the compiler, or choose another --language.",
        )


def _refuse_bad_name(name: str) -> None:
    pattern = manifest_schema()["properties"]["name"]["pattern"]
    if not re.search(pattern, name) or name_problem(f"{name}__{TOOL}"):
        raise UsageError(
            f"{name!r} cannot be the name of a plugin.",
            hint="Use letters, digits, '-' and '_', with a letter or digit first, and at most 57 of them.",
        )
