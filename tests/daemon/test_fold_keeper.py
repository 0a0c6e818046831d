"""The fold is kept up to date in slices: a file of gigabytes holds up nobody."""

import asyncio
from pathlib import Path

import pytest

from contracts.clock import Clock
from contracts.fold.checkpoint import Snapshot
from contracts.fold.run import RunFold
from contracts.run_place import RunPlace
from daemon.events import EventLog
from daemon.fold_keeper import FoldKeeper, catch_up
from tests.support.runs import make_run


def line(number: int) -> bytes:
    return (
        b'{"sample_id":"p%d","prompt_tokens":1,"completion_tokens":2,"finish_reason":"stop","output_ids":[1,2]}\n'
        % number
    )


def new_fold(path: Path) -> RunFold:
    run = make_run(path, ["http://127.0.0.1:9"], {"B1": []})
    (run / "prepared/B1").mkdir(parents=True)
    return RunFold(run)


async def test_a_big_file_is_read_in_slices_with_the_loop_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.fold_keeper.SLICE_BYTES", 300_000)
    fold = new_fold(tmp_path)
    (tmp_path / "prepared/B1/raw_responses.jsonl").write_bytes(b"".join(map(line, range(20_000))))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert await catch_up(fold) is True
    task.cancel()
    assert len(fold.datasets["B1"].responses.done) == 20_000
    assert fold.datasets["B1"].responses.completion_tokens == 40_000
    assert turns >= 3
    assert await catch_up(fold) is False


async def test_what_happens_to_files_is_told(tmp_path: Path) -> None:
    events: list[bytes] = []
    fold = new_fold(tmp_path)
    keeper = FoldKeeper(fold, EventLog(events.append, Clock(), []), lambda: None)
    path = tmp_path / "prepared/B1/raw_responses.jsonl"
    path.write_bytes(line(1) + line(2))
    assert await keeper.poll() is True
    path.write_bytes(line(1))
    assert await keeper.poll() is True
    assert fold.datasets["B1"].responses.done == {b"p1"}
    assert len(events) == 1 and b"was cut from" in events[0]
    await keeper.save()
    assert (tmp_path / "fold.checkpoint").exists()


async def test_the_fold_goes_on_while_it_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read meanwhile: what was saved is whole and right, and one checkpoint is written at a time."""
    monkeypatch.setattr("contracts.fold.slices.LARGE", 50)
    monkeypatch.setattr("daemon.fold_keeper.CHECKPOINT_EVERY_S", 0.0)
    monkeypatch.setattr("daemon.fold_keeper.POLL_S", 0.0)
    writing: list[int] = []
    write = Snapshot.write

    def watched(self: Snapshot, path: Path) -> None:
        writing.append(1)
        assert len(writing) == 1
        write(self, path)
        writing.pop()

    monkeypatch.setattr(Snapshot, "write", watched)
    fold = new_fold(tmp_path)
    keeper = FoldKeeper(fold, EventLog(lambda line: None, Clock(), []), lambda: None)
    keeping = asyncio.create_task(keeper.run())
    path = tmp_path / "prepared/B1/raw_responses.jsonl"
    for start in range(0, 4000, 100):
        with path.open("ab") as file:
            file.writelines(line(number) for number in range(start, start + 100))
        await asyncio.sleep(0.001)
        assert not keeping.done()
        if (tmp_path / "fold.checkpoint").exists():
            again = RunFold(tmp_path)
            assert again.notes == []
            again.poll()
            assert again.datasets["B1"].responses.completion_tokens == 2 * (start + 100)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await keeper.poll()
    await keeper.save()
    assert RunFold(tmp_path).datasets["B1"].responses == fold.datasets["B1"].responses


async def test_a_checkpoint_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    events: list[bytes] = []
    fold = new_fold(tmp_path)
    (tmp_path / "fold.checkpoint").mkdir()
    await FoldKeeper(fold, EventLog(events.append, Clock(), []), lambda: None).save()
    assert len(events) == 1 and b"cannot be written" in events[0]


async def test_a_run_that_is_moved_away_is_not_counted_as_deleted(tmp_path: Path) -> None:
    events: list[bytes] = []
    fold = new_fold(tmp_path / "run")
    keeper = FoldKeeper(fold, EventLog(events.append, Clock(), []), lambda: None, RunPlace(tmp_path / "run"))
    path = tmp_path / "run/prepared/B1/raw_responses.jsonl"
    path.write_bytes(line(1) + line(2))
    assert await keeper.poll() is True
    (tmp_path / "run").rename(tmp_path / "moved")
    new_fold(tmp_path / "run")
    assert await keeper.poll() is False
    await keeper.save()
    assert fold.datasets["B1"].responses.done == {b"p1", b"p2"} and events == []
    assert not list(tmp_path.glob("*/fold.checkpoint"))


async def test_what_goes_while_it_is_read_is_acted_on_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = new_fold(tmp_path / "run")
    keeper = FoldKeeper(fold, EventLog(lambda line: None, Clock(), []), lambda: None, RunPlace(tmp_path / "run"))
    path = tmp_path / "run/prepared/B1/raw_responses.jsonl"
    path.write_bytes(line(1))
    assert await keeper.poll() is True
    poll = RunFold.poll

    def moved(self: RunFold, most_bytes: int | None = None) -> bool:
        if path.exists():
            (tmp_path / "run").rename(tmp_path / "moved")
        return poll(self, most_bytes)

    with monkeypatch.context() as patched:
        patched.setattr(RunFold, "poll", moved)
        assert await keeper.poll() is False
    (tmp_path / "moved").rename(tmp_path / "run")
    assert await keeper.poll() is True
    assert fold.datasets["B1"].responses.done == {b"p1"}
