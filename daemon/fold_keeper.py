"""Keeps the fold up to date with the files, without holding up the event loop, and saved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from contracts.fold.run import RunFold
from contracts.records import Severity
from contracts.run_place import RunPlace
from daemon.events import EventLog
from daemon.threads import in_thread

POLL_S: Final = 0.1
"""How often the files are looked at."""
CHECKPOINT_EVERY_S: Final = 30.0
SLICE_BYTES: Final = 4 << 20
"""Read of each file at a time: some milliseconds."""


async def catch_up(fold: RunFold) -> bool:
    """Read everything that is new; return whether there was anything.

    What was just appended is one short read. A file that was imported or replaced may be gigabytes: commands and
    heartbeats go on between its slices.

    Raises:
        OSError: A journal is there and cannot be read.
    """
    changed = False
    while fold.poll(SLICE_BYTES):
        changed = True
        await asyncio.sleep(0)
    return changed


class FoldKeeper:
    """Polls and saves the fold of a session.

    Args:
        fold: The fold.
        events: Takes what a person should read.
        on_change: Called when there was something new.
        place: The run folder: while it is not there, nothing is read at its path (all would count as deleted), and
            nothing saved.
    """

    def __init__(
        self, fold: RunFold, events: EventLog, on_change: Callable[[], None], place: RunPlace | None = None
    ) -> None:
        self._fold = fold
        self._events = events
        self._on_change = on_change
        self._place = place
        self._trouble: str | None = None
        self._saving: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Keep it until cancelled."""
        saved = time.monotonic()
        while True:
            await asyncio.sleep(POLL_S)
            if await self.poll():
                self._on_change()
            if self._saving is not None and self._saving.done():
                self._saving = self._saving.result()  # should it have broken, so does this
            if self._saving is None and time.monotonic() - saved >= CHECKPOINT_EVERY_S:
                self._saving = asyncio.create_task(self._save())
                saved = time.monotonic()

    def _is_away(self) -> bool:
        return self._place is not None and self._place.trouble() is not None

    async def poll(self) -> bool:
        """Bring it up to date once. A file that cannot be read is said once, and read as soon as it can be."""
        if self._is_away():
            return False
        try:
            changed = await catch_up(self._fold)
        except OSError as error:
            said = f"{error.filename or self._fold.run.path}: cannot be read: {error.strerror or error}"
            if said != self._trouble:
                self._trouble = said
                self._events.emit(Severity.CRITICAL, "daemon.reading", f"{said}; the counts stand still meanwhile")
            return False
        if self._is_away():
            return False  # it went while it was read: nobody may act on what seems to be deleted
        if self._trouble is not None:
            self._trouble = None
            self._events.emit(Severity.INFO, "daemon.reading", "the journals can be read again")
        for note in self._fold.notes:
            self._events.emit(Severity.WARNING, "daemon.note", note)
        self._fold.notes.clear()
        return changed

    async def save(self) -> None:
        """Write the checkpoint; one that cannot be written costs time at the next start, nothing else."""
        if self._saving is not None:  # two at a time would write into one file
            await self._saving
        await self._save()

    async def _save(self) -> None:
        where, snapshot = self._fold.run.checkpoint, self._fold.snapshot()
        for _ in snapshot.take():
            await asyncio.sleep(0)
        if self._is_away():
            return
        try:
            await in_thread(lambda: snapshot.write(where), "checkpoint")
        except OSError as error:
            self._events.emit(Severity.WARNING, "daemon.note", f"{where}: cannot be written: {error.strerror or error}")
