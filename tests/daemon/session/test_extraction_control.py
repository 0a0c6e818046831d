"""Drain, stop, pause, concurrency, and two runs beside each other while hidden states are taken."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.records import FailureClass, Requeue, Stage
from daemon.extract.completing import Completing
from daemon.request_ids import is_probe
from daemon.run_tag import run_tag
from daemon.store.sample import Sample
from daemon.store.shards import Shards
from daemon.store.speculators_ import SpeculatorsLayout
from tests.support.extracting import (
    SHORT,
    check_stored,
    dumping,
    extract,
    in_memory,
    indexed,
    left_in,
    pretokenized,
    prompts,
    stored_ids,
)
from tests.support.runs import events, failures, make_run, responses, run_to_end, running, until

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.mark.parametrize("capture", ["generating", "afterwards"])
async def test_a_drain_stores_what_is_answered_and_a_stop_leaves_what_the_next_takes(
    memory: Path, capture: str
) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(40), "A1": pretokenized(10)}, concurrency=6, sampling=SHORT,
            extract=extract(dumps, capture=capture, concurrency=2),
        )  # fmt: skip
        async with running(run) as work:
            await until(lambda: len(stored_ids(run)) > 3)
            work.session.drain()
            assert await work.end() is True
        drained = len(stored_ids(run))
        assert drained < 40
        if capture == "generating":
            assert drained + len(failures(run)) >= len(responses(run)) - 2
        assert left_in(dumps) == [], "nothing is open after a drain"
        for _ in range(3):
            before = len(stored_ids(run)) + len(stored_ids(run, "A1"))
            async with running(run) as work:
                await until(lambda before=before: len(stored_ids(run)) + len(stored_ids(run, "A1")) > before)
                work.session.stop()
                await work.end()
        assert await run_to_end(run) is False
    assert check_stored(run) == 50
    assert failures(run) == failures(run, "A1") == []
    assert left_in(dumps) == []


async def test_a_pause_sends_nothing_new_and_what_is_open_is_stored(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"A1": pretokenized(60)}, extract=extract(dumps, concurrency=2),
            stages=["extract"],
        )  # fmt: skip
        async with running(run) as work:
            await until(lambda: len(stored_ids(run, "A1")) > 3)
            work.session.pause("by hand")
            await until(lambda: not work.session.scheduler.in_flight and not work.session.heartbeat().taking)
            await until(lambda: not work.session.writer.unwritten)
            sent = len([rid for rid in server.requests_seen.rids if not is_probe(rid)])
            assert len(stored_ids(run, "A1")) == sent < 60
            await until(lambda: left_in(dumps) == [])
            work.session.resume()
            assert await work.end() is False
    assert check_stored(run) == 60


async def test_never_more_prefill_passes_than_asked_for(memory: Path) -> None:
    """Beside answers those of [extract], alone those that a person set."""
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(20), "A1": pretokenized(30)}, concurrency=8, sampling=SHORT,
            extract=extract(dumps, capture="afterwards", concurrency=3),
        )  # fmt: skip
        most = {Stage.GENERATE: 0, Stage.EXTRACT: 0}
        async with running(run) as work:
            while not work.task.done():
                for stage in Stage:
                    queues = [queue for queue in work.session.scheduler.queues if queue.stage is stage]
                    most[stage] = max(most[stage], sum(queue.in_flight for queue in queues))
                await asyncio.sleep(0)
            assert await work.end() is False
    assert most[Stage.EXTRACT] == 3 and 3 < most[Stage.GENERATE] <= 8
    assert check_stored(run) == 50


async def test_two_runs_in_one_dump_folder_leave_each_other_alone(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        one, other = (
            make_run(
                memory / name, [server.url], {"B1": prompts(30), "A1": pretokenized(6)}, concurrency=6,
                sampling={**SHORT, "temperature": 0.9}, extract=extract(dumps, capture=capture),
            )
            for name, capture in (("one", "generating"), ("other", "afterwards"))
        )  # fmt: skip
        foreign = dumps / "e3.ffffffff.0123456789abcdef.s.1.dump"
        foreign.write_bytes(b"of a third run")
        async with running(one) as first:
            await until(lambda: len(stored_ids(one)) > 2)
            async with running(other) as second:
                await until(lambda: len(stored_ids(other)) > 2)
                first.session.stop()  # and starts anew, with its sweep, in the middle of the other's work
                await first.end()
                async with running(one) as again:
                    assert await again.end() is False
                assert await second.end() is False
        assert foreign.read_bytes() == b"of a third run"
        foreign.unlink()
    for run in (one, other):
        assert check_stored(run) == 36
        assert failures(run) == failures(run, "A1") == []
    assert run_tag(one) != run_tag(other)
    assert left_in(dumps) == []


async def test_dumps_of_an_earlier_session_outlast_the_wait_for_a_server(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.extract.captures.WATCH_S", 0.02)
    monkeypatch.setattr("daemon.extract.extraction.STOP_S", 0.05)
    full, append = [True], Shards.append

    def place(self: Shards, document: memoryview) -> object:
        if full[0]:
            raise OSError(28, "No space left on device", "shard-0.e3s")
        return append(self, document)

    monkeypatch.setattr(Shards, "append", place)
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        port = server.port
        run = make_run(memory / "run", [server.url], {"B1": prompts(6)}, sampling=SHORT, extract=extract(dumps))
        async with running(run) as work:
            await until(lambda: work.session.heartbeat().store_trouble is not None)
            await until(lambda: not work.session.scheduler.in_flight)
            work.session.stop()
            await work.end()
    waiting = [name for name in left_in(dumps) if ".probe." not in name]
    assert waiting
    full[0] = False
    async with running(run) as work:
        await until(lambda: events(run, "server.down"))
        for _ in range(10):  # looks at the folder
            await asyncio.sleep(0.02)
        assert left_in(dumps) == waiting
        async with dumping(dumps, port=port):
            assert await work.end() is False
    assert f"{len(waiting)} whole dumps" in events(run, "dumps.adopted")[0]["message"]
    assert check_stored(run) == 6
    assert left_in(dumps) == []


async def test_a_fault_of_our_own_gives_one_sample_up_and_the_run_goes_on(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.extract.settling.RETRY_S", 0.02)
    append = Shards.append

    def place(self: Shards, document: memoryview) -> object:
        if b"p3" in bytes(document[:600]):
            raise ValueError("a fault of our own")
        return append(self, document)

    monkeypatch.setattr(Shards, "append", place)
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(8)}, sampling=SHORT, extract=extract(dumps))
        assert await run_to_end(run) is False
    assert stored_ids(run) == [f"p{number}" for number in range(8) if number != 3]
    found = failures(run)
    assert [each["next"] for each in found] == ["retry", "retry", "quarantined"]
    assert all("a fault of our own" in each["message"] and "daemon.log" in each["message"] for each in found)
    assert events(run, "daemon.fault")
    assert check_stored(run) == 7
    assert left_in(dumps) == []


async def test_a_retry_while_the_stores_are_completed_is_carried_out(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the end, and at a number that nobody has: completing has given the others new ones."""
    monkeypatch.setattr("daemon.extract.settling.RETRY_S", 0.02)
    broken, place, complete = [True], SpeculatorsLayout.place, Completing.complete
    asked: list[int] = []

    def place_or_not(self: SpeculatorsLayout, sample: Sample, row: int) -> object:
        if broken[0] and sample.sample_id == "p0":
            raise ValueError("a fault of our own")
        return place(self, sample, row)

    monkeypatch.setattr(SpeculatorsLayout, "place", place_or_not)
    dumps = memory / "dumps"
    async with dumping(dumps, dump_norm="over_weight") as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(5)}, sampling=SHORT,
            extract=extract(dumps, layout="speculators"),
        )  # fmt: skip
        async with running(run) as work:

            async def completing(self: Completing, *arguments: Any) -> None:
                await complete(self, *arguments)
                if not asked:
                    broken[0] = False
                    asked.append(work.session.requeue(Requeue(at=1.0, error=FailureClass.CAPTURE), None).samples)

            monkeypatch.setattr(Completing, "complete", completing)
            assert await work.end() is False
    assert asked == [1]
    assert len(events(run, "store.completed")) == 2
    assert check_stored(run, layout="speculators") == 5
    assert sorted(record.row for record in indexed(run).values()) == list(range(5))
    assert left_in(dumps) == []
