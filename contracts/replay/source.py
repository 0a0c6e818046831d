"""A run as it was at a moment: what a monitor shows of the present, from the same fold over less of the files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from contracts.fold.run import RunFold
from contracts.liveness import current_heartbeat
from contracts.records import Event
from contracts.replay.kept import Kept, stops
from contracts.replay.past import Past
from contracts.replay.recording import BEATS_MISSED_S, Outline, Recording
from contracts.report import build_status
from contracts.status import RunStatus

Answer = TypeVar("Answer")


class ReplaySource:
    """Stands in for a `contracts.monitor.Monitor`; `refresh` goes to the moment that `seek` has set.

    `seek` may be called from any thread; all else belongs to one thread at a time. What run.toml and prompts.jsonl
    said is not in the journals: both are taken as they are now.

    Args:
        path: A run directory, or a folder of other tools.
        at: Where to begin; None: at the beginning.
        present: Gives the present, Unix seconds.

    Raises:
        NotARunError: It is neither.
        ConfigError: Its run.toml cannot be used.
        OSError: A journal cannot be read.
    """

    def __init__(self, path: Path, at: float | None = None, *, present: Callable[[], float] = time.time) -> None:
        self._present = present
        self.recording = Recording(path)
        self.recording.refresh()
        self._base = self.begin
        self._wanted = self._base
        self._kept = Kept()
        self._past = Past(self._base)
        self.fold = RunFold(path, self._past)
        self.outline = self._outline()
        """Replaced as a whole where a living run goes on: may be read from any thread."""
        if at is not None:
            self.seek(at)

    @property
    def begin(self) -> float:
        """When the recording begins, Unix seconds; of one that knows no times, its end."""
        return self.end if self.recording.begin is None else self.recording.begin

    @property
    def end(self) -> float:
        """When it ends: a little behind the last record, so that what ended with it is seen to have ended; of a run
        that goes on, the present."""
        present, last = self._present(), self.recording.last
        return present if last is None else max(last, min(last + BEATS_MISSED_S, present))

    @property
    def now(self) -> float:
        """The moment that was shown last."""
        return self._past.at

    def seek(self, at: float) -> None:
        """Have the next `refresh` go to a moment; into the recording where it lies outside."""
        self._wanted = min(max(at, self.outline.begin), self.outline.end)

    def refresh(self) -> RunStatus:
        """Go to the moment and return the status that was shown then.

        Raises:
            OSError: A journal cannot be read.
        """
        wanted = self._wanted
        self._go(wanted)
        if wanted >= self.end - 1.0:
            self.recording.refresh()  # a living run has gone on
            self.outline = self._outline()
        liveness = self.recording.liveness_at(self.fold, self._past)
        beat = current_heartbeat(self.fold.telemetry.heartbeat, liveness)
        # The heartbeat's age then, by the clock that a reader on that machine would have gone by.
        monotonic = time.monotonic() if beat is None else beat.mono + wanted - beat.at
        return build_status(self.fold, liveness, wanted, monotonic)

    def _go(self, wanted: float) -> None:
        """Bring the fold to a moment: on from where it is, or from a kept one; counts can't be taken back."""
        kept = self._kept.best(wanted)
        if wanted < self._past.at or (kept is not None and kept > self._past.at):
            base = self._base if kept is None else kept
            self._past = Past(base)
            self.fold = RunFold(self.recording.run.path, self._past)
            if kept is not None:
                self._kept.restore(self.fold, kept)
        if kept is None:
            self._poll(self._base)  # it holds the prompts, whatever the moment
            self._kept.keep_base(self.fold, self._base)
        for stop in stops(self._past.at, wanted):
            self._poll(stop)
            self._kept.keep(self.fold, stop)
        self._poll(wanted)

    def _outline(self) -> Outline:
        course = self.recording.course
        return Outline(self.begin, max(self.end, self.begin), tuple(course.notes), tuple(course.marks))

    def _poll(self, at: float) -> None:
        self._past.at = at
        self.fold.poll()
        self.fold.notes.clear()

    def ask(self, question: Callable[[RunFold, float], Answer]) -> Answer:
        """Return what a question about the fold and the moment comes to; see `contracts.monitor.Monitor.ask`.

        Raises:
            OSError: A file cannot be read.
        """
        return question(self.fold, self._past.at)

    def last_events(self, count: int) -> list[Event]:
        """Return the newest events by then, oldest first."""
        return list(self.fold.events.last)[-count:] if count else []

    def watch_paths(self) -> list[Path]:
        """Return no folder: nothing that happens now changes what was."""
        return []
