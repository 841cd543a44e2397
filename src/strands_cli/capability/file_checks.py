"""What a workflow reads and writes: artifacts, notes, skills and secrets."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from strands_cli.errors import Issue
from strands_cli.loader.spec import Spec


def check_artifacts(spec: Spec) -> Iterator[Issue]:
    seen: dict[PurePosixPath, int] = {}
    for index, artifact in enumerate(spec.outputs.artifacts):
        at = f"/outputs/artifacts/{index}/path"
        yield from _path_problems(spec, at, artifact.path)
        path = PurePosixPath(artifact.path)
        if path in seen:
            yield spec.issue(
                at,
                f"Another artifact, /outputs/artifacts/{seen[path]}, has the path {artifact.path!r} too.",
                "Give each artifact a different path.",
            )
        seen.setdefault(path, index)


def check_notes(spec: Spec) -> Iterator[Issue]:
    if spec.context_policy.notes:
        yield from _path_problems(spec, "/context_policy/notes/file", spec.context_policy.notes.file)


def _path_problems(spec: Spec, at: str, path: str) -> Iterator[Issue]:
    """Why a path is not that of a file inside the output directory."""
    if not path.strip() or path.endswith(("/", "\\")):
        yield spec.issue(at, f"{path!r} is not the name of a file.", "Name a file, such as result.txt.")
    elif PurePosixPath(path).is_absolute() or PureWindowsPath(path).drive:
        yield spec.issue(
            at, f"{path!r} is absolute.", "Name a file inside the output directory, such as result.txt."
        )
    elif ".." in PurePosixPath(path.replace("\\", "/")).parts:
        yield spec.issue(at, f"{path!r} leaves the output directory.", "Name a file inside it, without '..'.")


def check_skills(spec: Spec) -> Iterator[Issue]:
    root = spec.file.parent
    seen: set[str] = set()
    for index, skill in enumerate(spec.skills):
        at = f"/skills/{index}"
        if skill.id in seen:
            yield spec.issue(
                f"{at}/id", f"The skill {skill.id!r} is declared twice.", "Give it a different id."
            )
        seen.add(skill.id)
        if Path(skill.path).is_absolute() or ".." in PurePosixPath(skill.path.replace("\\", "/")).parts:
            reason = f"{skill.path!r} leaves the directory of the workflow."
            yield spec.issue(f"{at}/path", reason, "Name a directory beside the workflow, without '..'.")
        elif not _is_file(root / skill.path / "SKILL.md"):
            yield spec.issue(
                f"{at}/path",
                f"There is no {skill.path}/SKILL.md.",
                "Name a directory with a SKILL.md, relative to the workflow.",
            )


def check_secrets(spec: Spec) -> Iterator[Issue]:
    seen: set[str] = set()
    for index, secret in enumerate(spec.env.secrets):
        at = f"/env/secrets/{index}"
        if secret.name in seen:
            reason = f"The secret {secret.name!r} is declared twice."
            yield spec.issue(f"{at}/name", reason, "Give it a different name.")
        seen.add(secret.name)
        if secret.source == "file":
            if not _is_file(spec.file.parent / (secret.path or "")):
                reason = f"There is no file {secret.path!r}."
                yield spec.issue(f"{at}/path", reason, "A run needs it.", "warning")
            if secret.key is not None:
                reason = "A secret that is read from a file has no key: the whole file is its value."
                yield spec.issue(f"{at}/key", reason, "Remove it, or write source: env.", "warning")
            continue
        if secret.path is not None:
            reason = "A secret that is read from the environment has no path."
            yield spec.issue(f"{at}/path", reason, "Remove it, or write source: file.", "warning")
        key = secret.key or secret.name
        if not os.environ.get(key):
            where = f"{at}/key" if secret.key else f"{at}/name"
            reason = f"The environment variable {key} is not set."
            yield spec.issue(where, reason, "A run needs it.", "warning")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # A name that no file system takes: too long, or with a null byte.
        return False
