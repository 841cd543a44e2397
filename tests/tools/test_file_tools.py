import asyncio
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.workspace import Workspace
from strands_cli.toolkit.workspace import file_refusal as refusal_of
from strands_cli.tools.data_tools.parse_json import parse_json
from strands_cli.tools.file_operations import _line_search
from strands_cli.tools.file_operations._globs import glob_filter
from strands_cli.tools.file_operations.file_lines import grep, head, tail
from strands_cli.tools.file_operations.file_list import file_list
from strands_cli.tools.file_operations.file_read import file_read
from strands_cli.tools.file_operations.file_search import file_search
from strands_cli.tools.file_operations.file_write import file_write
from tests.exploring import examples
from tests.swaps import swapping


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is also the current directory."""
    root = tmp_path.resolve() / "root"
    root.mkdir()
    (root / "strands.toml").touch()
    monkeypatch.chdir(root)
    return root


def write(file: Path, content: str | bytes = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def call(tool: Any, **given_input: Any) -> dict[str, Any]:
    result: dict[str, Any] = tool({"toolUseId": "x", "input": given_input})
    return result


def value(tool: Any, **given_input: Any) -> Any:
    result = call(tool, **given_input)
    assert result["status"] == "success", result
    (content,) = result["content"]
    return content["text"] if "text" in content else content["json"]


def refusal(tool: Any, **given_input: Any) -> dict[str, Any]:
    return error_in(call(tool, **given_input))


def error_in(result: Any) -> dict[str, Any]:
    assert result["status"] == "error", result
    error: dict[str, Any] = result["content"][1]["json"]["error"]
    return error


async def permitted(_tool: Tool, _arguments: dict[str, Any]) -> None:
    """Consent, as a user would give it."""


def call_in(root: Path, tool: Tool, timeout: float | None = None, **given_input: Any) -> Any:
    context = CallContext(workspace=Workspace((root,), root), permit=permitted, timeout=timeout)
    return asyncio.run(call_tool(tool, {"toolUseId": "x", "input": given_input}, context))


# --- Reading ----------------------------------------------------------------------------------------------


def test_a_file_is_read_as_it_is(root: Path) -> None:
    write(root / "a.txt", "one\r\ntwo\n\nfour é")
    write(root / "marked.txt", b"\xef\xbb\xbfone")
    write(root / "empty.txt")
    assert value(file_read, path="a.txt") == "one\r\ntwo\n\nfour é"
    assert value(file_read, path=str(root / "a.txt")) == "one\r\ntwo\n\nfour é"
    assert value(file_read, path="marked.txt") == "one"
    assert value(file_read, path="empty.txt") == ""


RANGES = [
    (1, 1, "one\n"),
    (2, 3, "two\nthree\n"),
    (3, 99, "three\nfour"),
    (4, None, "four"),
    (1, None, "one\ntwo\nthree\nfour"),
]


@pytest.mark.parametrize(("first", "last", "text"), RANGES)
def test_lines_are_counted_from_one_and_the_last_is_included(
    root: Path, first: int, last: int | None, text: str
) -> None:
    write(root / "a.txt", "one\ntwo\nthree\nfour")
    end = {} if last is None else {"end_line": last}
    assert value(file_read, path="a.txt", start_line=first, **end) == text


def test_lines_that_are_not_there_are_refused_with_their_number(root: Path) -> None:
    write(root / "a.txt", "one\ntwo\n")
    beyond = refusal(file_read, path="a.txt", start_line=3)
    assert (beyond["code"], beyond["message"]) == ("not_found", "a.txt has 2 lines, so there is no line 3")
    assert refusal(file_read, path="a.txt", start_line=2, end_line=1)["code"] == "input_invalid"
    assert refusal(file_read, path="a.txt", start_line=0)["code"] == "input_invalid"


BINARY = [
    (b"abc\0def", "it is binary data, 7 bytes", "text only"),
    (b"\x89PNG\r\n\x1a\n\0\0", "it is a PNG image, 10 bytes", "text only"),
    (b"a\xe4\xe4b", "or text in another encoding, 4 bytes", "such as 'latin-1'"),
    ("é".encode("utf-16"), "it is probably text in UTF-16", "the encoding 'utf-16'"),
    (b"a" * 20_000 + b"\0", "it is binary data", ""),
]


@pytest.mark.parametrize(("content", "kind", "hint"), BINARY)
def test_what_is_not_text_is_refused_with_its_kind_and_size(
    root: Path, content: bytes, kind: str, hint: str
) -> None:
    write(root / "a.bin", content)
    error = refusal(file_read, path="a.bin")
    assert kind in error["message"]
    assert hint in error["hint"]


def test_other_encodings_are_read_when_they_are_named(root: Path) -> None:
    for encoding in ("latin-1", "utf-16", "utf-32-le", "UTF_8", "cp1252"):
        write(root / "a.txt", "é\nü\n".encode(encoding))
        assert value(file_read, path="a.txt", encoding=encoding, start_line=2) == "ü\n"


@pytest.mark.parametrize(
    ("encoding", "hint"),
    [
        ("utf-9", "Did you mean 'utf-8'?"),
        ("latn1", "Did you mean 'latin1'?"),
        ("base64", ""),
        ("rot13", ""),
        ("punycode", ""),
        ("qqqqqq", "Use 'utf-8'"),
        ("a\0b", ""),
    ],
)
def test_an_unknown_encoding_suggests_the_one_that_was_meant(root: Path, encoding: str, hint: str) -> None:
    write(root / "a.txt", "one")
    error = refusal(file_read, path="a.txt", encoding=encoding)
    assert error["code"] == "input_invalid"
    assert "Unknown text encoding" in error["message"]
    assert hint in error["hint"]


def test_what_is_no_file_is_refused_with_a_remedy(root: Path) -> None:
    write(root / "notes.txt", "one")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    missing = refusal(file_read, path="ntoes.txt")
    assert (missing["code"], missing["hint"]) == ("not_found", "Did you mean 'notes.txt'?")
    assert "file_list" in refusal(file_read, path="folder")["hint"]
    assert "is a pipe" in refusal(file_read, path="pipe")["message"]
    assert "a part of its path is a file" in refusal(file_read, path="notes.txt/a")["message"]
    assert refusal(file_read, path="loop")["code"] in ("not_found", "failed")
    assert refusal(file_read, path="x" * 5000)["code"] in ("not_found", "failed")
    assert refusal(file_read, path="a\0b")["code"] == "not_found"


def test_a_huge_file_is_read_in_parts_only(root: Path) -> None:
    write(root / "huge.txt", "a line of text\n" * 1_000_000)
    write(root / "long.txt", "x" * 12_000_000)
    whole = refusal(file_read, path="huge.txt")
    assert "15,000,000 bytes" in whole["message"]
    assert "start_line" in whole["hint"]
    started = time.monotonic()
    assert value(file_read, path="huge.txt", start_line=999_999) == "a line of text\n" * 2
    assert value(file_read, path="huge.txt", start_line=5, end_line=5) == "a line of text\n"
    assert time.monotonic() - started < 5
    assert "start_line" in refusal(file_read, path="huge.txt", start_line=2)["hint"]
    assert "start_line" in refusal(file_read, path="long.txt", end_line=1)["hint"]


# --- Writing ----------------------------------------------------------------------------------------------


def test_a_file_is_written_with_its_directories(root: Path) -> None:
    assert value(file_write, path="notes/deep/a.txt", content="hé\n") == "Wrote 4 bytes to notes/deep/a.txt"
    assert (root / "notes/deep/a.txt").read_bytes() == b"h\xc3\xa9\n"
    assert [file.name for file in (root / "notes/deep").iterdir()] == ["a.txt"]


def test_create_does_not_touch_what_exists(root: Path) -> None:
    write(root / "a.txt", "old")
    (root / "folder").mkdir()
    error = refusal(file_write, path="a.txt", content="new")
    assert error["code"] == "conflict"
    assert "overwrite" in error["hint"]
    assert refusal(file_write, path="folder", content="new")["code"] == "conflict"
    assert refusal(file_write, path="a.txt/b.txt", content="new")["code"] == "conflict"
    assert refusal(file_write, path="a.txt/b/c.txt", content="new")["message"]
    assert (root / "a.txt").read_text("utf-8") == "old"


def test_overwrite_and_append_change_what_exists_or_begin_it(root: Path) -> None:
    assert value(file_write, path="a.txt", content="one", mode="overwrite") == "Wrote 3 bytes to a.txt"
    assert value(file_write, path="a.txt", content="2", mode="append") == "Appended 1 byte to a.txt"
    assert (root / "a.txt").read_text("utf-8") == "one2"
    value(file_write, path="a.txt", content="three", mode="overwrite")
    value(file_write, path="b.txt", content="four", mode="append")
    assert (root / "a.txt").read_text("utf-8") == "three"
    assert (root / "b.txt").read_text("utf-8") == "four"
    assert refusal(file_write, path="a.txt", content="", mode="overwriet")["code"] == "input_invalid"


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_the_permissions_of_the_old_file_are_kept(root: Path, mode: str) -> None:
    write(root / "a.txt", "old").chmod(0o640)
    value(file_write, path="a.txt", content="new", mode=mode)
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o640


def test_a_new_file_has_the_permissions_that_any_program_would_give_it(root: Path) -> None:
    value(file_write, path="a.txt", content="new")
    other = write(root / "b.txt")
    assert (root / "a.txt").stat().st_mode == other.stat().st_mode


def test_a_link_inside_the_workspace_is_written_through(root: Path) -> None:
    write(root / "real/a.txt", "old")
    (root / "link.txt").symlink_to("real/a.txt")
    (root / "new.txt").symlink_to("real/b.txt")
    value(file_write, path="link.txt", content="new", mode="overwrite")
    value(file_write, path="new.txt", content="new")
    assert (root / "link.txt").is_symlink()
    assert (root / "real/a.txt").read_text("utf-8") == "new"
    assert (root / "real/b.txt").read_text("utf-8") == "new"


def test_what_cannot_be_written_is_refused_with_a_reason(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert "is a pipe" in refusal(file_write, path="pipe", content="", mode="overwrite")["message"]
    assert refusal(file_write, path="../a.txt", content="")["code"] == "forbidden"
    assert "the name is too long" in refusal(file_write, path="x" * 300, content="")["message"]
    assert not (root.parent / "a.txt").exists()


def test_a_file_without_write_permission_is_not_replaced(root: Path) -> None:
    write(root / "a.txt", "old").chmod(0o444)
    result = call(file_write, path="a.txt", content="new", mode="overwrite")
    assert result["status"] == ("success" if os.geteuid() == 0 else "error")  # root may write everything


def test_a_directory_without_write_permission_is_told(tmp_path: Path) -> None:
    directory = Path("/sys") if os.geteuid() == 0 else tmp_path.resolve()
    if os.geteuid():
        directory.chmod(0o555)
    error = error_in(call_in(directory, file_write, path="a.txt", content="new"))
    assert error["code"] == "forbidden"
    assert "a.txt cannot be written: " in error["message"]


REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is exceeded",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission is denied",
    errno.EIO: os.strerror(errno.EIO),
}


@pytest.mark.parametrize(("number", "reason"), REASONS.items())
def test_what_the_system_says_becomes_one_sentence(tmp_path: Path, number: int, reason: str) -> None:
    error = OSError(number, os.strerror(number))
    assert refusal_of(error, "a", "written").message == f"a cannot be written: {reason}"


CHILD = """
import json, os, resource, sys
from strands_cli.tools.file_operations.file_write import file_write
mode, size, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
use = {"toolUseId": "x", "input": {"path": "a.txt", "content": "n" * size, "mode": mode}}
print(json.dumps(file_write(use)))
"""


def child(root: Path, mode: str, size: int, limit: int = 0) -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-c", CHILD, mode, str(size), str(limit)]
    path = os.pathsep.join(sys.path)
    return subprocess.Popen(program, cwd=root, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE)


def killed_midway(root: Path, mode: str) -> bool:
    """Whether the kill came before the end of the write: a busy machine may be too slow for it."""
    with child(root, mode, 150_000_000) as process:
        while process.poll() is None:
            if any(file.stat().st_size > 1_000_000 for file in root.glob(".strands-*.tmp")):
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.001)
    return process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("mode", ["create", "overwrite", "append"])
def test_a_write_killed_midway_leaves_what_was_there(root: Path, mode: str) -> None:
    file = root / "a.txt"
    for _ in range(5):
        file.unlink(missing_ok=True)
        if mode != "create":
            write(file, "old")
        if killed_midway(root, mode):
            break
    else:
        pytest.fail("the write was always finished before it could be killed")
    assert file.read_text("utf-8") == "old" if mode != "create" else not file.exists()


@pytest.mark.parametrize("mode", ["create", "overwrite", "append"])
def test_a_write_that_fails_midway_leaves_what_was_there_and_nothing_else(root: Path, mode: str) -> None:
    if mode != "create":
        write(root / "a.txt", "old")
    with child(root, mode, 5_000_000, limit=1_000_000) as process:
        output, _ = process.communicate()
    assert "too large for this file system" in error_in(json.loads(output))["message"]
    assert sorted(file.name for file in root.iterdir()) == sorted(
        {"strands.toml"} | ({"a.txt"} if mode != "create" else set())
    )
    assert mode == "create" or (root / "a.txt").read_text("utf-8") == "old"


def test_of_many_that_create_the_same_file_one_does(root: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: call(file_write, path="a.txt", content=str(n) * 1000), range(8)))
    created = [n for n, result in enumerate(results) if result["status"] == "success"]
    assert len(created) == 1
    assert (root / "a.txt").read_text("utf-8") == str(created[0]) * 1000


def test_of_many_that_append_none_is_lost(root: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: value(file_write, path="a", content=f"{n}\n", mode="append"), range(80)))
    assert sorted(map(int, (root / "a").read_text("utf-8").split())) == list(range(80))


def test_writing_needs_consent(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    context = CallContext(workspace=Workspace((root,), root))
    use: Any = {"toolUseId": "x", "input": {"path": "a.txt", "content": "new"}}
    assert error_in(asyncio.run(call_tool(file_write, use, context)))["code"] == "consent_required"
    assert not (root / "a.txt").exists()
    assert call_in(root, file_write, path="a.txt", content="new")["status"] == "success"


# --- Listing ----------------------------------------------------------------------------------------------


@pytest.fixture
def tree(root: Path) -> Path:
    for name in ("b.txt", "a/c.py", "a/deep/d.py", "a/deep/e.txt", ".git/config", ".hidden"):
        write(root / name, name)
    (root / "out").symlink_to(root.parent)
    (root / "inner").symlink_to("a")
    os.mkfifo(root / "pipe")
    return root


def listed(**given_input: Any) -> list[str]:
    return [entry["path"] for entry in value(file_list, **given_input)["entries"]]


def test_a_directory_is_listed_sorted_with_types_and_sizes(tree: Path) -> None:
    assert value(file_list) == {
        "entries": [
            {"path": ".git", "type": "directory", "size": None},
            {"path": ".hidden", "type": "file", "size": 7},
            {"path": "a", "type": "directory", "size": None},
            {"path": "b.txt", "type": "file", "size": 5},
            {"path": "inner", "type": "link", "size": None},
            {"path": "out", "type": "link", "size": None},
            {"path": "pipe", "type": "other", "size": None},
            {"path": "strands.toml", "type": "file", "size": 0},
        ],
        "truncated": False,
    }


def test_a_listing_goes_down_but_not_through_links_or_version_control(tree: Path) -> None:
    paths = listed(recursive=True)
    assert [path for path in paths if path.startswith("a")] == [
        "a",
        "a/c.py",
        "a/deep",
        "a/deep/d.py",
        "a/deep/e.txt",
    ]
    assert [path for path in paths if path.startswith((".git", "out", "inner"))] == [".git", "inner", "out"]


def test_a_pattern_chooses_from_a_listing(tree: Path) -> None:
    assert listed(pattern="*.txt") == ["b.txt"]
    assert listed(pattern="*.py", recursive=True) == ["a/c.py", "a/deep/d.py"]
    assert listed(pattern="a/**/*.txt", recursive=True) == ["a/deep/e.txt"]
    assert listed(path="a", pattern="deep/*.py", recursive=True) == ["a/deep/d.py"]
    assert listed(path=".git") == [".git/config"]


def test_what_is_no_directory_is_not_listed(tree: Path) -> None:
    assert "file_read" in refusal(file_list, path="b.txt")["hint"]
    assert refusal(file_list, path="c")["code"] == "not_found"
    assert refusal(file_list, path="..")["code"] == "forbidden"
    assert refusal(file_list, path="out")["code"] == "forbidden"
    assert refusal(file_list, path="pipe")["message"] == "pipe is not a directory"
    assert "too long" in refusal(file_list, path="x" * 300)["message"]
    assert "too long" in refusal(file_search, path="x" * 300, pattern="a")["message"]


def test_a_long_listing_is_cut_and_says_so(root: Path) -> None:
    for number in range(1005):
        (root / f"{number:04}.txt").touch()
    cut = value(file_list)
    assert (len(cut["entries"]), cut["truncated"]) == (1000, True)
    exact = value(file_list, pattern="0[0-9]*.txt")
    assert (len(exact["entries"]), exact["truncated"]) == (1000, False)


def test_a_name_that_is_no_text_is_shown_nevertheless(root: Path) -> None:
    write(root / os.fsdecode(b"\xff.txt"), "needle")
    assert "\ufffd.txt" in listed()
    assert value(file_search, pattern="needle")["matches"] == [
        {"path": "\ufffd.txt", "line": 1, "text": "needle"}
    ]


GLOBS = [
    ("*.py", "a.py", True),
    ("*.py", "x/y/a.py", True),
    ("*.py", "a.pyc", False),
    ("x/*.py", "x/a.py", True),
    ("x/*.py", "x/y/a.py", False),
    ("x/**/*.py", "x/a.py", True),
    ("x/**/*.py", "x/y/z/a.py", True),
    ("**/y/*", "x/y/a.py", True),
    ("**/y/**", "y/z/a.py", True),
    ("x/**", "x", True),
    ("x/**", "y/a.py", False),
    ("./x/a.py", "x/a.py", True),
    ("[ab].py", "a.py", True),
    ("[!ab].py", "a.py", False),
    ("?.py", "ab.py", False),
    ("", "anything", True),
    ("**/**/**/**/**/**/**/**/**/b", "a/" * 200 + "a", False),
    ("*a*a*a*a*a*a*a*a*a*a*b", "a" * 200, False),
]


@pytest.mark.parametrize(("pattern", "path", "fits"), GLOBS)
def test_a_glob_fits_names_or_whole_paths(pattern: str, path: str, fits: bool) -> None:
    assert glob_filter(pattern)(tuple(path.split("/"))) is fits


# --- Searching --------------------------------------------------------------------------------------------


def test_lines_are_found_with_their_places(tree: Path) -> None:
    write(tree / "a/c.py", "import os\nprint('needle')\r\n")
    write(tree / "a/deep/e.txt", "nothing\nNeedle\n")
    found = value(file_search, pattern="(?i)needle")
    assert found == {
        "matches": [
            {"path": "a/c.py", "line": 2, "text": "print('needle')"},
            {"path": "a/deep/e.txt", "line": 2, "text": "Needle"},
        ],
        "truncated": False,
        "files_searched": 6,
        "files_skipped": 0,
    }
    assert [match["path"] for match in value(file_search, pattern="(?i)needle", glob="*.py")["matches"]] == [
        "a/c.py"
    ]
    assert value(file_search, pattern=r"^os|needle'\)$", path="a/c.py")["files_searched"] == 1
    assert value(file_search, pattern="config")["matches"] == []  # which only a file in .git contains


def test_what_is_too_deep_to_be_looked_at_is_told(root: Path) -> None:
    (root / "/".join("d" * 257)).mkdir(parents=True)
    write(root / "/".join("d" * 255) / "a.txt", "needle")
    assert value(file_list, recursive=True)["truncated"] is True
    found = value(file_search, pattern="needle")
    assert (len(found["matches"]), found["truncated"]) == (1, True)
    assert "is a pipe" in str(refusal(file_search, path=fifo(root), pattern="x")["message"])


def fifo(root: Path) -> str:
    os.mkfifo(root / "fifo")
    return "fifo"


def test_a_search_of_nothing_finds_nothing(root: Path) -> None:
    assert value(file_search, pattern="x", glob="*.none") == {
        "matches": [],
        "truncated": False,
        "files_searched": 0,
        "files_skipped": 0,
    }


def test_binary_and_huge_files_are_skipped_and_counted(root: Path) -> None:
    write(root / "binary", b"needle\0")
    write(root / "huge", b"needle\n" * 1_000_000)
    write(root / "latin", "é needle".encode("latin-1"))
    found = value(file_search, pattern="needle")
    assert [(match["path"], match["text"]) for match in found["matches"]] == [("latin", "\ufffd needle")]
    assert (found["files_searched"], found["files_skipped"]) == (2, 2)


def test_a_search_ends_at_its_maximum_and_says_so(root: Path) -> None:
    write(root / "a.txt", "x\n" * 10)
    assert len(value(file_search, pattern="x", max_results=3)["matches"]) == 3
    assert value(file_search, pattern="x", max_results=9)["truncated"] is True
    assert value(file_search, pattern="x", max_results=10)["truncated"] is False


def test_a_long_line_is_shown_around_the_match(root: Path) -> None:
    write(root / "a.txt", "a" * 5000 + "needle" + "b" * 5000)
    (match,) = value(file_search, pattern="needle")["matches"]
    assert match["text"] == "…" + "a" * 100 + "needle" + "b" * 194 + "…"


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("print(", "missing ), unterminated subpattern at position 6"),
        ("[a", "unterminated character set at position 1"),
        ("*", "nothing to repeat at position 1"),
        ("a{99999999999}", "too complex"),
    ],
)
def test_a_malformed_expression_is_refused_with_its_position(root: Path, pattern: str, told: str) -> None:
    error = refusal(file_search, pattern=pattern)
    assert error["code"] == "input_invalid"
    assert told in error["message"]
    assert error["hint"]


def test_an_expression_that_never_ends_is_answered_at_the_deadline(root: Path) -> None:
    write(root / "a.txt", "a" * 40 + "b")
    started = time.monotonic()
    error = error_in(call_in(root, file_search, timeout=0.5, pattern="(a+)+$"))
    assert error["code"] == "timeout"
    assert time.monotonic() - started < 5


def test_the_matching_program_reads_its_request_and_prints_its_answer(root: Path) -> None:
    write(root / "a.txt", "needle")
    request = json.dumps({"pattern": "needle", "max_results": 5, "seconds": 5}).encode()
    program = [sys.executable, "-I", "-S", _line_search.__file__]
    sent = request + b"\n" + b"\0".join([b"a.txt", b"missing.txt"])
    answer = json.loads(subprocess.run(program, input=sent, capture_output=True, check=True).stdout)
    match = {"file": 0, "line": 1, "text": "needle"}
    assert answer == {"matches": [match], "truncated": False, "searched": 1, "skipped": 1}
    assert _line_search.search_lines("needle", [b"a.txt", b"missing.txt"], 5) == answer


def test_the_matching_program_passes_over_what_it_cannot_search(root: Path) -> None:
    write(root / "a.txt", "x" * 400 + "\nx\n")
    write(root / "binary", b"x\0")
    (root / "link").symlink_to("a.txt")
    answer = _line_search.search_lines("x", [b"binary", b"link", b"a.txt"], 1)
    match = {"file": 2, "line": 1, "text": "x" * 300 + "…"}
    assert answer == {"matches": [match], "truncated": True, "searched": 1, "skipped": 2}


# --- Confinement ------------------------------------------------------------------------------------------

CANARY = "this stands outside of the workspace"


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with every kind of way out of it, and a canary in each place where they lead."""
    outside = tmp_path_factory.mktemp("outside").resolve()
    for name in ("canary", "beside/canary", "root-too/canary"):
        write(outside / name, json.dumps(CANARY))
    root = outside / "root"
    write(root / "a.txt", '"inside"')
    write(root / "sub/b.txt", '"inside"')
    links = {
        "up": "..",
        "beside": "../beside",
        "leak": "../canary",
        "whole": "/",
        "loop": "loop",
        "sub/top": "..",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    (root / "sub/far").symlink_to(outside / "beside")
    return root


WORDS = ["..", ".", "a.txt", "sub", "b.txt", "top", "far", "up", "beside", "leak", "whole", "loop", "canary"]
WORDS += ["root", "root-too", "ROOT", "~", "...", "..\\..", "%2e%2e", "", "c"]
READERS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "file_read": (file_read, {}),
    "parse_json": (parse_json, {}),
    "file_list": (file_list, {"recursive": True}),
    "file_search": (file_search, {"pattern": "stands outside"}),
    "grep": (grep, {"pattern": "stands outside"}),
    "head": (head, {}),
    "tail": (tail, {}),
    "file_write": (file_write, {"content": '"inside"', "mode": "overwrite"}),
}


