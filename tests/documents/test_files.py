"""Finding and replacing files below a root, whatever their paths say and whoever swaps what meanwhile."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strands_cli.documents.files import Entry, NotRegular, Outside, Place, locate, walk_directory, write_file

LINKS = {"up": "..", "loop": "loop", "sub/top": "..", "whole": "/", "ping": "pong", "pong": "ping"}


def planted(root: Path) -> Path:
    """A root with files and links in it, and a secret beside it."""
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("inside")
    (root / "sub/b.txt").write_text("inside too")
    (root.parent / "secret.txt").write_text("outside")
    (root.parent / "beside").mkdir()
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    (root / "direct").symlink_to(root / "sub")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return planted(tmp_path.resolve() / "root")


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that many examples look at and none changes."""
    return planted(tmp_path_factory.mktemp("unchanged").resolve() / "root")


def find(root: Path, path: str, **options: bool) -> Place:
    return locate(path, root, [root], **options)


def text(place: Place) -> str:
    with place, os.fdopen(place.open(), encoding="utf-8") as stream:
        return stream.read()


def every_entry(_: Entry) -> bool:
    return True


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("a.txt", "a.txt"),
        ("./sub//b.txt", "sub/b.txt"),
        ("sub/../a.txt", "a.txt"),
        ("sub/top/a.txt", "a.txt"),
        ("direct/b.txt", "sub/b.txt"),
        ("../root/a.txt", "a.txt"),
        ("{root}/a.txt", "a.txt"),
        ("/{root}/a.txt", "a.txt"),
        ("up/root/sub/b.txt", "sub/b.txt"),
        ("sub/top/direct/top/sub/b.txt", "sub/b.txt"),
    ],
)
def test_a_path_is_followed_to_its_real_end(root: Path, path: str, real: str) -> None:
    path = path.format(root=root)
    with find(root, path) as place:
        assert place.path == root / real
    assert text(find(root, path)).startswith("inside")


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "up",
        "up/secret.txt",
        "../secret.txt",
        "sub/top/up/secret.txt",
        "whole/etc/hostname",
        "whole",
        "/",
        "../missing/x",
        "../beside/../root/a.txt",
        "../missing/../root/a.txt",
        "up/missing",
        "whole/missing/../x",
        "/proc/self/root",
        "../root-too/x",
    ],
)
def test_a_path_that_ends_outside_says_so_and_nothing_else(root: Path, path: str) -> None:
    with pytest.raises(Outside):
        find(root, path)
    with pytest.raises(Outside):
        find(root, path, make=True)
    assert sorted(file.name for file in root.parent.iterdir()) == ["beside", "root", "secret.txt"]


@pytest.mark.parametrize("path", ["loop", "loop/../up/secret.txt", "loop/../a.txt", "ping", "ping/../a.txt"])
def test_links_in_a_circle_lead_nowhere(root: Path, path: str) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        find(root, path)


def test_what_does_not_exist_has_no_way_back(root: Path) -> None:
    with find(root, "new.txt") as place:
        assert place.stat() is None
    with pytest.raises(FileNotFoundError):
        find(root, "new/../a.txt")
    with pytest.raises(FileNotFoundError):
        find(root, "new/a.txt")
    with pytest.raises(NotADirectoryError):
        find(root, "a.txt/../a.txt")
    with pytest.raises(ValueError, match="null"):
        find(root, "a\0b")


def test_a_root_that_does_not_exist_is_missing_and_not_outside(root: Path) -> None:
    missing = root / "not" / "yet"
    with pytest.raises(FileNotFoundError):
        locate("a.txt", missing, [missing])


def test_directories_are_made_below_the_root_only(root: Path) -> None:
    with find(root, "new/deep/c.txt", make=True) as place, place.draft() as draft:
        draft.stream.write(b"c")
        draft.sync()
        draft.publish(replace=False)
    assert (root / "new/deep/c.txt").read_text() == "c"
    with pytest.raises(Outside):
        find(root, "../elsewhere/c.txt", make=True)
    assert not (root.parent / "elsewhere").exists()


@pytest.mark.parametrize("path", ["new/../a.txt", "new/../../secret.txt", "x/" * 300 + "y", "long/" * 1000])
def test_a_path_that_is_refused_leaves_no_directories(root: Path, path: str) -> None:
    before = sorted(root.iterdir())
    with pytest.raises(OSError, match=r"No such file|outside|too long"):
        find(root, path, make=True)
    assert sorted(root.iterdir()) == before


