"""When to look again: at once while there is something new each time; else at the next file event, where the system
gives any, or at the sweep every second.

Nothing but a wake-up comes from here. File events get lost (network disks, exhausted watches, replaced folders), so
what is on disk is read by (inode, offset) whatever woke the reader. Each costs processor time, and a run at work writes
hundreds a second: while readings find something anyway, nothing is watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import watchfiles

SWEEP_S: Final = 1.0
"""Longest time between two readings, with or without events."""
_STEP_MS: Final = 200
_GROUP_MS: Final = 200
"""Events are grouped at most this long, else a busy file would never wake anybody."""
_BUSY_AFTER: Final = 4
"""So many readings in a row that found something: the next one will too."""
_COMPARE_EVERY: Final = 5
"""Sweeps after which it is looked whether the watched folders are still the same."""
_TRY_AGAIN_S: Final = 30.0
"""After the system refused to watch."""


class Watcher:
    """Waits for changes in folders that may come, go and be replaced."""

    def __init__(self, folders: Callable[[], list[Path]], sweep_s: float = SWEEP_S) -> None:
        self._folders = folders
        self._sweep_s = sweep_s
        self.watched: dict[Path, tuple[int, int]] = {}
        """What is watched now: each folder with its device and inode."""
        self._changed = asyncio.Event()
        self._stop_watching = asyncio.Event()
        self._stopped = False
        self._found = 0
        """Readings in a row that found something."""
        self._calm = asyncio.Event()
        self._calm.set()

    def found(self, something: bool) -> None:
        """Take note of what a reading came to: of a busy run file events are not asked for."""
        self._found = self._found + 1 if something else 0
        if self._found < _BUSY_AFTER:
            self._calm.set()
        elif self._calm.is_set():
            self._calm.clear()
            self._stop_watching.set()

    async def wait(self) -> None:
        """Return at the next change, or when the sweep is due; changes since the last call count.

        In a busy run that is at once: the caller sees to the pace.
        """
        if not self._calm.is_set():
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), self._sweep_s)
        self._changed.clear()

    async def run(self) -> None:
        """Watch until stopped; folders that appear, vanish or are replaced are taken up at the next sweep."""
        refused_until = 0.0
        loop = asyncio.get_running_loop()
        while True:
            self.watched = {}
            await self._calm.wait()
            if self._stopped:
                return
            self.watched = self._identities() if loop.time() >= refused_until else {}
            if not self.watched:
                await asyncio.sleep(self._sweep_s)
                continue
            self._stop_watching = asyncio.Event()
            compare = asyncio.create_task(self._until_replaced(self.watched))
            try:
                await self._watch(list(self.watched))
            except (OSError, RuntimeError):
                # No watches left, or a disk that can't be watched (watchfiles' own error is a RuntimeError): the sweep
                # carries on alone.
                refused_until = loop.time() + _TRY_AGAIN_S
            finally:
                self._stop_watching.set()
                compare.cancel()

    def wake(self) -> None:
        """Have `wait` return: there is something to look at that no file says."""
        self._changed.set()

    def stop(self) -> None:
        """Let the thread that waits for file events end, ahead of the cancellation."""
        self._stopped = True
        self._calm.set()
        self._stop_watching.set()

    async def _watch(self, folders: list[Path]) -> None:
        changes = watchfiles.awatch(
            *folders,
            watch_filter=None,
            step=_STEP_MS,
            debounce=_GROUP_MS,
            stop_event=self._stop_watching,
            recursive=False,
            ignore_permission_denied=True,
        )
        async for _ in changes:
            self._changed.set()

    async def _until_replaced(self, watched: dict[Path, tuple[int, int]]) -> None:
        while self._identities() == watched:  # noqa: ASYNC110 - a disk has no event that could be waited for
            await asyncio.sleep(_COMPARE_EVERY * self._sweep_s)
        self._stop_watching.set()

    def _identities(self) -> dict[Path, tuple[int, int]]:
        """The folders that exist now, each with what changes when it is removed and made again."""
        found = {}
        for folder in self._folders():
            try:
                info = folder.stat()
            except OSError:
                continue
            if stat.S_ISDIR(info.st_mode):
                found[folder.absolute()] = (info.st_dev, info.st_ino)
        return found
