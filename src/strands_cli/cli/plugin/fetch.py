"""A plugin fetched from its source, a directory or a Git repository, into a directory of our own.

So what is shown is what is taken. Nothing of it is executed.
"""

import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import msgspec

from strands_cli.cli.terminal import clean_text
from strands_cli.errors import SpecError, ToolError, UnsupportedError, UsageError
from strands_cli.plugins.directories import MANIFEST_NAME, Approved
from strands_cli.plugins.permissions import copied_plugin
from strands_cli.plugins.plugin import Plugin
from strands_cli.secrets import MASK, without_credentials

_log = logging.getLogger("strands_cli.plugins.git")

# --- Where it comes from -----------------------------------------------------------------------------------

_PROTOCOLS = ("https", "ssh", "git", "file")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
_SHORT_SSH = re.compile(r"[\w.-]+@[\w.-]+:(?!/?/)")
"""`git@host:owner/repository.git`"""
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+@=-]*")
_FORMS = "Write URL, URL@REF, or URL@REF#DIRECTORY."


class PluginSource(msgspec.Struct, frozen=True, kw_only=True):
    place: str
    """A directory, absolute, or the URL of a repository."""
    is_repository: bool = False
    ref: str = ""
    """A branch, a tag or a commit; the repository's own choice where it is empty."""
    directory: str = ""
    """Where the plugin lies in the repository."""

    def __str__(self) -> str:
        ref = f"@{self.ref}" if self.ref else ""
        directory = f"#{self.directory}" if self.directory else ""
        return f"{self.place}{ref}{directory}"

    def approved(self, files: dict[str, str], commit: str, lock: Path, owner: str) -> Approved:
        """The entry of a lock. A project's lock goes to other machines, so paths in it are relative."""
        place = self.place
        if not self.is_repository and owner == "project":
            place = os.path.relpath(place, lock.parent.resolve())
        source = f"{place}#{self.directory}" if self.directory else place
        return Approved(files=files, source=source, ref=self.ref, commit=commit)


def parse_source(text: str) -> PluginSource:
    """What a person wrote: a directory, or a URL."""
    if not _URL.match(text) and (not _SHORT_SSH.match(text) or Path(text).exists()):
        return PluginSource(place=str(Path(text).expanduser().resolve()))
    address, _, directory = text.partition("#")
    return _repository_source(*_split_ref(address), directory)


def source_in_lock(approved: Approved, lock: Path) -> PluginSource:
    """What a lock says."""
    text = approved.source
    if _URL.match(text) or _SHORT_SSH.match(text):
        place, _, directory = text.partition("#")
        return _repository_source(place, approved.ref, directory)
    return PluginSource(place=str((lock.parent / text).resolve()))


def _split_ref(address: str) -> tuple[str, str]:
    """The URL and the ref. An `@` before the path belongs to the host, one in a path that exists to it."""
    scheme = _URL.match(address)
    if scheme and scheme["scheme"] == "file" and Path(urlsplit(address).path).exists():
        return address, ""
    start = address.find("/", scheme.end()) if scheme else address.find(":")
    place, mark, ref = address[max(start, 0) :].rpartition("@")
    if start < 0 or not mark:
        return address, ""
    if not ref:
        raise UsageError(f"No ref after the '@' in {address}.", hint=_FORMS)
    return address[:start] + place, ref


def _repository_source(place: str, ref: str, directory: str) -> PluginSource:
    url = _URL.match(place)
    scheme = url["scheme"] if url else "ssh"
    if scheme not in _PROTOCOLS:
        hint = f"Use one of {', '.join(_PROTOCOLS)}, or a directory."
        raise UsageError(f"Plugins cannot be fetched by {scheme}.", hint=hint)
    parts = urlsplit(place) if url else None
    is_open = parts and (parts.password or (parts.username and scheme != "ssh"))
    if is_open or f"={MASK}" in without_credentials(place):
        hint = "Remove it; a Git credential helper or SSH can provide it."
        raise UsageError("The URL contains a credential, which would be saved in the lock.", hint=hint)
    if ref and not _REF.fullmatch(ref):
        raise UsageError(f"{ref!r} is not a branch, tag or commit.", hint=_FORMS)
    inside = Path(directory)
    if inside.is_absolute() or {"..", ".git"} & {*inside.parts}:
        raise UsageError(f"{directory} is not a directory inside the repository.", hint=_FORMS)
    return PluginSource(
        place=place, is_repository=True, ref=ref, directory=inside.as_posix() if directory else ""
    )


# --- Fetched -----------------------------------------------------------------------------------------------

