"""The files of a project that a package of its tools needs, and the packages that it requires.

They are found by reading imports and texts. Nothing of the project is run.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import distribution, packages_distributions
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name
from packaging.version import Version

from strands_cli import __version__
from strands_cli.documents.files import read_regular_file, unread_reason
from strands_cli.errors import Issue, SpecError, UsageError
from strands_cli.toolkit.info import ToolInfo, required_packages
from strands_cli.tools._discovery.static import parse_source_file

_MAX_FILE_BYTES = 20_000_000
OWN_MODULES = ("strands_cli", "strands")
"""Modules that come with strands-cli."""
_SECRET_FILE = re.compile(
    r"\.(env|pem|key|p12|pfx|jks|kdbx|keystore)(\.|$)|(^|[\W_])(id_(rsa|dsa|ecdsa|ed25519)|secrets?|credentials?"
    r"|passwords?|passwd|api[\W_]?keys?|service[\W_]account)([\W_]|$)",
    re.IGNORECASE,
)
"""Names of files that hold keys and passwords, as a rule."""


class PackageSources:
    """The files of tools and of all that they import from the project, and the packages they need."""

    def __init__(self, project: Path, module: str) -> None:
        self.issues: list[Issue] = []
        self.notes: list[str] = []
        self.dependencies = [f"strands-cli>={'.'.join(__version__.split('.')[:2])}"]
        self.modules = {module: f"src/{module}"}
        """The top-level modules and packages, and where they are."""
        self.entry_points: dict[str, str] = {}
        self.left_out: list[str] = []
        """The files beside the tools that are not shipped, as seen from the project."""
        self._project, self._tools, self._module = project, project / "tools", module
        self._targets: dict[Path, str] = {}
        self._data: dict[Path, str] = {}
        self._words: dict[str, tuple[Path, int]] = {}
        """The texts in modules, any of which may name a data file, with their places."""
        self._beside = {file: file.name for file in project.glob("LICEN[CS]E*") if file.is_file()}
        """The licence and the tests."""
        self._installed = packages_distributions()
        self._required: dict[str, str] = {}

    def add_tools(self, infos: list[ToolInfo], every: list[ToolInfo]) -> None:
        """Adds tools with all that they import; `every` has all tools of the project."""
        for info in infos:
            for name, versions in required_packages(info.requires).items():
                versions = versions.strip("*")
                known = self._required.get(canonicalize_name(name), "")
                self._required[canonicalize_name(name)] = ",".join(
                    filter(None, dict.fromkeys([known, versions]))
                )
        for info in infos:
            file = Path(info.file)
            directory = family_directory(info, self._project)
            if directory:
                self._add_package(self._tools / directory, f"{self._module}/{directory}")
            else:
                beside = [one for one in self._tools.iterdir() if one.is_file() and one.name[0] != "."]
                self._data |= {one: f"src/{self._module}/{one.name}" for one in beside if one.suffix != ".py"}
            self._add_file(file)
            self._add_entry_point(info, directory, [one for one in every if one not in infos])
            for stem in (file.stem, info.id):
                test = self._project / "tests" / f"test_{stem}.py"
                if test.is_file():
                    self._beside[test] = f"tests/{test.name}"
        self.dependencies += sorted(name + versions for name, versions in self._required.items())

    def add_data(self, include: Sequence[str]) -> None:
        """Adds the data files that a module names or that `include` asks for. Secrets must be asked for."""
        unused = dict.fromkeys(include)
        for file, target in sorted(item for item in self._data.items() if item[0] not in self._targets):
            path = PurePosixPath(file.relative_to(self._project).as_posix())
            is_secret = _SECRET_FILE.search(path.name) is not None
            asked = [
                word for word in include if (word == str(path) if is_secret else _is_included(path, word))
            ]
            naming = [place for word, place in self._words.items() if _is_named_by(path, word)]
            for word in asked:
                unused.pop(word, None)
            if not asked and not naming:
                self.left_out.append(str(path))
            elif is_secret and not asked:
                remedy = f"Read it from where the user keeps it; or, if it is public, --include {path}."
                self._refuse(*naming[0], f"{path} looks like a secret, and would be in the package.", remedy)
            else:
                self._targets[file] = target
        if unused:
            hint = "Write patterns as in --include 'tools/stock/*.csv'. A secret needs its whole path."
            raise UsageError(f"No data file of these tools fits --include {next(iter(unused))!r}.", hint=hint)

    def contents(self) -> dict[str, bytes]:
        """Returns the files by their paths in the package; imports of `tools` name the package instead."""
        found = {f"src/{self._module}/__init__.py": b'"""Tools for strands-cli."""\n'}
        for file, target in {**self._targets, **self._beside}.items():
            try:
                data = read_regular_file(file, _MAX_FILE_BYTES, below=[self._project])
            except (OSError, ValueError) as error:
                issue = Issue(
                    file=str(file),
                    reason=unread_reason(error),
                    remediation="Replace it with a file of the project, or remove it.",
                )
                raise SpecError("These tools cannot be packaged.", issues=[issue]) from None
            if file.suffix == ".py":
                data = _importing_from(self._module, data)
            found[target] = data
        return found

    def _add_entry_point(self, info: ToolInfo, directory: str, others: list[ToolInfo]) -> None:
        """Names a family or a module where all its tools are packaged, else the tool's function."""
        top = directory or Path(info.file).stem
        place = self._tools / directory if directory else Path(info.file)
        if not any(Path(other.file).is_relative_to(place) for other in others):
            self.entry_points[top] = f"{self._module}.{top}"
            return
        inner = ".".join(Path(info.file).relative_to(self._tools).with_suffix("").parts)
        self.entry_points[info.id] = f"{self._module}.{inner}:{info.callable_name}"

    def _add_package(self, directory: Path, target: str) -> None:
        """Adds the modules of a directory, and remembers its data files. Those of a family have no tests."""
        for file in sorted(directory.rglob("*")):
            inner = file.relative_to(directory)
            if not file.is_file() or any(part == "__pycache__" or part[0] == "." for part in inner.parts):
                continue
            is_test = re.fullmatch(r"test_.*|tests|conftest", file.stem) and directory.parent == self._tools
            if (file.suffix in (".py", ".pyi") or file.name == "py.typed") and not is_test:
                self._add_file(file, f"{target}/{inner.as_posix()}")
            else:
                self._data[file] = f"src/{target}/{inner.as_posix()}"

    def _add_file(self, file: Path, target: str = "") -> None:
        if file in self._targets:
            return
        if not target:
            target = f"{self._module}/{file.relative_to(self._tools).as_posix()}"
        self._targets[file] = f"src/{target}"
        if file.suffix != ".py":
            return
        if not file.stem.isidentifier():
            self._refuse(
                file, 1, f"{file.name} cannot be imported from a package.", "Rename it: use '_', not '-'."
            )
        tree = parse_source_file(file)
        if isinstance(tree, Issue):
            self.issues.append(tree)
            return
        self._words = {**_texts_in(file, tree), **self._words}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.level or _is_tools(node.module or "")):
                self._add_own(file, node)
            elif isinstance(node, ast.ImportFrom | ast.Import):
                names = (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                )
                for name in names:
                    self._add_module(file, node, name, is_needed=node in tree.body)

    def _add_own(self, file: Path, node: ast.ImportFrom) -> None:
        """Adds what `from . import x`, `from ._helper import x` and `from tools._helper import x` mean."""
        if node.level and not file.is_relative_to(self._tools):
            return  # a package of the project, which comes along as a whole
        parts = (node.module or "").split(".") if node.module else []
        base = file.parents[min(node.level, len(file.parents)) - 1] if node.level else self._project
        place = base.joinpath(*parts)
        if not place.is_relative_to(self._tools):
            self._refuse(file, node.lineno, "The import leaves tools/.", "Move the module into tools/.")
            return
        found = [*_module_files(place)]
        found += [one for alias in node.names for one in _module_files(place / alias.name)]
        if not found and not place.is_dir():
            name = "." * node.level + (node.module or "")
            self._refuse(file, node.lineno, f"The module {name} is not found.", "Correct the import.")
        for one in found:
            above = [up / "__init__.py" for up in one.parents if up.is_relative_to(self._tools)]
            for each in (one, *(up for up in above if up.is_file())):
                self._add_file(each)

    def _add_module(self, file: Path, node: ast.stmt, name: str, *, is_needed: bool) -> None:
        """Adds a module of the project, or the installed package that has it."""
        top = name.partition(".")[0]
        if _is_tools(name):
            remedy = f"Write 'from {name.rpartition('.')[0] or '.'} import {name.rpartition('.')[2]}'."
            self._refuse(file, node.lineno, f"'import {name}' means another package once installed.", remedy)
        elif top in sys.stdlib_module_names or top in (*OWN_MODULES, self._module):
            return
        elif owners := [canonicalize_name(owner) for owner in dict.fromkeys(self._installed.get(top, ()))]:
            self._add_requirement(file, node, top, owners)
        elif place := project_module(self._project, top):
            if top not in self.modules:
                self.modules[top] = f"src/{place.name}"
                self.notes.append(f"{top} is imported by {file.name} and becomes a module of its own.")
                if place.is_dir():
                    self._add_package(place, top)
                else:
                    self._add_file(place, place.name)
        elif is_needed and canonicalize_name(top) not in self._required:
            remedy = "Install its package, or declare it: requires={'PACKAGE': '*'}."
            self._refuse(file, node.lineno, f"The module {top} is not found.", remedy)

    def _add_requirement(self, file: Path, node: ast.stmt, top: str, owners: Sequence[str]) -> None:
        """Adds an installed package that no tool requires, at least in the version that is installed."""
        if {*owners} & self._required.keys():
            return
        if len(owners) > 1:
            remedy = f"Declare the right one in requires: {', '.join(owners)}."
            self._refuse(file, node.lineno, f"Several packages have the module {top}.", remedy)
            return
        major, minor = (*Version(distribution(owners[0]).version).release, 0)[:2]
        self._required[owners[0]] = f">={major}.{minor}"
        requires = f"requires={{'{owners[0]}': '>={major}.{minor}'}}"
        self.notes.append(f"{file.name} imports {top} without {requires}; it becomes a dependency.")

    def _refuse(self, file: Path, line: int, reason: str, remedy: str) -> None:
        self.issues.append(Issue(file=str(file), line=line, reason=reason, remediation=remedy))


