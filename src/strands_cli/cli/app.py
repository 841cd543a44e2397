"""The table of commands, and the one boundary where signals and errors become messages and exit codes."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Literal

import click

from strands_cli import __version__
from strands_cli.cli.output import (
    configure_logging,
    drop_unwritable,
    escaping_streams,
    exit_code_of,
    print_bug,
    print_error,
    print_failure,
    print_text,
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
    "init": ("strands_cli.cli.create:init", "Create a project with a tool, its test and a workflow."),
    "list-tools": (
        "strands_cli.cli.tool:list_tools",
        "List all tools and whether they are available.",
    ),
    "tool": ("strands_cli.cli.tool:tool", "Create, list, show, call, check and test tools."),
    "dev": ("strands_cli.cli.dev:dev", "Watch the project, and repeat a command on every save."),
    "plugin": ("strands_cli.cli.plugin:plugin", "List, create, validate, test, add and update plugins."),
    "mcp": ("strands_cli.cli.mcp:mcp", "Use MCP servers, and serve your tools to MCP clients."),
    "workflow": ("strands_cli.cli.create:workflow", "Create workflows."),
    "run": ("strands_cli.cli.run:run", "Run a workflow and write its artifacts."),
    "submit": ("strands_cli.cli.cluster:submit", "Hand a workflow to workers on other machines."),
    "worker": ("strands_cli.cli.cluster:worker", "Run workflows that were submitted."),
    "schedule": ("strands_cli.cli.cluster:schedule", "Start workflows again and again, on workers."),
    "resume": ("strands_cli.cli.resume:resume", "Continue a run that did not finish."),
    "runs": ("strands_cli.cli.runs:runs", "List, show, watch, cancel, delete, export and import runs."),
    "chat": ("strands_cli.cli.chat.command:chat", "Chat with a model that can use your tools."),
    "eval": ("strands_cli.cli.eval:evaluate_file", "Run test cases for a workflow, an agent or a tool."),
    "validate": ("strands_cli.cli.validate:validate", "Find errors in workflow files."),
    "convert": ("strands_cli.cli.convert:convert", "Print a workflow of another runner in our spelling."),
    "plan": ("strands_cli.cli.plan:plan", "Show what a workflow would run, and in which order."),
    "explain": ("strands_cli.cli.explain:explain", "Describe a workflow in prose, for review."),
    "graph": ("strands_cli.cli.plan:graph", "Draw a workflow with Mermaid, Graphviz or SVG."),
    "trust": ("strands_cli.cli.trust_command:trust", "Show what a project asks for, and trust it."),
    "schema": ("strands_cli.cli.app:schema", "Print the JSON Schema of workflow files."),
    "list-supported": (
        "strands_cli.cli.supported:list_supported",
        "List what workflows can use in this version.",
    ),
    "models": (
        "strands_cli.cli.models:models",
        "List, download and remove the models that run on this machine.",
    ),
    "doctor": ("strands_cli.cli.doctor:doctor", "Check this machine and this project for problems."),
    "completion": ("strands_cli.cli.app:completion", "Print the completion script for your shell."),
    "version": ("strands_cli.cli.app:version", "Print the version."),
}
ALIASES = {"sessions": "runs"}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called; help lists them from the table alone.

    Commands that are added as click adds them come after those of the table. Aliases are not listed.
    """

    def __init__(
        self,
        *args: Any,
        table: dict[str, tuple[str, str]] | None = None,
        aliases: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.table = table or {}
        self.aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.table, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = self.aliases.get(cmd_name, cmd_name)
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
        known = [*self.list_commands(ctx), *self.aliases]
        if args and args[0] not in known and not args[0].startswith("-"):
            hint = f"{did_you_mean(args[0], known)} '{ctx.command_path} --help' lists the commands."
            raise UsageError(f"Unknown command {args[0]!r}.", hint=hint.strip())
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    aliases=ALIASES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--debug",
    is_flag=True,
    envvar="STRANDS_DEBUG",
    help="Show tracebacks, requests, calls and retries on standard error. STRANDS_DEBUG=1 does the same.",
)
@click.version_option(
    __version__, prog_name="strands", message="%(prog)s %(version)s", help="Print the version."
)
def strands(debug: bool) -> None:
    """Build tools for LLM agents, call them, and run workflows that use them."""
    if debug or os.environ.get("STRANDS_LOG"):
        configure_logging("debug" if debug else os.environ["STRANDS_LOG"])


@click.command()
@click.argument("kind", type=click.Choice(["workflow", "plugin", "script", "eval"]), default="workflow")
def schema(kind: Literal["workflow", "plugin", "script", "eval"]) -> None:
    """Print the JSON Schema of workflow files, of plugin.json, or of other files that you write.

    'script' is a script of the provider scripted, 'eval' a file of 'strands eval'. Editors use the schema to
    complete and check keys.
    """
    from strands_cli.schema.validator import schema_text

    print_text(schema_text(kind).rstrip("\n"))


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
        print_text(script(strands, {}, "strands", "_STRANDS_COMPLETE").source())


@click.command()
def version() -> None:
    """Print the version."""
    print_text(f"strands {__version__}")


# --- Running a command line -------------------------------------------------------------------------------


class _Ending:
    """SIGTERM and SIGHUP end a command as Ctrl-C does, so whatever cleans up after that cleans up after them.

    One that the parent process ignores, as nohup does with SIGHUP, stays ignored; Ctrl-C works even then.
    """

    def __init__(self) -> None:
        self.number = 0
        """The first of these signals that came."""

    @contextmanager
    def handled(self) -> Iterator[None]:
        self.number, taken = 0, list[signal.Signals]()
        with suppress(ValueError):  # only the main thread may set them
            if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            for name in ("SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)  # Windows has no SIGHUP
                if number and signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, self._interrupt)
                    taken.append(number)
        try:
            yield
        finally:
            for number in taken:
                signal.signal(number, signal.SIG_DFL)

    def _interrupt(self, number: int, _frame: object) -> None:
        self.number = self.number or number
        signal.raise_signal(signal.SIGINT)


ENDING = _Ending()


def run_command_line(arguments: Sequence[str]) -> int:
    """Runs one command line and answers with its exit code."""
    with ENDING.handled():
        with escaping_streams():
            try:
                status = _run_command(list(arguments))
            except OSError as error:
                status = _report_unwritable_output(error)
        drop_unwritable()
    return 128 + ENDING.number if ENDING.number else status


def _run_command(arguments: list[str]) -> int:
    as_json, stdout = "--json" in arguments, sys.stdout
    try:
        status = strands.main(arguments, prog_name="strands", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except StrandsError as error:
        print_error(error, as_json=as_json)
        return exit_code_of(error)
    except click.exceptions.NoArgsIsHelpError as asked:
        print_text(asked.format_message())
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
        return 0  # the reader has closed the pipe, as `| head` does; click wraps the stream then, and exits
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever arrives here is a bug: shown in full, with its own exit code
        print_bug(error, as_json=as_json)
        return EXIT_BUG


def _report_unwritable_output(error: OSError) -> int:
    """What only the machine can have caused: a full disk, a closed stream, a directory that is gone."""
    drop_unwritable()
    print_failure(f"{error.strerror or error}: {error.filename or 'standard output'}", "")
    return EXIT_UNWRITABLE
