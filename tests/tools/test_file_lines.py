"""grep, search, head and tail: a look into one text file."""

import os
import time
from pathlib import Path

import pytest

from strands_cli.toolkit.contract import Tool
from strands_cli.tools.file_operations.file_lines import grep, head, search, tail
from tests.tools.test_file_tools import call_in, error_in, refusal, root, value, write

__all__ = ["root"]

TEXT = "alpha\r\nbeta\ngamma\ndelta é\nBETA"
ASKED: list[tuple[Tool, dict[str, object]]] = [
    (grep, {"pattern": "."}),
    (search, {"query": "."}),
    (head, {}),
    (tail, {}),
]


def test_grep_shows_matching_lines_with_their_numbers_and_the_lines_around_them(root: Path) -> None:
    write(root / "a.txt", TEXT)
    assert value(grep, pattern="^be", path="a.txt", context_lines=1) == "1- alpha\n2: beta\n3- gamma"
    assert value(grep, pattern="a$", path="a.txt", context_lines=0) == "1: alpha\n2: beta\n3: gamma"
    both = value(grep, pattern="^beta", path="a.txt", ignore_case=True, context_lines=1)
    assert both == "1- alpha\n2: beta\n3- gamma\n4- delta é\n5: BETA"
    assert value(grep, pattern="omega", path="a.txt") == "No line of a.txt matches."


def test_places_that_do_not_touch_are_divided_and_matches_end_at_their_maximum(root: Path) -> None:
    write(root / "a.txt", "x\n" + "-\n" * 5 + "x\nx\n")
    assert value(grep, pattern="x", path="a.txt", context_lines=1, max_matches=2) == (
        "1: x\n2- -\n--\n6- -\n7: x\n… There are more matches; 2 are shown."
    )


def test_search_takes_a_text_as_it_is_unless_it_is_an_expression(root: Path) -> None:
    write(root / "a.txt", "f(x)\nF(X)\nfx\n")
    assert value(search, query="f(x)", path="a.txt") == "1: f(x)\n2: F(X)"
    assert value(search, query="f(x)", path="a.txt", ignore_case=False) == "1: f(x)"
    assert value(search, query="^fx", path="a.txt", is_regex=True) == "3: fx"
    assert refusal(search, query="f(", path="a.txt", is_regex=True)["code"] == "input_invalid"
    assert refusal(grep, pattern="f(", path="a.txt")["code"] == "input_invalid"


def test_head_and_tail_show_the_ends_of_a_file(root: Path) -> None:
    write(root / "a.txt", TEXT)
    write(root / "ended.txt", "one\ntwo\n")
    write(root / "empty.txt")
    assert value(head, path="a.txt", lines=2) == "1: alpha\n2: beta"
    assert value(tail, path="a.txt", lines=2) == "4: delta é\n5: BETA"
    for tool in (head, tail):
        assert value(tool, path="ended.txt") == "1: one\n2: two"
        assert value(tool, path="empty.txt") == "empty.txt is empty."


def test_a_limit_of_bytes_cuts_lines_but_no_character(root: Path) -> None:
    write(root / "a.txt", "one é\ntwo é")
    assert value(head, path="a.txt", bytes_limit=5) == "1: one "
    assert value(head, path="a.txt", bytes_limit=8) == "1: one é\n2: t"
    assert value(tail, path="a.txt", bytes_limit=1) == "2: "
    assert value(tail, path="a.txt", bytes_limit=8) == "1: \n2: two é"


def test_huge_files_and_very_long_lines_are_looked_into(root: Path) -> None:
    write(root / "huge.txt", "a line of text\n" * 1_000_000 + "the end\n")
    write(root / "long.txt", "needle" + "x" * 12_000_000 + "\nshort\n")
    started = time.monotonic()
    assert value(tail, path="huge.txt", lines=1) == "1000001: the end"
    assert value(grep, pattern="the end", path="huge.txt", context_lines=0) == "1000001: the end"
    assert value(search, query="short", path="long.txt") == "2: short"
    found = value(search, query="needle", path="long.txt")
    assert (found[:12], len(found)) == ("1: needlexxx", 304)
    assert value(head, path="long.txt", bytes_limit=8) == "1: needlexx"
    assert "bytes_limit" in refusal(head, path="long.txt")["hint"]
    assert "10,000,000 bytes or more" in refusal(head, path="long.txt")["message"]
    assert "10,000,000 bytes or more" in refusal(tail, path="long.txt", lines=2)["message"]
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(("tool", "given"), ASKED)
def test_what_is_no_text_file_is_refused_as_file_read_does(
    root: Path, tool: Tool, given: dict[str, object]
) -> None:
    write(root / "a.bin", b"abc\0def")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    assert (
        "a.bin is not UTF-8 text: it is binary data, 7 bytes"
        in refusal(tool, path="a.bin", **given)["message"]
    )
    assert "is a directory" in refusal(tool, path="folder", **given)["message"]
    assert "is a pipe" in refusal(tool, path="pipe", **given)["message"]
    assert refusal(tool, path="missing", **given)["code"] == "not_found"
    assert refusal(tool, path="../a.txt", **given)["code"] == "forbidden"


def test_an_expression_that_never_ends_is_stopped_at_the_deadline(root: Path) -> None:
    write(root / "a.txt", "a" * 5000 + "!")
    started = time.monotonic()
    error = error_in(call_in(root, grep, timeout=0.5, pattern="(a+)+$", path="a.txt"))
    assert error["code"] == "timeout"
    assert time.monotonic() - started < 5