def _texts_in(file: Path, tree: ast.Module) -> dict[str, tuple[Path, int]]:
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {node.value: (file, node.lineno) for node in texts if isinstance(node.value, str)}


def _is_named_by(path: PurePosixPath, word: str) -> bool:
    """Whether a word is the end of a path, as `levels.csv` is, or a pattern for it, as `data/*.csv` is."""
    word = word.lstrip("/")  # as in f"{here}/levels.csv"
    if "*" not in word:  # brackets in a name are no pattern
        return word.endswith(path.name) and path.parts[-len(parts := PurePosixPath(word).parts) :] == parts
    return any(map(str.isalnum, word)) and path.match(word)


def _is_included(path: PurePosixPath, pattern: str) -> bool:
    """Whether `--include` means a file: by its name, its directory, or a pattern."""
    whole = pattern.strip("/")
    is_below = any(str(directory) == whole for directory in path.parents)
    return is_below or fnmatchcase(str(path), whole) or _is_named_by(path, pattern)


def _importing_from(module: str, data: bytes) -> bytes:
    """Returns a file whose imports from `tools` name another module."""
    try:
        nodes = [*ast.walk(ast.parse(data))]
    except (SyntaxError, ValueError, RecursionError):
        return data
    lines = data.splitlines(keepends=True)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not node.level and _is_tools(node.module or ""):
            line, start = lines[node.lineno - 1], node.col_offset
            changed = re.sub(rb"tools\b", module.encode(), line[start:], count=1)
            lines[node.lineno - 1] = line[:start] + changed
    return b"".join(lines)


def _is_tools(module: str) -> bool:
    return module.partition(".")[0] == "tools"


def _module_files(place: Path) -> Iterator[Path]:
    """The file of a module, or the `__init__.py` of a package."""
    for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
        if file.is_file():
            yield file


def project_module(project: Path, name: str) -> Path | None:
    """The project's own module or package of that name, which its tools can import."""
    if name == "tools" or not name.isidentifier():
        return None
    module, directory = project / f"{name}.py", project / name
    return module if module.is_file() else directory if any(directory.glob("*.py")) else None


def family_directory(info: ToolInfo, project: Path) -> str:
    """The family's directory in `tools/`, or nothing."""
    parts = Path(info.file).relative_to(project / "tools").parts
    return parts[0] if len(parts) > 1 else ""
