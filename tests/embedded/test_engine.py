"""Continuous batching: who runs together, how each ends, and that nobody's answer depends on the company."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from daemon.embedded.config import load_config
from daemon.embedded.engine import Engine
from daemon.embedded.jobs import Job, Result, Sampling
from tests.embedded.helpers import until

EOS = 1022


class Desk:
    """Submits jobs and gives their results."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.results: dict[str, asyncio.Future[Result]] = {}
        self.order: list[str] = []
        self.steps: list[int] = []

    def submit(self, rid: str, ids: list[int], *, watch: bool = False, delay: float = 0.0, **params: Any) -> None:
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.results[rid] = done

        def finish(result: Result) -> None:
            self.order.append(rid)
            done.set_result(result)

        params = {"temperature": 0.0, "max_new_tokens": 8, **params}
        progress = (lambda result: self.steps.append(len(result.output_ids))) if watch else None
        self.engine.submit(Job(rid, ids, Sampling(**params), finish, progress, delay))

    async def result(self, rid: str) -> Result:
        async with asyncio.timeout(20):
            return await self.results[rid]

    async def ids(self, rid: str, ids: list[int], **params: Any) -> list[int]:
        self.submit(rid, ids, **params)
        return (await self.result(rid)).output_ids


@pytest.fixture
async def engine() -> Any:
    started = Engine(load_config(), max_running=4, seed=1)
    started.start()
    yield started
    started.stop()


@pytest.fixture
def desk(engine: Engine) -> Iterator[Desk]:
    return Desk(engine)  # type: ignore[return-value]


async def test_the_company_changes_no_answer(desk: Desk) -> None:
    """Ten jobs through four slots, of all lengths, so that slots are moved and reused."""
    prompts = [[(7 * number + at) % 1000 for at in range(3 + 5 * number)] for number in range(10)]
    for number, prompt in enumerate(prompts):
        desk.submit(f"together-{number}", prompt, max_new_tokens=3 + 4 * (number % 5))
    together = [(await desk.result(f"together-{number}")).output_ids for number in range(10)]
    alone = [
        await desk.ids(f"alone-{number}", prompt, max_new_tokens=3 + 4 * (number % 5))
        for number, prompt in enumerate(prompts)
    ]
    assert together == alone
    load = desk.engine.load()
    assert (load.running, load.waiting, load.used_tokens) == (0, 0, 0)
    assert load.gen_throughput > 0


async def test_sampling_is_reproducible_by_rid_or_by_seed(desk: Desk) -> None:
    warm: dict[str, Any] = {"temperature": 1.0, "top_p": 0.9, "top_k": 50}
    first = await desk.ids("a", [1, 2, 3], **warm)
    assert await desk.ids("a", [1, 2, 3], **warm) == first
    assert await desk.ids("b", [1, 2, 3], **warm) != first
    seeded = await desk.ids("c", [1, 2, 3], sampling_seed=5, **warm)
    assert await desk.ids("d", [1, 2, 3], sampling_seed=5, **warm) == seeded


async def test_stop_tokens_and_ignore_eos(desk: Desk) -> None:
    said = await desk.ids("free", [71, 72, 73])
    at = next(index for index in range(1, 8) if said[index] not in said[:index])
    desk.submit("stopped", [71, 72, 73], stop_token_ids=frozenset([said[at]]))
    stopped = await desk.result("stopped")
    assert stopped.output_ids == said[: at + 1]
    assert stopped.finish_reason == {"type": "stop", "matched": said[at]}
    # ignore_eos also disables stop_token_ids, as in SGLang
    assert await desk.ids("ignored", [71, 72, 73], stop_token_ids=frozenset([said[at]]), ignore_eos=True) == said
    # and min_new_tokens keeps the stop tokens from being sampled at all
    later = await desk.ids("later", [71, 72, 73], stop_token_ids=frozenset([said[at]]), min_new_tokens=8)
    assert len(later) == 8 and said[at] not in later


async def test_stop_strings(desk: Desk) -> None:
    said = await desk.ids("free", [71, 72, 73])
    filler = next(token for token in said if 256 <= token < 1021)
    desk.submit("stopped", [71, 72, 73], stop=(f"<f{filler}>",))
    stopped = await desk.result("stopped")
    assert stopped.output_ids == said[: said.index(filler) + 1]
    assert stopped.finish_reason == {"type": "stop", "matched": f"<f{filler}>"}


async def test_eos_ends_an_answer_unless_ignored() -> None:
    engine = Engine(load_config(), eos_bias=50.0)
    engine.start()
    desk = Desk(engine)
    desk.submit("eos", [1, 2, 3])
    assert (await desk.result("eos")).finish_reason == {"type": "stop", "matched": EOS}
    assert len(await desk.ids("ignored", [1, 2, 3], ignore_eos=True)) == 8
    assert len(await desk.ids("least", [1, 2, 3], min_new_tokens=5)) == 6
    engine.stop()


async def test_limits(desk: Desk) -> None:
    desk.submit("none", [1, 2, 3], max_new_tokens=0)
    desk.submit("room", [5] * 2041, max_new_tokens=None, ignore_eos=True)
    none, room = await desk.result("none"), await desk.result("room")
    assert (none.output_ids, none.finish_reason) == ([], {"type": "length", "length": 0})
    assert room.finish_reason == {"type": "length", "length": 5}


async def test_aborts_of_running_waiting_and_all(desk: Desk) -> None:
    for number in range(6):  # four run, two wait
        desk.submit(f"job-{number}", [1, 2, 3 + number], max_new_tokens=1500, ignore_eos=True, watch=True)
    await until(lambda: desk.steps)
    load = desk.engine.load()
    assert (load.running, load.waiting) == (4, 2)
    assert load.used_tokens > 0
    desk.engine.abort("job-5")
    desk.engine.abort("job")  # a prefix of a rid does not match
    waiting = await desk.result("job-5")
    assert (waiting.output_ids, waiting.finish_reason and waiting.finish_reason["type"]) == ([], "abort")
    desk.engine.abort("job-0")
    running = await desk.result("job-0")
    assert running.output_ids and running.finish_reason and running.finish_reason["message"] == "Aborted"
    desk.engine.abort(None)
    for number in range(1, 5):
        result = await desk.result(f"job-{number}")
        assert result.finish_reason and result.finish_reason["type"] == "abort"


async def test_progress_is_cumulative_and_a_delay_holds_the_answer_only(desk: Desk) -> None:
    desk.submit("late", [1, 2, 3], delay=0.2, watch=True)
    desk.submit("prompt", [1, 2, 3])
    await desk.result("late")
    assert desk.order == ["prompt", "late"]
    assert desk.steps == list(range(1, 8))


async def test_a_held_answer_can_be_aborted(desk: Desk) -> None:
    desk.submit("held", [1, 2, 3], delay=30.0, max_new_tokens=2, watch=True)
    await until(lambda: desk.steps)
    assert desk.engine.load().running == 1
    desk.engine.abort("held")
    result = await desk.result("held")
    assert result.finish_reason and result.finish_reason["type"] == "abort"


async def test_token_capacity_bounds_what_runs_together() -> None:
    engine = Engine(load_config(), max_running=4, max_total_tokens=40)
    engine.start()
    desk = Desk(engine)
    for number in range(3):
        desk.submit(str(number), [1, 2, 3, 4], max_new_tokens=30, ignore_eos=True, watch=number == 0)
    await until(lambda: desk.steps)
    assert engine.load().running == 1
    for number in range(3):
        await desk.result(str(number))
    assert desk.order == ["0", "1", "2"]
    engine.stop()
