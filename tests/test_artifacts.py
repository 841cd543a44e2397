"""Artifacts: real files in a real directory, and nothing outside it."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_cli.artifacts import check_artifact_files, write_artifacts
from strands_cli.errors import ArtifactError
from strands_cli.events import ArtifactWritten, Event
from strands_cli.loader.spec import Spec
from strands_cli.patterns.chain import Chain
from strands_cli.secrets import Redactor
from strands_cli.types.sections import Artifact, Outputs, Runtime
from tests.exploring import examples
from tests.swaps import swapping

POSIX_ONLY = pytest.mark.skipif(os.name != "posix", reason="links and modes are those of POSIX")


def workflow(*artifacts: tuple[str, str]) -> Spec:
    return Spec(
        version=0,
        name="demo",
        runtime=Runtime(provider="ollama"),
        agents={},
        pattern=Chain(steps=()),
        outputs=Outputs(artifacts=tuple(Artifact(path=path, content=text) for path, text in artifacts)),
        file=Path("flow.yaml"),
        positions={f"/outputs/artifacts/{i}/path": ("flow.yaml", 20 + i, 7) for i in range(len(artifacts))},
    )


def write(
    directory: Path, *artifacts: tuple[str, str], force: bool = False, **scope: Any
) -> tuple[Path, ...]:
    return write_artifacts(workflow(*artifacts), scope, directory, force=force)


def refusal(directory: Path, *artifacts: tuple[str, str], force: bool = False, **scope: Any) -> ArtifactError:
    """What is said of artifacts that cannot be written; nothing in the directory has changed then."""
    before = everything_below(directory.parent)
    with pytest.raises(ArtifactError) as caught:
        write(directory, *artifacts, force=force, **scope)
    assert everything_below(directory.parent) == before
    assert caught.value.hint
    assert caught.value.exit_code == 12
    return caught.value


def everything_below(directory: Path) -> dict[str, str]:
    """Every name with what it holds, or what it is."""
    return {
        str(path.relative_to(directory)): (
            f"-> {path.readlink()}" if path.is_symlink() else path.read_text() if path.is_file() else "/"
        )
        for path in directory.rglob("*")
    }


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The output directory, with a place beside it where nothing may ever appear."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept.txt").write_text("old")
    made = tmp_path / "out"
    made.mkdir()
    return made


# --- What is written --------------------------------------------------------------------------------------


def test_paths_and_contents_are_rendered_and_directories_made(out: Path) -> None:
    told: list[Event] = []
    spec = workflow(("./{{ topic }}/a.md", "# {{ last_response }}\n"), ("b.json", "{{ data }}"))
    scope = {"topic": "bees", "last_response": "Zzz é", "data": {"n": 1}}
    paths = write_artifacts(spec, scope, out, emit=told.append)
    assert paths == (out / "bees" / "a.md", out / "b.json")
    assert [path.read_text("utf-8") for path in paths] == ["# Zzz é\n", '{"n": 1}']
    assert told == [ArtifactWritten(str(paths[0]), 9), ArtifactWritten(str(paths[1]), 8)]
    assert sorted(everything_below(out)) == ["b.json", "bees", "bees/a.md"]


def test_an_output_directory_that_does_not_exist_is_made(tmp_path: Path) -> None:
    write(tmp_path / "not" / "yet", ("a.txt", "x"))
    assert (tmp_path / "not" / "yet" / "a.txt").read_text() == "x"


def test_the_current_directory_is_a_directory_like_any_other(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(out)
    assert write(Path(), ("a.txt", "x")) == (Path("a.txt"),)


def test_a_workflow_without_artifacts_needs_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert write(tmp_path / "file") == ()
    check_artifact_files(workflow(), tmp_path / "file")


@POSIX_ONLY
def test_the_output_directory_itself_may_be_a_link(out: Path) -> None:
    link = out.parent / "link"
    link.symlink_to(out)
    assert write(link, ("a.txt", "x")) == (link / "a.txt",)
    assert (out / "a.txt").read_text() == "x"


@POSIX_ONLY
def test_new_files_have_the_usual_permissions_and_replaced_ones_keep_theirs(out: Path) -> None:
    (out / "tool.sh").write_text("old")
    (out / "tool.sh").chmod(0o750)
    old = os.umask(0o027)
    try:
        write(out, ("tool.sh", "new"), ("plain", "x"), force=True)
    finally:
        os.umask(old)
    assert [(out / name).stat().st_mode & 0o777 for name in ("tool.sh", "plain")] == [0o750, 0o640]


def test_no_secret_is_written_neither_in_a_file_nor_in_its_name(out: Path) -> None:
    spec = workflow(("{{ last_response }}.txt", "It is {{ last_response }}"))
    [path] = write_artifacts(spec, {"last_response": "s3cret"}, out, redactor=Redactor(["s3cret"]))
    assert (path.name, path.read_text()) == ("***.txt", "It is ***")


def test_half_of_a_character_does_not_cost_the_rest(out: Path) -> None:
    [path] = write(out, ("a.txt", "{{ text }}"), text="a\ud800b")
    assert path.read_text("utf-8") == "a?b"


# --- What is there already --------------------------------------------------------------------------------


def test_a_file_that_exists_is_kept_and_nothing_else_is_written(out: Path) -> None:
    (out / "b.txt").write_text("mine")
    error = refusal(out, ("new/a.txt", "x"), ("b.txt", "x"))
    assert error.message == (
        "flow.yaml:21:7  /outputs/artifacts/1/path: The artifact 'b.txt' cannot be written: the file exists."
    )
    assert "--force" in error.hint


def test_force_replaces_a_file_in_one_step(out: Path) -> None:
    (out / "a.txt").write_text("old")
    inode = (out / "a.txt").stat().st_ino
    write(out, ("a.txt", "new"), force=True)
    assert (out / "a.txt").read_text() == "new"
    assert (out / "a.txt").stat().st_ino != inode


@pytest.mark.parametrize(
    "paths", [("a.txt", "./a.txt"), ("x/a", "x//a"), ("a", "a/b"), ("a/b/c", "a"), ("{{ n }}.txt", "1.txt")]
)
@pytest.mark.parametrize("force", [False, True])
def test_two_artifacts_in_one_place_are_refused(out: Path, paths: tuple[str, str], force: bool) -> None:
    error = refusal(out, *((path, path) for path in paths), force=force, n=1)
    assert "/outputs/artifacts/0/path" in error.message.partition(": ")[2]


@pytest.mark.parametrize("force", [False, True])
def test_a_directory_or_a_file_in_the_way_is_told(out: Path, force: bool) -> None:
    (out / "folder").mkdir()
    (out / "file").write_text("x")
    assert "a directory of that name" in refusal(out, ("folder", "x"), force=force).message
    assert "'file' is a file, not a directory" in refusal(out, ("file/a.txt", "x"), force=force).message
    assert "not a directory" in refusal(out / "file", ("a.txt", "x"), force=force).message
    assert "not a directory" in refusal(out / "file" / "below", ("a.txt", "x"), force=force).message


@POSIX_ONLY
def test_what_is_no_file_is_never_replaced(out: Path) -> None:
    os.mkfifo(out / "pipe")
    with pytest.raises(ArtifactError, match="not a file"):
        write(out, ("pipe", "x"), force=True)
    assert (out / "pipe").is_fifo()


# --- Where nothing may appear -----------------------------------------------------------------------------

LEAVING = [
    "/etc/x",
    "../x",
    "../../x",
    "a/../../x",
    "a/../b",
    "..",
    "..\\x",
    "a\\..\\..\\x",
    "C:\\x",
    "c:x",
    "\\\\host\\share\\x",
    "\\x",
    "//host/x",
]
NAMELESS = ["", "  ", ".", "./", "a/", "a\\", "/"]


@pytest.mark.parametrize(
    "path", [*LEAVING, *NAMELESS, "a\0b", "a\nb", "\ud800", "x" * 300, "x/" * 3000 + "y"]
)
@pytest.mark.parametrize("template", [False, True])
def test_a_path_that_is_none_inside_the_directory_is_refused(out: Path, path: str, template: bool) -> None:
    error = refusal(out, ("fine.txt", "x"), ("{{ path }}" if template else path, "x"), force=True, path=path)
    assert "flow.yaml:21:7  /outputs/artifacts/1/path" in error.message
    assert len(error.message) < 400


@POSIX_ONLY
@pytest.mark.parametrize("force", [False, True])
def test_links_are_not_followed(out: Path, force: bool) -> None:
    outside = out.parent / "outside"
    (out / "folder").symlink_to(outside)
    (out / "inside").symlink_to(out)
    (out / "file.txt").symlink_to(outside / "kept.txt")
    (out / "dangling").symlink_to(outside / "new.txt")
    for path in ("folder/x", "folder/kept.txt", "inside/x", "file.txt", "dangling", "dangling/x"):
        assert "symbolic link" in refusal(out, (path, "x"), force=force).message


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.sampled_from(("..", ".", "/", "\\", "a", "link", "C:", " ", "~", "\0", "é", "%2e%2e", "\u2025")),
        max_size=8,
    ).map("".join)
    | st.text(max_size=20)
)
def test_whatever_the_path_nothing_appears_outside(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    shutil.rmtree(root, ignore_errors=True)
    out = root / "out"
    out.mkdir(parents=True)
    (root / "outside").mkdir()
    (out / "link").symlink_to(root / "outside")
    before = {file for file in everything_below(root) if not file.startswith("out/")}
    try:
        written = write(out, ("{{ path }}", "x"), force=True, path=path)
    except ArtifactError:
        assert everything_below(out) == {"link": f"-> {root / 'outside'}"}
    else:
        assert written[0].resolve().is_relative_to(out)
        assert written[0].read_text() == "x"
    assert {file for file in everything_below(root) if not file.startswith("out/")} == before


@POSIX_ONLY
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(out: Path) -> None:
    outside = out.parent / "outside"
    (out / "sub").mkdir()
    written = 0
    with swapping(out, "sub", outside):
        for _ in range(300):
            try:
                write(out, ("sub/kept.txt", "x"), ("sub/new/a.txt", "x"), force=True)
            except ArtifactError:
                continue
            written += 1
    assert everything_below(outside) == {"kept.txt": "old"}
    assert written


# --- Failures ---------------------------------------------------------------------------------------------


def test_a_template_that_fails_is_told_before_anything_is_written(out: Path) -> None:
    error = refusal(out, ("a.txt", "x"), ("b.txt", "{{ missing }}"))
    assert "/outputs/artifacts/1/from" in error.message
    assert "no name 'missing'" in error.message


FULL_DISK = """
    import sys
    from pathlib import Path
    from strands_cli.artifacts import write_artifacts
    from strands_cli.errors import ArtifactError
    from tests.test_artifacts import workflow

    out = Path(sys.argv[1])
    (out / "old.txt").write_text("old")
    spec = workflow(("new/first.txt", "small"), ("old.txt", "{{ text }}"))
    try:
        write_artifacts(spec, {"text": "x" * 1_000_000}, out, force=True)
    except ArtifactError as error:
        print(error.exit_code, error.message, error.hint, sep="|")
    print(sorted(str(path.relative_to(out)) for path in out.rglob("*")), (out / "old.txt").read_text())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"),
    reason="a small disk of its own needs Linux, root and unshare",
)
def test_a_full_disk_leaves_what_was_there_and_nothing_half(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(FULL_DISK))
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=64k none {disk} && exec {sys.executable} {program} {disk}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)},
    )
    if done.returncode != 0 and "Operation not permitted" in done.stderr:
        pytest.skip("this machine lets nobody mount")
    first, second = done.stdout.splitlines()
    assert first.startswith("12|flow.yaml:21:7  /outputs/artifacts/1/path: The artifact 'old.txt'")
    assert first.endswith("No space left on device.|Free some space, or choose another directory with --out.")
    assert second == "['old.txt'] old"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_told_before_the_run(out: Path) -> None:
    out.chmod(0o555)
    with pytest.raises(ArtifactError, match="Permission denied"):
        check_artifact_files(workflow(("a.txt", "x")), out)


