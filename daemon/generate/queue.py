"""What one data set still has to have answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from contracts.eta import remaining_tokens
from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.records import NextStep, Response, Stage, encode_line
from contracts.run_config import DEFAULT_MAX_NEW_TOKENS
from contracts.work import dataset_work
from daemon.generate.executor import Job
from daemon.generate.following import Following
from daemon.generate.work_queue import Trouble, WorkQueue
from daemon.prompts.index import PromptEntry, PromptIndex
from daemon.request_ids import RequestIds
from daemon.writer import Writer

if TYPE_CHECKING:
    from daemon.generate.attempt import Attempt


class DatasetQueue(WorkQueue[PromptEntry]):
    """The prompts of one data set that have no answer yet.

    Args:
        fold: The whole run, for the target.
        dataset: This data set's fold, up to date.
        index: Its validated prompts.
        writer: Takes the responses.
        rids: Names the requests.
        following: Told of every answer, where hidden states are wanted of it.
    """

    def __init__(
        self,
        fold: RunFold,
        dataset: DatasetFold,
        index: PromptIndex,
        writer: Writer,
        rids: RequestIds,
        following: Following | None = None,
    ) -> None:
        halted = dataset.failures.halted is not None
        super().__init__(dataset.name, Stage.GENERATE, dataset.folder.failures, halted=halted)
        self.dataset = dataset
        self.index = index
        self.responses_path = dataset.folder.responses
        self._fold = fold
        self._writer = writer
        self._rids = rids
        self._following = following
        self._parameters: dict[int | None, bytes] = {}
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

    def rid(self, entry: PromptEntry) -> str:
        """Return a new request id; one whose rows are captured where there is room for them."""
        if self._following is not None:
            captured = self._following.begin(entry)
            if captured is not None:
                return captured
        return self._rids.plain(self.name, entry.key)

    def job(self, attempt: Attempt) -> Job:
        """Return the request for an answer."""
        entry: PromptEntry = attempt.entry
        return Job(
            dataset=self.name,
            sample_id=entry.sample_id,
            rid=attempt.rid,
            input_ids=self.index.read_ids(entry),
            prompt_tokens=entry.n_tokens,
            sampling_params=self._sampling_params(entry.max_new_tokens),
            attempt=self.trouble_of(entry).attempts + 1,
        )

    def _sampling_params(self, max_new_tokens: int | None) -> bytes:
        text = self._parameters.get(max_new_tokens)
        if text is None:
            own: dict[str, Any] = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
            sampling = {} if self._fold.config is None else self._fold.config.sampling
            text = self._parameters[max_new_tokens] = msgspec.json.encode({**sampling, **own})
        return text

    def accept(self, attempt: Attempt, response: Response) -> None:
        """Record an answer."""
        self._writer.append(self.responses_path, encode_line(response))
        if self._following is not None:
            self._following.answered(attempt.entry, response)
        self.answered(attempt.entry, response.completion_tokens)

    def answered(self, entry: PromptEntry, tokens: int) -> None:
        """Note an accepted answer: its tokens count for the target at once, not only when the fold has read them."""
        self.trouble.pop(entry.key, None)
        if self._target is not None:
            self._unread[entry.key] = tokens
            self._unread_tokens += tokens
            self._compare()

    def fruitless(self, attempt: Attempt) -> None:
        """Nobody waits for the rows of this attempt any more."""
        if self._following is not None:
            self._following.abandon(attempt.rid)


def typical_tokens(fold: RunFold) -> float:
    """Return how long an answer of this run is as a rule: the mean of all data sets, or what the server would allow.

    Only for data sets that have no answers of their own yet: counted in prompts they would have no claim to slots
    beside one that is counted in tokens.
    """
    known = sum(dataset.responses.known for dataset in fold.datasets.values())
    if known:
        return max(sum(dataset.responses.completion_tokens for dataset in fold.datasets.values()) / known, 1.0)
    return float(fold.config.max_new_tokens if fold.config else DEFAULT_MAX_NEW_TOKENS) or 1.0
