"""What one data set has left of one stage: fresh samples, samples that wait for another try, suspects of a death."""

from __future__ import annotations

import abc
import heapq
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import msgspec

from contracts.records import HALTING, FailureClass, Requeue, Response, Stage
from contracts.sample_id import SampleId, sample_key
from daemon.generate.refusal_run import RefusalRun

if TYPE_CHECKING:
    from daemon.generate.attempt import Attempt
    from daemon.generate.executor import Job


class WorkEntry(Protocol):
    """A sample that is to be sent."""

    @property
    def sample_id(self) -> SampleId:
        """As the prompt file has it."""

    @property
    def key(self) -> bytes:
        """``sample_key`` of it."""


Entry = TypeVar("Entry", bound=WorkEntry)


class Trouble(msgspec.Struct):
    """What a sample that is not done yet went through."""

    attempts: int = 0
    """Failed ones that were charged."""
    waits: int = 0
    """Failed ones that it had no part in."""
    deaths: int = 0
    """Server deaths while it was in flight."""


_NONE: Final = Trouble()


class WorkQueue(abc.ABC, Generic[Entry]):
    """The queue of one data set and stage. What is done is the fold's to say; this holds the rest.

    Args:
        name: Of the data set.
        stage: Of the job.
        failures_path: Its failure journal.
        halted: Whether it is stopped until a person asks for another try.
    """

    def __init__(self, name: str, stage: Stage, failures_path: Path, *, halted: bool) -> None:
        self.name = name
        self.stage = stage
        self.failures_path = failures_path
        self.halted = halted
        self._fresh: deque[Entry] = deque()
        self._suspects: deque[Entry] = deque()
        self._later: list[tuple[float, int, Entry, FailureClass]] = []
        self._due: deque[tuple[Entry, FailureClass]] = deque()
        self._retry_number = 0
        self._quarantined: dict[bytes, tuple[Entry, FailureClass]] = {}
        self._refusals = RefusalRun()
        self.trouble: dict[bytes, Trouble] = {}
        self.sent = 0
        """Attempts taken so far: the number of the newest one."""
        self.in_flight = 0
        self.weight = 1.0
        """What is left, in the unit of its stage: its claim to slots."""
        self.target_reached = False

    @abc.abstractmethod
    def refresh(self) -> None:
        """Take what the files say anew: the fold has changed."""

    @abc.abstractmethod
    def rid(self, entry: Entry) -> str:
        """Return the request id of a new attempt, with everything reserved that it needs."""

    @abc.abstractmethod
    def job(self, attempt: Attempt) -> Job | None:
        """Return what is to be sent; None: nothing can be, and what becomes of the sample is settled.

        Raises:
            PromptError: The sample cannot be read any more.
        """

    @abc.abstractmethod
    def accept(self, attempt: Attempt, response: Response) -> None:
        """Take a good answer."""

    @abc.abstractmethod
    def fruitless(self, attempt: Attempt) -> None:
        """Give back what was reserved for an attempt that has no good answer."""

    @property
    def waiting(self) -> int:
        """Samples that are not in flight and not given up."""
        return len(self._fresh) + self.waiting_retry

    @property
    def waiting_retry(self) -> int:
        """Samples that failed and will be tried again."""
        return len(self._suspects) + len(self._later) + len(self._due)

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will be sent, unless a person changes the target or asks for retries."""
        return self.target_reached or self.waiting == 0

    @property
    def busy(self) -> bool:
        """Whether work goes on that no open attempt stands for."""
        return False

    def has_ready(self, now: float, suspects: bool) -> bool:
        """Whether a sample could be sent now; ``suspects``: whether one of those may be."""
        if self.halted or self.target_reached:
            return False
        while self._later and self._later[0][0] <= now:
            _, _, entry, error = heapq.heappop(self._later)
            if self.is_suspect(entry):
                self._suspects.append(entry)
            else:
                self._due.append((entry, error))
        return bool(self._due or self._fresh or (suspects and self._suspects))

    def next_due(self) -> float | None:
        """Return when the next waiting retry is due, on the caller's clock."""
        return self._later[0][0] if self._later and not self.halted and not self.target_reached else None

    def next_entry(self, suspects: bool) -> Entry | None:
        """Return what `take` would, and leave it there."""
        if self._due:
            return self._due[0][0]
        if suspects and self._suspects:
            return self._suspects[0]
        return self._fresh[0] if self._fresh else None

    def take(self, suspects: bool) -> Entry | None:
        """Return the sample to send next, after `has_ready`: due retries first, then a suspect, then fresh ones."""
        if (entry := self._next(suspects)) is not None:
            self.sent += 1
            self.in_flight += 1
        return entry

    def put_off(self, suspects: bool, due: float, error: FailureClass) -> None:
        """Send what `take` would return not before ``due``, and what comes after it first."""
        if (entry := self._next(suspects)) is not None:
            self.retry_at(entry, due, error)

    def _next(self, suspects: bool) -> Entry | None:
        """Take out what is to be sent next."""
        if self._due:
            return self._due.popleft()[0]
        if suspects and self._suspects:
            return self._suspects.popleft()
        return self._fresh.popleft() if self._fresh else None

    def landed(self) -> None:
        """Count one attempt out of flight."""
        self.in_flight -= 1

    def trouble_of(self, entry: Entry) -> Trouble:
        """Return what a sample went through; not to be changed."""
        return self.trouble.get(entry.key, _NONE)

    def is_suspect(self, entry: Entry) -> bool:
        """Whether a sample was in flight when a server died."""
        return bool(self.trouble) and self.trouble_of(entry).deaths > 0

    def refused(self, number: int) -> int:
        """Note that the ``number``-th attempt was refused; return how many in a row were, in the order of sending."""
        return self._refusals.add(number)

    def put_back(self, entry: Entry) -> None:
        """Send this sample next: it was never really tried."""
        (self._suspects if self.is_suspect(entry) else self._fresh).appendleft(entry)

    def suspect(self, entry: Entry) -> None:
        """Send this sample again, carefully."""
        self._suspects.append(entry)

    def retry_at(self, entry: Entry, due: float, error: FailureClass) -> None:
        """Send this sample again at ``due``."""
        self._retry_number += 1
        heapq.heappush(self._later, (due, self._retry_number, entry, error))

    def quarantine(self, entry: Entry, error: FailureClass) -> None:
        """Do not send this sample again by itself."""
        self._quarantined[entry.key] = (entry, error)

    def requeue(self, record: Requeue) -> int:
        """Do what a person asked: give samples another try, and go on after a halt.

        Returns:
            How many samples are sent again.
        """
        if record.stage not in (None, self.stage):
            return 0
        wanted = None if record.sample_id is None else sample_key(record.sample_id)

        def matches(entry: Entry, error: FailureClass) -> bool:
            return record.error in (None, error) and wanted in (None, entry.key)

        again = list(self._take_out(matches))
        for entry in again:
            self.trouble.pop(entry.key, None)
        self._fresh.extendleft(reversed(again))
        if self.ends_halt(record):
            self.halted = False
        self._refusals = RefusalRun()
        return len(again)

    def ends_halt(self, record: Requeue) -> bool:
        """Whether a wish for another try lets this queue, which is stopped, go on."""
        of_all = record.sample_id is None and record.error in (None, *HALTING[self.stage])
        return self.halted and of_all and record.stage in (None, self.stage)

    def _take_out(self, matches: Callable[[Entry, FailureClass], bool]) -> Iterator[Entry]:
        """Remove what matches from everything that waits or is given up, and yield it."""
        held = [(entry, error) for entry, error in self._quarantined.values() if matches(entry, error)]
        for entry, _ in held:
            del self._quarantined[entry.key]
            yield entry
        suspects, self._suspects = self._suspects, deque()
        for entry in suspects:
            if matches(entry, FailureClass.SERVER_DOWN):
                yield entry
            else:
                self._suspects.append(entry)
        due, self._due = self._due, deque()
        for entry, error in due:
            if matches(entry, error):
                yield entry
            else:
                self._due.append((entry, error))
        later, self._later = self._later, []
        for item in later:
            if matches(item[2], item[3]):
                yield item[2]
            else:
                heapq.heappush(self._later, item)
