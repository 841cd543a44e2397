"""A host that an ordinary user can run: everything that it reads lies where that user may read it."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import strands_cli
from tests.sandbox.harness import NOBODY, REPOSITORY, Interpreter

NEEDED = ("msgspec", "jsonschema-rs", "pyseccomp", "click", "PyYAML", "packaging")
"""The packages that a call of `python_exec` imports."""
_CANDIDATES = ("/usr/bin/python3", "/usr/local/bin/python3", sys.executable)


def ordinary_user(place: Path) -> Interpreter:
    """Copies what is needed below the directory. Skips, or fails where nothing may be missing, and says why."""
    executable = _usable_python()
    place.chmod(0o755)
    _copy(place)
    return Interpreter(executable, str(place), NOBODY)


def whole_repository(place: Path) -> Interpreter:
    """The same with all files and all packages, so that the user can run the tests themselves."""
    executable = _usable_python()
    place.chmod(0o755)
    for name in ("src", "tests", "examples", "docs", "pyproject.toml"):
        _copy_whole(REPOSITORY / name, place / name)
    _copy_whole(Path(pytest.__file__).parents[1], place / "packages")
    (place / "home").mkdir()
    for made in (place, place / "home"):
        os.chown(made, NOBODY, NOBODY)
    return Interpreter(executable, f"{place}/src:{place}/packages", NOBODY)


def missing(what: str) -> None:
    text = f"this needs {what}"
    if os.environ.get("STRANDS_TEST_REQUIRE") == "all" and os.geteuid() == 0:
        pytest.fail(text)
    pytest.skip(text)


def as_nobody(*command: str) -> list[str]:
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "-i", *command]


def _is_usable(executable: str) -> bool:
    """Whether the user may run it and it is of the version for which packages are installed here."""
    command = as_nobody(executable, "-c", "import sys; print(sys.implementation.cache_tag)")
    try:
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == sys.implementation.cache_tag


def _usable_python() -> str:
    if os.geteuid() != 0:
        missing("to be root, so as to become somebody else; the other tests run as an ordinary user already")
    executable = next(filter(_is_usable, _CANDIDATES), None)
    if executable is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        missing(f"a Python {version} that user {NOBODY} may read (apt: python3)")
    return str(executable)


def _copy_whole(source: Path, target: Path) -> None:
    if source.is_file():
        shutil.copyfile(source, target)
        return
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "_editable_impl_*"))


def _copy(place: Path) -> None:
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(strands_cli.__file__).parent, place / "strands_cli", ignore=without)
    shutil.copytree(REPOSITORY / "tests" / "sandbox", place / "tests" / "sandbox", ignore=without)
    (place / "tests" / "__init__.py").touch()
    for name in NEEDED:
        package = distribution(name)
        for file in package.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (place / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(package.locate_file(file)), place / file)