@settings(max_examples=examples(250))
@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=7),
    absolute=st.sampled_from(["", "/", "{root}/", "{outside}/", "file://{outside}/"]),
    name=st.sampled_from(sorted(READERS)),
)
def test_no_path_leads_out_of_the_workspace(
    confined: Path, words: list[str], absolute: str, name: str
) -> None:
    outside = confined.parent
    tool, rest = READERS[name]
    path = absolute.format(root=confined, outside=outside) + "/".join(words)
    result = call_in(confined, tool, path=path or ".", **rest)
    assert CANARY not in json.dumps(result)
    canaries = [file for file in outside.rglob("*") if file.is_file() and not file.is_relative_to(confined)]
    assert {file.read_text("utf-8") for file in canaries} == {json.dumps(CANARY)}
    assert len(canaries) == 3
    if name == "file_list" and result["status"] == "success":
        shown = [Path(confined, entry["path"]) for entry in result["content"][0]["json"]["entries"]]
        assert all(file.parent.resolve().is_relative_to(confined) for file in shown)


@pytest.mark.parametrize(
    "tool", [file_read, parse_json, file_list, file_search, file_write, grep, head, tail]
)
@pytest.mark.parametrize(
    "path", ["..", "up", "leak", "beside/canary", "sub/far/canary", "/etc/hostname", "whole/etc"]
)
def test_a_way_out_is_forbidden_by_name(confined: Path, tool: Tool, path: str) -> None:
    rest = READERS[tool.id][1]
    error = error_in(call_in(confined, tool, path=path, **rest))
    assert error["code"] == "forbidden"
    assert "outside the workspace" in error["message"]
    assert str(confined) in error["hint"]


