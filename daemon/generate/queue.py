"""What one data set still has to send: fresh prompts, samples waiting for another try, suspects of a server's death."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from contracts.eta import remaining_tokens
from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.records import FailureClass, NextStep, Requeue
from contracts.report import dataset_work
from contracts.run_config import DEFAULT_MAX_NEW_TOKENS
from contracts.sample_id import sample_key
from daemon.generate.refusal_run import RefusalRun
from daemon.prompts.index import PromptEntry, PromptIndex


class Trouble(msgspec.Struct):
    """What a sample that has no answer yet went through."""

    attempts: int = 0
    """Failed ones that were charged."""
    waits: int = 0
    """Failed ones that it had no part in."""
    deaths: int = 0
    """Server deaths while it was in flight."""


_NONE: Final = Trouble()


class DatasetQueue:
    """The queue of one data set. What is done and what failed for good is the fold's to say; this holds the rest.

    Args:
        fold: The whole run, for the target.
        dataset: This data set's fold, up to date.
        index: Its validated prompts.
    """

    def __init__(self, fold: RunFold, dataset: DatasetFold, index: PromptIndex) -> None:
        self.name = dataset.name
        self.dataset = dataset
        self.index = index
        self.responses_path = dataset.folder.responses
        self.failures_path = dataset.folder.failures
        self._fold = fold
        self._fresh: deque[PromptEntry] = deque()
        self._suspects: deque[PromptEntry] = deque()
        self._later: list[tuple[float, int, PromptEntry, FailureClass]] = []
        self._due: deque[tuple[PromptEntry, FailureClass]] = deque()
        self._retry_number = 0
        self._quarantined: dict[bytes, tuple[PromptEntry, FailureClass]] = {}
        self._refusals = RefusalRun()
        self.trouble: dict[bytes, Trouble] = {}
        self.sent = 0
        """Attempts taken so far: the number of the newest one."""
        self.in_flight = 0
        self.halted = dataset.failures.halted is not None
        self.weight = 1.0
        """Remaining completion tokens, where unknown an estimate: its claim to slots."""
        self.target_reached = False
        self._target: int | None = None
        self._tokens = 0
        self._unread: dict[bytes, int] = {}
        """Completion tokens of answers that the fold has not read from the file yet."""
        self._unread_tokens = 0
        self._fill()
        self.refresh()

    def _fill(self) -> None:
        done, failures = self.dataset.responses.done, self.dataset.failures.samples
        for entry in self.index.entries:
            if entry.pretokenized or entry.key in done:
                continue
            failure = failures.get(entry.key)
            if failure is None:
                self._fresh.append(entry)
                continue
            self.trouble[entry.key] = Trouble(attempts=failure.attempt, deaths=failure.deaths)
            if failure.next is NextStep.QUARANTINED:
                self.quarantine(entry, failure.error)
            elif failure.deaths:
                self._suspects.append(entry)
            else:
                self._fresh.append(entry)

    def refresh(self) -> None:
        """Take the target and the counts anew from the fold."""
        work = dataset_work(self._fold, self.dataset)
        self._target, self._tokens = work.target_tokens, work.completion_tokens or 0
        done = self.dataset.responses.done
        self._unread = {key: tokens for key, tokens in self._unread.items() if key not in done}
        self._unread_tokens = sum(self._unread.values())
        self._compare()
        remaining = remaining_tokens(work)
        if remaining is None:
            remaining = (self.waiting + self.in_flight) * typical_tokens(self._fold)
        self.weight = max(remaining, 1.0)

    def _compare(self) -> None:
        tokens = self._tokens + self._unread_tokens
        self.target_reached = self._target is not None and tokens >= self._target

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

    def take(self, suspects: bool) -> PromptEntry | None:
        """Return the sample to send next, after `has_ready`: due retries first, then a suspect, then fresh ones."""
        if self._due:
            entry = self._due.popleft()[0]
        elif suspects and self._suspects:
            entry = self._suspects.popleft()
        elif self._fresh:
            entry = self._fresh.popleft()
        else:
            return None
        self.sent += 1
        self.in_flight += 1
        return entry

    def answered(self, entry: PromptEntry, tokens: int) -> None:
        """Note an accepted answer: its tokens count for the target at once, not only when the fold has read them."""
        self.trouble.pop(entry.key, None)
        if self._target is not None:
            self._unread[entry.key] = tokens
            self._unread_tokens += tokens
            self._compare()

    def landed(self) -> None:
        """Count one attempt out of flight."""
        self.in_flight -= 1

    def trouble_of(self, entry: PromptEntry) -> Trouble:
        """Return what a sample went through; not to be changed."""
        return self.trouble.get(entry.key, _NONE)

    def is_suspect(self, entry: PromptEntry) -> bool:
        """Whether a sample was in flight when a server died."""
        return bool(self.trouble) and self.trouble_of(entry).deaths > 0

    def refused(self, number: int) -> int:
        """Note that the ``number``-th attempt was refused; return how many in a row were, in the order of sending."""
        return self._refusals.add(number)

    def put_back(self, entry: PromptEntry) -> None:
        """Send this sample next: it was never really tried."""
        (self._suspects if self.is_suspect(entry) else self._fresh).appendleft(entry)

    def suspect(self, entry: PromptEntry) -> None:
        """Send this sample again, carefully."""
        self._suspects.append(entry)

    def retry_at(self, entry: PromptEntry, due: float, error: FailureClass) -> None:
        """Send this sample again at ``due``."""
        self._retry_number += 1
        heapq.heappush(self._later, (due, self._retry_number, entry, error))

    def quarantine(self, entry: PromptEntry, error: FailureClass) -> None:
        """Do not send this sample again by itself."""
        self._quarantined[entry.key] = (entry, error)

    def requeue(self, record: Requeue) -> int:
        """Do what a person asked: give samples another try, and go on after a halt.

        Returns:
            How many samples are sent again.
        """
        wanted = None if record.sample_id is None else sample_key(record.sample_id)

        def matches(entry: PromptEntry, error: FailureClass) -> bool:
            return record.error in (None, error) and wanted in (None, entry.key)

        again = list(self._take_out(matches))
        for entry in again:
            self.trouble.pop(entry.key, None)
        self._fresh.extendleft(reversed(again))
        if self.halted and wanted is None and record.error in (None, FailureClass.CONTRACT_DRIFT):
            self.halted = False
        self._refusals = RefusalRun()
        return len(again)

    def _take_out(self, matches: Callable[[PromptEntry, FailureClass], bool]) -> Iterator[PromptEntry]:
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


def typical_tokens(fold: RunFold) -> float:
    """Return how long an answer of this run is as a rule: the mean of all data sets, or what the server would allow.

    Only for data sets that have no answers of their own yet: counted in prompts they would have no claim to slots
    beside one that is counted in tokens.
    """
    known = sum(dataset.responses.known for dataset in fold.datasets.values())
    if known:
        return max(sum(dataset.responses.completion_tokens for dataset in fold.datasets.values()) / known, 1.0)
    return float(fold.config.max_new_tokens if fold.config else DEFAULT_MAX_NEW_TOKENS) or 1.0
