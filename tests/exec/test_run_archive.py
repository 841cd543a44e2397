"""A run as a file: complete, checked, and without the rights of whoever wrote it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from strands_cli.errors import SessionError
from strands_cli.exec.journal import decode_row, encode_row
from strands_cli.exec.run_archive import Archive, archive_lines, moved_run, read_archive

HEAD = {
    "id": "abcd1234",
    "name": "news",
    "pattern": "chain",
    "file": "/home/ada/shop/flows/news.yaml",
    "project": "/home/ada/shop",
    "directory": "/home/ada/shop/flows",
    "created": 1.5,
    "variables": {"topic": "tea"},
    "environment": {},
    "options": {"provider": "scripted", "host": "", "out": "results", "force": False, "allow_write": []},
}
CALL = {"toolUse": {"toolUseId": "1", "name": "send", "input": {}}}
CALLS = {
    "at": 1.0,
    "model": "m",
    "message": {"role": "assistant", "content": [CALL, CALL]},
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 1},
}
RESULT = {"at": 1.0, "tool": "send", "result": {"content": [{"image": {"source": {"bytes": b"\x00\xff"}}}]}}
BEGUN = {"at": 1.0, "kind": "agent", "title": "one", "prompt": "p", "fingerprint": "f"}
ROWS: dict[str, Any] = {
    "head": HEAD,
    "spec": {"files": {"news.yaml": "version: 0\n"}},
    "status": {"status": "running", "owner": {"host": "there", "pid": 1, "started": ""}},
    "steps/0/begun": BEGUN,
    "steps/0/model/1": CALLS,
    "steps/0/consent/1/question": {"at": 1.0, "kind": "consent", "question": "Allow it?"},
    "steps/0/consent/1/answer": {"at": 2.0, "text": "yes", "by": "person"},
    "steps/0/tool/1/0": RESULT,
    "steps/0/ask/1/question": {"at": 1.0, "kind": "interrupt", "question": "Sure?"},
    "steps/0/ask/1/answer": {"at": 2.0, "text": "yes", "by": "person"},
    "artifacts": {"/home/ada/shop/out.txt": "00"},
}

DONE = {
    "status": "done",
    "answer": {"last_response": "r", "output": None},
    "usage": {},
    "seconds": 1.0,
    "done": [],
}


def archived(rows: dict[str, Any] = ROWS) -> bytes:
    return b"".join(archive_lines("abcd1234", {key: encode_row(row) for key, row in rows.items()}))


def moved(tmp_path: Path, rows: dict[str, Any]) -> Archive:
    project = tmp_path / "clone"
    (project / "flows").mkdir(parents=True)
    archive = read_archive(archived(rows), "run.jsonl")
    return moved_run(archive, "abcd1234", project=project, directory=project)


def test_a_run_comes_back_as_it_was_written() -> None:
    archive = read_archive(archived(), "run.jsonl")
    assert archive.id == "abcd1234"
    assert archive.rows == ROWS
    assert {key: decode_row(row) for key, row in archive.encoded().items()} == ROWS


def test_a_run_moves_to_the_project_that_it_is_imported_into(tmp_path: Path) -> None:
    head = moved(tmp_path, ROWS).rows["head"]
    project = tmp_path / "clone"
    assert head["file"] == str(project / "flows" / "news.yaml")
    assert (head["project"], head["directory"]) == (str(project), str(project / "flows"))
    assert head["options"]["out"] == str(project / "flows" / "results")
    outside = {**HEAD, "file": "C:\\work\\news.yaml", "directory": "/somewhere/else"}
    (tmp_path / "more").mkdir()
    head = moved(tmp_path / "more", {**ROWS, "head": outside}).rows["head"]
    assert head["file"] == str(tmp_path / "more" / "clone" / "news.yaml")
    assert head["directory"] == str(tmp_path / "more" / "clone")


def test_nobody_is_granted_what_another_person_was(tmp_path: Path) -> None:
    options = {"host": "https://evil.example", "force": True, "allow_write": ["/etc"], "out": "../../.."}
    taken = moved(tmp_path, {**ROWS, "head": {**HEAD, "options": options}})
    assert taken.rows["head"]["options"] == {"out": "."}
    assert "artifacts" not in taken.rows
    assert taken.rows["status"] == {"status": "interrupted"}
    consent = "consent to calls that were not made yet"
    assert taken.left == (
        "--host",
        "--force",
        "--allow-write",
        "--out",
        consent,
        "answers to questions of tools",
    )
    assert "steps/0/consent/1/answer" not in taken.rows
    assert "steps/0/consent/1/question" in taken.rows
    assert not any("/ask/" in key for key in taken.rows)


def test_consent_and_answers_are_kept_to_be_looked_at_where_they_allow_nothing_more(tmp_path: Path) -> None:
    asked = {key for key in ROWS if "/consent/" in key or "/ask/" in key}
    result = {"at": 1.0, "key": "steps/0", "id": "one", "agent": "a", "response": "sent"}
    assert asked <= moved(tmp_path, {**ROWS, "steps/0/result": result}).rows.keys()
    (tmp_path / "more").mkdir()
    made = moved(tmp_path / "more", {**ROWS, "steps/0/tool/1/1": RESULT})
    assert not asked & made.rows.keys()  # the step goes on, with calls that are not known yet


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth else []


def replaced(key: str, row: Any) -> bytes:
    return archived({**ROWS, key: row})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "run.jsonl is not an exported run."),
        (b"\x00" * 100, "run.jsonl is not an exported run."),
        (b'{"format": "other", "version": 1, "id": "abcd1234"}', "run.jsonl is not an exported run."),
        (archived().replace(b'"abcd1234"', b'"../../ab"', 1), "run.jsonl is not an exported run."),
        (archived().replace(b'"version":1', b'"version":2', 1), "written by a newer version"),
        (archived()[:-40], "run.jsonl:12 is not a row of a run"),
        (b"\n".join(archived().splitlines()[:-1]), "is incomplete"),
        (archived() + b"[" * 100_000, "run.jsonl:13 is not a row of a run"),
        (replaced("x", nested(150)), "run.jsonl:13: values are nested more than 100 deep"),
        (b"," * 10_000_001, "has more than 10000000 values"),
        (replaced("a" + "/b" * 100, {}), "the key of this row is not valid"),
        (replaced("steps/0/\x1b[2J", {}), "the key of this row is not valid"),
        (replaced("steps/0/begun", {"title": 5}), "The row 'steps/0/begun' of the run is damaged"),
        (replaced("steps/0/begun", {**BEGUN, "at": None}), "The row 'steps/0/begun' of the run is damaged"),
        (replaced("steps/0/result", {"response": "x"}), "'steps/0/result' is invalid"),
        (replaced("steps/0/answer", {"by": "person"}), "'steps/0/answer' is invalid"),
        (replaced("steps/0/consent/1/answer", {}), "'steps/0/consent/1/answer' is invalid"),
        (replaced("steps/0/model/1", {"message": {}}), "'steps/0/model/1' is invalid"),
        (replaced("steps/0/tool/1/0", {"result": "x"}), "'steps/0/tool/1/0' is invalid"),
        (replaced("status", {"status": "done"}), "'status' is invalid"),
        (replaced("status", {**DONE, "done": ["steps/7"]}), "'steps/7/result' is invalid"),
        (replaced("head", {**HEAD, "options": {"provider": []}}), "'head' is invalid"),
        (replaced("head", {**HEAD, "directory": 1}), "of the run is damaged"),
        (replaced("head", {"name": "x"}), "'head' is invalid"),
        (replaced("head", {**HEAD, "pattern": "chat"}), "is a chat, which cannot be imported"),
        (replaced("spec", {"files": {}}), "has no workflow"),
        (replaced("spec", {"files": {"news.yaml": "x" * 2_000_001}}), "more than 2000000 characters"),
    ],
)
def test_a_file_that_is_not_a_whole_run_is_refused_with_its_place(data: bytes, reason: str) -> None:
    with pytest.raises(SessionError) as caught:
        read_archive(data, "run.jsonl")
    assert reason in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("status", DONE),
        ("steps/0/begun", BEGUN),
        ("steps/0/model/1", CALLS),
        ("steps/0/tool/1/0", RESULT),
        ("steps/0/user/1", {"at": 1.0, "content": []}),
        ("steps/0/compaction/1", {"at": 1.0, "before": 1, "messages": []}),
        ("steps/0/result", {"at": 1.0, "key": "steps/0", "id": "one", "agent": "a", "response": "r"}),
        ("steps/0/question", {"at": 1.0, "question": "?"}),
    ],
)
def test_what_a_resumed_run_takes_for_granted_is_in_every_row(key: str, row: dict[str, Any]) -> None:
    read_archive(replaced(key, row), "run.jsonl")
    for name in row.keys() - {"title", "tool", "status"}:
        with pytest.raises(SessionError, match=f"the row '{key}' is invalid: .*`{name}`"):
            read_archive(replaced(key, {k: v for k, v in row.items() if k != name}), "run.jsonl")


def test_a_line_is_one_row() -> None:
    first, *lines = archived().splitlines()
    assert msgspec.json.decode(first)["rows"] == len(lines) == len(ROWS)
    assert msgspec.json.decode(lines[1]) == {"key": "spec", "value": ROWS["spec"]}