def test_no_descriptor_is_left_open(root: Path) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    for path in (
        "a.txt",
        "sub/top/a.txt",
        "loop",
        "../secret.txt",
        "new/a.txt",
        "up/root/../root/sub",
        "a\0",
    ):
        with suppress(OSError, ValueError), find(root, path) as place:
            os.close(place.open())
    assert opened() == before


def test_links_below_the_root_can_be_refused(root: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        find(root, "direct/b.txt", links=False)
    (root.parent / "entry").symlink_to(root)
    with locate("a.txt", root.parent / "entry", [root], links=False) as place:
        assert place.path == root / "a.txt"


def test_only_a_regular_file_is_opened_and_nothing_is_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with find(root, "pipe") as place, pytest.raises(NotRegular):
        place.open()
    with find(root, "sub") as place, pytest.raises(IsADirectoryError):
        place.open()


def test_a_link_that_appears_after_the_check_is_refused(root: Path) -> None:
    with find(root, "a.txt") as place:
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to("../secret.txt")
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            place.open()
    with find(root, "sub/b.txt") as place:
        (root / "sub").rename(root / "moved")
        (root / "sub").symlink_to("..")
        with os.fdopen(place.open(), encoding="utf-8") as stream:
            assert stream.read() == "inside too"


def test_a_draft_takes_its_place_whole_or_leaves_nothing(root: Path) -> None:
    (root / "a.txt").chmod(0o640)
    with find(root, "a.txt") as place:
        with place.draft(place.stat()) as draft:
            draft.stream.write(b"never published")
        assert (root / "a.txt").read_text() == "inside"
        with place.draft(place.stat()) as draft:
            draft.stream.write(b"new")
            draft.sync()
            with pytest.raises(FileExistsError):
                draft.publish(replace=False)
            draft.publish(replace=True)
    assert (root / "a.txt").read_text() == "new"
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o640
    assert not list(root.glob(".strands-*"))


def test_a_draft_that_somebody_removes_publishes_nothing(root: Path) -> None:
    with find(root, "new.txt") as place, place.draft() as draft:
        draft.stream.write(b"new")
        draft.sync()
        next(root.glob(".strands-*")).unlink()
        with pytest.raises(FileNotFoundError):
            draft.publish(replace=False)
    assert not (root / "new.txt").exists()


def test_a_walk_passes_by_links_and_what_cannot_be_entered(root: Path) -> None:
    with find(root, "sub") as place:
        assert list(walk_directory(place, every_entry)) == [
            Entry(("b.txt",), "file", 10),
            Entry(("top",), "link", None),
        ]
    with find(root, "a.txt") as place, pytest.raises(NotADirectoryError):
        list(walk_directory(place, every_entry))


def test_a_walk_ends_in_very_deep_directories(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(400):  # deeper than a path can be long
        os.mkdir("deep-inside", dir_fd=here)
        inner = os.open("deep-inside", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    with find(root, ".") as place:
        found = list(walk_directory(place, every_entry))
    assert [len(entry.parts) for entry in found if entry.is_too_deep] == [256]


NAMES = st.sampled_from(["..", ".", "a.txt", "sub", "top", "up", "whole", "loop", "direct", "root", "x", "~"])


@given(st.lists(NAMES, min_size=1, max_size=8))
@example(["a.txt", ".."])
def test_it_agrees_with_the_system_about_where_a_path_leads(unchanged: Path, names: list[str]) -> None:
    path = unchanged / "/".join(names)
    try:
        expected: os.stat_result | None = path.stat()
    except OSError:
        expected = None
    try:
        with locate(path, unchanged, [Path("/")]) as place:
            found = place.stat()
    except OSError:
        found = None
    assert (found is None) == (expected is None)
    assert found is None or expected is None or os.path.samestat(found, expected)


def test_a_file_is_written_whole_in_place_of_another_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    write_file(file, b"old")
    write_file(file, b"new", sync=False)
    assert file.read_bytes() == b"new"
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path, b"x")
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "none" / "x", b"x")
    assert [*tmp_path.iterdir()] == [file]