def test_a_root_does_not_cover_a_directory_whose_name_begins_like_it(confined: Path) -> None:
    assert error_in(call_in(confined, file_read, path="../root-too/canary"))["code"] == "forbidden"


@pytest.mark.parametrize("tool", [file_read, parse_json, file_list, file_search, file_write])
@pytest.mark.parametrize("path", ["loop/../up/canary", "sub/top/loop/../../canary", "loop/../up"])
def test_a_link_to_itself_hides_no_way_out(confined: Path, tool: Tool, path: str) -> None:
    result = call_in(confined, tool, path=path, **READERS[tool.id][1])
    assert error_in(result)["code"] in ("failed", "forbidden")
    assert CANARY not in json.dumps(result)
    assert (confined.parent / "canary").read_text("utf-8") == json.dumps(CANARY)


@pytest.mark.parametrize("tool", [file_read, parse_json, file_list, file_search, file_write])
def test_a_directory_that_is_swapped_for_a_link_leads_nowhere(tmp_path: Path, tool: Tool) -> None:
    outside = tmp_path.resolve() / "outside"
    root = tmp_path.resolve() / "root"
    write(outside / "b.txt", json.dumps(CANARY))
    write(root / "sub/b.txt", '"inside"')
    before = {"b.txt": json.dumps(CANARY)}
    path = "sub" if tool is file_list else "sub/b.txt"
    if tool is file_list:
        write(outside / "only-outside", CANARY)
        before["only-outside"] = CANARY
    seen: set[str] = set()
    with swapping(root, "sub", outside):
        for _ in range(60 if tool is file_search else 300):
            result = call_in(root, tool, path=path, **READERS[tool.id][1])
            seen.add(result["status"])
            assert CANARY not in json.dumps(result)
            assert "only-outside" not in json.dumps(result)
    assert {file.name: file.read_text("utf-8") for file in outside.iterdir()} == before
    assert "success" in seen
