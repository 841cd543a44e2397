"""Writes the outputs of a run: inside the output directory whatever a path says, each whole or not at all.

No part of a path below the output directory may be a symbolic link, wherever it leads: what is written must
be where its path says. Everything is rendered and checked before anything is written.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import msgspec

from strands_cli.documents.files import Draft, locate
from strands_cli.documents.problems import shorten
from strands_cli.documents.refusal import Refusal
from strands_cli.errors import ArtifactError
from strands_cli.events import ArtifactWritten, Listener
from strands_cli.secrets import NOTHING_SECRET, Redactor
from strands_cli.templates import TemplateError, names, render
from strands_cli.types import Spec

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


class _Target(msgspec.Struct, frozen=True):
    """A file to be written. `file` is its place below the resolved directory."""

    pointer: str
    shown: str
    file: Path
    data: bytes = b""


def write_artifacts(
    spec: Spec,
    scope: Mapping[str, Any],
    directory: Path,
    *,
    force: bool = False,
    redactor: Redactor = NOTHING_SECRET,
    emit: Listener | None = None,
) -> tuple[Path, ...]:
    """Renders and writes the artifacts of a workflow; their paths, in the order of the workflow.

    ArtifactError where one cannot be written; then nothing is, unless somebody else changes the directory at
    the same moment. `force` lets an artifact take the place of a file that is there.
    """
    if not spec.outputs.artifacts:
        return ()
    root = _resolved(spec, directory)
    targets: list[_Target] = []
    for index, artifact in enumerate(spec.outputs.artifacts):
        at = f"/outputs/artifacts/{index}"
        path = redactor.text(_rendered(spec, f"{at}/path", artifact.path, scope))
        content = redactor.text(_rendered(spec, f"{at}/from", artifact.content, scope))
        targets.append(_target(spec, f"{at}/path", path, root, content))
    _check(spec, targets, root, force)
    with _nothing_left(targets, root), ExitStack() as opened:
        drafts: list[Draft] = []
        for target in targets:
            with _placed(spec, target):
                drafts.append(_draft(target, root, opened))
        for target, draft in zip(targets, drafts, strict=True):
            with _placed(spec, target):
                _publish(target, draft, force)
            if emit is not None:
                emit(ArtifactWritten(str(directory / target.file.relative_to(root)), len(target.data)))
    return tuple(directory / target.file.relative_to(root) for target in targets)


def check_targets(
    spec: Spec, directory: Path, *, force: bool = False, scope: Mapping[str, Any] | None = None
) -> None:
    """ArtifactError where it is certain before a run that an artifact could not be written after it.

    Paths are judged that are the same for every run, or that are made of what is in `scope` alone.
    """
    if not spec.outputs.artifacts:
        return
    known = scope or {}
    root = _resolved(spec, directory)
    targets: list[_Target] = []
    for index, artifact in enumerate(spec.outputs.artifacts):
        used, flaws = names(artifact.path)
        at = f"/outputs/artifacts/{index}/path"
        if not flaws and all(name.name in known for name in used):
            targets.append(_target(spec, at, _rendered(spec, at, artifact.path, known), root))
    _check(spec, targets, root, force)


# --- Paths ------------------------------------------------------------------------------------------------


def _rendered(spec: Spec, pointer: str, text: str, scope: Mapping[str, Any]) -> str:
    try:
        return render(text, scope, pointer=pointer, position=spec.position(pointer))
    except TemplateError as error:
        raise ArtifactError(error.message, hint=error.hint or "Correct the template.") from None


def _resolved(spec: Spec, directory: Path) -> Path:
    """The output directory, which may be a link itself: whoever runs the workflow has chosen it."""
    with _placed(spec, None, str(directory)):
        root = directory.resolve()
        existing = next(part for part in (root, *root.parents) if part.exists())
        if not existing.is_dir():
            raise Refusal(f"{existing} is no directory", "Choose another directory with --out.")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise Refusal("Permission denied", _REMEDIES[errno.EACCES])
        return root


def _target(spec: Spec, pointer: str, path: str, root: Path, content: str = "") -> _Target:
    """The file that a path means; ArtifactError where it would not be one inside the directory."""
    shown = repr(shorten(path, 100))
    with _placed(spec, pointer, shown):
        problem = _path_problem(path)
        if problem:
            raise Refusal(problem, "Name a file inside the output directory, such as result.txt.")
        return _Target(pointer, shown, root / PurePath(path), content.encode("utf-8", "replace"))


def _path_problem(path: str) -> str:
    plain = path.replace("\\", "/")
    if not path.strip() or plain.endswith("/") or not PurePosixPath(plain).name:
        return "it is not the name of a file"
    if PurePosixPath(plain).is_absolute() or PureWindowsPath(path).drive:
        return "it is absolute"
    if ".." in plain.split("/"):
        return "it leaves the output directory"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
        return "it has control characters"
    return ""


# --- What is there already --------------------------------------------------------------------------------


def _check(spec: Spec, targets: Iterable[_Target], root: Path, force: bool) -> None:
    taken: dict[Path, _Target] = {}
    for target in targets:
        with _placed(spec, target):
            _check_others(target, taken)
            _check_folders(target, root)
            _check_file(target.file, force)
        taken[_folded(target.file)] = target


def _check_others(target: _Target, taken: Mapping[Path, _Target]) -> None:
    """Two artifacts with one path, or one where the other needs a directory."""
    own = _folded(target.file)
    for path, other in taken.items():
        if path == own:
            raise Refusal(f"{other.pointer} has the same path", "Give each artifact a path of its own.")
        if path in own.parents or own in path.parents:
            reason = f"{other.pointer} is {other.shown}, and a file cannot be a directory too"
            raise Refusal(reason, "Give each artifact a path of its own.")


def _folded(file: Path) -> Path:
    return Path(str(file).casefold()) if _FOLDS_CASE else file


def _folders(target: _Target, root: Path) -> Iterator[Path]:
    """The directories between the output directory and the file, the outermost first."""
    folder = root
    for part in target.file.parent.relative_to(root).parts:
        folder = folder / part
        yield folder


def _check_folders(target: _Target, root: Path) -> None:
    for folder in _folders(target, root):
        if not _is_folder(folder):
            return  # nor is there anything below it


def _is_folder(folder: Path) -> bool:
    """Whether there is a directory; refuses where there is something else in its place."""
    mode = _mode(folder)
    if mode is None:
        return False
    if stat.S_ISLNK(mode):
        raise Refusal(f"{folder.name!r} is a symbolic link, which may lead out of the output directory")
    if not stat.S_ISDIR(mode):
        raise Refusal(f"{folder.name!r} is a file, not a directory")
    return True


def _check_file(file: Path, force: bool) -> None:
    mode = _mode(file)
    if mode is None:
        return
    if stat.S_ISLNK(mode):
        raise Refusal("there is a symbolic link of that name", "Remove it, or choose another path.")
    if stat.S_ISDIR(mode):
        raise Refusal("there is a directory of that name")
    if not stat.S_ISREG(mode):
        raise Refusal("there is something of that name that is no file")
    if not force:
        raise Refusal("the file exists", "Remove it, choose another --out, or use --force to replace it.")
    if not os.access(file, os.W_OK):  # to put another file in its place would not need this permission
        raise Refusal("the file is read-only", _REMEDIES[errno.EACCES])


def _mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


# --- Writing ----------------------------------------------------------------------------------------------


def _draft(target: _Target, root: Path, opened: ExitStack) -> Draft:
    """Makes the missing directories, and a file beside the target with all of the content on the disk."""
    root.mkdir(parents=True, exist_ok=True)
    place = opened.enter_context(locate(target.file, root, [root], make=True, links=False))
    old = place.stat()
    draft = opened.enter_context(place.draft(old if old and stat.S_ISREG(old.st_mode) else None))
    draft.stream.write(target.data)
    draft.sync()
    return draft


def _publish(target: _Target, draft: Draft, force: bool) -> None:
    try:
        draft.publish(replace=force)
    except FileExistsError:
        _check_file(target.file, force)  # says what came in between
        raise


@contextmanager
def _nothing_left(targets: Iterable[_Target], root: Path) -> Iterator[None]:
    """Removes directories at the end that were made for nothing."""
    missing = {
        folder
        for target in targets
        for folder in (target.file.parent, *target.file.parent.parents)
        if not folder.exists()
    }
    try:
        yield
    finally:
        for folder in sorted(missing, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError), locate(folder, root, [Path(root.anchor)], links=False) as place:
                place.remove_empty_directory()  # which fails where it was made for something


@contextmanager
def _placed(spec: Spec, target: _Target | str | None, shown: str = "") -> Iterator[None]:
    """Says of a failure which artifact it is, where it stands in the workflow, and what to do."""
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
    if target is None:
        raise ArtifactError(f"Nothing can be written to {shown}: {reason}", hint=remedy)
    pointer, shown = (target, shown) if isinstance(target, str) else (target.pointer, target.shown)
    issue = spec.issue(pointer, f"The artifact {shown} cannot be written: {reason}.", remedy)
    raise ArtifactError(f"{issue.place}: {issue.reason}", hint=remedy)