_SHOWN_PLACES = 3


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as its source has it now."""

    source: PluginSource
    plugin: Plugin
    files: dict[str, str]
    """Its hashes."""
    commit: str = ""

    @property
    def directory(self) -> Path:
        return self.plugin.directory


@contextmanager
def fetched_plugin(source: PluginSource) -> Iterator[Candidate]:
    """The plugin of a source, gone afterwards; SpecError with all its problems if it is invalid."""
    with TemporaryDirectory(prefix="strands-plugin-") as name:
        root = Path(name).resolve() / "fetched"
        commit, shown = "", None
        if source.is_repository:
            commit = _check_out_repository(source, root)
            place, shown = root / source.directory, Path(source.directory)
            is_inside = place.resolve().is_relative_to(root)  # it may be a link of the repository's
            if not is_inside or not (place / MANIFEST_NAME).exists():
                raise _no_plugin(source, root)
        else:
            place = plugin_directory(Path(source.place))
        with copied_plugin(place, shown, called=str(source)) as (plugin, files):
            yield Candidate(source=source, plugin=plugin, files=files, commit=commit)


def plugin_directory(path: Path) -> Path:
    """The directory that a person means: itself, or that of the manifest."""
    if path.name == MANIFEST_NAME and path.is_file():
        return path.parent
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "does not exist"
        raise UsageError(f"{path} {what}.", hint=f"Give a directory with a {MANIFEST_NAME}.")
    return path


def _no_plugin(source: PluginSource, root: Path) -> SpecError:
    found = sorted(file.parent.relative_to(root).as_posix() for file in root.glob(f"**/{MANIFEST_NAME}"))
    hint = f"A plugin is a directory with a {MANIFEST_NAME}."
    if found:
        named = ", ".join(f"#{place}" for place in found[:_SHOWN_PLACES] if place != ".") or "no directory"
        hint = f"It has plugins in other directories: add {named} to the URL."
    where = source.directory or "its root"
    return SpecError(f"{source} has no {MANIFEST_NAME} in {where}.", hint=hint)


# --- Git, as a program -------------------------------------------------------------------------------------

_FETCH_SECONDS = 300.0
_TURN_SECONDS = 0.5
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


def _check_out_repository(source: PluginSource, directory: Path) -> str:
    """The files of a source in a new directory; the answer is the commit."""
    _run_git(source, "init", "--quiet", "--template=", str(directory))
    depth = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
    _run_git(source, "-C", str(directory), "fetch", *depth, "--", source.place, source.ref or "HEAD")
    _run_git(source, "-C", str(directory), "checkout", "--quiet", "--detach", "FETCH_HEAD")
    return _run_git(source, "-C", str(directory), "rev-parse", "HEAD").strip()


def _run_git(source: PluginSource, *arguments: str) -> str:
    argv = ["git", *(part for setting in _SAFE for part in ("-c", setting)), *arguments]
    _log.debug("runs %s", argv)
    kept = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY}
    ours = {"GIT_ALLOW_PROTOCOL": ":".join(_PROTOCOLS), "GIT_TERMINAL_PROMPT": "0"}
    with ExitStack() as undo:
        with _interrupt_held_back():
            process = _start_git(argv, {**kept, **ours, "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"})
            undo.enter_context(process)
            undo.callback(_kill_git, process.pid)
        out, err = _wait_for_git(process, source)
        undo.pop_all()
    if process.returncode != 0:
        reason = clean_text(err.decode("utf-8", "replace")).strip() or f"exit code {process.returncode}"
        hint = "Check the URL; does 'git ls-remote' reach it?"
        if source.ref and ("find remote ref" in reason or "not our ref" in reason):
            hint = f"The repository has no branch, tag or whole commit {source.ref!r}."
        raise ToolError(f"{source} cannot be fetched: {reason}", code="network", hint=hint)
    return out.decode("utf-8", "replace")


def _wait_for_git(process: "subprocess.Popen[bytes]", source: PluginSource) -> tuple[bytes, bytes]:
    """In short turns: a signal that comes as a wait begins, or to another thread, does not end that wait."""
    end = time.monotonic() + _FETCH_SECONDS
    while True:
        try:
            return process.communicate(timeout=_TURN_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                reason = f"{source} was not fetched within {_FETCH_SECONDS:.0f} s."
                raise ToolError(reason, code="network", hint="Try again later.") from None


def _start_git(argv: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    try:
        # In a session of its own it has no terminal to ask for a password.
        return subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        hint = "Install Git, or add the plugin from a directory."
        raise UnsupportedError("'git' is not on the PATH.", hint=hint) from None


@contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """Lets a Ctrl-C wait until what is being started can be ended too."""
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        signal.raise_signal(signal.SIGINT)


def _kill_git(leader: int) -> None:
    """Git's helpers too, which else go on after a Ctrl-C."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
