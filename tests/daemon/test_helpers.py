"""What runs beside the work."""

from __future__ import annotations

import asyncio

from contracts.clock import Clock
from contracts.records import Event
from daemon.events import EventLog
from daemon.helpers import Helpers
from tests.support.runs import until


async def test_a_look_that_fails_is_not_the_last_and_told_once() -> None:
    lines: list[bytes] = []
    helpers = Helpers(EventLog(lines.append, Clock(), list[Event]()))
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks in (2, 3, 6):
            raise OverflowError("math range error")

    task = helpers.start(helpers.repeat(look, 0.001))
    await until(lambda: looks >= 8)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(lines) == 2, "one for each time that it began to fail"
    assert all(b"math range error" in line and b"tried again" in line for line in lines)


async def test_one_that_breaks_for_good_is_told() -> None:
    lines: list[bytes] = []

    async def breaks() -> None:
        raise ValueError("no")

    await asyncio.gather(Helpers(EventLog(lines.append, Clock(), [])).start(breaks()), return_exceptions=True)
    await until(lambda: lines)
    assert b"a part of the daemon broke: ValueError" in lines[0]
