"""`strands plugin add`"""

import click

from strands_cli.cli.output import print_warning
from strands_cli.cli.plugin.approving import ask, show_plugin
from strands_cli.cli.plugin.arguments import yes_option
from strands_cli.cli.plugin.candidates import Candidate, fetched
from strands_cli.cli.plugin.placing import lock_of, put_plugin
from strands_cli.cli.plugin.sources import source_from
from strands_cli.errors import UsageError
from strands_cli.plugins.finding import find_plugins
from strands_cli.plugins.places import plugin_roots
from strands_cli.settings import Settings, load_settings


@click.command()
@click.argument("source", metavar="PATH|URL[@REF][#DIRECTORY]")
@click.option("--user", is_flag=True, help="Add it for you in every project, not for this project.")
@yes_option
def add(source: str, user: bool, yes: bool) -> None:
    """Add a plugin from a directory or a Git repository.

    What it contains and what it asks for is shown first. What you approve is copied, and its hashes are
    written to strands-plugins.lock: if a file changes, its tools do not run until you approve that too.
    """
    settings = load_settings()
    owner = "user" if user else "project"
    if owner not in plugin_roots(settings):
        raise UsageError("There is no home directory for a user's plugins.", hint="Set XDG_CONFIG_HOME.")
    with fetched(source_from(source)) as candidate:
        _refuse_known(candidate, owner, settings)
        show_plugin(candidate.plugin, candidate.files, str(candidate.source))
        ask(f"Add {candidate.plugin.name}, and let its tools run with this access?", yes=yes)
        place = plugin_roots(settings)[owner] / candidate.plugin.name
        lock = lock_of(owner, settings)
        approved = candidate.source.approved(candidate.files, candidate.commit, lock, owner)
        put_plugin(candidate.directory, place, lock, approved)
    click.echo(f"Added {candidate.plugin.name} {candidate.plugin.manifest.version}: {place}")


def _refuse_known(candidate: Candidate, owner: str, settings: Settings) -> None:
    name = candidate.plugin.name
    for found in find_plugins(settings):
        if name not in (found.name, found.place.name):
            continue
        if found.owner == owner:
            hint = f"'strands plugin update {name}' shows what is new in its source, and takes it."
            raise UsageError(f"There is a plugin {name} already: {found.place}.", hint=hint)
        first = "this one" if owner == "project" else f"{found.place}"
        print_warning(
            f"There is a plugin {name} of the {found.owner} too; where both have a tool, {first} counts."
        )
    place = plugin_roots(settings)[owner] / name
    if place.exists() or place.is_symlink():
        raise UsageError(f"{place} is there already, and is no plugin.", hint="Move it away.")
