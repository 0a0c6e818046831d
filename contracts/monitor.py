"""A folder, watched: the one way in which the command, the socket and the screen get their status."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from contracts.fold.run import RunFold
from contracts.liveness import Liveness, current_heartbeat, look, reader_now
from contracts.records import Event, Severity
from contracts.remaining import SteadyRemaining, remaining
from contracts.report import build_status
from contracts.status import AlertStatus, RunStatus

Answer = TypeVar("Answer")

NOTE_SHOWN_S: Final = 600.0
"""How long it is shown that a file was cut, replaced or deleted."""
REST_S: Final = (1.0, 10.0)
"""Of a run at rest the status is made anew after so long; longer each time that it was the same, up to the second."""


@dataclass(frozen=True)
class _Rest:
    """A status without a daemon; without what was said of files."""

    status: RunStatus
    liveness: Liveness
    wait_s: float
    until: float
    """On the monotonic clock."""


class Monitor:
    """Reads a run directory, or a foreign folder; writes nothing.

    Args:
        path: The folder.
        often: It is asked several times a second: what only time changes may be a little old then. Forecasts are at
            most `contracts.remaining.FORECAST_S` old, and without a daemon and with nothing new in the files all of
            the status may be up to the longest of `REST_S`.

    Raises:
        NotARunError: It is neither a run nor holds data sets.
        ConfigError: Its run.toml cannot be used.
    """

    def __init__(self, path: Path, *, often: bool = False) -> None:
        self.fold = RunFold(path)
        self._often = often
        self._when_done = SteadyRemaining() if often else remaining
        self._rest: _Rest | None = None
        """The last status, where the next one may be the same."""
        self._notes: deque[tuple[float, str]] = deque(maxlen=20)

    def refresh(self) -> RunStatus:
        """Read what is new and return the status now.

        Raises:
            OSError: A journal cannot be read.
        """
        liveness = look(self.fold.run)
        # Dropped first: where a journal cannot be read, those before it may have been.
        rest, self._rest = self._rest, None
        changed = self.fold.poll() or rest is None or rest.liveness != liveness
        changed = changed or (rest is not None and len(rest.status.datasets) != len(self.fold.datasets))
        monotonic = time.monotonic()
        if rest is not None and not changed and monotonic < rest.until:
            self._rest = rest
            return msgspec.structs.replace(rest.status, at=time.time(), alerts=rest.status.alerts + self._file_notes())
        heartbeat = current_heartbeat(self.fold.telemetry.heartbeat, liveness)
        now = reader_now(heartbeat, monotonic, time.time())
        status = build_status(self.fold, liveness, now, monotonic, self._when_done)
        if self._often and not status.daemon.alive:
            same = (
                not changed and rest is not None and msgspec.structs.replace(status, at=rest.status.at) == rest.status
            )
            wait_s = min(2 * rest.wait_s, REST_S[1]) if same and rest is not None else REST_S[0]
            self._rest = _Rest(status, liveness, wait_s, monotonic + wait_s)
        return msgspec.structs.replace(status, alerts=status.alerts + self._file_notes())

    def ask(self, question: Callable[[RunFold, float], Answer]) -> Answer:
        """Return what a question about the fold, as last refreshed, and the present comes to.

        Args:
            question: A pure function of (fold, now); it may read files of the run, and changes nothing.

        Raises:
            OSError: A file cannot be read.
        """
        liveness = look(self.fold.run)
        heartbeat = current_heartbeat(self.fold.telemetry.heartbeat, liveness)
        return question(self.fold, reader_now(heartbeat, time.monotonic(), time.time()))

    def last_events(self, count: int) -> list[Event]:
        """Return the newest events, oldest first."""
        return list(self.fold.events.last)[-count:] if count else []

    def watch_paths(self) -> list[Path]:
        """Return the folders in which something will change: for a file watcher as its wake-up."""
        run = self.fold.run
        folders = [run.path, run.telemetry, *(dataset.folder.path for dataset in self.fold.datasets.values())]
        return [folder.absolute() for folder in folders if folder.is_dir()]

    def _file_notes(self) -> list[AlertStatus]:
        """Say for a while what happened to the files."""
        now = time.monotonic()
        self._notes.extend((now, note) for note in self.fold.notes)
        self.fold.notes.clear()
        return [
            AlertStatus(
                code="file_changed",
                severity=Severity.WARNING,
                message=note,
                since=None,
                advice="The counts are those of the file as it is now.",
            )
            for at, note in self._notes
            if now - at < NOTE_SHOWN_S
        ]
