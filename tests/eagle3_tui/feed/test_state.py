from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from contracts.clock import Clock
from contracts.status import RunState
from eagle3_tui.feed.background import in_background
from eagle3_tui.feed.state import Feed
from tests.eagle3_tui.samples import NOW, FakeMonitor, events, running
from tests.eagle3_tui.waiting import eventually


class Hands:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.mono = 100.0
        self.clock = Clock(wall=lambda: NOW, monotonic=lambda: self.mono)


async def test_nothing_is_known_before_the_first_reading() -> None:
    feed = Feed(FakeMonitor(running()), Hands().clock)
    assert feed.view().status is None
    await feed.read()
    view = feed.view()
    assert view.status is not None
    assert view.status.state is RunState.RUNNING
    assert list(view.events) == events()
    assert (view.age_s, view.problem) == (None, None)


async def test_a_failed_reading_keeps_the_figures_and_says_why_and_how_old() -> None:
    hands = Hands()
    source = FakeMonitor(running())
    feed = Feed(source, hands.clock)
    await feed.read()
    source.error = OSError(116, "Stale file handle", "/data/run/events.jsonl")
    hands.mono += 7.9
    await feed.read()
    view = feed.view()
    assert view.status is source.status
    assert view.problem == "can't read /data/run/events.jsonl: Stale file handle"
    assert view.age_s == 7.0
    source.error = None
    await feed.read()
    assert (feed.view().age_s, feed.view().problem) == (None, None)


async def test_a_reading_that_does_not_return_grows_old() -> None:
    hands = Hands()
    source = FakeMonitor(running())
    feed = Feed(source, hands.clock)
    await feed.read()
    hands.mono += 4.9
    assert feed.view().age_s is None
    hands.mono += 0.2
    assert feed.view().age_s == 5.0


async def test_an_error_in_the_program_is_not_swallowed() -> None:
    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await in_background(broken)


async def test_background_calls_run_beside_the_loop_in_daemon_threads() -> None:
    hold = threading.Event()
    seen: list[threading.Thread] = []

    def call() -> int:
        seen.append(threading.current_thread())
        assert hold.wait(10)
        return 7

    task = asyncio.create_task(in_background(call))
    await eventually(lambda: bool(seen))
    assert not task.done()
    assert seen[0].daemon
    hold.set()
    assert await task == 7


def test_leaving_while_a_call_hangs_waits_for_nothing() -> None:
    hold = threading.Event()

    async def leave_early() -> None:
        task = asyncio.create_task(in_background(lambda: hold.wait(30)))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave_early())
    hold.set()
    for thread in threading.enumerate():
        if thread.name == "eagle3-background":
            thread.join(5)


async def test_a_reading_says_whether_it_found_anything(tmp_path: Path) -> None:
    source = FakeMonitor(running())
    feed = Feed(source, Hands().clock)
    assert await feed.read()
    assert not await feed.read()
    source.status = running(at=NOW + 1)
    assert not await feed.read(), "time goes on by itself"
    source.status = running(concurrency=7)
    assert await feed.read()
    source.error = OSError(5, "Input/output error")
    assert not await feed.read()
    source.error = None
    assert await feed.read(), "it can be read again"


async def test_folders_that_come_are_known_after_a_few_readings(tmp_path: Path) -> None:
    source = FakeMonitor(running())
    feed = Feed(source, Hands().clock)
    await feed.read()
    assert feed.folders == []
    source.folders = [tmp_path]
    for _ in range(5):
        await feed.read()
    assert feed.folders == [tmp_path]