@POSIX_ONLY
def test_a_file_that_somebody_else_makes_meanwhile_is_kept(out: Path) -> None:
    def intrude(event: Event) -> None:
        assert isinstance(event, ArtifactWritten)
        (out / "b.txt").write_text("theirs")

    spec = workflow(("a.txt", "x"), ("b.txt", "x"))
    with pytest.raises(ArtifactError, match=r"'b.txt' cannot be written: the file exists"):
        write_artifacts(spec, {}, out, emit=intrude)
    assert everything_below(out) == {"a.txt": "x", "b.txt": "theirs"}


@POSIX_ONLY
def test_what_somebody_else_makes_meanwhile_is_called_what_it_is(out: Path) -> None:
    spec = workflow(("a.txt", "x"), ("b.txt", "x"))
    with pytest.raises(ArtifactError, match=r"'b.txt' cannot be written: there is a directory of that name"):
        write_artifacts(spec, {}, out, emit=lambda _: (out / "b.txt").mkdir())


# --- Before the run ---------------------------------------------------------------------------------------


def test_what_is_certain_to_fail_is_told_before_the_run(out: Path) -> None:
    (out / "a.txt").write_text("old")
    (out / "bees.md").write_text("old")
    constant, topic = workflow(("a.txt", "{{ last_response }}")), workflow(("{{ topic }}.md", "x"))
    with pytest.raises(ArtifactError, match="the file exists"):
        check_artifact_files(constant, out)
    with pytest.raises(ArtifactError, match="the file exists"):
        check_artifact_files(topic, out, scope={"topic": "bees"})
    check_artifact_files(constant, out, force=True)
    check_artifact_files(topic, out)
    check_artifact_files(topic, out, scope={"topic": "wasps"})
    check_artifact_files(workflow(("{{ last_response | default('a.txt') }}", "x")), out)
    with pytest.raises(ArtifactError, match="the same path"):
        check_artifact_files(workflow(("b", "x"), ("{{ topic }}", "x")), out, scope={"topic": "b"})


def test_a_check_makes_nothing(tmp_path: Path) -> None:
    check_artifact_files(workflow(("a/b.txt", "x")), tmp_path / "out")
    assert everything_below(tmp_path) == {}
