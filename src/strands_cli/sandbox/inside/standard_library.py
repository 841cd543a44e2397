"""The standard library held in memory, so that a confined process can import it without touching a file.

Runs in the zygote, so it imports nothing of ours. Modules are read but not executed, and extension modules
are mapped but not initialised: both happen in the process that imports them. The loader finds a mapped
extension by its path without asking the kernel.
"""

# ruff: noqa: PTH110, PTH116, PTH120, PTH208 - pathlib is too heavy for a cold start

import ctypes
import marshal
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import MAGIC_NUMBER
from os import scandir as _scandir  # the zygote replaces os.scandir
from types import CodeType, ModuleType

_LEFT_OUT_NAMES = (
    "__pycache__ ctypes curses dbm distutils ensurepip idlelib lib-dynload lib2to3 msilib pydoc_data "
    "site-packages dist-packages test tests tkinter turtle turtledemo venv antigravity this"
)
_LEFT_OUT = frozenset(_LEFT_OUT_NAMES.split())
_EXTENSION_NAMES = "_test _xx xx _ctypes _tkinter _curses _dbm _gdbm readline nis"
_EXTENSIONS_LEFT_OUT = tuple(_EXTENSION_NAMES.split())
_PYC_HEADER_BYTES = 16
_SOCKETLESS_LOOP = "_socketless_loop"


class MemoryLibrary:
    """A finder and loader of modules whose code is already here. Put in front of `sys.meta_path`."""

    def __init__(self) -> None:
        self._modules: dict[str, tuple[bool, bytes, str]] = {}
        self._extensions = dict(_mapped_extensions())
        tag = sys.implementation.cache_tag
        for name, is_package, source in _module_sources(os.path.dirname(os.__file__), ""):
            folder, _, base = source.rpartition("/")
            code = _current_bytecode(f"{folder}/__pycache__/{base[:-3]}.{tag}.pyc", source)
            self._modules[name] = (is_package, code or _read_file(source), source)
        # Whoever imports asyncio gets an event loop that can do without descriptors.
        loop = _read_file(f"{os.path.dirname(__file__)}/socketless_loop.py")
        self._modules[_SOCKETLESS_LOOP] = (False, loop, "")

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if found := self._modules.get(name):
            spec = ModuleSpec(name, self, origin=found[2], is_package=found[0])  # type: ignore[arg-type]
            spec.has_location = True
            return spec
        if file := self._extensions.get(name):
            return ModuleSpec(name, ExtensionFileLoader(name, file), origin=file)
        return None

    def create_module(self, _spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)  # the standard library's own code
        if module.__name__ == "asyncio":
            import_module(_SOCKETLESS_LOOP).install_socketless_loop()
        elif module.__name__ == "tempfile":
            module.__dict__["tempdir"] = "/tmp"  # it would try to find one with real files

    def get_code(self, name: str) -> CodeType:
        _, code, source = self._modules[name]
        if code.startswith(MAGIC_NUMBER):
            unmarshalled: CodeType = marshal.loads(memoryview(code)[_PYC_HEADER_BYTES:])
            return unmarshalled
        return compile(code, source, "exec", dont_inherit=True)

    def is_package(self, name: str) -> bool:
        return self._modules[name][0]


def _mapped_extensions() -> Iterator[tuple[str, str]]:
    """The extension modules with their files; one that cannot be mapped here is left out."""
    folder = next((path for path in sys.path if path.endswith("lib-dynload")), "")
    suffix = EXTENSION_SUFFIXES[0]
    for file in os.listdir(folder) if folder else ():
        name = file.removesuffix(suffix)
        if name == file or name.startswith(_EXTENSIONS_LEFT_OUT):
            continue
        try:
            ctypes.CDLL(f"{folder}/{file}")
        except OSError:
            continue
        yield name, f"{folder}/{file}"


def _module_sources(folder: str, prefix: str) -> Iterator[tuple[str, bool, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.removesuffix(".py")
            if name in _LEFT_OUT or name == "__init__":
                continue
            if name != entry.name:
                yield prefix + name, False, entry.path
            elif "." not in name and os.path.exists(f"{entry.path}/__init__.py"):
                yield prefix + name, True, f"{entry.path}/__init__.py"
                yield from _module_sources(entry.path, f"{prefix}{name}.")


def _current_bytecode(file: str, source: str) -> bytes | None:
    """The compiled form, unless it is missing or belongs to another version of the source."""
    try:
        code = _read_file(file)
    except OSError:
        return None
    if not code.startswith(MAGIC_NUMBER):
        return None
    if int.from_bytes(code[4:8], "little"):
        return code  # bound to the source's hash: distributions that write these keep both in step
    stat = os.stat(source)
    stamp = int.from_bytes(code[8:12], "little"), int.from_bytes(code[12:16], "little")
    return code if stamp == (int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF) else None


def read_zones(directory: str = "/usr/share/zoneinfo") -> dict[str, bytes]:
    """The time zones of this machine by path, for `zoneinfo`."""
    zones: dict[str, bytes] = {}
    with suppress(OSError), _scandir(directory) as entries:
        for entry in entries:
            if not entry.is_dir():
                zones[entry.path] = _read_file(entry.path)
            elif entry.name not in ("posix", "right"):
                zones |= read_zones(entry.path)
    return zones


def _read_file(file: str) -> bytes:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
