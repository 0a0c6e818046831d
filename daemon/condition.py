"""Whether the run may send, and why not: paused by a person, the disk full, draining."""

from __future__ import annotations

from typing import Final

from contracts.fold.events import PAUSED, RESUMED
from contracts.records import Severity
from daemon.events import EventLog

JOURNALS: Final = "journals"
"""A source of trouble that pauses a run."""

RUN_FOLDER: Final = "run folder"
"""As well, when it was moved away."""

WAITING: Final = "waiting for a server"
"""An activity of the start: the first usable server is waited for."""


class Condition:
    """What people and the disk want of a run, and what its start is at.

    Args:
        events: Takes what a person should read.
    """

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self.paused: str | None = None
        """Why a person paused it."""
        self._troubles: dict[str, str] = {}
        """Why something cannot be written, by what it is."""
        self.disk_doubt: str | None = None
        """What a failing disk may have lost, though it works again; until the end of this daemon."""
        self.draining = False
        self.activity: str | None = "starting"
        """What is done before samples can be sent; None once they are."""

    @property
    def disk_trouble(self) -> str | None:
        """Why journals or stores cannot be written."""
        return self.away or next(iter(self._troubles.values()), None)

    @property
    def store_trouble(self) -> str | None:
        """Why hidden states cannot be stored."""
        of_the_run = (JOURNALS, RUN_FOLDER)
        return next((said for source, said in self._troubles.items() if source not in of_the_run), None)

    @property
    def away(self) -> str | None:
        """Why nothing may be made below the run folder's path: the folder is not there any more."""
        return self._troubles.get(RUN_FOLDER)

    @property
    def may_send(self) -> bool:
        """Whether anything new may be sent."""
        return not self.draining and self.paused is None and self.disk_trouble is None

    @property
    def state(self) -> str:
        """The word for the heartbeat."""
        if self.draining:
            return "draining"
        return "running" if self.may_send else "paused"

    def pause(self, reason: str) -> bool:
        """Send nothing new; False when a person had said so already."""
        if self.paused is not None:
            return False
        self.paused = reason
        self._events.emit(Severity.INFO, PAUSED, f"paused: {reason}")
        return True

    def resume(self) -> bool:
        """Go on after a pause, or take back a drain; False when nothing held it."""
        held = self.paused is not None or self.draining
        self.paused, self.draining = None, False
        if held and self.disk_trouble is None:
            self._events.emit(Severity.INFO, RESUMED, "resumed")
        elif held:
            self._events.emit(Severity.INFO, "run.waiting", f"resumed, but it still waits: {self.disk_trouble}")
        return held

    def drain(self, in_flight: int) -> bool:
        """Let what is in flight finish, then end; False when it was told so already."""
        if self.draining:
            return False
        self.draining = True
        held = "" if self.disk_trouble is None else f"; it ends when this works again: {self.disk_trouble}"
        self._events.emit(Severity.INFO, "run.draining", f"draining: {in_flight} requests are open{held}")
        return True

    def doubt_disk(self, said: str) -> None:
        """Note that the disk failed and may have lost something."""
        self.disk_doubt = said
        self._events.emit(Severity.WARNING, "disk.doubtful", said)

    def set_trouble(self, source: str, trouble: str | None) -> None:
        """Pause while something cannot be written, and go on by itself when it can.

        Args:
            source: What it is: `JOURNALS`, `RUN_FOLDER`, or another name.
            trouble: Why it cannot be written; None: it can.
        """
        before = self.disk_trouble
        if trouble is None:
            self._troubles.pop(source, None)
        else:
            self._troubles[source] = trouble
        now = self.disk_trouble
        if now is not None and before is None:
            self._events.emit(Severity.CRITICAL, PAUSED, f"paused: {now}")
        elif now is None and before is not None and self.paused is None:
            self._events.emit(Severity.INFO, RESUMED, f"resumed: the {source} can be written again")
        elif now is None and before is not None:
            said = f"the {source} can be written again; still paused: {self.paused}"
            self._events.emit(Severity.INFO, "run.waiting", said)
