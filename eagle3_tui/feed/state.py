"""What the screens show: the latest status and events, how old they are, and why where they could not be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from contracts.clock import Clock
from contracts.fold.run import RunFold
from contracts.records import Event
from contracts.status import RunStatus
from eagle3_tui.feed.background import in_background

Answer = TypeVar("Answer")

EVENTS_KEPT: Final = 60
_FOLDERS_EVERY: Final = 5
"""Readings after which it is asked again which folders there are."""
STALE_AFTER_S: Final = 5.0
"""The folder is read at least once a second; older than this the screen says how old it is."""


class Source(Protocol):
    """What is read: `contracts.monitor.Monitor`."""

    def refresh(self) -> RunStatus:
        """Read what is new and return the status."""

    def ask(self, question: Callable[[RunFold, float], Answer], /) -> Answer:
        """Return what a question about (fold, now) comes to; it may read files of the run."""

    def last_events(self, count: int, /) -> list[Event]:
        """Return the last events, oldest first."""

    def watch_paths(self) -> list[Path]:
        """Return the folders in which files change."""


@dataclass(frozen=True)
class View:
    """One moment, as far as this program could read it."""

    status: RunStatus | None = None
    """None until the first reading is done."""
    events: tuple[Event, ...] = ()
    age_s: float | None = None
    """Whole seconds since the reading, once that is worth saying; None: fresh."""
    problem: str | None = None
    """Why the last reading failed."""
    replays: bool = False
    """It is a moment of the past, at ``status.at``."""

    @property
    def dataset_names(self) -> list[str]:
        """Names of the data sets, in their order; empty until the first reading is done."""
        return [] if self.status is None else [data.name for data in self.status.datasets]


class Feed:
    """Reads a source off the event loop and keeps the latest view."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self._source = source
        self._replays = False
        self._one_at_a_time = asyncio.Lock()
        """The source is used by one thread at a time."""
        self._clock = clock
        self.folders: list[Path] = []
        """In which files change, as of one of the last readings."""
        self._readings = 0
        self._latest = View()
        self._begun = clock.mono()

    def use(self, source: Source, *, replays: bool) -> None:
        """Read another source from now on.

        Args:
            source: The run, or its recording.
            replays: It is the recording.
        """
        self._source, self._replays = source, replays
        self._readings = 0

    async def read(self) -> bool:
        """Read once; return whether anything but the time is other than before.

        What the system refuses (a removed folder, a dead disk) is kept as the view's problem.
        """
        source, replays = self._source, self._replays
        try:
            async with self._one_at_a_time:
                status, events = await in_background(partial(_read, source))
                if self._readings % _FOLDERS_EVERY == 0:
                    self.folders = await in_background(source.watch_paths)
        except OSError as error:
            if source is not self._source:
                return False  # nobody wants to know any more
            where = f"{error.filename}: " if error.filename else ""
            self._latest = replace(self._latest, problem=f"can't read {where}{error.strerror or error}")
            return False
        if source is not self._source:
            return False
        self._begun = self._clock.mono()
        self._readings += 1
        fresh = View(status=status, events=tuple(events), replays=replays)
        same = _is_the_same(self._latest, fresh)
        if not same or _shows_time(fresh):
            self._latest = fresh
        return not same

    async def ask(self, question: Callable[[RunFold, float], Answer]) -> Answer:
        """Return what a question about (fold, now) comes to, off the event loop.

        Raises:
            OSError: A file that the question needs cannot be read.
        """
        async with self._one_at_a_time:
            return await in_background(lambda: self._source.ask(question))

    def view(self) -> View:
        """Return the latest view, with its age once it is stale."""
        age = self._clock.mono() - self._begun
        return replace(self._latest, age_s=float(int(age))) if age >= STALE_AFTER_S else self._latest


def _read(source: Source) -> tuple[RunStatus, list[Event]]:
    return source.refresh(), source.last_events(EVENTS_KEPT)


def _is_the_same(old: View, new: View) -> bool:
    """Whether nothing but the time of reading differs."""
    if old.status is None or new.status is None or old.problem is not None or old.events != new.events:
        return False
    if new.replays != old.replays or (new.replays and new.status.at != old.status.at):
        return False
    return msgspec.structs.replace(new.status, at=old.status.at) == old.status


def _shows_time(view: View) -> bool:
    """Whether something is shown that grows with the time (ages of alerts, arrivals)."""
    status = view.status
    return status is not None and bool(status.alerts or any(data.eta_s for data in (status.totals, *status.datasets)))
