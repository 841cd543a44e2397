"""Files below a root, reached by descriptor: what was checked is what is opened.

A path is walked one name at a time, each looked up in the directory that is already open. Links are expanded
here, never by the kernel, so `..` behind a link, links in a circle, and a link that is swapped between the
check and the open all stay below the roots. Only Windows, which opens no directories, resolves a path first
and opens it afterwards.
"""

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Literal, NamedTuple

MAX_LINKS = 40
MAX_BYTES = 4096
"""How long a path may be, as the kernel has it."""
MAX_LEVELS = 256
"""How deep a path may be, and how far below a directory `walk_directory` goes."""

_NEW_FILE = 0o666
_BY_DESCRIPTOR = {os.open, os.mkdir, os.readlink, os.stat, os.link, os.unlink} <= os.supports_dir_fd
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW
_LIST = os.O_RDONLY | _DIRECTORY
# Passing through a directory needs less permission than listing it, where the system tells them apart.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | _DIRECTORY
_NOW = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_AT_ONCE = _NOFOLLOW | _NOW
_CREATE = os.O_CREAT | os.O_EXCL | _AT_ONCE
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


PROTECTED_BELOW_ROOT = frozenset({"tools", "plugins"})
"""Directories directly below a root whose code strands-cli itself runs. Elsewhere they are ordinary names."""

PROTECTED_NAMES = frozenset(
    # The data of version control, with its hooks. Git reads the `config` beside a HEAD in any directory.
    ".git .hg .svn .jj .bzr _darcs HEAD .gitconfig .gitmodules .hgrc git~1 "
    # What strands-cli acts on.
    "strands.toml strands-plugins.lock "
    # What builds, installs and tests act on.
    "pyproject.toml setup.py setup.cfg tox.ini noxfile.py conftest.py pytest.ini .pytest.ini "
    "sitecustomize.py usercustomize.py .pypirc pip.conf .pip .venv venv site-packages Makefile "
    "GNUmakefile makefile.am justfile .justfile Taskfile.yml Taskfile.yaml package.json .npmrc .yarnrc "
    ".yarnrc.yml .yarn .pnpmfile.cjs node_modules .cargo build.rs .mvn gradlew mvnw .gradle build.gradle "
    "build.gradle.kts settings.gradle settings.gradle.kts .bundle Rakefile Gemfile "
    # Continuous integration, and hooks that other programs install.
    ".github .gitlab .gitlab-ci.yml .gitlab-ci.yaml .circleci .ci .travis.yml .buildkite .drone.yml "
    ".cirrus.yml .cirrus.star .appveyor.yml appveyor.yml azure-pipelines.yml azure-pipelines.yaml "
    "bitbucket-pipelines.yml Jenkinsfile .woodpecker .woodpecker.yml .woodpecker.yaml .forgejo .gitea "
    ".semaphore .teamcity .tekton cloudbuild.yaml cloudbuild.yml .readthedocs.yml .readthedocs.yaml "
    ".husky lefthook.yml lefthook.yaml .lefthook.yml .pre-commit-config.yaml .pre-commit-config.yml "
    ".pre-commit-hooks.yaml .githooks .git-hooks .overcommit.yml lefthook-local.yml .lefthook-local.yml "
    # What shells, desktops and editors start.
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile "
    ".zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .env .envrc .direnv .mise.toml "
    "mise.toml .mise .tool-versions .config .local .pam_environment .xprofile .xinitrc .xsession "
    ".xsessionrc .vimrc .gvimrc .exrc .nvimrc .nvim.lua .lvimrc .vim .emacs .emacs.d .dir-locals.el "
    ".tmux.conf .screenrc .gdbinit .lldbinit .pdbrc .pythonrc .ipython .jupyter .Rprofile .irbrc .vscode "
    ".idea .fleet .zed .devcontainer autorun.inf desktop.ini crontab .crontab "
    # Keys, and the programs that use them.
    ".ssh .gnupg .aws .azure .gcloud .kube .docker .netrc "
    # What other agents follow.
    "AGENTS.md AGENT.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md SKILL.md .claude .codex "
    ".gemini .cursor .cursorrules .windsurf .windsurfrules .clinerules .roo .roorules .aider.conf.yml "
    ".continue .mcp.json mcp.json .goosehints .kiro .junie .amazonq ".casefold().split()
)
"""Files and directories, in any directory, that other programs run or act on without being asked."""

