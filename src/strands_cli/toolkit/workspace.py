"""The directories that tools may touch, and why a file in them cannot be read or written."""

import errno
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from strands_cli.documents.files import NotRegular, Outside, Place, Protected, locate, protected_part
from strands_cli.errors import ToolFailed, closest
from strands_cli.settings import answers_directory

_OTHER_PLACE = "Choose another place, or change its permissions."
_REASONS = {
    errno.EACCES: ("permission is denied", "forbidden", _OTHER_PLACE),
    errno.EPERM: ("permission is denied", "forbidden", _OTHER_PLACE),
    errno.EROFS: ("the file system is read-only", "forbidden", "Choose another place."),
    errno.ENOSPC: ("the disk is full", "failed", "Free some space; nothing was changed."),
    errno.EDQUOT: ("the disk quota is exceeded", "failed", "Free some space; nothing was changed."),
    errno.EFBIG: (
        "the file would be too large for this file system",
        "failed",
        "Write less; nothing was changed.",
    ),
    errno.ENAMETOOLONG: ("the name is too long", "failed", "Choose a shorter name."),
    errno.ELOOP: ("its links form a loop", "failed", "Name the file itself."),
    errno.ENOTDIR: (
        "a part of its path is a file, not a directory",
        "not_found",
        "file_list shows what is there.",
    ),
}


def current_directory() -> Path:
    """Where relative paths begin; the root where the directory has been removed under the process."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


class Workspace(msgspec.Struct, frozen=True):
    """The directories that tools can access. Links and `..` are followed, and must not lead outside."""

    roots: tuple[Path, ...]
    base: Path
    """The directory for relative paths."""
    allowed: tuple[Path, ...] = ()
    """Protected paths that the user lets tools write, and all that is below them."""

    def open(self, path: str) -> io.BufferedReader:
        """Opens a regular file for reading. Raises ToolFailed if it is missing or outside the workspace.

        It can also open the files of answers that were too long for a model.
        """
        roots = self.roots
        with suppress(RuntimeError):  # no such home
            answers = answers_directory()
            roots = (*roots, answers.parent.resolve() / answers.name)
        with self.place(path, "read", roots) as place:
            return io.BufferedReader(io.FileIO(place.open()))

    def locate(self, path: str) -> Path:
        """Returns the real path, whether or not it exists. Raises ToolFailed if it leaves the workspace.

        Other programs can change the path before you use it. To read a file, use `open`.
        """
        parts = Path(path).parts
        for end in range(len(parts), 0, -1):
            try:
                with locate(Path(*parts[:end]), self.base, self.roots) as place:
                    return place.path.joinpath(*parts[end:])
            except FileNotFoundError:
                if parts[end - 1] == "..":
                    break
            except (OSError, ValueError) as error:
                raise self._refusal(error, path, "used") from None
        with self.place(path, "used") as place:
            return place.path

    @contextmanager
    def place(
        self, path: str, act: str, roots: tuple[Path, ...] = (), *, make: bool = False
    ) -> Iterator[Place]:
        """Opens the place of `path`. Errors of the system meanwhile become a ToolFailed.

        `act` is "read", "written", "listed" or "searched"; `make` creates missing directories. A protected
        path is "written" only if the user has allowed it.
        """
        check = self.is_protected if act == "written" else None
        try:
            found = locate(path, self.base, roots or self.roots, make=make, is_protected=check)
        except (OSError, ValueError) as error:
            raise self._refusal(error, path, act) from None
        with found as place:
            try:
                yield place
            except OSError as error:
                # The names of what stands beside a root stay private.
                raise file_refusal(error, path, act, None if place.path in self.roots else place) from None

    def is_protected(self, real: Path) -> bool:
        """Whether other programs act on what is at a real path, and the user has not allowed writing it."""
        if any(real.is_relative_to(path) and self._protected_part(path) for path in self.allowed):
            return False
        return self._protected_part(real) is not None

    def _protected_part(self, real: Path) -> str | None:
        around = [root for root in (*self.roots, self.base) if real.is_relative_to(root)]
        parts = (protected_part(real, root) for root in around or [Path(real.anchor)])
        return next((part for part in parts if part), None)

    def _refusal(self, error: OSError | ValueError, path: str, act: str) -> ToolFailed:
        if isinstance(error, Outside):
            allowed = ", ".join(str(root) for root in self.roots)
            hint = f"Paths must be inside {allowed}; 'workspace' in strands.toml sets the roots."
            if not allowed:
                hint = "The workspace has no directories; 'workspace' in strands.toml sets them."
            return ToolFailed(
                f"{path} is outside the workspace",
                code="forbidden",
                hint=hint,
            )
        if isinstance(error, Protected):
            return protected_refusal([self.display(Path(error.filename))])
        if isinstance(error, OSError):
            return file_refusal(error, path, act)
        return ToolFailed(f"{path!r} is not a usable path: {error}", code="not_found")

    def display(self, file: Path) -> str:
        """A path for display: relative to the base if it is below it."""
        shown = file.relative_to(self.base) if file.is_relative_to(self.base) else file
        return os.fsencode(shown).decode("utf-8", "replace")


def protected_refusal(paths: Sequence[str]) -> ToolFailed:
    """Nobody has agreed that these protected paths are written."""
    import shlex

    listed = ", ".join(paths)
    return ToolFailed(
        f"{listed} cannot be written without --allow-write {shlex.quote(paths[0])}: other programs act on it",
        code="consent_required",
        hint="Write another file, or ask the user to allow this one.",
    )


def file_refusal(error: OSError, path: str, act: str, place: Place | None = None) -> ToolFailed:
    """One sentence about an error of the operating system; `place` is there if the way to it was found."""
    if isinstance(error, FileNotFoundError):
        return ToolFailed(
            f"No such file or directory: {path}", code="not_found", hint=_nearest_name_hint(error, place)
        )
    if isinstance(error, IsADirectoryError):
        return ToolFailed(f"{path} is a directory", hint="file_list shows what is in it.")
    if isinstance(error, NotRegular):
        return ToolFailed(f"{path} is a pipe, a socket or a device, not a file", hint="Name a regular file.")
    if isinstance(error, NotADirectoryError) and place is not None:
        return ToolFailed(f"{path} is not a directory", hint="If it is a file, file_read reads it.")
    if isinstance(error, NotADirectoryError) and act == "written":
        reason = f"{error.filename} is a file, not a directory"
        hint = "Choose another directory."
        return ToolFailed(f"{path} cannot be {act}: {reason}", code="conflict", hint=hint)
    reason, code, hint = _REASONS.get(error.errno or 0, (error.strerror or str(error), "failed", ""))
    return ToolFailed(f"{path} cannot be {act}: {reason}", code=code, hint=hint)


def _nearest_name_hint(error: OSError, place: Place | None) -> str:
    if place is None:
        return f"The directory {error.filename} does not exist either."
    try:
        match = closest(place.path.name, place.siblings())
    except OSError:
        match = None
    return f"Did you mean {match!r}?" if match else "file_list shows what is there."
