"""Git, as a program: one commit of a repository in a directory, and nothing of it executed."""

import logging
import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

from strands_cli.cli.plugin.sources import PROTOCOLS, Source
from strands_cli.cli.text import clean
from strands_cli.errors import ToolError, UnsupportedError

FETCH_SECONDS = 300.0
_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.autocrlf=false",  # the same commit has the same hashes everywhere
    "submodule.recurse=false",
    "advice.detachedHead=false",
)
_OF_ANOTHER_REPOSITORY = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_TEMPLATE_DIR", "GIT_WORK_TREE",
    }
)  # fmt: skip
"""What Git's own hooks find in their environment, and what would lead us to their repository."""

_log = logging.getLogger("strands_cli.plugins.git")


def check_out(source: Source, directory: Path) -> str:
    """The files of a source in a new directory; the answer is the commit."""
    _git("init", "--quiet", "--template=", str(directory))
    fetched = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
    _git("-C", str(directory), "fetch", *fetched, "--", source.place, source.ref or "HEAD", of=source)
    _git("-C", str(directory), "checkout", "--quiet", "--detach", "FETCH_HEAD", of=source)
    return _git("-C", str(directory), "rev-parse", "HEAD").strip()


def _git(*arguments: str, of: Source | None = None) -> str:
    settings = [part for setting in _SAFE for part in ("-c", setting)]
    argv = ["git", *settings, *arguments]
    _log.debug("runs %s", argv)
    try:
        # In a session of its own it has no terminal to ask for a password.
        process = subprocess.Popen(
            argv,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise UnsupportedError(
            "There is no 'git' on the PATH.", hint="Install Git, or add the plugin from a directory."
        ) from None
    out, err = _ended(process, of)
    if process.returncode != 0:
        said = clean(err.decode("utf-8", "replace")).strip() or f"exit code {process.returncode}"
        raise ToolError(f"{of or 'git'} cannot be fetched: {said}", code="network", hint=_hint(said, of))
    return out.decode("utf-8", "replace")


def _ended(process: "subprocess.Popen[bytes]", of: Source | None) -> tuple[bytes, bytes]:
    with process, ExitStack() as undo:
        undo.callback(_end_group, process.pid)
        try:
            said = process.communicate(timeout=FETCH_SECONDS)
        except subprocess.TimeoutExpired:
            reason = f"{of or 'git'} was not fetched within {FETCH_SECONDS:.0f} s."
            raise ToolError(reason, code="network", hint="Try it again later.") from None
        undo.pop_all()
        return said


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY}
    allowed = {"GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS), "GIT_TERMINAL_PROMPT": "0"}
    return {**kept, **allowed, "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}


def _hint(said: str, of: Source | None) -> str:
    if of and of.ref and ("find remote ref" in said or "not our ref" in said):
        return f"The repository has no branch, tag or whole commit {of.ref!r}."
    return "Look at the URL, and whether 'git ls-remote' reaches it."
