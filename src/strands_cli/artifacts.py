"""Writes the outputs of a run: inside the output directory whatever a path says, each whole or not at all.

No part of a path below the output directory may be a symbolic link, wherever it leads: what is written must
be where its path says. Everything is rendered and checked before anything is written.
"""

import errno
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import msgspec

from strands_cli.documents.files import Draft, locate, read_regular_file, write_file
from strands_cli.documents.problems import Refusal, shorten_text
from strands_cli.errors import ArtifactError
from strands_cli.events import ArtifactWritten, Listener
from strands_cli.loader.spec import Spec
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.settings import cache_directory
from strands_cli.templates import TemplateError, names_in_template, render
from strands_cli.toolkit.workspace import Workspace, current_directory

_LARGEST_LEFTOVER = 100_000_000
_LARGEST_RECORD = 100
_FOLDS_CASE = sys.platform in ("darwin", "win32")
_ELSEWHERE = "Choose another path, or another directory with --out."
_REMEDIES = {
    errno.ENOSPC: "Free some space, or choose another directory with --out.",
    errno.EDQUOT: "Free some space, or choose another directory with --out.",
    errno.ENAMETOOLONG: "Choose a shorter path.",
    errno.EACCES: "Change its permissions, or choose another directory with --out.",
    errno.EPERM: "Change its permissions, or choose another directory with --out.",
    errno.EROFS: "Choose another directory with --out.",
}


class _ArtifactFile(msgspec.Struct, frozen=True):
    """A file to be written. `file` is its place below the resolved directory."""

    pointer: str
    path: str
    file: Path
    data: bytes = b""
    replaces: bool = False
    """Whether it may take the place of a file that is there."""


def write_artifacts(
    spec: Spec,
    scope: Mapping[str, Any],
    directory: Path,
    *,
    force: bool = False,
    allowed: Sequence[Path] = (),
    redactor: Redactor = NOTHING_SECRET,
    emit: Listener | None = None,
    unfinished: bool = False,
    resumed: bool = False,
    written: dict[str, str] | None = None,
) -> tuple[Path, ...]:
    """Renders and writes the artifacts of a workflow; their paths, in the order of the workflow.

    ArtifactError if one cannot be written; then nothing is, unless another program changes the directory at
    the same moment. `force` lets an artifact take the place of a file that is there; `allowed` are the
    protected paths that may be written. What an `unfinished` run has written, the next run of the workflow
    may replace, unless somebody has changed it since. A `resumed` run may find what it has written before it
    was interrupted: a file with the same content is not in its way, nor one that it has `written`. That is
    the SHA-256 of each file by its path; what is written now is added.
    """
    if not spec.outputs.artifacts:
        return ()
    output = _output_directory(spec, directory, allowed)
    root, targets = output.base, list[_ArtifactFile]()
    for index, artifact in enumerate(spec.outputs.artifacts):
        at = f"/outputs/artifacts/{index}"
        path = _rendered_artifact(spec, f"{at}/path", artifact.path, scope)
        content = _rendered_artifact(spec, f"{at}/from", artifact.content, scope)
        path, content = redactor.text(path), redactor.text(content)
        target = _artifact_file(spec, f"{at}/path", path, output, content, force=force)
        if resumed and _is_own(target, (written or {}).get(str(target.file))):
            target = msgspec.structs.replace(target, replaces=True)
        targets.append(target)
    _check_collisions(spec, targets, root)
    with _without_needless_directories(targets, root), ExitStack() as opened:
        drafts: list[Draft] = []
        for target in targets:
            with _artifact_errors(spec, target.pointer, target.path):
                drafts.append(_draft_artifact(target, root, opened))
        for target, draft in zip(targets, drafts, strict=True):
            with _artifact_errors(spec, target.pointer, target.path):
                _publish_artifact(target, draft)
            _remember_leftover(spec, target, unfinished=unfinished)
            if written is not None:
                written[str(target.file)] = sha256(target.data).hexdigest()
            if emit is not None:
                emit(ArtifactWritten(str(directory / target.file.relative_to(root)), len(target.data)))
    return tuple(directory / target.file.relative_to(root) for target in targets)


def safe_name(text: str, *, letters: str = r"\w.-", longest: int = 100) -> str:
    """A text as part of a file name or as the name of a tool: other characters become '_'.

    `longest` counts bytes, since file systems do.
    """
    name = re.sub(f"[^{letters}]", "_", text).encode()[:longest].decode("utf-8", "ignore")
    return name if name.strip(".") else "_"


