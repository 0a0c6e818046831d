from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.records import CaptureCheck
from daemon.capture.arrival import LONGEST_WAIT_S, await_rows
from daemon.capture.fault import CaptureFault
from daemon.sglang_plugin.eagle3_sglang.dump_format import HEADER_BYTES, dump_path, error_path
from tests.daemon.capture.dumps import make_header, make_rid, make_rows, poke, row_offset, write_dump

RID = make_rid(1)


class Time:
    """A clock that only sleeping moves; what happens meanwhile is a step after each sleep."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.now = 50.0
        self.slept: list[float] = []
        self._steps = list(steps)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if self._steps:
            self._steps.pop(0)()

    async def wait(self, folder: Path, rows: int, timeout_s: float = 30.0, rid: str = RID) -> None:
        await await_rows(folder, rid, rows, timeout_s, lambda: self.now, self.sleep)


async def test_rows_that_are_there_cost_no_wait(tmp_path: Path) -> None:
    write_dump(tmp_path, RID, [1, 2, 3])
    time = Time()
    await time.wait(tmp_path, 3)
    assert not time.slept


async def test_case_20_a_dump_that_grows_is_awaited(tmp_path: Path) -> None:
    path = dump_path(tmp_path, RID)
    rows = make_rows([1, 2, 3]).tobytes()
    half = len(rows) // 2
    time = Time(
        lambda: path.write_bytes(b""),
        lambda: poke(path, 0, make_header(RID).encode()[:100]),
        lambda: poke(path, 0, make_header(RID).encode()),
        lambda: os.truncate(path, HEADER_BYTES + 24),
        lambda: poke(path, row_offset(0), rows[:half]),
        lambda: poke(path, row_offset(0), rows[:-1]),
        lambda: poke(path, row_offset(0), rows),
    )
    await time.wait(tmp_path, 3)
    assert len(time.slept) == 7  # not one look before the last byte


async def test_case_20_one_that_stops_short_fails_after_the_stated_time(tmp_path: Path) -> None:
    write_dump(tmp_path, RID, [1, 2, 3, 4, 5, 6, 7])
    time = Time()
    with pytest.raises(CaptureFault, match="7 rows for 8 tokens after 30 s") as raised:
        await time.wait(tmp_path, 8)
    assert raised.value.check is CaptureCheck.MISSING
    assert sum(time.slept) == pytest.approx(30.0)
    assert time.slept[0] == 0.002
    assert max(time.slept) == LONGEST_WAIT_S


async def test_case_20_one_that_never_appears_fails_after_the_stated_time(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        time = Time()
        with pytest.raises(CaptureFault, match=re.escape(f"EAGLE3_DUMP_DIR={folder}?")) as raised:
            await time.wait(folder, 8, timeout_s=2.0)
        assert raised.value.check is CaptureCheck.MISSING
        assert "on this machine, started with the plugin" in str(raised.value)
        assert sum(time.slept) == pytest.approx(2.0)


async def test_the_plugins_reason_is_passed_on(tmp_path: Path) -> None:
    time = Time(lambda: error_path(tmp_path, RID).write_text("a row for position 99: the context has 64"))
    with pytest.raises(CaptureFault, match="could not write the rows: a row for position 99") as raised:
        await time.wait(tmp_path, 3)
    assert raised.value.check is CaptureCheck.SERVER_ERROR
    assert len(time.slept) == 1


@pytest.mark.parametrize("reason", ["the dump folder: No space left on device", ""])
async def test_a_full_folder_is_told_from_other_reasons(tmp_path: Path, reason: str) -> None:
    """There may be no room for the reason itself."""
    error_path(tmp_path, RID).write_text(reason)
    with pytest.raises(CaptureFault, match="could not write the rows") as raised:
        await Time().wait(tmp_path, 3)
    assert raised.value.check is CaptureCheck.NO_ROOM


async def test_a_reason_may_be_on_its_way(tmp_path: Path) -> None:
    path = error_path(tmp_path, RID)
    path.touch()
    time = Time(lambda: path.write_text("broken"))
    with pytest.raises(CaptureFault, match="broken"):
        await time.wait(tmp_path, 3)


async def test_a_reason_is_no_pipe_and_no_link(tmp_path: Path) -> None:
    os.mkfifo(error_path(tmp_path, RID))
    with pytest.raises(CaptureFault, match="not a regular file"):
        await Time().wait(tmp_path, 3)


async def test_a_dump_that_vanishes_fails_after_the_stated_time(tmp_path: Path) -> None:
    path = write_dump(tmp_path, RID, [1, 2])
    with pytest.raises(CaptureFault, match=f"no {RID}.dump in"):
        await Time(path.unlink).wait(tmp_path, 3)


async def test_a_damaged_header_fails_after_the_stated_time(tmp_path: Path) -> None:
    poke(write_dump(tmp_path, RID, [1, 2, 3]), 0, b"[" * HEADER_BYTES)
    with pytest.raises(CaptureFault, match="nested too deeply after 30 s"):
        await Time().wait(tmp_path, 3)


async def test_an_id_that_is_not_ours_is_never_a_path(tmp_path: Path) -> None:
    with pytest.raises(CaptureFault, match="no request id of ours"):
        await Time().wait(tmp_path, 3, rid="../x")
