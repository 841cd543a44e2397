"""A request to stop: who waits for it hears of it, from whatever thread it comes."""

import asyncio
from threading import Thread

from strands_cli.toolkit.cancellation import Cancellation


def test_a_wait_ends_when_another_thread_cancels() -> None:
    async def scene() -> None:
        cancel = Cancellation()
        waiting = asyncio.ensure_future(cancel.wait())
        await asyncio.sleep(0)

        Thread(target=cancel.set).start()

        assert await asyncio.wait_for(waiting, 5) is True

    asyncio.run(scene())


def test_a_wait_for_what_is_cancelled_already_ends_at_once() -> None:
    async def scene() -> None:
        cancel = Cancellation()
        cancel.set()

        assert await cancel.wait(60) is True

    asyncio.run(scene())


def test_a_wait_that_is_not_cancelled_is_a_sleep() -> None:
    async def scene() -> None:
        assert await Cancellation().wait(0.01) is False

    asyncio.run(scene())


def test_a_block_that_has_ended_is_not_called() -> None:
    async def scene() -> None:
        cancel, heard = Cancellation(), []
        with cancel.on_set(lambda: heard.append("own")), cancel.on_set_in_loop(heard.append, "loop"):
            pass

        cancel.set()
        await asyncio.sleep(0)

        assert heard == []

    asyncio.run(scene())


def test_the_loop_calls_what_a_thread_cancels() -> None:
    async def scene() -> None:
        cancel = Cancellation()
        heard: asyncio.Queue[str] = asyncio.Queue()
        with cancel.on_set_in_loop(heard.put_nowait, "stop"):
            Thread(target=cancel.set).start()
            assert await asyncio.wait_for(heard.get(), 5) == "stop"

    asyncio.run(scene())


def test_cancelling_what_a_closed_loop_waited_for_is_harmless() -> None:
    cancel = Cancellation()
    block = cancel.on_set_in_loop(print)

    async def begin() -> None:
        block.__enter__()

    asyncio.run(begin())

    cancel.set()

    assert cancel.is_set()


def test_one_cancellation_sets_another() -> None:
    parent, child = Cancellation(), Cancellation()
    with parent.on_set(child.set):
        parent.set()

    assert child.is_set()
