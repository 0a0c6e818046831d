"""Blocking calls in threads that nobody waits for."""

import asyncio
import threading

import pytest

from daemon.threads import in_thread


async def test_results_and_errors_come_back() -> None:
    assert await in_thread(lambda: threading.current_thread().daemon) is True
    with pytest.raises(KeyError):
        await in_thread(lambda: {}["nothing"])


async def test_hanging_calls_hold_up_no_other() -> None:
    never = threading.Event()
    hanging = [asyncio.create_task(in_thread(lambda: never.wait(30))) for _ in range(60)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(in_thread(lambda: 7), 5.0) == 7
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    never.set()


def test_the_end_of_the_loop_waits_for_none() -> None:
    never = threading.Event()

    async def leave() -> None:
        task = asyncio.create_task(in_thread(lambda: never.wait(30)))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(leave())
    never.set()
