"""The pause while samples cannot be written: it lasts as long as there is one."""

from __future__ import annotations

import asyncio
from typing import Any

from daemon.condition import Condition
from daemon.extract.stuck import StuckSamples
from tests.daemon.extract.support import Events


def make() -> tuple[StuckSamples, Condition, Events]:
    events = Events()
    given: Any = events
    condition = Condition(given)
    return StuckSamples(condition), condition, events


def test_a_sample_that_fits_ends_no_pause() -> None:
    stuck, condition, events = make()
    stuck.add("store B1", "large", "full")
    stuck.add("store B1", "large", "still full")
    for number in range(20):
        stuck.discard("store B1", f"small {number}")
    assert events.kinds == ["run.paused"] and condition.store_trouble == "still full"
    stuck.discard("store B1", "large")
    assert events.kinds == ["run.paused", "run.resumed"] and condition.may_send


def test_the_last_of_all_stores_ends_it() -> None:
    stuck, condition, events = make()
    stuck.add("store B1", "a", "a is full")
    stuck.add("store B1", "b", "b is full")
    stuck.add("store A1", "c", "c is full")
    stuck.discard("store B1", "b")
    assert condition.store_trouble == "a is full"
    stuck.discard("store B1", "a")
    assert condition.store_trouble == "c is full" and not condition.may_send
    stuck.discard("store A1", "c")
    assert condition.may_send and events.kinds == ["run.paused", "run.resumed"]


async def test_it_can_be_waited_for() -> None:
    stuck, _, _ = make()
    stuck.add("store B1", "a", "full")
    await asyncio.wait_for(stuck.wait(), 5)
    stuck.discard("store B1", "a")
    waiting = asyncio.ensure_future(stuck.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


def test_an_end_is_no_resumption() -> None:
    stuck, condition, events = make()
    stuck.add("store B1", "a", "full")
    stuck.end()
    stuck.discard("store B1", "a")
    assert condition.store_trouble == "full" and events.kinds == ["run.paused"]
