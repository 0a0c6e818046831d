"""Room: a small dump folder works, slower; a full store pauses and goes on by itself; nothing is lost either way."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.capture.budget import DumpBudget
from daemon.capture.leftovers import leftovers
from daemon.run_tag import run_tag
from daemon.store.shards import Shards
from tests.support.extracting import (
    ROW_BYTES,
    SHORT,
    check_stored,
    dumping,
    extract,
    in_memory,
    left_in,
    pretokenized,
    prompts,
    small_disk,
    stored_ids,
)
from tests.support.runs import events, failures, make_run, responses, run_to_end, running, until

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.extract.settling.RETRY_S", 0.02)
    monkeypatch.setattr("daemon.extract.storing.ROOM_RETRY_S", 0.05)
    monkeypatch.setattr("daemon.extract.captures.WATCH_S", 0.02)
    monkeypatch.setattr("daemon.extract.queue.PUT_OFF_S", 0.05)


@pytest.mark.parametrize("capture", ["generating", "afterwards"])
async def test_a_dump_folder_of_two_samples_works_and_is_never_over_its_budget(
    memory: Path, capture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = 2 * (ROW_BYTES * 48 + 3 * 4096)
    reserved: list[int] = []
    reserve = DumpBudget.try_reserve

    def watched(self: DumpBudget, *arguments: Any, **more: Any) -> bool:
        done = reserve(self, *arguments, **more)
        reserved.append(self.used)
        return done

    monkeypatch.setattr(DumpBudget, "try_reserve", watched)
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(24), "A1": pretokenized(8)}, concurrency=8,
            sampling={"max_new_tokens": 24}, extract=extract(dumps, capture=capture, dump_budget_gb=budget / 1e9),
        )  # fmt: skip
        async with running(run) as work:
            most, tag = 0, run_tag(run)
            while not work.task.done():
                if dumps.exists():
                    most = max(most, sum(each.rows_bytes for each in leftovers(dumps, tag)))
                await asyncio.sleep(0.002)
            assert await work.end() is False
            assert work.session.extraction is not None
            assert work.session.extraction.captures.budget_bytes == int(budget / 1e9 * 1e9)
    assert 0 < max(reserved) <= budget
    assert 0 < most <= budget + 4096 * 8, "measured, the probe's included"
    assert check_stored(run) == 32
    assert {each["check"] for each in failures(run)} <= {"no_room"}
    assert left_in(dumps) == []


async def test_answers_longer_than_expected_are_given_up_and_taken_afterwards(memory: Path) -> None:
    """The youngest capture goes first; a given-up one costs no attempt, however often that happens."""
    dumps = memory / "dumps"
    budget = ROW_BYTES * 90
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(8)}, concurrency=4,
            sampling={"max_new_tokens": 40, "ignore_eos": True}, extract=extract(dumps, dump_budget_gb=budget / 1e9),
        )  # fmt: skip
        async with running(run) as work:
            await until(lambda: work.session.extraction is not None)
            assert work.session.extraction is not None
            for _ in range(50):  # it has seen short ones only
                work.session.extraction.captures.lengths.add(2)
            assert await work.end(40) is False
    found = failures(run)
    assert found
    assert {(each["check"], each["next"], each.get("attempt", 0)) for each in found} == {("no_room", "retry", 0)}
    assert check_stored(run) == 8
    assert left_in(dumps) == []


async def test_a_sample_larger_than_the_whole_budget_is_refused_with_its_numbers(memory: Path) -> None:
    dumps = memory / "dumps"
    budget = ROW_BYTES * 60
    long = {"sample_id": "long", "input_ids": [1 + place for place in range(200)], "loss_mask": [1] * 200}
    large = {"sample_id": "large", "input_ids": [1 + place for place in range(80)]}
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": [large, *prompts(4)], "A1": [long, *pretokenized(2)]},
            sampling=SHORT, extract=extract(dumps, dump_budget_gb=budget / 1e9),
        )  # fmt: skip
        assert await run_to_end(run) is False
        assert await run_to_end(run) is False, "said once, however often it is started"
        for dataset, tokens in (("B1", ""), ("A1", "200 rows need 213.0 kB")):
            (refused,) = [each for each in failures(run, dataset) if each["next"] == "refused"]
            assert refused["check"] == "too_large" and refused["stage"] == "extract"
            assert "may take 61.4 kB at most" in refused["message"] and tokens in refused["message"]
            assert "dump_budget_gb" in refused["message"] and str(dumps) in refused["message"]
        assert len(responses(run)) == 5, "its answer is made all the same"
        assert check_stored(run) == 6
        toml = run / "run.toml"
        toml.write_text(toml.read_text().replace(f"dump_budget_gb = {budget / 1e9}", "dump_budget_gb = 0.01"))
        assert await run_to_end(run) is False
    assert check_stored(run) == 8, "taken by the next start with a larger budget, though all was done"
    assert [name for name in left_in(dumps) if ".probe." not in name] == []


async def test_a_tmpfs_of_64_mb_as_dump_folder(memory: Path) -> None:
    with small_disk(memory / "dumps", 64) as dumps:
        # Half of it is somebody else's.
        (dumps / "ballast").write_bytes(b"x" * (63 << 20))
        async with dumping(dumps) as server:
            run = make_run(
                memory / "run", [server.url], {"B1": prompts(30), "A1": pretokenized(10, 200)}, concurrency=16,
                sampling=SHORT, extract=extract(dumps),
            )  # fmt: skip
            assert await run_to_end(run, 40) is False
        assert check_stored(run) == 40
        (dumps / "ballast").unlink()
        assert left_in(dumps) == []
    assert {each["check"] for name in ("B1", "A1") for each in failures(run, name)} <= {"no_room"}


async def test_a_dump_folder_that_is_full_at_the_start_refuses_nothing_for_good(memory: Path) -> None:
    """Other files lie there, and are gone a moment later."""
    with small_disk(memory / "shm", 64) as shm:
        ballast = shm / "ballast"
        ballast.write_bytes(b"x" * ((64 << 20) - 40 * 1024))
        dumps = shm / "dumps"
        async with dumping(dumps) as server:
            run = make_run(
                memory / "run", [server.url], {"B1": prompts(4, longest=3), "A1": pretokenized(6, 40)},
                sampling=SHORT, extract=extract(dumps),
            )  # fmt: skip
            async with running(run) as work:
                await until(lambda: events(run, "dumps.crowded"), 10)
                assert work.session.extraction is not None
                assert (work.session.extraction.captures.budget_bytes or 0) < ROW_BYTES * 40
                ballast.unlink()
                assert await work.end(30) is False
    assert check_stored(run) == 10
    assert {each["check"] for name in ("B1", "A1") for each in failures(run, name)} <= {"no_room"}


async def test_a_tmpfs_as_store_that_fills_up(memory: Path) -> None:
    """It pauses, says so, and goes on by itself when there is room."""
    run = memory / "run"
    dumps = memory / "dumps"
    with small_disk(run / "hidden_states", 50) as store:
        ballast = store / "ballast"
        ballast.write_bytes(b"x" * (49 << 20))
        async with dumping(dumps) as server:
            make_run(
                run, [server.url], {"B1": prompts(40), "A1": pretokenized(20, 100)}, concurrency=8,
                sampling=SHORT, extract=extract(dumps),
            )  # fmt: skip
            async with running(run) as work:
                await until(lambda: work.session.heartbeat().store_trouble is not None, 20)
                await until(lambda: events(run, "run.paused"))
                await until(lambda: work.session.scheduler.in_flight == 0)
                said = events(run, "run.paused")[0]
                assert said["severity"] == "critical" and "hidden states cannot be stored" in said["message"]
                assert "No space left on device" in said["message"] and str(store) in said["message"]
                await until(lambda: any(alert.code == "store_trouble" for alert in work.session.status().alerts))
                assert work.session.status().state == "paused"
                ballast.unlink()
                assert await work.end(40) is False
        assert events(run, "run.resumed")
        assert check_stored(run) == 60
        assert failures(run) == failures(run, "A1") == [], "a full disk charges nobody"
        assert len(responses(run)) == 40
        assert left_in(dumps) == []


@pytest.mark.parametrize("ends_by", ["room", "stop"])
async def test_a_store_without_room(memory: Path, ends_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without a file system of its own; and an end in the middle of it."""
    full = [False]
    append = Shards.append

    def place(self: Shards, document: memoryview) -> Any:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device", "shard-0.e3s")
        return append(self, document)

    monkeypatch.setattr(Shards, "append", place)
    monkeypatch.setattr("daemon.extract.extraction.STOP_S", 3600.0)  # nothing is waited for that cannot be stored
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(24)}, sampling=SHORT, extract=extract(dumps))
        async with running(run) as work:
            await until(lambda: len(stored_ids(run)) > 3)
            full[0] = True
            await until(lambda: work.session.heartbeat().state == "paused")
            await until(lambda: work.session.scheduler.in_flight == 0)
            if ends_by == "stop":
                work.session.stop()
                assert await work.end() is True
                assert left_in(dumps), "what is answered and not stored is kept for the next"
                (said,) = [each["message"] for each in events(run, "dumps.left")]
                assert said.startswith(f"{len(left_in(dumps))} dump") and f"rm {dumps}/e3.{run_tag(run)}.*" in said
            full[0] = False
            if ends_by == "room":
                assert await work.end() is False
        if ends_by == "stop":
            assert await run_to_end(run) is False
            assert "0 whole dumps" not in events(run, "dumps.adopted")[0]["message"]
    assert check_stored(run) == 24
    assert failures(run) == []
    assert len(responses(run)) == 24
    assert left_in(dumps) == []


