"""The writer: lines in order, in batches, kept through a full disk, and everything that goes wrong is told."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from contracts.journal.append import Journal, NoRoomError
from daemon.writer import Writer


class Watched:
    """A writer and what it told."""

    def __init__(self, open_journal: Callable[[Path], Journal] = Journal) -> None:
        self.written = 0
        self.troubles: list[str | None] = []
        self.doubts: list[str] = []
        self.writer = Writer(self._written, self.troubles.append, open_journal, on_doubt=self.doubts.append)

    def _written(self, lines: int) -> None:
        self.written += lines


class FaultyJournal(Journal):
    """A journal on a disk that can be broken; counts calls."""

    appends: ClassVar[list[int]] = []
    syncs = 0
    failed = 0
    error: int | None = None
    sync_error: int | None = None

    def append(self, batch: bytes) -> None:
        if FaultyJournal.error is not None and "bad" in self.path.name:
            FaultyJournal.failed += 1
            raise OSError(FaultyJournal.error, os.strerror(FaultyJournal.error), str(self.path))
        FaultyJournal.appends.append(batch.count(b"\n"))
        super().append(batch)

    def sync(self) -> None:
        FaultyJournal.syncs += 1
        if FaultyJournal.sync_error is not None:
            kind = NoRoomError if FaultyJournal.sync_error == errno.ENOSPC else OSError
            raise kind(FaultyJournal.sync_error, os.strerror(FaultyJournal.sync_error), str(self.path))
        super().sync()


@pytest.fixture(autouse=True)
def faultless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("daemon.writer.ROOM_RETRY_S", 0.02)
    FaultyJournal.appends, FaultyJournal.syncs, FaultyJournal.failed = [], 0, 0
    FaultyJournal.error = FaultyJournal.sync_error = None
    yield


def wait_for(condition: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.002)


def test_lines_of_many_threads_are_whole_and_each_threads_in_order(tmp_path: Path) -> None:
    watched = Watched(FaultyJournal)
    path = tmp_path / "a.jsonl"
    watched.writer.start()

    def hand_over(name: int) -> None:
        for number in range(500):
            watched.writer.append(path, b"%d %d\n" % (name, number))

    threads = [threading.Thread(target=hand_over, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watched.writer.close(5.0) == 0
    lines = [tuple(map(int, line.split())) for line in path.read_bytes().splitlines()]
    assert len(lines) == 2000 == watched.written
    for name in range(4):
        assert [number for who, number in lines if who == name] == list(range(500))
    assert len(FaultyJournal.appends) < 400, "in batches"
    assert watched.troubles == []


def test_a_line_is_in_its_file_soon_and_synced_soon(tmp_path: Path) -> None:
    watched = Watched(FaultyJournal)
    watched.writer.start()
    watched.writer.append(tmp_path / "a.jsonl", b"1\n")
    wait_for(lambda: watched.written == 1)
    assert (tmp_path / "a.jsonl").read_bytes() == b"1\n"
    wait_for(lambda: FaultyJournal.syncs == 1)
    assert watched.writer.unwritten == 0
    watched.writer.close(5.0)


def test_open_tells_what_it_repaired(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":1}\n{"b"')
    watched = Watched()
    repair = watched.writer.open(path)
    assert repair is not None and repair.removed_bytes == 4
    watched.writer.start()
    watched.writer.append(path, b'{"c":1}\n')
    assert watched.writer.close(5.0) == 0
    assert path.read_bytes() == b'{"a":1}\n{"c":1}\n'


def test_no_room_keeps_the_lines_tells_and_goes_on(tmp_path: Path) -> None:
    watched = Watched(FaultyJournal)
    bad, good = tmp_path / "bad.jsonl", tmp_path / "good.jsonl"
    watched.writer.start()
    FaultyJournal.error = errno.ENOSPC
    for number in range(10):
        watched.writer.append(bad, b"%d\n" % number)
        watched.writer.append(good, b"%d\n" % number)
    wait_for(lambda: good.exists() and good.read_bytes().count(b"\n") == 10)
    wait_for(lambda: watched.troubles)
    wait_for(lambda: watched.writer.unwritten == 10)
    FaultyJournal.error = None
    wait_for(lambda: watched.writer.unwritten == 0)
    wait_for(lambda: watched.troubles[-1] is None)
    assert len(watched.troubles) == 2, "one sentence and its end"
    assert watched.writer.close(5.0) == 0
    assert bad.read_bytes() == good.read_bytes() == b"".join(b"%d\n" % number for number in range(10))


def test_an_index_record_waits_for_the_answer_before_it(tmp_path: Path) -> None:
    """The answer finds no room, the shorter index record would: it must not be there alone after a kill."""
    watched, index = Watched(FaultyJournal), tmp_path / "hidden_states.jsonl"
    FaultyJournal.error = errno.ENOSPC
    watched.writer.append(index, b"earlier\n")
    watched.writer.append(tmp_path / "bad.jsonl", b"answer\n")
    watched.writer.start()
    watched.writer.append(index, b"record\n")
    watched.writer.append(tmp_path / "good.jsonl", b"another\n")
    wait_for(lambda: watched.written == 1 and FaultyJournal.failed > 2)
    assert not index.exists() and (tmp_path / "good.jsonl").exists()
    FaultyJournal.error = None
    wait_for(lambda: watched.written == 4)
    assert index.read_bytes() == b"earlier\nrecord\n"
    assert watched.writer.close(5.0) == 0


def test_two_broken_journals_do_not_take_turns_in_telling(tmp_path: Path) -> None:
    watched = Watched(FaultyJournal)
    watched.writer.start()
    FaultyJournal.error = errno.EIO
    watched.writer.append(tmp_path / "bad1.jsonl", b"1\n")
    watched.writer.append(tmp_path / "bad2.jsonl", b"1\n")
    wait_for(lambda: watched.troubles)
    tries = FaultyJournal.failed
    wait_for(lambda: FaultyJournal.failed >= tries + 8)
    assert len(set(watched.troubles)) == 1
    assert len(watched.troubles) <= 2
    assert "cannot be written: Input/output error" in str(watched.troubles[0])
    FaultyJournal.error = None
    wait_for(lambda: watched.troubles[-1] is None)
    watched.writer.close(5.0)


def test_a_failed_sync_is_told_tried_again_and_over_when_it_works(tmp_path: Path) -> None:
    watched = Watched(FaultyJournal)
    watched.writer.start()
    FaultyJournal.sync_error = errno.EIO
    watched.writer.append(tmp_path / "a.jsonl", b"1\n")
    wait_for(lambda: watched.troubles)
    wait_for(lambda: FaultyJournal.syncs >= 3)
    assert watched.troubles == [f"{tmp_path / 'a.jsonl'}: cannot be written: Input/output error"]
    assert watched.doubts == []
    FaultyJournal.sync_error = None
    wait_for(lambda: watched.troubles[-1] is None)
    wait_for(lambda: watched.doubts)
    watched.writer.append(tmp_path / "a.jsonl", b"2\n")
    assert watched.writer.close(5.0) == 0
    (said,) = watched.doubts
    assert "the disk failed (Input/output error) and works again" in said


def test_a_full_disk_at_a_sync_leaves_no_doubt(tmp_path: Path) -> None:
    watched = Watched(FaultyJournal)
    watched.writer.start()
    FaultyJournal.sync_error = errno.ENOSPC
    watched.writer.append(tmp_path / "a.jsonl", b"1\n")
    wait_for(lambda: watched.troubles)
    FaultyJournal.sync_error = None
    wait_for(lambda: watched.troubles[-1] is None)
    assert watched.writer.close(5.0) == 0
    assert watched.doubts == []


def test_close_writes_and_syncs_what_is_left(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    watched = Watched(FaultyJournal)
    watched.writer.start()
    for number in range(100):
        watched.writer.append(tmp_path / "a.jsonl", b"%d\n" % number)
    assert watched.writer.close(5.0) == 0
    assert (tmp_path / "a.jsonl").read_bytes().count(b"\n") == 100
    assert FaultyJournal.syncs >= 1
    assert set(threading.enumerate()) <= before, "no thread of it is left"


def test_close_on_a_full_disk_ends_and_says_how_much_is_lost(tmp_path: Path) -> None:
    watched = Watched(FaultyJournal)
    watched.writer.start()
    FaultyJournal.error = FaultyJournal.sync_error = errno.ENOSPC
    for number in range(7):
        watched.writer.append(tmp_path / "bad.jsonl", b"%d\n" % number)
    wait_for(lambda: watched.troubles)
    began = time.monotonic()
    assert watched.writer.close(5.0) == 7
    assert time.monotonic() - began < 2.0


def test_a_file_that_was_moved_away_is_made_anew_where_readers_look(tmp_path: Path) -> None:
    watched = Watched()
    path = tmp_path / "a.jsonl"
    watched.writer.open(path)
    watched.writer.start()
    watched.writer.append(path, b"1\n")
    wait_for(lambda: watched.written == 1)
    path.rename(tmp_path / "moved.jsonl")
    watched.writer.append(path, b"2\n")
    assert watched.writer.close(5.0) == 0
    assert path.read_bytes() == b"2\n"
    assert (tmp_path / "moved.jsonl").read_bytes() == b"1\n"
