"""The table of commands, and the one boundary where errors become messages and exit codes."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from strands_cli import __version__
from strands_cli.cli.output import (
    configure_logging,
    exit_code_of,
    may_colour,
    prepare_streams,
    print_bug,
    print_error,
    print_failure,
)
from strands_cli.errors import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    EXIT_UNWRITABLE,
    Interrupted,
    StrandsError,
    UsageError,
    did_you_mean,
)

# name -> (module:attribute, the line that --help shows): a command's module is imported when it is used.
COMMANDS = {
    "list-tools": (
        "strands_cli.cli.tool:list_tools",
        "List all tools and whether they are available.",
    ),
    "tool": ("strands_cli.cli.tool:tool", "List, show, call, check and create tools."),
    "plugin": ("strands_cli.cli.plugin:plugin", "List, create, validate, test, add and update plugins."),
    "run": ("strands_cli.cli.run:run", "Run a workflow and write its artifacts."),
    "chat": ("strands_cli.cli.chat.command:chat", "Chat with a model that can use your tools."),
    "validate": ("strands_cli.cli.validate:validate", "Find errors in workflow files."),
    "plan": ("strands_cli.cli.plan:plan", "Show what a workflow would run, and in which order."),
    "explain": ("strands_cli.cli.explain:explain", "Describe a workflow in prose, for review."),
    "graph": ("strands_cli.cli.plan:graph", "Draw a workflow with Mermaid, Graphviz or SVG."),
    "schema": ("strands_cli.cli.app:schema", "Print the JSON Schema of workflow files."),
    "models": (
        "strands_cli.cli.models:models",
        "List, download and remove the models that run on this machine.",
    ),
    "doctor": ("strands_cli.cli.doctor:doctor", "Check this machine and this project for problems."),
    "completion": ("strands_cli.cli.app:completion", "Print the completion script for your shell."),
    "version": ("strands_cli.cli.app:version", "Print the version."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called; help lists them from the table alone.

    Commands that are added as click adds them come after those of the table.
    """

    def __init__(self, *args: Any, table: dict[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.table, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {name: line for name, (_, line) in self.table.items()}
        lines |= {name: command.get_short_help_str(100) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([*lines.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            hint = f"{did_you_mean(args[0], known)} '{ctx.command_path} --help' lists the commands."
            raise UsageError(f"Unknown command {args[0]!r}.", hint=hint.strip())
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks, requests, calls and retries on standard error.")
@click.version_option(
    __version__, prog_name="strands", message="%(prog)s %(version)s", help="Print the version."
)
def strands(debug: bool) -> None:
    """Build tools for LLM agents, call them, and run workflows that use them."""
    if debug or os.environ.get("STRANDS_LOG"):
        configure_logging("debug" if debug else os.environ["STRANDS_LOG"])


@click.command()
def schema() -> None:
    """Print the JSON Schema of workflow files. Editors use it to complete and check keys."""
    from strands_cli.schema.validator import schema_text

    click.echo(schema_text("workflow").rstrip("\n"))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for your shell. It also completes tool ids.

    \b
    bash:  add  source <(strands completion bash)  to ~/.bashrc
    zsh:   add  source <(strands completion zsh)  to ~/.zshrc
    fish:  strands completion fish > ~/.config/fish/completions/strands.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(strands, {}, "strands", "_STRANDS_COMPLETE").source())


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(f"strands {__version__}")


# --- Running a command line -------------------------------------------------------------------------------


def run_command_line(arguments: Sequence[str]) -> int:
    """Runs one command line and answers with its exit code."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Ctrl-C works even if the parent process ignores it, as nohup and background jobs do.
        with suppress(ValueError):  # only the main thread may set it
            signal.signal(signal.SIGINT, signal.default_int_handler)
    prepare_streams()
    colour = None if may_colour() else False  # None: where the stream is a terminal
    with click.Context(strands, color=colour):  # messages after the command follow it too
        return _run_command(list(arguments), colour)


def _run_command(arguments: list[str], colour: bool | None) -> int:
    as_json, stdout = "--json" in arguments, sys.stdout
    try:
        status = strands.main(arguments, prog_name="strands", standalone_mode=False, color=colour)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except StrandsError as error:
        print_error(error, as_json=as_json)
        return exit_code_of(error)
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.format_message())
        return UsageError.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "strands"
        hint = f"'{path} --help' shows its usage."
        print_error(UsageError(error.format_message(), hint=hint), as_json=as_json)
        return UsageError.exit_code
    except (KeyboardInterrupt, click.Abort):
        print_error(Interrupted("Interrupted."), as_json=as_json)
        return EXIT_INTERRUPTED
    except (SystemExit, BrokenPipeError) as gone:
        if isinstance(gone, SystemExit) and sys.stdout is stdout:
            raise
        # The reader has closed the pipe, as `| head` does; click wraps the stream then, and exits.
        _drop_output()
        return 0
    except OSError as error:
        return _report_unwritable_output(error)
    except Exception as error:  # noqa: BLE001 - whatever arrives here is a bug: shown in full, with its own exit code
        print_bug(error, as_json=as_json)
        return EXIT_BUG


def _report_unwritable_output(error: OSError) -> int:
    """What only the machine can have caused: a full disk, a closed stream, a directory that is gone."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _drop_output()
    with suppress(OSError, ValueError):  # there is nowhere left to say it
        print_failure(f"{error.strerror or error}: {error.filename or 'standard output'}", "")
    return EXIT_UNWRITABLE


def _drop_output() -> None:
    """What is left in the buffer has nowhere to go, and Python must not fail over it as it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