# What file systems ignore in a name: invisible marks, dots and spaces at its end, and what follows a colon.
_MARKS = r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_IGNORED = re.compile(rf"[. {_MARKS}]*(:.*)?$|[{_MARKS}]", re.DOTALL)


def protected_part(path: Path, root: Path) -> str | None:
    """The part of a path below a root that is protected, such as `.git` of `.git/hooks/push`; else None.

    The root is a project's directory, or one of a workspace's. Both paths are real ones: links and `..` are
    not looked at here. Names count in any case, as they do for some file systems.
    """
    if not path.is_relative_to(root):
        return None
    parts = path.relative_to(root).parts
    for index, part in enumerate(parts):
        inner = index < len(parts) - 1
        if is_protected_name(part, below_root=index == 0, is_directory=inner):
            return str(Path(*parts[: index + 1]))
    return None


def is_protected_name(name: str, *, below_root: bool, is_directory: bool) -> bool:
    """`below_root`: the name is directly in a root. A directory called `head` means nothing to git."""
    is_plain = name.isascii() and name[-1:] not in ". " and ":" not in name  # as most are
    plain = (name if is_plain else _IGNORED.sub("", name)).casefold()
    if is_directory and plain == "head":
        return False
    return plain in PROTECTED_NAMES or (below_root and plain in PROTECTED_BELOW_ROOT)


class Outside(PermissionError):
    """The path leaves every root."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EACCES, "it is outside the roots", str(path))


class Protected(PermissionError):
    """Other programs act on what is at the path, and nobody has agreed that it is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EACCES, "it is a protected path", str(path))


