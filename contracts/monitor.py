"""A folder, watched: the one way in which the command, the socket and the screen get their status."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from contracts.fold.run import RunFold
from contracts.liveness import current_heartbeat, look, reader_now
from contracts.records import Event, Severity
from contracts.report import build_status
from contracts.status import AlertStatus, RunStatus

Answer = TypeVar("Answer")

NOTE_SHOWN_S = 600.0
"""How long it is shown that a file was cut, replaced or deleted."""


class Monitor:
    """Reads a run directory, or a foreign folder; writes nothing.

    Args:
        path: The folder.

    Raises:
        NotARunError: It is neither a run nor holds data sets.
        ConfigError: Its run.toml cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.fold = RunFold(path)
        self._notes: deque[tuple[float, str]] = deque(maxlen=20)

    def refresh(self) -> RunStatus:
        """Read what is new and return the status now.

        Raises:
            OSError: A journal cannot be read.
        """
        liveness = look(self.fold.run)
        self.fold.poll()
        heartbeat, monotonic = current_heartbeat(self.fold.telemetry.heartbeat, liveness), time.monotonic()
        status = build_status(self.fold, liveness, reader_now(heartbeat, monotonic, time.time()), monotonic)
        status.alerts += self._file_notes()
        return status

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
