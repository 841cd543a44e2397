"""The directories that tools may touch."""

from pathlib import Path

import msgspec

from strands_cli.errors import ToolFailed, closest
from strands_cli.settings import answers_directory


def current_directory() -> Path:
    """Where relative paths begin; the root where the directory has been removed under the process."""
    try:
        return Path.cwd()
    except OSError:
        return Path("/")


class Workspace(msgspec.Struct, frozen=True):
    """A few roots; every path that a call names is resolved, links and `..` included, before it is judged."""

    roots: tuple[Path, ...]
    base: Path
    """What a relative path is relative to."""

    def locate(self, path: str) -> Path:
        """The resolved file or directory that `path` means; ToolFailed if it leaves the workspace."""
        return self._locate(path, self.roots)

    def locate_for_reading(self, path: str) -> Path:
        """As `locate`; the files with answers that were too long for a model may be read too."""
        return self._locate(path, (*self.roots, answers_directory().resolve()))

    def _locate(self, path: str, roots: tuple[Path, ...]) -> Path:
        try:
            resolved = (self.base / path).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ToolFailed(f"{path!r} is not a usable path: {error}", code="not_found") from None
        if any(resolved.is_relative_to(root) for root in roots):
            return resolved
        allowed = ", ".join(str(root) for root in self.roots)
        raise ToolFailed(
            f"{path} is outside the workspace",
            code="forbidden",
            hint=f"Paths must lie below {allowed}; 'workspace' in strands.toml sets the roots.",
        )

    def display(self, file: Path) -> str:
        """How a located path is shown: relative to the base where it lies below it."""
        return str(file.relative_to(self.base)) if file.is_relative_to(self.base) else str(file)


def nearest_sibling(file: Path) -> str:
    """A hint for a file that does not exist: the sibling whose name is closest."""
    try:
        names = [entry.name for entry in file.parent.iterdir()]
    except OSError:
        return f"The directory {file.parent.name} does not exist either."
    match = closest(file.name, names)
    return f"Did you mean {match!r}?" if match else "file_list shows what is there."
