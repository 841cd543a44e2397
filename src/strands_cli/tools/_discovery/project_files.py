"""The files that a project is made of: whether they changed, what their code says, and what they import."""

import ast
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

from strands_cli.documents.files import is_directory
from strands_cli.documents.shared_servers import SHARED_SERVERS_NAME
from strands_cli.errors import Issue
from strands_cli.toolkit.info import ToolInfo
from strands_cli.tools._discovery.scan import FileStamps, Stamp
from strands_cli.tools._discovery.static import parse_source_file

MAX_ENTRIES = 10_000
"""How many files and directories of a project are looked at. `tools/` and `plugins/` come first."""
_SUFFIXES = (".py", ".yaml", ".yml", ".json", ".toml")
_SKIPPED = frozenset({"__pycache__", "node_modules"})

_Imports = tuple[tuple[int, str], ...]
"""Dotted names, each with the number of dots before it."""


def project_stamps(project: Path, paths: Iterable[str]) -> FileStamps:
    """The stamps of the files that a project is made of, and of `paths`."""
    found, entered, left = FileStamps(), set[tuple[int, int]](), MAX_ENTRIES
    for path in (*paths, str(project / SHARED_SERVERS_NAME)):
        found[path]
    plugins, tools = str(project / "plugins"), str(project / "tools")
    directories = deque([plugins, tools, str(project)])
    while directories and left > 0:
        directory = directories.popleft()
        try:
            status = os.stat(directory)
            entries = [*os.scandir(directory)]
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in entered or any(one.name == "pyvenv.cfg" for one in entries):
            continue  # seen already, by way of a link; or an environment with its packages
        entered.add((status.st_dev, status.st_ino))
        left -= len(entries)
        takes_all = f"{directory}{os.sep}".startswith(f"{plugins}{os.sep}")
        follows = takes_all or f"{directory}{os.sep}".startswith(f"{tools}{os.sep}")
        for entry in entries:
            if entry.name[0] == "." or entry.name in _SKIPPED:
                continue
            if is_directory(entry) and (follows or not entry.is_symlink()):
                directories.append(entry.path)
            elif takes_all or entry.name.endswith(_SUFFIXES):
                found[entry.path]
    found.is_complete = not directories
    return found


class PythonSources:
    """What Python files tell the interpreter, and which modules of the project they import."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Stamp, int, _Imports]] = {}

    def hashes_of(self, info: ToolInfo, project: Path, files: FileStamps) -> tuple[int, int]:
        """Hashes of the code and of the stamps of a tool's files.

        These are its module and all that it imports of the project; or the files of its plugin.
        """
        if len(self._read) > len(files):
            self._read = {file: facts for file, facts in self._read.items() if file in files}
        if info.manifest:
            place = f"{os.path.dirname(info.manifest)}{os.sep}"
            stamps = _hash_of(sorted(item for item in files.items() if item[0].startswith(place)))
            return stamps, stamps
        seen: dict[str, int] = {}
        queue = [info.file]
        while queue:
            file = queue.pop()
            if file in files and file not in seen:
                seen[file], imports = self._facts_of(file, files[file])
                queue += _imported_files(file, project, imports)
        return _hash_of(sorted(seen.values())), _hash_of([(file, files[file]) for file in sorted(seen)])

    def _facts_of(self, file: str, stamp: Stamp) -> tuple[int, _Imports]:
        known = self._read.get(file)
        if known is None or known[0] != stamp:
            known = self._read[file] = (stamp, *_read_source(file, stamp))
        return known[1:]


def _read_source(file: str, stamp: Stamp) -> tuple[int, _Imports]:
    """A hash of a file's code, without comments and docstrings; and what it imports."""
    tree = parse_source_file(Path(file))
    if isinstance(tree, Issue):
        return _hash_of(stamp), ()
    imports: dict[tuple[int, str], None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= dict.fromkeys((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = f"{node.module}." if node.module else ""
            imports |= dict.fromkeys((node.level, f"{module}{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            _drop_docstring(node)
    return _hash_of(ast.dump(tree)), tuple(imports)


def _drop_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        del node.body[0]


def _imported_files(file: str, project: Path, imports: _Imports) -> Iterator[str]:
    """The files that a module's imports may run: those of other modules, and of all packages around them.

    The last part of a name may be something in a module, so not all of these files exist.
    """
    here = os.path.dirname(file)
    package = os.path.dirname(here) if os.path.basename(file) == "__init__.py" else here
    yield f"{package}{os.sep}__init__.py"
    for level, name in imports:
        base = here if level else str(project)
        for _ in range(level - 1):
            base = os.path.dirname(base)
        for part in name.split("."):
            base = f"{base}{os.sep}{part}"
            yield from (f"{base}.py", f"{base}{os.sep}__init__.py")


def _hash_of(value: object) -> int:
    return crc32(repr(value).encode("utf-8", "surrogatepass"))
