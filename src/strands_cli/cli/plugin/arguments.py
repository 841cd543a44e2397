"""Arguments that the commands about plugins share."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from strands_cli.cli.arguments import Command
from strands_cli.errors import StrandsError, UsageError
from strands_cli.plugins.places import MANIFEST_NAME


class PluginName(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """A plugin of this project or of the user; the shell completes names."""

    name = "plugin"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,
        incomplete: str,
    ) -> list[CompletionItem]:
        from strands_cli.plugins.finding import find_plugins
        from strands_cli.settings import load_settings

        try:
            found = find_plugins(load_settings())
        except (StrandsError, OSError):  # the shell is no place to say what is wrong
            return []
        return [
            CompletionItem(
                one.name, help=one.reading.plugin.manifest.description if one.reading.plugin else ""
            )
            for one in found
            if one.name.startswith(incomplete)
        ]


def plugin_directory(path: Path) -> Path:
    """The directory that a person means: itself, or that of the manifest."""
    if path.name == MANIFEST_NAME and path.is_file():
        return path.parent
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "is not there"
        raise UsageError(f"{path} {what}.", hint=f"Give a directory with a {MANIFEST_NAME}.")
    return path


def yes_option(command: Command) -> Command:
    return click.option("--yes", "-y", is_flag=True, help="Approve without being asked.")(command)
