"""A room: what a confined executable sees of the file system, where mount namespaces can be had.

The root is an empty tmpfs into which system directories, the paths that the profile names and little else are
bound; what is not there cannot be read, listed or guessed. `mount_system` makes all that is the same for
every call, before there is one; `mount_call_paths` adds what one call may see and closes the door to the
host's root.
"""

import ctypes
import errno
import os
import stat
import struct

from strands_cli.sandbox.messages import SYSTEM_DIRECTORIES
from strands_cli.sandbox.namespaces import LIBC, check_result

_SETTINGS = (
    # Programs and their libraries.
    "alternatives ld.so.cache ld.so.conf ld.so.conf.d ld-musl-x86_64.path java jvm.conf ImageMagick-6 "
    "ImageMagick-7 fonts perl python3 R php mime.types magic terminfo "
    # Names, places and languages.
    "passwd group nsswitch.conf localtime timezone locale.alias locale.conf os-release lsb-release "
    "debian_version inputrc bash.bashrc profile gitconfig papersize "
    # The network, for those that may use it.
    "hosts host.conf gai.conf resolv.conf services protocols ssl/certs ssl/openssl.cnf ca-certificates "
    "pki/tls/certs pki/ca-trust pki/tls/openssl.cnf crypto-policies"
)
SETTINGS = [f"/etc/{name}" for name in _SETTINGS.split()]
"""All that is seen of /etc: keys and passwords lie there too, and root could read them."""
DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
SCRATCH = "/tmp"
HOME, MEMORY, TEMPORARY = (f"{SCRATCH}/{name}" for name in ("home", "shm", "tmp"))
"""`TEMPORARY` is for calls that see a path below `SCRATCH`, which then cannot be written itself."""

