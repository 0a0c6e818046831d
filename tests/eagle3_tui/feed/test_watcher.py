"""Wake-ups: quick where the system gives events, by the sweep where it gives none (case 44)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from eagle3_tui.feed.watcher import Watcher
from tests.eagle3_tui.waiting import eventually

NEVER_S = 50.0


@asynccontextmanager
async def watching(watcher: Watcher) -> AsyncIterator[None]:
    task = asyncio.create_task(watcher.run())
    try:
        yield
    finally:
        watcher.stop()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def woken_by_writing(watcher: Watcher, file: Path) -> None:
    """Write until it wakes: when the system has begun to watch is not told."""

    async def write() -> None:
        while True:
            with file.open("a") as out:
                out.write("{}\n")
            await asyncio.sleep(0.05)

    writer = asyncio.create_task(write())
    try:
        await watcher.wait()
    finally:
        writer.cancel()


async def test_a_write_wakes_long_before_the_sweep(tmp_path: Path) -> None:
    watcher = Watcher(lambda: [tmp_path], sweep_s=NEVER_S)
    begun = time.monotonic()
    async with watching(watcher):
        await woken_by_writing(watcher, tmp_path / "events.jsonl")
    assert time.monotonic() - begun < NEVER_S / 2


@pytest.mark.parametrize("error", [FileNotFoundError(28, "no space left on device"), RuntimeError("inotify: EMFILE")])
async def test_without_events_the_sweep_wakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    tries = 0

    async def refuse(*_paths: Path, **_options: object) -> AsyncIterator[None]:
        nonlocal tries
        tries += 1
        raise error
        yield

    monkeypatch.setattr("watchfiles.awatch", refuse)
    watcher = Watcher(lambda: [tmp_path], sweep_s=0.01)
    async with watching(watcher):
        for _ in range(10):
            await watcher.wait()
    assert tries == 1, "a system that refuses is not asked again at once"


async def test_a_missing_folder_is_taken_up_when_it_appears(tmp_path: Path) -> None:
    missing = tmp_path / "telemetry"
    watcher = Watcher(lambda: [missing], sweep_s=0.05)
    async with watching(watcher):
        await watcher.wait()
        assert watcher.watched == {}
        missing.mkdir()
        await eventually(lambda: missing in watcher.watched)


async def test_a_folder_made_again_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "prepared"
    folder.mkdir()
    watcher = Watcher(lambda: [folder], sweep_s=0.05)
    async with watching(watcher):
        await eventually(lambda: folder in watcher.watched)
        first = watcher.watched[folder]
        folder.rename(tmp_path / "old")
        folder.mkdir()
        await eventually(lambda: watcher.watched.get(folder) not in (None, first))


async def test_a_busy_run_is_not_watched_and_nothing_is_waited_for(tmp_path: Path) -> None:
    watcher = Watcher(lambda: [tmp_path], sweep_s=NEVER_S)
    async with watching(watcher):
        await eventually(lambda: bool(watcher.watched))
        for _ in range(3):
            watcher.found(True)
        watcher.found(False)
        for _ in range(3):
            watcher.found(True)
        await asyncio.sleep(0)
        assert watcher.watched, "it was not busy for long"
        watcher.found(True)
        await eventually(lambda: not watcher.watched)
        await watcher.wait()
        watcher.found(False)
        await eventually(lambda: bool(watcher.watched))
        await woken_by_writing(watcher, tmp_path / "events.jsonl")


async def test_a_busy_run_can_be_left(tmp_path: Path) -> None:
    watcher = Watcher(lambda: [tmp_path], sweep_s=NEVER_S)
    for _ in range(9):
        watcher.found(True)
    task = asyncio.create_task(watcher.run())
    await asyncio.sleep(0)
    watcher.stop()
    await task
