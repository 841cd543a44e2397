"""Distributions built from this tree, and empty environments to install them into."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}


def build(source: Path, out: Path, *options: str) -> Path:
    """Builds the wheel of a directory, or with other options what they ask for, and returns the one file."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *(options or ("-t", "wheel"))]
    subprocess.run(command, cwd=source, env=BUILD, check=True, capture_output=True, timeout=60)
    (built,) = out.iterdir()
    return built


def uv() -> str:
    """The uv that 'make setup' installs, or the machine's."""
    found = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        if os.environ.get("STRANDS_TEST_REQUIRE") == "all":
            pytest.fail("uv is missing")
        pytest.skip("uv is missing")
    return found


class Environment:
    """A virtual environment with nothing but what is installed into it, and an empty home and project."""

    def __init__(self, root: Path, *requirements: str) -> None:
        self.bin = root / "environment" / "bin"
        self.project = root / "project"
        self.home = root / "home"
        for directory in (self.project, self.home):
            directory.mkdir()
        self._run([uv(), "venv", "-q", "--python", sys.executable, str(self.bin.parent)], os.environ)
        self.install(*requirements)

    def install(self, *requirements: str) -> None:
        """Installs the versions of the lock file, which 'make setup' has fetched already."""
        locked = ["--constraint", str(REPOSITORY / "requirements.lock")]
        command = [uv(), "pip", "install", "-q", "--python", str(self.bin / "python"), *locked, *requirements]
        self._run(command, os.environ)

    def run(self, *command: str, code: int = 0) -> str:
        """Runs a program of the environment in the project; returns what it prints."""
        variables = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.home)}
        return self._run([str(self.bin / command[0]), *command[1:]], variables, code)

    def _run(self, command: list[str], variables: Mapping[str, str], code: int = 0) -> str:
        done = subprocess.run(
            command,
            cwd=self.project,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr
