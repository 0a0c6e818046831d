"""What a run's journals say of its course as a whole: begin, end, sessions of the daemon, moments of note."""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from contracts.fold.events import ALERT_OF, ALERT_RAISED, PAUSED, RESUMED, STARTED, STOPPED
from contracts.fold.lines import decoded_lines
from contracts.fold.marks import Mark, MarkKind
from contracts.fold.places import Places
from contracts.fold.run import RunFold
from contracts.journal.stale import retry_stale
from contracts.journal.tail import Tail
from contracts.liveness import UNKNOWN, Liveness
from contracts.records import Event, Severity
from contracts.replay.past import Past
from contracts.replay.places import first_stamp, last_stamp
from contracts.run_dir import FAILURES, HIDDEN_STATES, RESPONSES, RunDir
from contracts.wording import with_dataset

KEPT: Final = 5000
"""Moments of note, the newest."""
BEATS_MISSED_S: Final = 3.0
"""So long after the last heartbeat of a session that never said its end its daemon is taken to have lived."""
_OF_NOTE: Final = (STARTED, STOPPED, PAUSED, RESUMED, ALERT_RAISED, *ALERT_OF)
_DECODER: Final = msgspec.json.Decoder(Event)


class Session(NamedTuple):
    """One life of the daemon."""

    started: float
    pid: int | None


class Outline(NamedTuple):
    """A recording as a whole, for who shows it beside a moment of it."""

    begin: float
    """Unix seconds."""
    end: float
    notes: tuple[float, ...]
    """When something of note happened, ascending."""
    marks: tuple[Mark, ...]


class Course:
    """Sessions and moments of note, from the events; a `contracts.journal.tail.LineSink`."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._lines = 0
        self.sessions: list[Session] = []
        self.ends: list[float] = []
        """When sessions said that they end."""
        self.notes: deque[float] = deque(maxlen=KEPT)
        """When something of note happened, ascending."""
        self.marks: deque[Mark] = deque(maxlen=KEPT)
        self._unreadable = Places()

    def reset(self, why: str) -> None:
        """Start again; see `LineSink`."""
        self._clear()

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Take whole lines; see `LineSink`."""
        for event in decoded_lines(block, end, offset, self._lines, _DECODER, self._unreadable):
            self._apply(event)
        self._lines += block.count(b"\n", 0, end)

    def _apply(self, event: Event) -> None:
        if event.kind not in _OF_NOTE and event.severity is Severity.INFO:
            return
        if not self.notes or event.at > self.notes[-1]:
            self.notes.append(event.at)
        text = with_dataset(event.dataset, event.message)
        if event.kind == STARTED:
            pid = event.data.get("pid")
            if self.sessions:
                self.marks.append(Mark(event.at, MarkKind.RESTART, "restarted"))
            self.sessions.append(Session(event.at, pid if isinstance(pid, int) else None))
        elif event.kind == STOPPED:
            self.ends.append(event.at)
        elif event.kind == PAUSED:
            self.marks.append(Mark(event.at, MarkKind.PAUSE, text))
        elif event.kind == ALERT_RAISED or event.kind in ALERT_OF:
            self.marks.append(Mark(event.at, MarkKind.ALERT, text))


class Recording:
    """A run directory, or a folder of other tools, as something that has a begin and an end. Writes nothing.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.run = RunDir(path)
        self.begin: float | None = None
        """Of the first record that says its time, Unix seconds; None: none does."""
        self.last: float | None = None
        """Of the last one."""
        self.course = Course()
        self._events = Tail(self.run.events)

    def refresh(self) -> None:
        """Look at what there is by now.

        Raises:
            OSError: A journal cannot be read.
        """
        self._events.poll(self.course)
        firsts, lasts = [], []
        for path in self._journals():
            try:
                size = retry_stale("stat", path, path.stat).st_size
            except FileNotFoundError:
                continue
            firsts.append(first_stamp(path, size))
            lasts.append(last_stamp(path, size))
        known = [stamp for stamp in lasts if stamp is not None]
        self.begin = min((stamp for stamp in firsts if stamp is not None), default=None)
        self.last = max(known, default=None)

    def _journals(self) -> Iterator[Path]:
        yield self.run.events
        yield self.run.telemetry_file("daemon")
        for dataset in self.run.datasets_on_disk():
            for name in (RESPONSES, FAILURES, HIDDEN_STATES):
                yield dataset.path / name

    def session_at(self, at: float) -> tuple[Session | None, float]:
        """Return the session that had begun last by a moment, and when the next one began; infinite: never."""
        starts = [session.started for session in self.course.sessions]
        number = bisect.bisect_right(starts, at)
        session = self.course.sessions[number - 1] if number else None
        return session, starts[number] if number < len(starts) else math.inf

    def liveness_at(self, fold: RunFold, past: Past) -> Liveness:
        """Return whether a daemon was there, from the records alone.

        It was from its first event on, until it said its end; where it never did, as long as its heartbeats go on and
        a little longer. So a hanging daemon that was killed counts as dead from where its heartbeats end.

        Args:
            fold: The run at that moment.
            past: The moment.

        Raises:
            OSError: The heartbeats cannot be read.
        """
        if fold.config is None:
            return UNKNOWN
        session, next_start = self.session_at(past.at)
        if session is None or fold.events.session_stopped_at is not None:
            return Liveness(False)
        beat = fold.telemetry.heartbeat
        latest = session.started if beat is None else max(beat.at, session.started)
        next_beat = past.next_in(self.run.telemetry_file("daemon"))
        goes_on = next_beat < next_start or self._ends_in_order(past.at, next_start)
        if not goes_on and past.at >= latest + BEATS_MISSED_S:
            return Liveness(False)
        return Liveness(True, session.pid, session.started)

    def _ends_in_order(self, at: float, next_start: float) -> bool:
        """Whether the session says its end later than a moment."""
        index = bisect.bisect_right(self.course.ends, at)
        return index < len(self.course.ends) and self.course.ends[index] < next_start
