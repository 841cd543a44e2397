"""What the host, its helpers and confined processes say to each other.

Used on all sides, so it imports nothing of ours. The host, the zygote, the spawner, its keepers and runners
trust each other: they exchange marshalled values, one to a packet, together with descriptors. A process that
runs confined code is not believed: it speaks in frames, a letter, four bytes of length and the content, of
which nothing is ever unmarshalled.
"""

import _socket
import array
import marshal
import os
import struct
from typing import Any

SYSTEM_DIRECTORIES = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"
)  # fmt: skip
"""What every executable may read: programs and their libraries."""

_LONGEST_PACKET = 1 << 18
_MAX_DESCRIPTORS = 4


def send_value(socket: _socket.socket, value: Any, *descriptors: int, flags: int = 0) -> None:
    """As `socket.send_fds`, which in Python 3.11 forgets the flags and so waits where it must not."""
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    socket.sendmsg([marshal.dumps(value)], rights, _socket.MSG_NOSIGNAL | flags)


def receive_value(socket: _socket.socket, flags: int = 0) -> tuple[Any, list[int]]:
    """The next value and the descriptors that came with it; None where the other side has gone."""
    descriptors = array.array("i")
    space = _socket.CMSG_SPACE(_MAX_DESCRIPTORS * descriptors.itemsize)
    data, ancillary, _, _ = socket.recvmsg(_LONGEST_PACKET, space, _socket.MSG_CMSG_CLOEXEC | flags)
    for level, kind, content in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) // descriptors.itemsize * descriptors.itemsize])
    return marshal.loads(data) if data else None, list(descriptors)


def take_standard_input() -> _socket.socket:
    """The socket that the host gave to this process as its standard input, which then leads nowhere."""
    control = _socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    return control


# --- Frames ------------------------------------------------------------------------------------------------

HEADER = struct.Struct(">cI")

# From the host: files, then the code to run; later the answers of tools.
FILE, CODE, ANSWER = b"F", b"C", b"A"
# From the confined process: what it prints, the files that it wrote, calls of tools, and at last the outcome.
STDOUT, STDERR, CALL, LATE, OUTCOME = b"O", b"E", b"T", b"L", b"V"
# From a process that could not confine itself: the reason. It runs no code.
REFUSED = b"X"

_NAME_BYTES = 2


def encode_frame(kind: bytes, content: bytes) -> bytes:
    return HEADER.pack(kind, len(content)) + content


def file_content(name: str, data: bytes) -> bytes:
    encoded = name.encode("utf-8", "replace")
    return len(encoded).to_bytes(_NAME_BYTES, "big") + encoded + data


def split_file(content: bytes) -> tuple[str, bytes]:
    """A file's name and its bytes; ValueError where the content is not one."""
    end = _NAME_BYTES + int.from_bytes(content[:_NAME_BYTES], "big")
    if len(content) < end:
        raise ValueError("a file without a whole name")
    return content[_NAME_BYTES:end].decode(), content[end:]


def read_frame(descriptor: int) -> tuple[bytes, bytes]:
    """The next frame from a blocking descriptor; EOFError at its end."""
    kind, length = HEADER.unpack(_read_exactly(descriptor, HEADER.size))
    return kind, _read_exactly(descriptor, length)


def write_frame(descriptor: int, kind: bytes, content: bytes) -> None:
    rest = memoryview(encode_frame(kind, content))
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read_exactly(descriptor: int, length: int) -> bytes:
    parts = []
    while length:
        part = os.read(descriptor, min(length, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
