"""What one data set still has to send: fresh prompts, samples waiting for another try, suspects of a server's death."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

from contracts.eta import remaining_tokens
from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.records import FailureClass, NextStep, Requeue
from contracts.report import dataset_work
from contracts.sample_id import sample_key
from daemon.prompts.index import PromptEntry, PromptIndex

SUSPECTS_AT_A_TIME: Final = 8
"""Samples that were in flight when a server died are sent again by so many at a time, so that a second death of it
points at few."""


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
        self._retries: list[tuple[float, int, PromptEntry]] = []
        self._retry_number = 0
        self._quarantined: dict[bytes, PromptEntry] = {}
        self.attempts: dict[bytes, int] = {}
        """Charged attempts of samples that failed before."""
        self.deaths: dict[bytes, int] = {}
        self.in_flight = 0
        self.suspects_in_flight = 0
        self.refused_in_a_row = 0
        self.halted = dataset.failures.halted is not None
        self.weight = 0.0
        """Remaining completion tokens (prompts, while lengths are unknown): its claim to slots."""
        self.target_reached = False
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
            self.attempts[entry.key], self.deaths[entry.key] = failure.attempt, failure.deaths
            if failure.next is NextStep.QUARANTINED:
                self._quarantined[entry.key] = entry
            elif failure.deaths:
                self._suspects.append(entry)
            else:
                self._fresh.append(entry)

    def refresh(self) -> None:
        """Take the target and the counts anew from the fold."""
        work = dataset_work(self._fold, self.dataset)
        target, tokens = work.target_tokens, work.completion_tokens or 0
        self.target_reached = target is not None and tokens >= target
        remaining = remaining_tokens(work)
        self.weight = remaining if remaining else float(self.waiting + self.in_flight)

    @property
    def waiting(self) -> int:
        """Samples that are not in flight and not given up."""
        return len(self._fresh) + len(self._suspects) + len(self._retries)

    @property
    def waiting_retry(self) -> int:
        """Samples that failed and will be tried again."""
        return len(self._suspects) + len(self._retries)

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will be sent, unless a person changes the target or asks for retries."""
        return self.target_reached or self.waiting == 0

    def has_ready(self, now: float) -> bool:
        """Whether a sample could be sent now."""
        if self.halted or self.target_reached:
            return False
        return bool(self._fresh) or self._retry_due(now) or self._suspect_ready()

    def next_due(self) -> float | None:
        """Return when the next waiting retry is due, on the caller's clock."""
        return self._retries[0][0] if self._retries and not self.halted and not self.target_reached else None

    def take(self, now: float) -> PromptEntry | None:
        """Return the sample to send next: due retries first, then suspects a few at a time, then fresh ones."""
        if self._retry_due(now):
            entry = heapq.heappop(self._retries)[2]
        elif self._suspect_ready():
            entry = self._suspects.popleft()
        elif self._fresh:
            entry = self._fresh.popleft()
        else:
            return None
        self.in_flight += 1
        self.suspects_in_flight += self.is_suspect(entry)
        return entry

    def is_suspect(self, entry: PromptEntry) -> bool:
        """Whether a sample was in flight when a server died."""
        return self.deaths.get(entry.key, 0) > 0

    def landed(self, entry: PromptEntry, suspect: bool) -> None:
        """Count a sample out of flight. ``suspect``: whether it was one when it was taken."""
        self.in_flight -= 1
        self.suspects_in_flight -= suspect

    def put_back(self, entry: PromptEntry) -> None:
        """Send this sample next: it was never really tried."""
        self._fresh.appendleft(entry)

    def suspect(self, entry: PromptEntry) -> None:
        """Send this sample again, carefully."""
        self._suspects.append(entry)

    def retry_at(self, entry: PromptEntry, due: float) -> None:
        """Send this sample again at ``due``."""
        self._retry_number += 1
        heapq.heappush(self._retries, (due, self._retry_number, entry))

    def quarantine(self, entry: PromptEntry) -> None:
        """Do not send this sample again by itself."""
        self._quarantined[entry.key] = entry

    def requeue(self, record: Requeue) -> int:
        """Do what a person asked: give samples another try, and go on after a halt.

        Returns:
            How many samples are sent again.
        """
        wanted = None if record.sample_id is None else sample_key(record.sample_id)
        failures = self.dataset.failures.samples

        def matches(key: bytes) -> bool:
            failure = failures.get(key)
            right_class = record.error is None or (failure is not None and failure.error is record.error)
            return right_class and (wanted is None or key == wanted)

        again = [entry for key, entry in self._quarantined.items() if matches(key)]
        for entry in again:
            del self._quarantined[entry.key]
        waiting = [item for item in self._retries if matches(item[2].key)]
        if waiting:
            self._retries = [item for item in self._retries if not matches(item[2].key)]
            heapq.heapify(self._retries)
        again += [entry for _, _, entry in waiting]
        for entry in again:
            self.attempts.pop(entry.key, None)
            self.deaths.pop(entry.key, None)
            self._fresh.appendleft(entry)
        if self.halted and wanted is None and record.error in (None, FailureClass.CONTRACT_DRIFT):
            self.halted = False
        self.refused_in_a_row = 0
        return len(again)

    def _retry_due(self, now: float) -> bool:
        return bool(self._retries) and self._retries[0][0] <= now

    def _suspect_ready(self) -> bool:
        return bool(self._suspects) and self.suspects_in_flight < SUSPECTS_AT_A_TIME