class NotRegular(OSError):
    """A pipe, a socket or a device stands where a file is expected."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", str(path))


class TooLarge(OSError):
    """A file has more bytes than anybody wants to read."""

    def __init__(self, path: Path, size: int, limit: int) -> None:
        super().__init__(errno.EFBIG, f"it has {size} bytes", str(path))
        self.size, self.limit = size, limit


def unread_reason(error: OSError | ValueError) -> str:
    """Why a file cannot be read, as a sentence that says nothing of its content but its first wrong byte."""
    if isinstance(error, TooLarge):
        return f"The file has {error.size} bytes; the limit is {error.limit}."
    if isinstance(error, Outside):
        return "The file is outside the project."
    if isinstance(error, NotRegular | IsADirectoryError):
        return "This is not a file."
    if isinstance(error, FileNotFoundError):
        return f"{Path(os.fsdecode(error.filename or '')).name} not found."
    if isinstance(error, UnicodeDecodeError):
        return f"The file is not UTF-8 text: byte {error.start} is {error.object[error.start]:#x}."
    return f"The file cannot be read: {getattr(error, 'strerror', None) or error}."


def read_regular_file(path: Path, max_bytes: int, below: Iterable[Path] | None = None) -> bytes:
    """The content of a regular file, which may be a link. TooLarge where it has more than `max_bytes`.

    A device, which has no end, and a pipe, which may never begin, are NotRegular. ValueError where no file
    system takes such a path. With roots that it must be `below`, any other file is Outside.
    """
    if below is None:
        descriptor = _open_regular(path, os.O_RDONLY | _NOW, path)
    else:
        with locate(path, Path(), below) as place:
            descriptor = place.open()
    with os.fdopen(descriptor, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        data = stream.read(max_bytes + 1) if size <= max_bytes else b""
    if max(size, len(data)) > max_bytes:
        raise TooLarge(path, max(size, len(data)), max_bytes)
    return data


def is_directory(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a directory or a link to one; not so for links in a circle, and what is gone."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def open_regular_file(path: Path) -> BufferedReader:
    """A regular file to be read, never what a link leads to; never waits for the other end of a pipe."""
    return os.fdopen(_open_regular(path, os.O_RDONLY | _AT_ONCE, path), "rb")


def _open_regular(
    name: str | Path, flags: int, path: Path, mode: int = _NEW_FILE, directory: int | None = None
) -> int:
    try:
        descriptor = os.open(name, flags, mode, dir_fd=directory)
    except OSError as error:
        raise NotRegular(path) if error.errno == errno.ENXIO else error from None  # a socket
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NotRegular(path)


@contextmanager
def _open_directory(name: str | Path, within: int | None) -> Iterator[int]:
    descriptor = os.open(name, _LIST, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked_directory(directory: str | Path, within: int | None = None) -> Iterator[None]:
    """Makes whoever else locks a directory wait, in any process, where the system has locks."""
    with ExitStack() as opened:
        # Windows and some file systems have no locks, and some directories may not be listed.
        with suppress(ImportError, OSError):
            import fcntl

            descriptor = opened.enter_context(_open_directory(directory, within))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


class Place:
    """Where a path leads once its links are expanded: a name in a directory that is open.

    Nothing need exist there yet. If a link appears under the name later, it is refused, not followed.
    """

    def __init__(self, path: Path, name: str, descriptor: int | None) -> None:
        self.path = path
        """The real path, for messages."""
        self.descriptor = descriptor
        """Of the directory; None on Windows, where `name` is a whole path instead."""
        self.name = name if descriptor is not None else str(path)

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *error: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def open(self, flags: int = os.O_RDONLY, mode: int = _NEW_FILE) -> int:
        """A descriptor of the regular file; never waits for the other end of a pipe."""
        return _open_regular(self.name, flags | _AT_ONCE, self.path, mode, self.descriptor)

    def stat(self) -> os.stat_result | None:
        """What stands there, itself and not what a link leads to; None where there is nothing."""
        try:
            return os.stat(self.name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_writable(self) -> bool:
        return os.access(self.name, os.W_OK, dir_fd=self.descriptor)

    def siblings(self) -> list[str]:
        """The names in the directory that this one stands in."""
        if self.descriptor is None:
            return [entry.name for entry in self.path.parent.iterdir()]
        with _open_directory(".", self.descriptor) as parent:
            return os.listdir(parent)  # noqa: PTH208 - pathlib takes no descriptor

    def remove_empty_directory(self) -> None:
        os.rmdir(self.name, dir_fd=self.descriptor)

    @contextmanager
    def directory(self, below: Sequence[str] = ()) -> Iterator[int | Path]:
        """The directory that stands here, or one some levels below it, open for listing; no links."""
        if self.descriptor is None:
            yield self.path.joinpath(*below)
            return
        descriptor = os.open(self.name, _LIST, dir_fd=self.descriptor)
        try:
            for name in below:
                inner = os.open(name, _LIST, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def locked(self) -> AbstractContextManager[None]:
        """Makes whoever else locks the directory wait, in any process, where the system has locks."""
        return locked_directory(".", self.descriptor)

    def draft(self, old: os.stat_result | None = None) -> "Draft":
        """A new file beside this one that can take its place, with the owner and permissions of `old`."""
        return Draft(self.name, self.descriptor, old)


class Draft:
    """A file written beside its destination: `publish` puts all of it there, or nothing is changed."""

    def __init__(
        self, name: str, directory: int | None, old: os.stat_result | None, mode: int = _NEW_FILE
    ) -> None:
        self._name, self._directory = name, directory
        self._is_synced = False
        self._temporary = str(Path(name).with_name(f".strands-{os.urandom(8).hex()}.tmp"))
        permissions = stat.S_IMODE(old.st_mode) & 0o777 if old else mode
        descriptor = os.open(self._temporary, os.O_WRONLY | _CREATE, permissions, dir_fd=directory)
        self.stream = os.fdopen(descriptor, "wb")
        if old and hasattr(os, "fchown"):
            with suppress(OSError):  # only root may give files away
                os.fchown(descriptor, old.st_uid, old.st_gid)
            with suppress(OSError):  # which some file systems have no permissions for
                os.fchmod(descriptor, permissions)

    def __enter__(self) -> "Draft":
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self.stream.close()
        with suppress(OSError):
            os.unlink(self._temporary, dir_fd=self._directory)

    def sync(self) -> None:
        """Puts the content on the disk; nothing more can be written."""
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        self._is_synced = True

    def publish(self, *, replace: bool) -> None:
        """Gives the content its name. FileExistsError if that is taken and `replace` is false.

        What was synced before outlasts a power failure, where directories can be synced too.
        """
        self.stream.close()
        here = self._directory
        if not replace:
            try:  # a link, unlike a rename, fails if somebody else was faster
                os.link(self._temporary, self._name, src_dir_fd=here, dst_dir_fd=here, follow_symlinks=False)
            except (OSError, NotImplementedError) as error:
                if isinstance(error, OSError) and error.errno not in _NO_HARD_LINKS:
                    raise
                os.close(os.open(self._name, os.O_WRONLY | _CREATE, _NEW_FILE, dir_fd=here))
                replace = True
        if replace:
            os.replace(self._temporary, self._name, src_dir_fd=here, dst_dir_fd=here)
        if self._is_synced:
            with suppress(OSError), _open_directory(Path(self._name).parent, here) as directory:
                os.fsync(directory)


def write_file(
    path: Path, data: bytes, *, replace: bool = True, sync: bool = True, is_private: bool = False
) -> None:
    """Writes a file in one step: whoever looks sees all of the old one or all of the new.

    FileExistsError if there is one and `replace` is false. Without `sync` it may be lost in a power failure,
    which is for what can be made again. A private one is for its owner alone.
    """
    with Draft(str(path), None, None, 0o600 if is_private else _NEW_FILE) as draft:
        draft.stream.write(data)
        if sync:
            draft.sync()
        draft.publish(replace=replace)


def write_private_file(path: Path, data: bytes, *, keep_seconds: float) -> None:
    """Creates a file that only the user may read, in a directory that is made so; what is older there goes.

    PermissionError where another user owns the directory, or the one that it stands in.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as opened:
        directory, name = None, str(path)
        if _BY_DESCRIPTOR and hasattr(os, "geteuid"):
            directory, name = opened.enter_context(_open_directory(path.parent, None)), path.name
            own, above = os.fstat(directory), path.parent.parent.stat()
            if own.st_uid != os.geteuid() or above.st_uid not in (os.geteuid(), 0):
                reason = f"{path.parent} belongs to another user"
                raise PermissionError(errno.EPERM, reason, str(path.parent))
            if own.st_mode & 0o077:
                os.fchmod(directory, 0o700)
        with os.scandir(path.parent if directory is None else directory) as entries:
            _remove_old_files(entries, time.time() - keep_seconds, directory)
        descriptor = os.open(name, os.O_WRONLY | _CREATE, 0o600, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
        except OSError:  # a part is of no use
            os.unlink(name, dir_fd=directory)
            raise


def _remove_old_files(entries: "Iterable[os.DirEntry[str]]", oldest: float, directory: int | None) -> None:
    for entry in [*entries]:
        with suppress(OSError):  # another process was faster
            about = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(about.st_mode) and about.st_mtime < oldest:
                os.unlink(entry.path if directory is None else entry.name, dir_fd=directory)


# --- Finding ----------------------------------------------------------------------------------------------


def locate(
    path: str | Path,
    base: Path,
    roots: Iterable[Path],
    *,
    make: bool = False,
    links: bool = True,
    plain: Iterable[Path] = (),
    is_protected: Callable[[Path], bool] | None = None,
) -> Place:
    """Where `path`, from `base` on, leads; Outside if that is below none of the roots, which are real paths.

    `make` creates the missing directories on the way. A link that stands below one of `plain`, or without
    `links` below a root, is an error (ELOOP, with its path) wherever it leads. A real path of which
    `is_protected` says so is Protected, and nothing is made there. OSError says what else is wrong;
    ValueError, that no file system takes such a path.
    """
    whole, roots = (base / path).absolute(), tuple(roots)
    is_protected = is_protected or (lambda _: False)
    plain = tuple(plain) if links else roots
    if not _BY_DESCRIPTOR:
        return _locate_by_path(whole, roots, make, is_protected)
    if len(whole.parts) > MAX_LEVELS or len(os.fsencode(whole)) > MAX_BYTES:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
    with _PathWalk(roots, is_protected) as walk:
        ahead = [*reversed(whole.parts[1:])]
        while ahead:
            name = ahead.pop()
            if name == "..":
                walk.go_up()
            elif (target := walk.follow_link(name, plain)) is not None:
                ahead += reversed(target)
            elif ahead:
                walk.enter_directory(name, make=ahead if make and ".." not in ahead else ())
            else:
                return walk.place(name)
        return walk.place(".")


class _PathWalk:
    """The part of a path that has been walked: its real names, and a descriptor of the last directory."""

    def __init__(self, roots: tuple[Path, ...], is_protected: Callable[[Path], bool]) -> None:
        self._roots = roots
        self._is_protected = is_protected
        self._names: list[str] = []
        self._here = os.open("/", _PASS)
        self._at = "."
        self._followed = 0

    def __enter__(self) -> "_PathWalk":
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        os.close(self._here)
        if isinstance(error, OSError) and not self._is_on_the_way():
            raise Outside(self._real()) from None  # what is wrong out there is not for the caller to know

    def follow_link(self, name: str, plain: tuple[Path, ...]) -> list[str] | None:
        """The names that the link of this name leads to, from here or the top; None if it is not a link."""
        self._at = name
        try:
            target = os.readlink(name, dir_fd=self._here)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise
        self._followed += 1
        if self._followed > MAX_LINKS or not set(plain).isdisjoint(self._real().parents):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self._real()))
        if target.startswith("/"):
            self._restart()
        return [part for part in target.split("/") if part not in ("", ".")]

    def enter_directory(self, name: str, *, make: Sequence[str] = ()) -> None:
        """Goes one name down. Where `make` has the names below it, last first, a missing one is made."""
        self._at = name
        if len(self._names) >= MAX_LEVELS:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), name)
        try:
            inner = os.open(name, _PASS, dir_fd=self._here)
        except FileNotFoundError:
            if not make or not _is_below_roots(self._real(), self._roots):
                raise
            if self._is_protected(whole := self._real().joinpath(*reversed(make))):
                raise Protected(whole) from None
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._here)
            inner = os.open(name, _PASS, dir_fd=self._here)
        os.close(self._here)
        self._here = inner
        self._names.append(name)

    def go_up(self) -> None:
        """Goes up by walking down again, one name fewer: the kernel's own `..` may have moved."""
        self._at = "."
        if not self._is_on_the_way():
            raise Outside(self._real())  # coming back would tell that what was entered exists
        names = self._names[:-1]
        self._restart()
        for name in names:
            self.enter_directory(name)

    def place(self, name: str) -> Place:
        self._at = name
        if not _is_below_roots(self._real(), self._roots):
            raise Outside(self._real())
        if self._is_protected(self._real()):
            raise Protected(self._real())
        return Place(self._real(), name, os.dup(self._here))

    def _restart(self) -> None:
        self._names.clear()
        os.close(self._here)
        self._here = os.open("/", _PASS)

    def _real(self) -> Path:
        return Path("/", *self._names, self._at)

    def _is_on_the_way(self) -> bool:
        """Whether the name that was looked at last is below a root, or on the way to one."""
        real = self._real()
        return any(real.is_relative_to(root) or root.is_relative_to(real) for root in self._roots)