_HOST = "/.host"
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_MOUNT_SETATTR, _AT_RECURSIVE = 442, 0x8000
_OPENAT2, _RESOLVE_NO_LINKS = 437, 0x04
_JUST_THIS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def mount_system() -> None:
    """Moves this process, in mount and PID namespaces of its own, to a root with the system's parts only."""
    _mount("none", "/", None, _REC | _PRIVATE)
    base = "/tmp" if os.path.isdir("/tmp") else "/usr"
    _mount("tmpfs", base, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    os.mkdir(base + _HOST)
    check_result(LIBC.pivot_root(base.encode(), (base + _HOST).encode()), "pivot_root")
    os.chdir("/")
    for path in (*SYSTEM_DIRECTORIES, *SETTINGS):
        _mount_system_path(path)
    for device in DEVICES:
        _bind_mount(device, 0)
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{target}", f"/dev/{name}")
    os.symlink(MEMORY, "/dev/shm")
    os.mkdir("/proc")
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    os.mkdir(SCRATCH)
    _mount("tmpfs", SCRATCH, "tmpfs", _NOSUID | _NODEV, "mode=1777")
    for place in (HOME, MEMORY, TEMPORARY):
        os.mkdir(place)


def mount_call_paths(
    writable: dict[str, bool], links: list[tuple[str, str]], scratch_bytes: int
) -> dict[str, int]:
    """Adds what one call may see, each path with whether it may be written there; then there is no way to the
    host's root. Descriptors of what was mounted; missing paths stay missing.

    A path is opened once, without following a link, and what was opened is mounted.
    """
    opened = open_call_paths([path for path in writable if not is_path_below(path, "/proc", "/dev")], _HOST)
    mounted = {}
    for path, source in sorted(opened.items()):
        mounted[path] = _bind_opened(source, path, (0 if writable[path] else _RDONLY) | _NOSUID | _NODEV)
    for path, target in links:
        if not os.path.lexists(path):
            os.makedirs(path.rpartition("/")[0], exist_ok=True)
            os.symlink(target, path)
    inodes = max(1024, scratch_bytes // 4096)
    _mount("tmpfs", SCRATCH, None, _REMOUNT | _NOSUID | _NODEV, f"size={scratch_bytes},nr_inodes={inodes}")
    _mount("proc", "/proc", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | _NOEXEC)
    check_result(LIBC.umount2(_HOST.encode(), _MNT_DETACH), "umount2")
    os.rmdir(_HOST)
    _mount("tmpfs", "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    return mounted


def open_call_paths(paths: list[str], top: str = "/") -> dict[str, int]:
    """Descriptors of those that exist, from `top` on; OSError (ELOOP) where there is a link in one.

    The host has followed the links that it may follow: one that is there now was put there since.
    """
    opened = {}
    for path in paths:
        try:
            opened[path] = open_without_links(path, top)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise
    return opened


def open_without_links(path: str, top: str = "/") -> int:
    """A descriptor of what stands at an absolute path below `top`; a link anywhere in it is an error."""
    here = os.open(top, _JUST_THIS)
    how = struct.pack("QQQ", _JUST_THIS, 0, _RESOLVE_NO_LINKS)
    whole = os.fsencode(path).lstrip(b"/") or b"."
    opened = LIBC.syscall(ctypes.c_long(_OPENAT2), here, whole, how, ctypes.c_size_t(len(how)))
    if opened >= 0 and not stat.S_ISLNK(os.fstat(opened).st_mode):
        os.close(here)
        return int(opened)
    for name in whole.split(b"/"):  # an old kernel, or something is wrong and the error will tell where
        try:
            inner = os.open(name, _JUST_THIS, dir_fd=here)
        finally:
            os.close(here)
        here = inner
        if stat.S_ISLNK(os.fstat(here).st_mode):
            os.close(here)
            raise OSError(errno.ELOOP, f"{os.fsdecode(name)} is a link", path)
    return here


def is_path_below(path: str, *places: str) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _mount_system_path(path: str) -> None:
    """A part of the system, read-only; a link stays one where it leads to such a part."""
    source = _HOST + path
    try:
        target = os.readlink(source)
    except FileNotFoundError:
        return
    except OSError:
        _bind_mount(path, _RDONLY | _NOSUID | _NODEV)
        return
    parent = path.rpartition("/")[0]
    whole = os.path.normpath(target if target.startswith("/") else f"{parent}/{target}")
    if is_path_below(whole, "/run", "/var", "/mnt"):
        _copy_linked_file(whole, path)
        return
    os.makedirs(parent or "/", exist_ok=True)
    os.symlink(target, path)


def _copy_linked_file(source: str, path: str) -> None:
    """What a link of the host leads to, at the link's own place."""
    try:
        with open(_HOST + source, "rb") as file:
            text = file.read(1 << 16)
    except OSError:
        return
    copy = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(copy, text)
    os.close(copy)


def _bind_mount(path: str, flags: int) -> None:
    source = _HOST + path
    try:
        is_directory = os.stat(source).st_mode & 0o170000 == 0o040000
    except OSError:
        return
    _make_mount_point(path, is_directory=is_directory)
    _mount(source, path, None, _BIND | _REC)
    if flags:
        _set_mount_flags(path, flags)


def _make_mount_point(path: str, *, is_directory: bool) -> None:
    if os.path.exists(path):
        return
    os.makedirs(path if is_directory else path.rpartition("/")[0] or "/", exist_ok=True)
    if not is_directory:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))


def _bind_opened(source: int, path: str, flags: int) -> int:
    """Mounts what a descriptor has opened, and gives a descriptor of it as it is seen at its place.

    Neither end is looked up by a name that somebody could have made a link in the meantime.
    """
    found = os.fstat(source)
    _make_mount_point(path, is_directory=stat.S_ISDIR(found.st_mode))
    target = open_without_links(path)
    _mount(f"/proc/self/fd/{source}", f"/proc/self/fd/{target}", None, _BIND | _REC)
    mounted = open_without_links(path)
    if not os.path.samestat(found, os.fstat(mounted)):
        raise OSError(errno.ESTALE, "it was replaced meanwhile", path)
    _set_mount_flags(f"/proc/self/fd/{mounted}", flags)  # an error where this is not the mount
    os.close(source)
    os.close(target)
    return mounted


def _set_mount_flags(path: str, flags: int) -> None:
    """For a mount and all that is mounted below it; on kernels before 5.12 for the mount alone."""
    attributes = (ctypes.c_uint64 * 4)(flags)  # those to set; none to clear, no propagation, no namespace
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    here = ctypes.c_int(-100)
    done = LIBC.syscall(
        ctypes.c_long(_MOUNT_SETATTR), here, path.encode(), _AT_RECURSIVE, ctypes.byref(attributes), size
    )
    if done:
        _mount("none", path, None, _REMOUNT | _BIND | flags)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    done = LIBC.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    check_result(done, f"mount {target}")