async def test_a_drain_on_a_full_store_waits_for_room(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, append = [True], Shards.append

    def place(self: Shards, document: memoryview) -> Any:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device", "shard-0.e3s")
        return append(self, document)

    monkeypatch.setattr(Shards, "append", place)
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"B1": prompts(12)}, sampling=SHORT, extract=extract(dumps))
        async with running(run) as work:
            await until(lambda: work.session.heartbeat().state == "paused")
            work.session.drain()
            await until(lambda: work.session.scheduler.in_flight == 0)
            await until(lambda: work.session.status().state == "draining")
            assert not work.task.done()
            status = work.session.status()
            assert status.reason is not None
            assert "No space left" in status.reason and "eagle3 stop ends now" in status.reason
            assert ["the drain ends once" in (each.advice or "") for each in status.alerts] == [True]
            full[0] = False
            assert await work.end() is True
            answered = len(responses(run))
        assert len(stored_ids(run)) == answered < 12, "what was answered is stored"
        assert left_in(dumps) == []
        assert await run_to_end(run) is False
    assert check_stored(run) == 12


async def test_case_54_what_the_store_needs_is_said_before_the_start(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An estimate that does not fit pauses before anything is sent, unless lengths are only assumed."""
    asked: list[Path] = []

    def usage(path: Path) -> Any:
        asked.append(path)
        return SimpleNamespace(free=60 * ROW_BYTES)

    monkeypatch.setattr("daemon.extract.extraction.shutil.disk_usage", usage)
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(memory / "run", [server.url], {"A1": pretokenized(8)}, sampling=SHORT, extract=extract(dumps))
        async with running(run) as work:
            await until(lambda: work.session.heartbeat().state == "paused")
            reason = str(work.session.heartbeat().reason)
            assert "the hidden states will not fit" in reason and "8 samples" in reason and "too little" in reason
            await until(lambda: events(run, "store.estimate"))
            assert [each["severity"] for each in events(run, "store.estimate")] == ["warning"]
            assert stored_ids(run, "A1") == []
            work.session.resume()
            assert await work.end() is False
    assert asked == [run / "hidden_states"], "the store may be on a disk of its own"
    assert check_stored(run) == 8
