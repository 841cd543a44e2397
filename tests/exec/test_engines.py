"""Engines: the runs of a process, and what becomes of runs that go on elsewhere."""

import asyncio
from pathlib import Path

import pytest

from strands_cli.errors import Interrupted, Paused, SessionError
from strands_cli.exec.engines import LocalEngine, watch_run
from strands_cli.exec.history import list_runs
from strands_cli.exec.journal import decode_row, encode_row
from strands_cli.exec.ownership import Lost, Owner, TakenRun, this_process
from strands_cli.exec.run import run
from strands_cli.exec.run_records import submitted_rows
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import MemoryStore
from strands_cli.testing import ScriptedModel
from strands_cli.toolkit.cancellation import Cancellation
from tests.exec.flows import Flow

STEPS = {"steps": [{"agent": "a", "input": "one"}, {"agent": "a", "input": "two"}]}
ASKING = {"steps": [{"agent": "a", "input": "one"}, {"human": {"prompt": "Good?"}, "id": "ok"}]}


def scripted(*answers: str) -> ScriptedModel:
    model = ScriptedModel()
    for answer in answers:
        model.enqueue(answer)
    return model


def options(*answers: str) -> RunOptions:
    return RunOptions(model=scripted(*answers))


@pytest.mark.asyncio
async def test_a_run_is_submitted_and_its_result_awaited(tmp_path: Path) -> None:
    engine = LocalEngine(MemoryStore())
    id = await engine.submit(Flow(tmp_path).spec("chain", STEPS), options("first", "second"), run="mine")
    assert id == "mine"
    assert await engine.list() == ["mine"]
    assert (await engine.result("mine")).last_response == "second"
    assert await engine.list() == []


@pytest.mark.asyncio
async def test_an_id_is_used_once(tmp_path: Path) -> None:
    engine, spec = LocalEngine(MemoryStore()), Flow(tmp_path).spec("chain", STEPS)
    await engine.submit(spec, options("first", "second"), run="mine")
    with pytest.raises(SessionError, match="already exists"):
        await engine.submit(spec, options("first", "second"), run="mine")
    await engine.result("mine")


@pytest.mark.asyncio
async def test_a_question_ends_the_wait_and_its_answer_continues_the_run(tmp_path: Path) -> None:
    store, spec = MemoryStore(), Flow(tmp_path).spec("chain", ASKING)
    engine = LocalEngine(store, options())
    id = await engine.submit(spec, options("first"))
    with pytest.raises(Paused) as paused:
        await engine.result(id)
    await engine.answer(id, {paused.value.questions[0].key: "yes"})
    assert (await engine.result(id)).last_response == "yes"


@pytest.mark.asyncio
async def test_a_run_is_cancelled_in_this_process(tmp_path: Path) -> None:
    engine, begun = LocalEngine(MemoryStore()), asyncio.Event()

    async def wait(question: str) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    given = RunOptions(model=scripted("first"), ask_human=wait)
    id = await engine.submit(Flow(tmp_path).spec("chain", ASKING), given)
    await begun.wait()
    await engine.cancel(id)
    with pytest.raises(Interrupted):
        await engine.result(id)


@pytest.mark.asyncio
async def test_a_run_of_another_process_ends_at_its_next_write_when_it_is_cancelled(tmp_path: Path) -> None:
    store, gate, begun = MemoryStore(), asyncio.Event(), asyncio.Event()

    async def wait(question: str) -> str:
        begun.set()
        await gate.wait()
        return "yes"

    spec = Flow(tmp_path).spec("chain", ASKING)
    given = RunOptions(model=scripted("first"), store=store, new_id="theirs", ask_human=wait)
    theirs = asyncio.ensure_future(run(spec, options=given))
    await begun.wait()
    await LocalEngine(store).cancel("theirs")
    gate.set()
    with pytest.raises(Lost):
        await theirs
    [summary] = list_runs(store.runs())
    assert summary.status == "interrupted"
    with pytest.raises(SessionError, match="is interrupted"):
        await LocalEngine(store).cancel("theirs")


@pytest.mark.asyncio
async def test_a_run_that_goes_on_elsewhere_is_watched_to_its_end(tmp_path: Path) -> None:
    store, seen = MemoryStore(), list[str]()
    spec = Flow(tmp_path).spec("chain", STEPS)
    store.create("theirs", {})
    given = RunOptions(model=scripted("first", "second"), store=store, new_id="theirs")
    theirs = asyncio.ensure_future(run(spec, options=given))
    result = await watch_run(store, "theirs", seen.extend)
    assert result.last_response == (await theirs).last_response == "second"
    assert {"head", "status", "steps/0/result", "steps/1/result"} <= {*seen}


@pytest.mark.asyncio
async def test_whoever_watches_gets_the_error_that_ended_the_run(tmp_path: Path) -> None:
    store = MemoryStore()
    spec = Flow(tmp_path).spec("chain", ASKING)
    with pytest.raises(Paused) as first:
        await run(spec, options=RunOptions(model=scripted("first"), store=store, new_id="theirs"))
    with pytest.raises(Paused) as second:
        await LocalEngine(store).result("theirs")
    assert second.value.message == first.value.message
    assert second.value.questions == first.value.questions
    assert second.value.run_id == "theirs"


@pytest.mark.asyncio
async def test_a_run_whose_process_is_gone_is_not_watched_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store, spec = MemoryStore(), Flow(tmp_path).spec("chain", STEPS)
    dead = Owner(this_process().host, 2**22 + 1, "never")
    rows = submitted_rows(spec, RunOptions(), run="theirs", workflow="")
    head, status = ({**decode_row(rows[key])} for key in ("head", "status"))
    head["engine"] = ""
    status |= {"status": "running", "owner": dead}
    store.create("theirs", {"head": encode_row(head), "status": encode_row(status)})
    with pytest.raises(Interrupted):
        await LocalEngine(store).result("theirs")
    store.delete("theirs")
    with pytest.raises(SessionError, match="Run theirs was deleted"):
        await LocalEngine(store).result("theirs")


@pytest.mark.asyncio
async def test_a_run_that_goes_on_elsewhere_is_queued_when_it_is_cancelled_here(tmp_path: Path) -> None:
    store, cancel = MemoryStore(), Cancellation()
    spec = Flow(tmp_path).spec("chain", ASKING)
    for run_id, goes_on in (("drained", True), ("cancelled", False)):
        given = RunOptions(model=scripted("first"), store=store, new_id=run_id)
        with pytest.raises(Paused):
            await run(spec, options=given)
        cancel.set()
        taken = TakenRun(store.take(run_id), lambda goes_on=goes_on: goes_on)
        given = RunOptions(
            model=scripted(),
            store=store,
            resume=run_id,
            taken=taken,
            cancel=cancel,
        )
        with pytest.raises(Interrupted):
            await run(spec, options=given)
    found = {one.id: one.status for one in list_runs(store.runs())}
    assert found == {"drained": "queued", "cancelled": "interrupted"}
