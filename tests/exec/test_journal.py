"""The rows of one run on their way to a store."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from strands_cli.errors import SessionError
from strands_cli.exec.journal import Journal, decode_row, encode_row
from strands_cli.exec.ownership import Lost
from strands_cli.exec.stores import MemoryStore, SqliteStore
from strands_cli.secrets import Redactor
from strands_cli.types import StepResult, Usage

RUN = "aaaa1111"


class SlowStore(MemoryStore):
    """One that writes when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.gate = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        self.entered.set()
        assert self.gate.wait(30)
        self.batches.append(list(rows))
        super().put(run, fence, rows)


class BrokenStore(MemoryStore):
    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        raise ZeroDivisionError("oh")


@pytest.mark.asyncio
async def test_what_was_committed_is_in_the_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    journal = Journal.open(store, RUN)
    journal.put("head", {"name": "demo"})
    assert journal.get("head") == {"name": "demo"}
    await journal.committed()
    assert SqliteStore(tmp_path / "runs.db").load(RUN) == {"head": b'{"name":"demo"}'}
    journal.close()


@pytest.mark.asyncio
async def test_closing_writes_what_is_left_and_gives_the_run_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    journal = Journal.open(store, RUN)
    for number in range(500):
        journal.put(f"notices/{number}", {"text": "hm"})
    journal.close()
    journal.put("late", 1)
    again = Journal.open(store, RUN)
    assert again.keys() == [f"notices/{number}" for number in range(500)]
    again.close()


@pytest.mark.asyncio
async def test_rows_that_come_while_others_are_written_are_written_together() -> None:
    store = SlowStore()
    journal = Journal.open(store, RUN)
    journal.put("first", 1)
    await asyncio.to_thread(store.entered.wait, 30)
    for number in range(5):
        journal.put("status", number)
        journal.put(f"row/{number}", number)
    waiting = [asyncio.ensure_future(journal.committed()) for _ in range(20)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    store.gate.set()
    await asyncio.gather(*waiting)
    journal.close()
    assert store.batches == [["first"], ["status", *(f"row/{number}" for number in range(5))]]
    assert decode_row(store.load(RUN)["status"]) == 4


@pytest.mark.asyncio
async def test_rows_that_nobody_waits_for_are_written_soon_and_together() -> None:
    store = SlowStore()
    store.gate.set()
    journal = Journal.open(store, RUN)
    journal.put("steps/0/user/1", 1)
    journal.put("steps/0/tool/1/0", 2)
    assert not store.entered.is_set()
    await asyncio.to_thread(store.entered.wait, 30)
    journal.close()
    assert store.batches == [["steps/0/user/1", "steps/0/tool/1/0"]]


@pytest.mark.asyncio
async def test_a_step_that_is_cancelled_while_it_waits_disturbs_nobody_else() -> None:
    store = SlowStore()
    journal = Journal.open(store, RUN)
    journal.put("head", 1)
    first, second = (asyncio.ensure_future(journal.committed()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    store.gate.set()
    await second
    journal.close()


@pytest.mark.asyncio
async def test_the_loop_goes_on_until_the_last_rows_are_written_and_the_run_is_given_back() -> None:
    store = SlowStore()
    journal = Journal.open(store, RUN)
    journal.put("status", 1)
    closing = asyncio.ensure_future(journal.closed())
    await asyncio.to_thread(store.entered.wait, 30)
    assert not closing.done()
    store.gate.set()
    await closing
    assert store.load(RUN) == {"status": b"1"}
    store.take(RUN)


@pytest.mark.asyncio
async def test_rows_are_written_though_nobody_waits_for_the_end_any_more() -> None:
    store = SlowStore()
    journal = Journal.open(store, RUN)
    journal.put("status", 1)
    closing = asyncio.ensure_future(journal.closed())
    await asyncio.to_thread(store.entered.wait, 30)
    threading.Timer(0.1, store.gate.set).start()
    closing.cancel()
    await asyncio.wait({closing})
    assert store.load(RUN) == {"status": b"1"}


@pytest.mark.asyncio
async def test_nothing_is_waited_for_where_nothing_is_to_be_written() -> None:
    journal = Journal.open(MemoryStore(), RUN)
    await journal.committed()
    journal.close()
    journal.close()
    await journal.committed()


@pytest.mark.asyncio
async def test_whoever_lost_the_run_is_told_once_and_writes_nothing_more() -> None:
    store = MemoryStore()
    journal = Journal.open(store, RUN)
    told: list[SessionError] = []
    journal.on_failure = told.append
    journal.put("head", 1)
    await journal.committed()
    other = Journal.open(store, RUN, take_over=True)
    for _ in range(3):
        journal.put("head", 2)
        with pytest.raises(Lost, match="taken over"):
            await journal.committed()
    journal.close()
    assert [error.exit_code for error in told] == [17]
    assert store.load(RUN) == {"head": b"1"}
    with pytest.raises(SessionError, match="in use"):
        Journal.open(store, RUN)
    other.close()


@pytest.mark.asyncio
async def test_a_store_with_a_bug_ends_the_run_and_not_the_thread() -> None:
    journal = Journal.open(BrokenStore(), RUN)
    told: list[SessionError] = []
    journal.on_failure = told.append
    journal.put("head", 1)
    with pytest.raises(SessionError, match="ZeroDivisionError: oh"):
        await journal.committed()
    journal.close()
    assert len(told) == 1


@pytest.mark.asyncio
async def test_secrets_are_in_no_row_and_not_shown_to_who_watches() -> None:
    store = MemoryStore()
    journal = Journal.open(store, RUN, redactor=Redactor(["hunter2hunter2"]))
    seen: list[tuple[str, Any]] = []
    journal.on_row = lambda key, value: seen.append((key, value))
    journal.put("steps/0/model/1", {"message": {"content": [{"text": "it is hunter2hunter2."}]}})
    journal.close()
    assert b"hunter2" not in store.load(RUN)["steps/0/model/1"]
    shown = {"message": {"content": [{"text": "it is ***."}]}}
    assert seen == [("steps/0/model/1", shown)]
    assert journal.get("steps/0/model/1") == shown


def test_a_value_that_is_changed_after_it_was_put_is_recorded_as_it_was() -> None:
    journal = Journal.open(MemoryStore(), RUN)
    value = {"messages": [1]}
    journal.put("head", value)
    value["messages"].append(2)
    journal.get("head")["messages"].append(3)  # type: ignore[index]
    assert journal.get("head") == {"messages": [1]}
    journal.close()


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"image": {"source": {"bytes": b"\x89PNG\x00\xff"}}},
        [b"", {"a": [b"x"]}],
        {"$bytes": "a text that is not base64"},
        {"$bytes": b"inside"},
        {"$$bytes": {"$bytes": 1}},
        {"$bytes": 1, "other": 2},
        "half a pair: \ud83d",
        {"big": 2**80, "small": -(2**70), "e": 1e300},
        {"ä": "日本", "": {}},
        "Žižka, Łódź, ġenb",
        [[[]], {}, True, False, 1.5],
    ],
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert decode_row(encode_row(value)) == value


def test_results_of_steps_paths_and_numbers_as_keys_become_json() -> None:
    result = StepResult(key="steps/0", id="a", agent="b", response="c", usage=Usage(input_tokens=3))
    assert decode_row(encode_row(result))["usage"]["input_tokens"] == 3
    assert decode_row(encode_row({"file": Path("a/b"), 1: ValueError("no")})) == {"file": "a/b", "1": "no"}


def test_a_row_that_is_damaged_is_told() -> None:
    with pytest.raises(SessionError, match="damaged"):
        decode_row(b"{\x00")
