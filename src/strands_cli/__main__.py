"""The `strands` command. Asked for its version alone, it answers before anything else is imported."""

import sys

_INTERRUPTED = 130
"""As errors.EXIT_INTERRUPTED, which may not be imported yet."""


def main() -> int:
    try:
        status = _run_or_print_version()
    except KeyboardInterrupt:  # while the command is still being imported
        sys.stderr.write("error: Interrupted.\n")
        status = _INTERRUPTED
    if not {"xllamacpp", "temporalio.bridge"}.isdisjoint(sys.modules):
        _leave_without_destructors(status)
    return status


def _leave_without_destructors(status: int) -> None:
    """Ends the process. The embedded model's engine crashes if it is destroyed while it computes, and
    Temporal's client if one of its threads wants the interpreter while that shuts down."""
    import atexit
    import os

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # nobody reads it any more
    os._exit(status)


def _run_or_print_version() -> int:
    if sys.argv[1:] in (["--version"], ["version"]):
        from strands_cli import __version__

        try:
            print(f"strands {__version__}", flush=True)
            return 0
        except OSError:  # the same fails below, where there is somebody to say it
            pass
    from strands_cli.cli.app import run_command_line

    return run_command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
