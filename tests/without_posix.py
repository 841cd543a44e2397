"""Runs the `strands` command, or imports every module, in an interpreter that has only what Windows has.

    python -m tests.without_posix plugin list
    python -m tests.without_posix import

The libraries are imported before, since theirs for Windows are not installed here.
"""

import asyncio  # noqa: F401 - on Windows it is another one
import ctypes
import importlib
import os
import pkgutil
import select
import signal
import socket
import sys
from importlib.abc import MetaPathFinder
from typing import Any

_LIBRARIES = ("click", "httpx", "jinja2", "mcp", "prompt_toolkit.shortcuts", "rich.console", "strands")
_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
_ATTRIBUTES: dict[Any, str] = {
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_PATH fchmod fchown fork getegid geteuid getgid getpgid getuid "
    "killpg mkfifo pipe2 register_at_fork setsid statvfs sysconf wait4 WNOHANG",
    select: "poll",  # asyncio uses the other one here
    socket: "SOCK_SEQPACKET",
}
_SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
_IN_LINUX_HELPERS = ("inside.", "spawner.", "landlock", "namespaces")
"""Parts of the sandbox that run in its helper processes, which only Linux has."""


class _Hidden(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name in _MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide_posix() -> None:
    is_quick = sys.argv[1] in ("plugin", "tool", "list-tools")
    for name in _LIBRARIES[:1] if is_quick else _LIBRARIES:
        importlib.import_module(name)
    for name in _MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Hidden())
    for owner, names in _ATTRIBUTES.items():
        for name in names.split():
            if hasattr(owner, name):
                delattr(owner, name)
    for name in [*vars(signal)]:
        if name.startswith("SIG") and not name.startswith("SIG_") and name not in _SIGNALS:
            delattr(signal, name)
    real = ctypes.CDLL

    def load_library(name: str | None, *arguments: Any, **options: Any) -> Any:
        if name is None:
            raise TypeError("argument of type 'NoneType' is not iterable")
        return real(name, *arguments, **options)

    ctypes.CDLL = load_library  # type: ignore[assignment, misc]
    sys.platform = "win32"


def import_everything() -> None:
    import strands_cli

    for module in pkgutil.walk_packages(strands_cli.__path__, "strands_cli."):
        inside = module.name.removeprefix("strands_cli.sandbox.")
        if not module.name.endswith("__main__") and not inside.startswith(_IN_LINUX_HELPERS):
            importlib.import_module(module.name)


if __name__ == "__main__":
    hide_posix()
    if sys.argv[1:] == ["import"]:
        import_everything()
    else:
        from strands_cli.__main__ import main

        sys.exit(main())