def _is_below_roots(real: Path, roots: tuple[Path, ...]) -> bool:
    return any(real.is_relative_to(root) for root in roots)


def _locate_by_path(
    whole: Path, roots: tuple[Path, ...], make: bool, is_protected: Callable[[Path], bool]
) -> Place:
    try:
        real = whole.resolve()
    except RuntimeError:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(whole)) from None
    if not _is_below_roots(real, roots):
        raise Outside(real)
    if is_protected(real):
        raise Protected(real)
    if make:
        real.parent.mkdir(parents=True, exist_ok=True)
    return Place(real, real.name, None)


# --- Walking ----------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    parts: tuple[str, ...]
    """Its path below the directory that is walked."""
    kind: Literal["file", "directory", "link", "other"]
    size: int | None
    """In bytes, of a file that was still there to ask."""

    @property
    def is_too_deep(self) -> bool:
        """Whether it is a directory so far down that `walk_directory` does not look into it."""
        return self.kind == "directory" and len(self.parts) >= MAX_LEVELS


def walk_directory(place: Place, descend: Callable[[Entry], bool]) -> Iterator[Entry]:
    """What is in a directory, and in those below it that `descend` chooses, sorted by path.

    Links are not followed. OSError where the directory itself cannot be read; those below it that cannot be
    read are passed over.
    """
    pending = _list_directory(place, ())
    while pending:
        entry = pending.pop()
        yield entry
        if entry.kind == "directory" and not entry.is_too_deep and descend(entry):
            with suppress(OSError):
                pending += _list_directory(place, entry.parts)


def _list_directory(place: Place, parts: tuple[str, ...]) -> list[Entry]:
    """Last name first, since the last one of a list is the next one to be taken from it."""
    with place.directory(parts) as directory, os.scandir(directory) as entries:
        found = [_directory_entry(entry, parts) for entry in entries]
    return sorted(found, key=lambda entry: entry.parts[-1], reverse=True)


def _directory_entry(entry: "os.DirEntry[str]", above: tuple[str, ...]) -> Entry:
    parts = (*above, entry.name)
    if entry.is_symlink():
        return Entry(parts, "link", None)
    if entry.is_dir(follow_symlinks=False):
        return Entry(parts, "directory", None)
    if not entry.is_file(follow_symlinks=False):
        return Entry(parts, "other", None)
    try:
        return Entry(parts, "file", entry.stat(follow_symlinks=False).st_size)
    except OSError:  # deleted in the meantime
        return Entry(parts, "file", None)
