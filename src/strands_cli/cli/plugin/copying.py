"""Copies of plugins: every file that counts, as it is, and nothing else."""

import shutil
from pathlib import Path

from strands_cli.cli.text import one_line
from strands_cli.errors import Issue, Severity
from strands_cli.plugins.contents import digests

_LINK, _SPECIAL = "link:", "special"


def copy_plugin(origin: Path, target: Path) -> None:
    """What the hashes of a plugin stand for: no repository, no caches, no empty directories."""
    target.mkdir()
    for name, digest in digests(origin).items():
        copied = target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if digest.startswith(_LINK):
            copied.symlink_to(digest.removeprefix(_LINK))
        else:
            shutil.copyfile(origin / name, copied)
            is_executable = (origin / name).stat().st_mode & 0o111
            copied.chmod(0o755 if is_executable else 0o644)


def unportable(directory: Path, *, severity: Severity = "error") -> list[Issue]:
    """What in a plugin would be something else in another place."""
    root = directory.resolve()
    remedy = "Take it out, or put a copy of the file in its place: it is refused where it is added."
    return [
        Issue(file=one_line(str(directory / name)), reason=reason, remediation=remedy, severity=severity)
        for name, digest in digests(root).items()
        if (reason := _reason(root, name, digest))
    ]


def _reason(root: Path, name: str, digest: str) -> str:
    if digest == _SPECIAL:
        return "This is neither a file nor a link."
    target = digest.removeprefix(_LINK)
    if target != digest and not _stays_inside(root, name, target):
        return f"This link leads out of the plugin, to {one_line(target)}."
    return ""


def _stays_inside(root: Path, name: str, target: str) -> bool:
    try:
        return not Path(target).is_absolute() and (root / name).resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a circle of links
        return False
