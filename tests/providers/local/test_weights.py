"""Weights are fetched from the first source that has them, verified, and only then used."""

import errno
import hashlib
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from strands_cli.errors import ProviderError
from strands_cli.providers.choice import PROVIDERS
from strands_cli.providers.local import weights
from strands_cli.providers.local.weights import CATALOGUE, DEFAULT, SMALLEST, CatalogueModel

WEIGHTS = b"GGUF" + os.urandom(300_000) + b"."  # so that another last byte is always another file


def model(publisher: str | None = None, weights: bytes = WEIGHTS) -> CatalogueModel:
    return CatalogueModel(
        name="tiny",
        title="Tiny",
        file="tiny.gguf",
        size=len(weights),
        sha256=hashlib.sha256(weights).hexdigest(),
        licence="none",
        publisher=publisher,
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "strands-cli" / "models"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    file = tmp_path / "copy.gguf"
    file.write_bytes(WEIGHTS)
    return file


class Publisher(http.server.BaseHTTPRequestHandler):
    """Sends a part of what is asked for and breaks off, as often as the class says; knows ranges."""

    breaks = 0
    ranges: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        type(self).ranges.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        rest = WEIGHTS[start:]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if type(self).breaks:
            type(self).breaks -= 1
            self.wfile.write(rest[:100_000])
            self.close_connection = True
            return
        self.wfile.write(rest)

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def publisher() -> Iterator[str]:
    Publisher.breaks, Publisher.ranges = 0, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/tiny.gguf"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_file_that_somebody_has_is_verified_and_kept(copy: Path, cache: Path) -> None:
    assert weights.pull_weights(model(), given=copy) == cache / "tiny.gguf"
    assert (cache / "tiny.gguf").read_bytes() == WEIGHTS


def test_a_file_that_somebody_has_is_copied_piece_by_piece(copy: Path) -> None:
    data = b"GGUF" * 1_000_000
    copy.write_bytes(data)
    told: list[int] = []
    weights.pull_weights(model(weights=data), given=copy, progress=lambda done, _: told.append(done))
    assert len(told) == 4
    assert told[-1] == len(data)


def test_a_disk_that_is_full_at_the_last_step_is_told(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ProviderError, match="The disk is full"):
        weights.pull_weights(model(), given=copy)


def test_a_file_whose_mark_cannot_be_written_is_verified_again_the_next_time(copy: Path, cache: Path) -> None:
    (cache / "tiny.gguf.verified").mkdir(parents=True)
    assert weights.pull_weights(model(), given=copy) == cache / "tiny.gguf"
    assert weights.pull_weights(model()) == cache / "tiny.gguf"


def test_another_file_than_the_models_is_refused_and_not_kept(copy: Path, cache: Path) -> None:
    copy.write_bytes(WEIGHTS[:-1] + b"x")
    with pytest.raises(ProviderError, match="its SHA-256 differs"):
        weights.pull_weights(model(), given=copy)
    assert list(cache.iterdir()) == []


def test_a_file_that_was_damaged_later_is_refused_with_what_helps(copy: Path) -> None:
    file = weights.pull_weights(model(), given=copy)
    weights.verify_weights(model(), file)
    file.write_bytes(WEIGHTS[:-1] + b"x")
    os.utime(file, (1, 1))
    with pytest.raises(ProviderError, match="damaged") as refused:
        weights.verify_weights(model(), file)
    assert "strands models pull tiny" in refused.value.hint


def test_a_download_tells_its_progress_and_ends_in_the_right_file(publisher: str) -> None:
    told: list[tuple[int, int]] = []
    file = weights.pull_weights(model(publisher), progress=lambda done, total: told.append((done, total)))
    assert file.read_bytes() == WEIGHTS
    assert told[-1] == (len(WEIGHTS), len(WEIGHTS))


def test_a_download_that_breaks_is_taken_up_where_it_broke(publisher: str) -> None:
    Publisher.breaks = 2
    assert weights.pull_weights(model(publisher)).read_bytes() == WEIGHTS
    assert Publisher.ranges == [None, "bytes=100000-", "bytes=200000-"]


def test_pulls_at_the_same_time_fetch_a_model_once(publisher: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        files = [*pool.map(lambda _: weights.pull_weights(model(publisher)), range(4))]
    assert [file.read_bytes() == WEIGHTS for file in files] == [True] * 4
    assert Publisher.ranges == [None]


def test_a_download_is_taken_up_by_the_next_command(publisher: str, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny.gguf.part").write_bytes(WEIGHTS[:250_000])
    assert weights.pull_weights(model(publisher)).read_bytes() == WEIGHTS
    assert Publisher.ranges == ["bytes=250000-"]


def test_a_source_that_cannot_be_reached_is_given_up_and_said_so() -> None:
    with pytest.raises(ProviderError, match="cannot be reached") as refused:
        weights.pull_weights(model("http://127.0.0.1:9/tiny.gguf"))
    assert "--from FILE" in refused.value.hint


def test_the_publisher_is_not_asked_where_only_packages_are_wanted(publisher: str) -> None:
    with pytest.raises(ProviderError):
        weights.pull_weights(model(publisher), environment={"STRANDS_MODEL_SOURCES": "packages"})
    assert Publisher.ranges == []


def test_a_model_that_is_not_here_names_the_command_that_fetches_it() -> None:
    with pytest.raises(ProviderError, match="not on this machine") as refused:
        weights.weights_file(None)
    assert refused.value.hint == f"Fetch it: strands models pull {DEFAULT}"


def test_an_unknown_name_is_corrected() -> None:
    with pytest.raises(ProviderError, match="There is no model") as refused:
        weights.weights_file("smollm-135m")
    assert f"Did you mean '{SMALLEST}'?" in refused.value.hint


def test_a_file_of_ones_own_is_taken_by_its_path(copy: Path, tmp_path: Path) -> None:
    assert weights.weights_file(str(copy)) == copy
    (tmp_path / "other.gguf").write_text("not weights")
    with pytest.raises(ProviderError, match="is not a GGUF file"):
        weights.weights_file(str(tmp_path / "other.gguf"))
    with pytest.raises(ProviderError, match="There is no file"):
        weights.weights_file(str(tmp_path / "absent.gguf"))


def test_removing_leaves_nothing(copy: Path, cache: Path) -> None:
    weights.pull_weights(model(), given=copy)
    assert weights.remove_weights(model())
    assert list(cache.iterdir()) == []
    assert not weights.remove_weights(model())


def test_the_default_is_the_model_that_the_provider_asks_for() -> None:
    assert PROVIDERS["local"].default_model == DEFAULT


def test_every_model_of_the_catalogue_says_what_it_is() -> None:
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert len(entry.sha256) == 64
        assert entry.licence
        assert entry.publisher or entry.packages


FULL = """
import sys
from pathlib import Path
from strands_cli.errors import ProviderError
from strands_cli.providers.local import weights
from strands_cli.providers.local.weights import CatalogueModel
tiny = CatalogueModel(name="tiny", title="", file="tiny.gguf", size=5_000_000, sha256="", licence="")
try:
    weights.pull_weights(tiny, given=Path(sys.argv[1]))
except ProviderError as error:
    print(error.message, error.hint)
"""


def test_a_full_disk_is_told_in_one_sentence(tmp_path: Path) -> None:
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare to make a small disk")
    large, small = tmp_path / "large.gguf", tmp_path / "small"
    large.write_bytes(b"GGUF" * 1_250_000)
    small.mkdir()
    mount = f'mount -t tmpfs -o size=1m none {small} && exec {sys.executable} -c "$0" {large}'
    command = ["unshare", "-m", "sh", "-c", mount, FULL]
    env = os.environ | {"XDG_CACHE_HOME": str(small)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no small disk can be made here: {done.stderr.strip()}")
    assert "The disk is full: tiny needs 5 MB" in done.stdout, done.stderr
    assert "XDG_CACHE_HOME" in done.stdout
