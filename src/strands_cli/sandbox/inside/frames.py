"""What the host, the zygote and a confined process say to each other.

Used on all sides, so it imports nothing of ours. A frame is a letter, four bytes of length and the content.
Nothing that a confined process sends is ever unpickled.
"""

import os
import struct

HEADER = struct.Struct(">cI")

# From the host: files, then the code to run; later the answers of tools.
FILE, CODE, ANSWER = b"F", b"C", b"A"
# From the confined process: what it prints, the files that it wrote, calls of tools, and at last the outcome.
STDOUT, STDERR, CALL, LATE, OUTCOME = b"O", b"E", b"T", b"L", b"V"
# From a process that could not confine itself: the reason. It runs no code.
REFUSED = b"X"

# From the host to the zygote: fork, kill, set the time that is left.
START, KILL, ARM = b"S", b"K", b"A"
REQUEST = struct.Struct(">cQd")
"""A letter, the number of the call, when it is to be killed on the monotonic clock (0: not at all). START
goes on with the limits as JSON, and brings the channel of the child and where to write its end."""
STATUS = struct.Struct(">i?")
"""How a child ended: its exit code, or the signal below zero; whether that was because its time was over."""

_NAME_BYTES = 2


def frame(kind: bytes, content: bytes) -> bytes:
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
    rest = memoryview(frame(kind, content))
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