def write_named_file(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Writes a file that the user has named, for the user alone, in one step.

    What is not a file, such as /dev/stdout or a pipe, gets the data and stays what it is.
    """
    mode = path.lstat().st_mode if os.path.lexists(path) else 0
    is_standard = stat.S_ISLNK(mode) and str(path.parent) in ("/dev", "/dev/fd", "/proc/self/fd")
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or is_standard:
        path.write_bytes(data)
    else:
        write_file(path, data, replace=replace, is_private=True)


def check_artifact_files(
    spec: Spec,
    directory: Path,
    *,
    force: bool = False,
    allowed: Sequence[Path] = (),
    scope: Mapping[str, Any] | None = None,
) -> None:
    """ArtifactError if it is certain before a run that an artifact could not be written after it.

    Paths are judged that are the same for every run, or that are made of what is in `scope` alone.
    """
    if not spec.outputs.artifacts:
        return
    known = scope or {}
    output = _output_directory(spec, directory, allowed)
    targets: list[_ArtifactFile] = []
    for index, artifact in enumerate(spec.outputs.artifacts):
        used, flaws = names_in_template(artifact.path)
        at = f"/outputs/artifacts/{index}/path"
        if not flaws and all(name.name in known for name in used):
            path = _rendered_artifact(spec, at, artifact.path, known)
            targets.append(_artifact_file(spec, at, path, output, force=force))
    _check_collisions(spec, targets, output.base)


def _rendered_artifact(spec: Spec, pointer: str, text: str, scope: Mapping[str, Any]) -> str:
    try:
        return render(text, scope, spec=spec, pointer=pointer)
    except TemplateError as error:
        raise ArtifactError(error.message, hint=error.hint or "Correct the template.") from None


def _output_directory(spec: Spec, directory: Path, allowed: Sequence[Path]) -> Workspace:
    """Where artifacts can be written. The directory may be a link, or protected: the user has chosen it."""
    with _artifact_errors(spec, "", str(directory)):
        root = directory.resolve()
        existing = next(part for part in (root, *root.parents) if part.exists())
        if not existing.is_dir():
            raise Refusal(f"{existing} is not a directory", "Choose another directory with --out.")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise Refusal("Permission denied", _REMEDIES[errno.EACCES])
        projects = (current_directory(), spec.file.parent.resolve())
        roots = (root, *(project for project in projects if project.is_relative_to(root)))
        return Workspace(roots, root, tuple(path.resolve() for path in allowed))


def _artifact_file(
    spec: Spec, pointer: str, path: str, output: Workspace, content: str = "", *, force: bool
) -> _ArtifactFile:
    """The file that a path means; ArtifactError if it would not be one inside the directory."""
    plain, problem = path.replace("\\", "/"), ""
    if not path.strip() or plain.endswith("/") or not PurePosixPath(plain).name:
        problem = "it is not the name of a file"
    elif PurePosixPath(plain).is_absolute() or PureWindowsPath(path).drive:
        problem = "it is absolute"
    elif ".." in plain.split("/"):
        problem = "it leaves the output directory"
    elif any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
        problem = "it contains control characters"
    with _artifact_errors(spec, pointer, path):
        if problem:
            raise Refusal(problem, "Name a file inside the output directory, such as result.txt.")
        file, data = output.base / PurePath(path), content.encode("utf-8", "replace")
        if output.is_protected(file):
            here = current_directory()
            shown = shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))
            remedy = f"Choose another path, or allow this one with --allow-write {shown}."
            raise Refusal("it is protected, because other programs act on it", remedy)
        return _ArtifactFile(pointer, path, file, data, replaces=force or _is_leftover(spec, file))


# --- What a run that did not finish has left --------------------------------------------------------------


def _leftover_record(spec: Spec, file: Path) -> Path:
    """Where it is kept what an unfinished run of the workflow has written to a file."""
    key = sha256(f"{spec.file.resolve()}\0{file}".encode("utf-8", "surrogateescape")).hexdigest()
    return cache_directory() / "unfinished" / key


def _is_leftover(spec: Spec, file: Path) -> bool:
    """Whether a file is as an unfinished run of the workflow has left it."""
    with suppress(OSError, RuntimeError, ValueError):
        written = read_regular_file(_leftover_record(spec, file), _LARGEST_RECORD).decode("ascii")
        return written == sha256(read_regular_file(file, _LARGEST_LEFTOVER)).hexdigest()
    return False


def _is_own(target: _ArtifactFile, written: str | None) -> bool:
    """Whether a file has the content of the artifact, or the one that the run has written."""
    with suppress(OSError, RuntimeError, ValueError):
        data = read_regular_file(target.file, max(_LARGEST_LEFTOVER, len(target.data)))
        return data == target.data or sha256(data).hexdigest() == written
    return False


def _remember_leftover(spec: Spec, target: _ArtifactFile, *, unfinished: bool) -> None:
    with suppress(OSError, RuntimeError):  # without the record, the next run asks for --force
        record = _leftover_record(spec, target.file)
        if unfinished:
            record.parent.mkdir(parents=True, exist_ok=True)
            write_file(record, sha256(target.data).hexdigest().encode(), sync=False)
        else:
            record.unlink(missing_ok=True)


def _check_collisions(spec: Spec, targets: Iterable[_ArtifactFile], root: Path) -> None:
    """Refuses what stands in the way: another artifact, or something that is there already."""
    taken: dict[Path, _ArtifactFile] = {}
    for target in targets:
        own = Path(str(target.file).casefold()) if _FOLDS_CASE else target.file
        with _artifact_errors(spec, target.pointer, target.path):
            _check_other_artifacts(own, taken)
            for folder in [*reversed(target.file.relative_to(root).parents)][1:]:
                _check_artifact_folder(root / folder)
            _check_existing_file(target)
        taken[own] = target


def _check_other_artifacts(own: Path, taken: Mapping[Path, _ArtifactFile]) -> None:
    """Two artifacts with one path, or one where the other needs a directory."""
    for path, other in taken.items():
        if path == own:
            raise Refusal(f"{other.pointer} has the same path", "Give each artifact a different path.")
        if path in own.parents or own in path.parents:
            shown = shorten_text(other.path, 100)
            reason = f"{other.pointer} is {shown!r}, and a file cannot be a directory too"
            raise Refusal(reason, "Give each artifact a different path.")


def _check_artifact_folder(folder: Path) -> None:
    mode = _file_mode(folder)
    if mode is not None and stat.S_ISLNK(mode):
        raise Refusal(f"{folder.name!r} is a symbolic link, which may lead out of the output directory")
    if mode is not None and not stat.S_ISDIR(mode):
        raise Refusal(f"{folder.name!r} is a file, not a directory")


def _check_existing_file(target: _ArtifactFile) -> None:
    mode = _file_mode(target.file)
    if mode is None:
        return
    if stat.S_ISLNK(mode):
        raise Refusal("there is a symbolic link of that name", "Remove it, or choose another path.")
    if stat.S_ISDIR(mode):
        raise Refusal("there is a directory of that name")
    if not stat.S_ISREG(mode):
        raise Refusal("there is something of that name that is not a file")
    if not target.replaces:
        raise Refusal("the file exists", "Remove it, choose another --out, or use --force to replace it.")
    if not os.access(target.file, os.W_OK):  # to put another file in its place would not need this permission
        raise Refusal("the file is read-only", _REMEDIES[errno.EACCES])


def _file_mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _draft_artifact(target: _ArtifactFile, root: Path, opened: ExitStack) -> Draft:
    """Makes the missing directories, and a file beside the target with all of the content on the disk."""
    root.mkdir(parents=True, exist_ok=True)
    place = opened.enter_context(locate(target.file, root, [root], make=True, links=False))
    old = place.stat()
    draft = opened.enter_context(place.draft(old if old and stat.S_ISREG(old.st_mode) else None))
    draft.stream.write(target.data)
    draft.sync()
    return draft


def _publish_artifact(target: _ArtifactFile, draft: Draft) -> None:
    try:
        draft.publish(replace=target.replaces)
    except FileExistsError:
        _check_existing_file(target)  # says what came in between
        raise


@contextmanager
def _without_needless_directories(targets: Iterable[_ArtifactFile], root: Path) -> Iterator[None]:
    """Removes directories at the end that were made for nothing."""
    above = {folder for target in targets for folder in target.file.parents}
    missing = [folder for folder in above if not folder.exists()]
    try:
        yield
    finally:
        for folder in sorted(missing, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError), locate(folder, root, [Path(root.anchor)], links=False) as place:
                place.remove_empty_directory()  # which fails if it is not empty


@contextmanager
def _artifact_errors(spec: Spec, pointer: str, path: str) -> Iterator[None]:
    """Says of a failure which artifact it is, where it stands in the workflow, and what to do.

    Without a pointer it is the output directory that fails.
    """
    try:
        yield
        return
    except Refusal as refused:
        reason, remedy = refused.reason, refused.remedy or _ELSEWHERE
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno or 0, _ELSEWHERE)
    except (ValueError, RuntimeError) as error:  # no file system takes such a name; links in a circle
        reason, remedy = str(error), _ELSEWHERE
    if not pointer:
        raise ArtifactError(f"Cannot write to {path}: {reason}", hint=remedy)
    reason = f"The artifact {shorten_text(path, 100)!r} cannot be written: {reason}."
    issue = spec.issue(pointer, reason, remedy)
    raise ArtifactError(f"{issue.place}: {issue.reason}", hint=remedy)
