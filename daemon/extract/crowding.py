"""Whether others' files leave the captures of a run no room in the dump folder, and how that is told."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from contracts.records import Severity
from contracts.wording import human_bytes
from daemon.capture.dump_folder import DumpFolder
from daemon.events import EventLog

NO_ROOM_MOST: Final = 8
"""So many prefill passes in a row whose rows found no room: nothing more is sent until the folder has some. Each pass
costs a server as much as a good one."""


class Crowding:
    """What is known of the room in the dump folder.

    Args:
        folder: The dump folder.
        events: Takes what a person should read.
    """

    def __init__(self, folder: Path, events: EventLog) -> None:
        self._folder = folder
        self._events = events
        self._in_vain = 0
        """Prefill passes without room since the last good one, or since there was room."""
        self._needed = 0
        """Bytes that the largest of them needs."""
        self._waits_for = 0
        """Bytes that a sample needs which was put off, and of which that was said; 0: none."""

    def passed_in_vain(self, needed: int) -> None:
        """Note that the server found no room for the rows of a prefill pass, so many bytes."""
        self._in_vain += 1
        self._needed = max(self._needed, needed)

    def captured(self) -> None:
        """Note that the rows of a sample came."""
        self._in_vain = self._needed = 0

    def put_off(self, needed: int, budget: int) -> None:
        """Note, and say once, that a sample waits because others' files take what it needs."""
        if not self._waits_for:
            self._events.emit(
                Severity.WARNING,
                "dumps.crowded",
                f"{self._folder}: other files leave {human_bytes(budget)} for the dumps of this run. A sample needs "
                f"{human_bytes(needed)}, and waits until there is so much: make room there",
            )
            self._waits_for = needed

    def trouble(self, found: DumpFolder) -> str | None:
        """Return why nothing more should be sent, by what the folder is like now; None: nothing stands against it."""
        if found.budget_bytes >= self._waits_for:
            self._waits_for = 0
        if found.free_bytes >= self._needed:
            self.captured()
        if self._in_vain < NO_ROOM_MOST:
            return None
        return (
            f"{self._folder} is full: {human_bytes(found.free_bytes)} free, the rows of a sample need "
            f"{human_bytes(self._needed)}. Other files take the room"
        )
