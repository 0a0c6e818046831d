"""What is marked below a history: pauses, restarts of the daemon, alerts."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final

import msgspec

from contracts.records import Event
from contracts.wording import with_dataset

KEPT: Final = 1000


class MarkKind(StrEnum):
    """What happened."""

    PAUSE = "pause"
    RESTART = "restart"
    ALERT = "alert"


class Mark(msgspec.Struct, frozen=True):
    """One moment."""

    at: float
    kind: MarkKind
    text: str
    """In a few words. From events: not fit for a terminal as it is."""


class Marks:
    """The newest marks of a run, in the order of the events."""

    def __init__(self) -> None:
        self.last: deque[Mark] = deque(maxlen=KEPT)

    def restarted(self, event: Event) -> None:
        """Mark a start of the daemon that was not the first."""
        self.last.append(Mark(event.at, MarkKind.RESTART, "restarted"))

    def paused(self, event: Event) -> None:
        """Mark a pause."""
        self.last.append(Mark(event.at, MarkKind.PAUSE, event.message))

    def alerted(self, event: Event) -> None:
        """Mark an alert."""
        self.last.append(Mark(event.at, MarkKind.ALERT, with_dataset(event.dataset, event.message)))
