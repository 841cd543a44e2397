"""What a tool needs of the machine, and what of it is missing."""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

_SECTIONS = ("packages", "binaries", "env", "platforms")


def missing_requirements(requires: Mapping[str, Any] | None) -> list[str]:
    """One sentence for each thing that is not there; empty if the tool can run."""
    if not requires:
        return []
    packages = {name: versions for name, versions in requires.items() if name not in _SECTIONS}
    return [
        *_missing_packages({**packages, **requires.get("packages", {})}),
        *_missing_binaries(requires.get("binaries", ())),
        *_missing_variables(requires.get("env", ())),
        *_wrong_platform(requires.get("platforms", ())),
    ]


def requirements_problem(requires: object) -> str:
    """Why a `requires` is refused at registration, or nothing."""
    if requires is None:
        return ""
    if not isinstance(requires, dict):
        return "requires must be a dictionary, such as {'httpx': '>=0.27'}"
    packages = requires.get("packages", {})
    if not isinstance(packages, dict):
        return "requires['packages'] must map package names to version ranges"
    for section in _SECTIONS[1:]:
        names = requires.get(section, [])
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            return f"requires[{section!r}] must be a list of names"
    for name, versions in {**requires, **packages}.items():
        if name not in _SECTIONS and not _is_version_range(versions):
            return f"requires[{name!r}] must be a version range such as '>=1.0', or '*'"
    return ""


def _is_version_range(versions: object) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if not isinstance(versions, str):
        return False
    try:
        SpecifierSet(versions.replace("*", "") if versions == "*" else versions)
    except InvalidSpecifier:
        return False
    return True


def _missing_packages(packages: Mapping[str, str]) -> Iterator[str]:
    if not packages:
        return
    from importlib.metadata import PackageNotFoundError, version

    from packaging.specifiers import SpecifierSet

    for name, versions in packages.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            yield f"the Python package {name} is not installed (pip install '{name}{versions.strip('*')}')"
            continue
        if versions not in ("", "*") and not SpecifierSet(versions).contains(installed, prereleases=True):
            yield f"the Python package {name} is {installed}, and it needs {versions}"


def _missing_binaries(names: list[str]) -> Iterator[str]:
    if not names:
        return
    from shutil import which

    for name in names:
        if which(name) is None:
            yield f"the program {name} is not on the PATH"


def _missing_variables(names: list[str]) -> Iterator[str]:
    for name in names:
        if not os.environ.get(name):
            yield f"the environment variable {name} is not set"


def _wrong_platform(names: list[str]) -> Iterator[str]:
    if names and not any(sys.platform.startswith(name) for name in names):
        yield f"it runs on {', '.join(names)} only, and this is {sys.platform}"
