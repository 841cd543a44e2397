"""What a hostile plugin is, in the words of a table.

In sources, `@outside@`, `@workspace@`, `@plugin@`, `@home@`, `@port@`, `@socket@`, `@abstract@`, `@victim@`, `@host@`
and `@mark@` stand for what the test has prepared. A program that got what it wanted prints ESCAPED.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.plugins.makers import BASH, NODE

PYTHON = "#!/usr/bin/python3\n"
"""The system's: an ordinary user may run it too."""

ANSWER = "answer"
"""In the place of an error code: the call is answered, and that does no harm."""

TRY = """
import ctypes, errno, json, os, resource, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act, *given):
    try:
        result = act(*given)
    except (OSError, ValueError) as error:
        print(name, "refused", error)
        return None
    if isinstance(result, int) and result == -1:
        print(name, "refused", errno.errorcode.get(ctypes.get_errno()))
        return None
    print("ESCAPED", name, result)
    return result
"""


@dataclass(frozen=True)
class Hostile:
    name: str
    source: str
    codes: tuple[str, ...] = (ANSWER,)
    """What each call may come to: error codes, or ANSWER."""
    keys: dict[str, Any] = field(default_factory=dict)
    """What its manifest declares besides."""
    seconds: float = 5.0
    """The limit near which every call has to be answered."""
    hint: str = ""
    """What the error's hint has to name."""
    says: str = ""
    """What has to be in the answer or the error."""
    input: dict[str, Any] = field(default_factory=dict)
    calls: int = 1
    """How often it is called, one after the other."""
    links: dict[str, str] = field(default_factory=dict)
    """Symbolic links that lie in the project, and where they lead."""
    needs: tuple[str, ...] = ()
    only_in_room: bool = False
    """Whether only a mount namespace stops it; elsewhere it does no harm beyond its limits."""


def _declared(options: dict[str, Any]) -> dict[str, Any]:
    """Splits off what is a key of the manifest."""
    known = Hostile.__dataclass_fields__
    keys = {name: options.pop(name) for name in list(options) if name not in known}
    if isinstance(codes := options.get("codes"), str):
        options["codes"] = tuple(codes.split())
    return {**options, "keys": keys}


def sh(name: str, source: str, **options: Any) -> Hostile:
    return Hostile(name, f"{BASH}{source}\n", **_declared(options), needs=("bash",))


def python(name: str, source: str, **options: Any) -> Hostile:
    return Hostile(name, f"{PYTHON}{TRY}{source}\n", **_declared(options), needs=(PYTHON[2:].strip(),))


def node(name: str, source: str, **options: Any) -> Hostile:
    return Hostile(name, f"{NODE}{source}\n", **_declared(options), needs=("node",))


def c(name: str, source: str, **options: Any) -> Hostile:
    headers = "stdio stdlib unistd fcntl signal string sched errno sys/wait sys/mman sys/stat sys/syscall"
    includes = "".join(f"#include <{header}.h>\n" for header in headers.split())
    return Hostile(name, f"{includes}{source}\n", **_declared(options), needs=("gcc",))


def worker(name: str, source: str, **options: Any) -> Hostile:
    """One whose `serve(message)` is called with each message; `say` sends one."""
    loop = """
def say(**message):
    print(json.dumps(message), flush=True)
"""
    serve = "\nfor line in sys.stdin:\n    serve(json.loads(line))\n"
    options.setdefault("mode", "worker")
    return python(name, f"{loop}{source}{serve}", **options)
