"""What is known of a server without starting it: the tools that the user accepted, and how they differ now.

The first listing of a server is accepted with the server itself. From then on, a change of what it says about
its tools blocks it, until the user has seen the difference: `strands mcp trust`.
"""

import os
from binascii import crc32  # hashlib would cost a listing more than the records do
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.documents.files import read_regular_file, write_file
from strands_cli.errors import ArtifactError
from strands_cli.settings import data_directory, foreign_owner
from strands_cli.types.servers import DeclaredServer

MAX_BYTES = 50_000_000


class ServerRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The accepted tools of a server."""

    server: str
    scope: str
    accepted: tuple[dict[str, Any], ...] = ()
    changed: tuple[dict[str, Any], ...] | None = None
    """What it offers now, where that is not what was accepted: it is blocked."""
    version: str = ""
    title: str = ""
    """What the server calls itself."""
    protocol: str = ""


def record_file(declared: DeclaredServer) -> Path:
    """Where the record of a server is; RuntimeError where there is no home directory."""
    scope = os.fsencode(declared.scope)
    return data_directory() / "mcp" / f"{declared.name}-{crc32(scope):08x}-{len(scope)}.json"


def read_record(declared: DeclaredServer) -> ServerRecord | None:
    """None where the server was never listed.

    A record that cannot be used blocks the server: the next listing must not be taken for the first.
    """
    unusable = ServerRecord(server=declared.name, scope=declared.scope, changed=())
    try:
        file = record_file(declared)
        data = read_regular_file(file, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError, RuntimeError):
        return None
    except OSError:
        return unusable
    try:
        record = msgspec.json.decode(data, type=ServerRecord)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return unusable
    is_own = (record.scope, record.server) == (declared.scope, declared.name)
    return record if is_own and foreign_owner((file,), os.environ) is None else unusable


def write_record(declared: DeclaredServer, record: ServerRecord) -> None:
    """ArtifactError where it cannot be written: a decision that is not kept must not look like one."""
    try:
        file = record_file(declared)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_file(file, msgspec.json.encode(record))
    except RuntimeError:
        raise ArtifactError(
            "There is no home directory for what you accept.", hint="Set XDG_DATA_HOME."
        ) from None
    except OSError as error:
        reason = f"The tools of {declared.name} cannot be recorded: {error.strerror}: {error.filename}."
        raise ArtifactError(reason, hint="Make the directory writable, or set XDG_DATA_HOME.") from None


def remove_record(declared: DeclaredServer) -> None:
    with suppress(OSError, RuntimeError):
        record_file(declared).unlink()
