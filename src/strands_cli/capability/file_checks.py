"""What a workflow reads and writes: artifacts, notes, skills, secrets and environment variables."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from strands_cli.errors import Issue
from strands_cli.loader.run_values import SECRET_SOURCES
from strands_cli.loader.spec import Spec
from strands_cli.secrets import looks_secret


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
        elif _is_file(root / skill.path):
            reason = f"{skill.path!r} is a file, and a skill is a directory."
            yield spec.issue(f"{at}/path", reason, "Name the directory, and call the file SKILL.md.")
        elif not any(_is_file(root / skill.path / name) for name in ("SKILL.md", "README.md")):
            yield spec.issue(
                f"{at}/path",
                f"There is no {skill.path}/SKILL.md.",
                "Name a directory with a SKILL.md or a README.md, relative to the workflow.",
            )


def check_secrets(spec: Spec) -> Iterator[Issue]:
    seen: set[str] = set()
    for index, secret in enumerate(spec.env.secrets):
        at = f"/env/secrets/{index}"
        if secret.name in seen:
            reason = f"The secret {secret.name!r} is declared twice."
            yield spec.issue(f"{at}/name", reason, "Give it a different name.")
        seen.add(secret.name)
        if secret.source not in SECRET_SOURCES:
            reason = f"Secrets of {secret.source} are not supported."
            yield spec.issue(f"{at}/source", reason, f"Use one of {', '.join(SECRET_SOURCES)}.")
            continue
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


def check_workspace(spec: Spec) -> Iterator[Issue]:
    for index, root in enumerate(spec.security.workspace or ()):
        try:
            (spec.file.parent / root).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            reason = f"The workspace has an unusable path {root[:200]!r}: {error}."
            yield spec.issue(f"/security/workspace/{index}", reason, "Fix the path, or remove it.")


def check_environment_variables(spec: Spec) -> Iterator[Issue]:
    used = {use.name for use in spec.environment}
    secret = {item.key or item.name for item in spec.env.secrets if item.source == "env"}
    for index, name in enumerate(spec.env.variables):
        at = f"/env/variables/{index}"
        if name in secret:
            reason = f"{name} is declared as a secret and as a variable that may be shown."
            yield spec.issue(at, reason, "Keep it in env.secrets only.")
        elif looks_secret(name):
            reason = f"{name} looks like a secret, but its value may be shown and is not redacted."
            remedy = f"Declare it in env.secrets instead: secrets: [{{name: {name}}}]"
            yield spec.issue(at, reason, remedy, "warning")
        elif name not in used:
            reason = f"The variable {name} is declared, but nothing uses it."
            yield spec.issue(at, reason, f"Remove it, or use it as ${{{name}}}.", "warning")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # A name that no file system takes: too long, or with a null byte.
        return False
