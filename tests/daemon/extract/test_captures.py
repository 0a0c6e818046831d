"""The captures of a session: real dumps into a real store, and what becomes of them when something breaks."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from contracts.clock import Clock
from contracts.records import CaptureCheck, StoredSample
from contracts.run_config import parse_run_config
from daemon.capture.budget import LengthEstimate
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.capture.row_numbers import RowNumbers
from daemon.condition import Condition
from daemon.extract.captures import Captures
from daemon.extract.stores import Store
from daemon.request_ids import RequestIds
from tests.daemon.capture.dumps import CONTEXT, FORM, MODEL, MemoryLayout, make_header, make_order, write_dump
from tests.daemon.extract.support import Events, Journals
from tests.support.runs import until

PROMPT, OUTPUT = [1, 2, 3], [4, 5, 6]
ROWS = len(PROMPT) + len(OUTPUT) - 1


class Rows:
    """Stands for `RowsOfServers` that was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.form: Any = FORM
        self.model: str | None = MODEL


class Capturing:
    def __init__(self, path: Path, budget_gb: float = 0.01, wait_s: float = 5.0) -> None:
        config = parse_run_config(
            f'[run]\nname = "x"\nstages = ["generate", "extract"]\n[sampling]\nmax_new_tokens = 64\n'
            f'[extract]\nlayers = [1, 3, 4]\ndump_dir = "{path / "dumps"}"\ndump_budget_gb = {budget_gb}\n'
            f'dump_wait_s = {wait_s}\n[[servers]]\nurl = "http://h:1"\n[[datasets]]\nname = "B1"\n'
        )
        self.events, self.rows = Events(), Rows(path / "dumps")
        events: Any = self.events
        rows: Any = self.rows
        journals: Any = Journals()
        self.condition = Condition(events)
        self.rids = RequestIds(path, "5e55")
        self.captures = Captures(config, rows, self.rids, journals, Clock(), events, self.condition, LengthEstimate(64))
        self.captures.open_folder()
        (path / "store").mkdir()
        self.layout = MemoryLayout(path / "store")
        layout: Any = self.layout
        self.store = Store(path / "store", layout, path / "index.jsonl", RowNumbers())
        self.settled: list[StoredSample | CaptureFault] = []

    def begin(self, tokens: int = ROWS, at_least: int | None = None, key: bytes = b"a") -> str:
        rid = self.captures.begin("B1", key, tokens, at_least)
        assert rid is not None
        return rid

    def dump(self, rid: str, ids: list[int] | None = None) -> Path:
        return write_dump(self.rows.folder, rid, ids or [*PROMPT, *OUTPUT[:-1]], header=make_header(rid))

    def take(self, rid: str, **changes: Any) -> TakeOrder:
        order = make_order(rid, PROMPT, OUTPUT, **changes)
        self.captures.take(order, self.store, self.settled.append)
        return order

    async def until_settled(self, number: int = 1) -> None:
        await until(lambda: len(self.settled) >= number and not self.captures.taking)

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.rows.folder.iterdir())


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
    assert capturing.left == [] and capturing.captures.used_bytes == 0 and not capturing.captures.is_open(rid)
    capturing.captures.close(rid)


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
    monkeypatch.setattr("daemon.extract.captures.ROOM_RETRY_S", 0.001)
    capturing = Capturing(tmp_path)
    capturing.layout.trouble = OSError(errno.ENOSPC, "No space left on device", "store/x")
    rid = capturing.begin()
    capturing.dump(rid)
    capturing.take(rid)
    await capturing.until_settled()
    assert isinstance(capturing.settled[0], StoredSample)
    assert capturing.events.kinds == ["run.paused", "run.resumed"] and capturing.condition.may_send
    assert "store/x: hidden states cannot be stored: No space left" in capturing.events.said[0][2]


async def test_the_youngest_answer_is_given_up_when_the_folder_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.extract.captures.WATCH_S", 0.001)
    capturing = Capturing(tmp_path)
    old, young = capturing.begin(10, at_least=3), capturing.begin(10, at_least=3, key=b"b")
    settled = capturing.begin(10, key=b"c")
    for rid in (old, young, settled):
        write_dump(capturing.rows.folder, rid, [1] * CONTEXT, header=make_header(rid))
    budget: Any = capturing.captures._budget
    budget.limit_bytes = capturing.rows.folder.joinpath(f"{old}.dump").stat().st_blocks * 512 * 5 // 2
    watching = asyncio.create_task(capturing.captures.watch())
    await until(lambda: not capturing.captures.is_open(young))
    assert capturing.captures.is_open(old) and capturing.captures.is_open(settled)
    assert capturing.left == sorted([f"{old}.dump", f"{settled}.dump"])
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_folder_that_cannot_be_tidied_holds_the_run_up_no_longer_than_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it was the last capture: nothing else would open one, and nobody look again."""
    monkeypatch.setattr("daemon.extract.captures.WATCH_S", 0.001)
    capturing = Capturing(tmp_path)
    rid = capturing.begin()
    path = capturing.dump(rid)
    path.unlink()
    path.mkdir()
    capturing.captures.close(rid)
    assert not capturing.condition.may_send
    watching = asyncio.create_task(capturing.captures.watch())
    path.rmdir()
    await until(lambda: capturing.condition.may_send)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_what_an_end_cuts_short_is_neither_stored_nor_failed(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path, wait_s=600.0)
    rid = capturing.begin()
    capturing.take(rid)
    await asyncio.sleep(0)
    await capturing.captures.stop(0.01)
    assert capturing.settled == [] and capturing.captures.taking == 0
    assert capturing.captures.is_open(rid), "its dump may be whole by the next start"


def test_room(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path, budget_gb=0.0001)
    captures = capturing.captures
    assert captures.budget_bytes == 100_000 and captures.used_bytes == 0
    row = FORM.row_bytes
    most = (100_000 - 8192) // row
    assert captures.has_room(most // 2) and captures.too_large(most // 2) is None
    fault = captures.too_large(100_000 // row + 100)
    assert fault is not None and fault.check is CaptureCheck.TOO_LARGE and "0.1 MB" in fault.message
    first = captures.begin("B1", b"a", most // 2 + 10)
    assert first is not None and not captures.has_room(most // 2 + 10)
    assert captures.begin("B1", b"b", most // 2 + 10) is None
    captures.close(first)
    assert captures.begin("B1", b"b", most // 2 + 10) is not None


def test_an_answer_of_unknown_length_takes_the_whole_budget_at_most(tmp_path: Path) -> None:
    captures = Capturing(tmp_path, budget_gb=0.0001).captures
    assert captures.begin("B1", b"a", 100_000, at_least=100_000) is None, "its prompt alone does not fit"
    assert captures.begin("B1", b"a", 100_000, at_least=3) is not None
    assert captures.begin("B1", b"b", 3) is None


def test_nothing_is_captured_before_a_server_has_told_what_rows_are(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path)
    capturing.rows.form = None
    assert capturing.captures.begin("B1", b"a", 3) is None
    assert not capturing.captures.has_room(3) and capturing.captures.too_large(10**9) is None
