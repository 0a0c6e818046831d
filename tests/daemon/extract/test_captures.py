"""The captures of a session: real dumps into a real store, and what becomes of them when something breaks."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from contracts.records import CaptureCheck, StoredSample
from daemon.capture.fault import CaptureFault
from daemon.condition import RUN_FOLDER
from tests.daemon.extract.capturing import ROWS, Capturing
from tests.support.runs import until


async def test_rows_go_into_the_store_and_the_dump_stays_until_the_record_is_read(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path)
    rid = capturing.begin()
    capturing.take(rid)
    capturing.dump(rid)
    await capturing.until_settled()
    (record,) = capturing.settled
    assert isinstance(record, StoredSample) and record.tokens == ROWS
    assert (tmp_path / "index.jsonl").read_bytes().count(b"\n") == 1
    assert capturing.left == [f"{rid}.dump"] and capturing.captures.is_open(rid)
    capturing.captures.close(rid)
    capturing.captures.close(rid)
    assert not capturing.captures.is_open(rid) and capturing.captures.used_bytes, "it takes room until it is removed"
    await capturing.until_tidied()
    assert capturing.left == [] and capturing.captures.used_bytes == 0


async def test_a_fault_closes_the_capture(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path)
    rid = capturing.begin()
    capturing.dump(rid, [1, 2, 3, 4, 99])
    capturing.take(rid)
    await capturing.until_settled()
    (fault,) = capturing.settled
    assert isinstance(fault, CaptureFault) and fault.check is CaptureCheck.IDS
    assert capturing.left == [] and capturing.captures.used_bytes == 0


async def test_rows_that_never_come(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path, wait_s=0.02)
    capturing.take(capturing.begin())
    await capturing.until_settled()
    (fault,) = capturing.settled
    assert isinstance(fault, CaptureFault) and fault.check is CaptureCheck.MISSING


@pytest.mark.parametrize("broken", [ValueError("odd"), KeyError("x"), RuntimeError("no thread")])
async def test_a_fault_of_our_own_settles_the_sample_too(tmp_path: Path, broken: Exception) -> None:
    """Else it would be busy for ever, and the run never at its end."""
    capturing = Capturing(tmp_path)

    def place(sample: object, row: int) -> None:
        raise broken

    capturing.layout.place = place  # type: ignore[method-assign, assignment]
    rid = capturing.begin()
    capturing.dump(rid)
    capturing.take(rid)
    await capturing.until_settled()
    (fault,) = capturing.settled
    assert isinstance(fault, CaptureFault) and repr(broken) in fault.message
    assert "daemon.fault" in capturing.events.kinds and capturing.left == []
    assert capturing.store.numbers.take() == 0, "its number is free again"


async def test_an_order_that_cannot_be_read_is_a_failure_of_its_sample(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path)
    rid = capturing.begin()
    capturing.take(rid, output_ids=b"[4,-5]")
    (fault,) = capturing.settled
    assert isinstance(fault, CaptureFault) and fault.check is CaptureCheck.NO_IDS
    assert not capturing.captures.is_open(rid) and capturing.captures.taking == 0


async def test_a_full_disk_pauses_and_goes_on_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.extract.storing.ROOM_RETRY_S", 0.001)
    capturing = Capturing(tmp_path)
    capturing.layout.trouble = OSError(errno.ENOSPC, "No space left on device", "store/x")
    rid = capturing.begin()
    capturing.dump(rid)
    capturing.take(rid)
    await capturing.until_settled()
    assert isinstance(capturing.settled[0], StoredSample)
    assert capturing.events.kinds == ["run.paused", "run.resumed"] and capturing.condition.may_send
    assert "store/x: hidden states cannot be stored: No space left" in capturing.events.said[0][2]


async def test_nothing_is_stored_at_the_path_of_a_run_that_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run's store may be there by now."""
    monkeypatch.setattr("daemon.extract.storing.ROOM_RETRY_S", 0.001)
    capturing = Capturing(tmp_path)
    placed, place = [], capturing.layout.place

    def noted(sample: Any, row: int) -> Any:
        placed.append(row)
        return place(sample, row)

    capturing.layout.place = noted  # type: ignore[method-assign]
    capturing.condition.set_trouble(RUN_FOLDER, "it was moved")
    rid = capturing.begin()
    capturing.dump(rid)
    capturing.take(rid)
    await until(lambda: "it was moved" in str(capturing.condition.store_trouble))
    assert placed == []
    capturing.condition.set_trouble(RUN_FOLDER, None)
    await capturing.until_settled()
    assert placed == [0] and capturing.condition.may_send


async def test_a_pause_ends_however_the_sample_that_caused_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later sample could end it: nothing is sent meanwhile. Here the dump is gone before the next try."""
    monkeypatch.setattr("daemon.extract.storing.ROOM_RETRY_S", 0.001)
    capturing = Capturing(tmp_path)
    rid = capturing.begin()
    path = capturing.dump(rid)

    def full(sample: object, row: int) -> None:
        path.unlink()
        raise OSError(errno.ENOSPC, "No space left on device", "store/x")

    capturing.layout.place = full  # type: ignore[method-assign, assignment]
    capturing.take(rid)
    await capturing.until_settled()
    (fault,) = capturing.settled
    assert isinstance(fault, CaptureFault) and fault.check is CaptureCheck.MISSING
    assert capturing.events.kinds == ["run.paused", "run.resumed"] and capturing.condition.may_send


async def test_samples_that_fit_where_another_does_not_end_no_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.extract.storing.ROOM_RETRY_S", 0.001)
    capturing = Capturing(tmp_path)
    large, place, room = capturing.begin(key=b"large"), capturing.layout.place, False

    def placed(sample: Any, row: int) -> Any:
        if sample.sample_id == large and not room:
            raise OSError(errno.ENOSPC, "No space left on device", "store/x")
        return place(sample, row)

    capturing.layout.place = placed  # type: ignore[method-assign]
    for rid in (large, *(capturing.begin(key=b"s%d" % number) for number in range(20))):
        capturing.dump(rid)
        capturing.take(rid)
    await until(lambda: len(capturing.settled) == 20)
    assert capturing.events.kinds == ["run.paused"] and not capturing.condition.may_send
    room = True
    await capturing.until_settled(21)
    assert capturing.events.kinds == ["run.paused", "run.resumed"]


async def test_an_end_while_the_disk_is_full_says_of_no_resumption(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path)
    capturing.layout.trouble = OSError(errno.ENOSPC, "No space left on device", "store/x")
    rid = capturing.begin()
    capturing.dump(rid)
    capturing.take(rid)
    await until(lambda: not capturing.condition.may_send)
    await capturing.captures.stop(3600.0)  # and waits for nothing
    assert capturing.events.kinds == ["run.paused"] and capturing.captures.taking == 0


async def test_what_an_end_cuts_short_is_neither_stored_nor_failed(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path, wait_s=600.0)
    rid = capturing.begin()
    capturing.take(rid)
    await asyncio.sleep(0)
    await capturing.captures.stop(0.01)
    assert capturing.settled == [] and capturing.captures.taking == 0
    assert capturing.captures.is_open(rid), "its dump may be whole by the next start"
