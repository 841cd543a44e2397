"""Where plugins lie: the project's `plugins/`, then the user's. Light, since every listing asks."""

import os
from pathlib import Path

from strands_cli.settings import Settings, config_directory

MANIFEST_NAME = "plugin.json"


def plugin_roots(settings: Settings) -> dict[str, Path]:
    """The directories that plugins are looked for in, by whose they are, in order of precedence."""
    roots = {"project": settings.project / "plugins"}
    if user := user_directory():
        roots["user"] = user / "plugins"
    return roots


def user_directory() -> Path | None:
    try:
        return config_directory()
    except RuntimeError:  # there is no home directory
        return None


def located(place: Path) -> Path:
    """A plugin's place without detours, but under the name that it has there, be it that of a link."""
    return place.parent.resolve() / place.name if place.name not in ("", "..") else place.resolve()


def plugins_in(root: Path) -> list[Path]:
    """The directories with a manifest, in the order of their names; OSError where the root cannot be read.

    Other directories are nobody's plugin, and no mistake.
    """
    try:
        with os.scandir(root) as listing:
            names = sorted(entry.name for entry in listing if entry.name[0] not in "._" and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [root / name for name in names if os.path.lexists(f"{root}/{name}/{MANIFEST_NAME}")]
