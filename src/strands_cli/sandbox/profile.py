"""What a confined process may do, and the layers that hold it to that."""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

MEGABYTE = 1024 * 1024

Layer = Literal["seccomp", "landlock", "namespaces", "rlimits", "uid"]

ALL_LAYERS: frozenset[Layer] = frozenset({"seccomp", "landlock", "namespaces", "rlimits", "uid"})
"""Each holds what it can hold by itself, so that one that fails does not open the door. Where the self-test
finds that too little is left, code does not run; `no_new_privs` is never left out."""

LAYER_REMEDIES = {
    "seccomp": "install libseccomp (Debian: libseccomp2, Fedora: libseccomp) and the package pyseccomp",
    "landlock": "needs Linux 5.13 or newer with landlock among the modules of the kernel parameter lsm=",
    "namespaces": "needs root with CAP_SYS_ADMIN, or user namespaces for ordinary users "
    "(user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0)",
    "uid": "needs root, which becomes nobody before any code runs",
}
"""What a layer that is missing would need."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one confined process and of everything that it starts."""

    seconds: float = 5.0
    """Wall time; at its end the whole process tree is killed."""
    cpu_seconds: float = 60.0
    memory_bytes: int = 256 * MEGABYTE
    """Memory that the process may take. For Python code: beyond what the interpreter itself needs."""
    address_bytes: int = 0
    """Address space, for programs that reserve much more than they use; 0 leaves it to `memory_bytes`."""
    processes: int = 32
    """Processes and threads, the first one included."""
    open_files: int = 32
    file_bytes: int = 0
    """The largest file that may be written."""
    output_bytes: int = 1_000_000
    """What is kept of each output stream."""
    reads: tuple[str, ...] = ()
    """Directories and files that may be read and executed. Real paths: one that holds a link is refused."""
    writes: tuple[str, ...] = ()
    """Directories and files that may be read and written, as real paths."""
    kept: tuple[str, ...] = ()
    """Real paths below `writes` that stay read-only."""
    links: tuple[tuple[str, str], ...] = ()
    """Links that a room needs to have, each with where it leads: elsewhere they are those of the host."""
    network: bool = False
    environment: Mapping[str, str] = {}
    """The whole environment: nothing is inherited."""

    def rlimits(self) -> dict[str, int]:
        """For `namespaces.apply_limits`; NPROC in the child only."""
        return {
            "AS": self.address_bytes or self.memory_bytes,
            "CPU": math.ceil(self.cpu_seconds),
            "FSIZE": self.file_bytes,
            "NOFILE": self.open_files,
            "NPROC": self.processes,
            "CORE": 0,
        }


PYTHON_PROFILE = Profile()
"""For Python code: no files, no network, nothing of the environment."""

EXECUTABLE_PROFILE = Profile(
    seconds=30.0,
    memory_bytes=512 * MEGABYTE,
    address_bytes=4096 * MEGABYTE,
    processes=64,
    open_files=128,
    file_bytes=16 * MEGABYTE,
)
"""For executables: what real tools need. Directories, environment and network come from their manifest."""
