"""Decode steps are held and written together, and never longer than something else comes of it."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from daemon.sglang_plugin.eagle3_sglang import writer as module
from daemon.sglang_plugin.eagle3_sglang.dump_files import DumpFiles
from daemon.sglang_plugin.eagle3_sglang.writer import HELD_STEPS, DumpWriter
from tests.daemon.sglang_plugin.dumps import CONTEXT, WIDTH, about, assert_whole, batch

A, B, C = "e3.run.a.1.1", "e3.run.b.1.2", "e3.run.c.1.3"
ROW_BYTES = 4 * WIDTH
ROWS_OFFSET = 8192
PATIENCE_S = 3600.0
BOUND_ROWS = 1000


class Calls:
    """What the files were told to write: (offset, bytes, buffers) of each call."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[int, int, int]] = queue.SimpleQueue()

    def pwritev(self, descriptor: int, parts: Sequence[memoryview], offset: int) -> int:
        written = os.pwritev(descriptor, parts, offset)
        self._calls.put((offset, written, len(parts)))
        return written

    def rows(self) -> tuple[int, int, int]:
        """Wait for the next call that writes rows: (first position, rows, buffers)."""
        while True:
            offset, written, parts = self._calls.get(timeout=30)
            if offset >= ROWS_OFFSET:
                return (offset - ROWS_OFFSET) // ROW_BYTES, written // ROW_BYTES, parts

    def all(self) -> list[tuple[int, int, int]]:
        """Those since the last look."""
        found = []
        while not self._calls.empty():
            found.append(self._calls.get())
        return found


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next step is awaited for longer than a test goes on."""
    monkeypatch.setattr(module, "_SHORTEST_S", PATIENCE_S)
    monkeypatch.setattr(module, "_LONGEST_S", PATIENCE_S)


def made(folder: Path, calls: Calls, bound_rows: int = BOUND_ROWS) -> DumpWriter:
    files = DumpFiles(folder, about(), pwritev=calls.pwritev)
    return DumpWriter(folder, about(), most_pending_bytes=bound_rows * ROW_BYTES, log=print, files=files)


@pytest.fixture
def writer(patient: None, tmp_path: Path, calls: Calls) -> Iterator[DumpWriter]:
    """Nine rows of A, B and C are written; steps are awaited."""
    writer = made(tmp_path, calls)
    writer.put(batch((A, 0, 9), (B, 0, 9), (C, 0, 9)))
    writer.flush()
    calls.all()
    yield writer
    writer.close()


def test_rows_of_many_steps_are_one_write_after_their_marks(writer: DumpWriter, calls: Calls, tmp_path: Path) -> None:
    for position in range(9, 20):
        writer.put(batch((A, position, 1), (B, position, 1)))
    assert calls.all() == []
    writer.flush()
    one_request = [(4096 + 8 * 9, 8 * 11, 1), (ROWS_OFFSET + ROW_BYTES * 9, ROW_BYTES * 11, 11)]
    assert calls.all() == one_request * 2
    for rid in (A, B):
        assert assert_whole(tmp_path, rid, 20).passes[9:] == list(range(2, 13))


def test_steps_are_written_when_there_are_enough(writer: DumpWriter, calls: Calls, tmp_path: Path) -> None:
    for position in range(9, 9 + HELD_STEPS):
        writer.put(batch((A, position, 1)))
    assert calls.rows() == (9, HELD_STEPS, HELD_STEPS)
    writer.put(batch((A, 9 + HELD_STEPS, 1)))
    writer.flush()
    assert_whole(tmp_path, A, 10 + HELD_STEPS)


def test_first_marks_go_out_with_the_header(writer: DumpWriter, calls: Calls) -> None:
    writer.put(batch(("e3.run.d.1.4", 0, 5)))
    writer.flush()
    assert calls.all() == [(0, 4096 + 8 * 5, 2), (ROWS_OFFSET, ROW_BYTES * 5, 1)]


def test_pause_has_held_steps_written_and_holds_the_next_again(writer: DumpWriter, calls: Calls) -> None:
    for position in range(9, 12):
        writer.put(batch((A, position, 1)))
    writer.pause()
    assert calls.rows() == (9, 3, 3)
    writer.put(batch((A, 12, 1)))
    writer.put(batch((A, 13, 1)))
    assert calls.all() == []
    writer.flush()
    assert calls.rows() == (12, 2, 2)


def test_request_that_is_not_in_the_next_step_is_written_alone(writer: DumpWriter, calls: Calls) -> None:
    for position in range(9, 12):
        writer.put(batch((A, position, 1), (B, position, 1), (C, position, 1)))
    writer.put(batch((A, 12, 1), (C, 12, 1)))
    assert calls.rows() == (9, 3, 3)
    writer.put(batch((C, 13, 1), (A, 13, 1)))
    writer.put(batch((C, 14, 1), (A, 14, 1)))
    assert calls.all() == []
    writer.flush()
    assert [(offset, parts) for offset, _, parts in calls.all() if offset >= ROWS_OFFSET] == [
        (ROWS_OFFSET + ROW_BYTES * 9, 6)
    ] * 2


def test_prefill_of_others_does_not_disturb_the_steps(writer: DumpWriter, calls: Calls, tmp_path: Path) -> None:
    fourth = "e3.run.d.1.4"
    writer.put(batch((A, 9, 1), (B, 9, 1)))
    writer.put(batch((fourth, 0, 5)))
    assert calls.rows() == (0, 5, 1)
    writer.put(batch((A, 10, 1), (B, 10, 1), (fourth, 5, 1)))
    writer.flush()
    assert sorted(parts for offset, _, parts in calls.all() if offset >= ROWS_OFFSET) == [1, 2, 2]
    for rid, count in ((A, 11), (B, 11), (fourth, 6)):
        assert_whole(tmp_path, rid, count)


def test_request_that_starts_again_overwrites_what_was_held(writer: DumpWriter, tmp_path: Path) -> None:
    writer.put(batch((A, 9, 1), (B, 9, 1)))
    writer.put(batch((A, 0, 10), salt=1))
    writer.put(batch((A, 10, 1), salt=1))
    writer.flush()
    assert_whole(tmp_path, A, 11, salt=1)
    assert_whole(tmp_path, B, 10)


def test_held_rows_of_a_refused_request_are_not_written(writer: DumpWriter, tmp_path: Path) -> None:
    writer.put(batch((A, 9, 1), (B, 9, 1)))
    writer.refuse([A], "why")
    writer.put(batch((A, 10, 1), (B, 10, 1)))
    writer.flush()
    assert not (tmp_path / f"{A}.dump").exists()
    assert (tmp_path / f"{A}.error").read_text() == "why"
    assert_whole(tmp_path, B, 11)


def test_step_whose_copies_fail_fails_its_requests_alone(writer: DumpWriter, tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("an illegal memory access was encountered")

    writer.put(batch((A, 9, 1), (B, 9, 1)))
    bad = batch((B, 10, 1), (C, 9, 1))
    bad.wait = fail
    writer.put(bad)
    writer.put(batch((A, 10, 1), (B, 11, 1)))
    writer.flush()
    assert_whole(tmp_path, A, 11)
    assert {path.name for path in tmp_path.iterdir()} == {f"{A}.dump", f"{B}.error", f"{C}.error"}


def test_one_request_that_cannot_be_written_fails_alone(writer: DumpWriter, tmp_path: Path) -> None:
    writer.put(batch((A, 9, 1), (B, 20, 1), (C, 9, 1)))
    writer.put(batch((A, 10, 1), (B, 21, 1), (C, 10, 1)))
    writer.flush()
    assert "only the first 9 are there" in (tmp_path / f"{B}.error").read_text()
    assert_whole(tmp_path, A, 11)
    assert_whole(tmp_path, C, 11)


def test_taken_dump_takes_no_held_rows(writer: DumpWriter, tmp_path: Path) -> None:
    writer.put(batch((A, 9, 1), (B, 9, 1)))
    (tmp_path / f"{A}.dump").unlink()
    writer.flush()
    assert not (tmp_path / f"{A}.dump").exists()
    assert writer.dropped_rows == 1
    assert_whole(tmp_path, B, 10)


def test_closing_writes_what_is_held(writer: DumpWriter, tmp_path: Path) -> None:
    writer.put(batch((A, 9, 1)))
    writer.close()
    assert_whole(tmp_path, A, 10)


def test_last_rows_are_written_soon_though_nothing_follows(tmp_path: Path, calls: Calls) -> None:
    writer = made(tmp_path, calls)
    writer.put(batch((A, 0, 5)))
    assert calls.rows() == (0, 5, 1)
    for position in range(5, 9):
        writer.put(batch((A, position, 1)))
    written = 0
    while written < 4:  # in one call, unless this machine held the steps up
        written += calls.rows()[1]
    assert_whole(tmp_path, A, 9)
    writer.close()


def test_held_steps_count_as_pending_and_take_a_part_of_it_only(patient: None, tmp_path: Path, calls: Calls) -> None:
    writer = made(tmp_path, calls, bound_rows=20)
    for position in range(4):
        writer.put(batch((A, position, 1)))
    assert writer._pending_bytes == 4 * ROW_BYTES
    writer.put(batch((A, 4, 1)))  # a fourth of the bound
    assert calls.rows() == (0, 5, 5)
    writer.close()
    assert writer._pending_bytes == 0


def test_batch_that_finds_no_room_has_the_held_steps_written(patient: None, tmp_path: Path, calls: Calls) -> None:
    writer = made(tmp_path, calls, bound_rows=20)
    for position in range(4):
        writer.put(batch((A, position, 1)))
    writer.put(batch((B, 0, 18)))
    assert calls.rows() == (0, 4, 4)
    writer.close()
    assert_whole(tmp_path, B, 18)


def test_more_requests_than_buffers_are_known_to_the_kernel(patient: None, tmp_path: Path, calls: Calls) -> None:
    """Many requests, each with all of a context, in steps alone."""
    writer = made(tmp_path, calls, bound_rows=100_000)
    rids = [f"e3.run.{number}.1.1" for number in range(40)]
    for position in range(CONTEXT):
        writer.put(batch(*((rid, position, 1) for rid in rids[position % 3 :: 1] + rids[: position % 3])))
    writer.close()
    for rid in rids:
        assert_whole(tmp_path, rid, CONTEXT)
