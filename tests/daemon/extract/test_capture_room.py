"""The room of captures: reserved, measured, given up, and what the run does where others take it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from contracts.records import CaptureCheck
from daemon.capture.dump_folder import DumpFolder
from daemon.extract.crowding import NO_ROOM_MOST
from daemon.sglang_plugin.eagle3_sglang.dump_format import error_path
from tests.daemon.capture.dumps import CONTEXT, FORM, make_header, write_dump
from tests.daemon.extract.capturing import Capturing
from tests.support.runs import until


async def test_dumps_that_are_being_removed_are_gone_when_the_session_ends(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path)
    rids = [capturing.begin(key=b"s%d" % number) for number in range(5)]
    for rid in rids:
        capturing.dump(rid)
        capturing.captures.close(rid)
    await capturing.captures.stop(10.0)
    assert capturing.left == [] and capturing.captures.used_bytes == 0


async def test_the_budget_follows_what_others_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is full of others' files at the start refuses nothing for good."""
    monkeypatch.setattr("daemon.extract.captures.WATCH_S", 0.001)
    free = [20_000]

    def look(folder: Path, tag: str, configured: float | None) -> DumpFolder:
        return DumpFolder([], free[0], free[0], 64_000_000)

    monkeypatch.setattr("daemon.extract.captures.look_at", look)
    capturing = Capturing(tmp_path)
    captures = capturing.captures
    assert captures.budget_bytes == 20_000 and captures.too_large(200) is None
    assert captures.too_large(10**6) is not None
    assert not captures.has_room(200) and captures.is_crowded_out(200) and not captures.is_crowded_out(10)
    watching = asyncio.create_task(captures.watch())
    free[0] = 10_000_000
    await until(lambda: captures.has_room(200))
    assert not captures.is_crowded_out(200)
    free[0] = 0
    await until(lambda: not captures.has_room(1))
    assert capturing.events.kinds == ["dumps.crowded"]
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.parametrize("capture", ["generating", "afterwards"])
async def test_prefill_passes_for_which_the_server_finds_no_room_pause_the_run(
    capture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.extract.captures.WATCH_S", 0.001)
    free = [0]

    def look(folder: Path, tag: str, configured: float | None) -> DumpFolder:
        return DumpFolder([], free[0], 10_000_000, 64_000_000)

    monkeypatch.setattr("daemon.extract.captures.look_at", look)
    capturing = Capturing(tmp_path)
    for number in range(NO_ROOM_MOST):
        rid = capturing.begin(key=b"s%d" % number)
        error_path(capturing.rows.folder, rid).write_text("write: No space left on device")
        capturing.take(rid, capture=capture)
    await capturing.until_settled(NO_ROOM_MOST)
    looked: list[bool] = []
    set_trouble = capturing.condition.set_trouble

    def seen(source: str, trouble: str | None) -> None:
        looked.append(trouble is not None)
        set_trouble(source, trouble)

    monkeypatch.setattr(capturing.condition, "set_trouble", seen)
    watching = asyncio.create_task(capturing.captures.watch())
    await until(lambda: len(looked) >= 3)
    assert set(looked) == {capture == "afterwards"}
    free[0] = 1_000_000
    await until(lambda: not looked[-1])
    assert capturing.condition.may_send
    assert capturing.events.kinds == (["run.paused", "run.resumed"] if capture == "afterwards" else [])
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_the_youngest_answer_is_given_up_when_the_folder_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.extract.captures.WATCH_S", 0.001)
    capturing = Capturing(tmp_path, budget_gb=0.00025)  # two and a half of these dumps
    old, young = capturing.begin(10, at_least=3), capturing.begin(10, at_least=3, key=b"b")
    settled = capturing.begin(10, key=b"c")
    for rid in (old, young, settled):
        path = write_dump(capturing.rows.folder, rid, [1] * CONTEXT, header=make_header(rid))
        assert 2 * path.stat().st_blocks * 512 < 250_000 < 3 * path.stat().st_blocks * 512
    watching = asyncio.create_task(capturing.captures.watch())
    await until(lambda: not capturing.captures.is_open(young))
    await capturing.until_tidied()
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
    await until(lambda: not capturing.condition.may_send)
    assert capturing.captures.used_bytes == 0, "a reservation is not kept for it"
    watching = asyncio.create_task(capturing.captures.watch())
    path.rmdir()
    await until(lambda: capturing.condition.may_send)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_room(tmp_path: Path) -> None:
    capturing = Capturing(tmp_path, budget_gb=0.0001)
    captures = capturing.captures
    assert captures.budget_bytes == 100_000 and captures.used_bytes == 0
    row = FORM.row_bytes
    most = (100_000 - 8192) // row
    assert captures.has_room(most // 2) and captures.too_large(most // 2) is None
    fault = captures.too_large(100_000 // row + 100)
    assert fault is not None and fault.check is CaptureCheck.TOO_LARGE and "may take 100.0 kB at most" in fault.message
    assert fault.tokens == 100_000 // row + 100
    first = captures.begin("B1", b"a", most // 2 + 10)
    assert first is not None and not captures.has_room(most // 2 + 10)
    assert captures.begin("B1", b"b", most // 2 + 10) is None
    captures.close(first)
    assert captures.begin("B1", b"b", most // 2 + 10) is None, "its memory is not free yet"
    await capturing.until_tidied()
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
