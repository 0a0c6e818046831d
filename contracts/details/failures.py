"""What failed, grouped by class and message, and the attempts behind each group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from contracts.details.windows import lines_before
from contracts.fold.dataset import DatasetFold
from contracts.fold.failures import SampleFailure
from contracts.fold.run import RunFold
from contracts.records import CaptureCheck, Failure, FailureClass, NextStep, Stage
from contracts.run_dir import FAILURES

LISTED: Final = 500
"""Attempts of a group that are listed."""
_BLOCKS: Final = 8 * 1024 * 1024
"""Of each failure journal, read at most for the attempts of one group."""
_LINES: Final = 20_000
_VARYING: Final = re.compile(r"e3\.[A-Za-z0-9._-]+|\b[0-9a-f]{8,}\b|[0-9]+")
"""Parts of a message that differ from sample to sample: our request ids, hashes, numbers."""
_SKELETON: Final = str.maketrans("", "", "0123456789abcdef")
"""Takes out what numbers and hashes are made of: quick, and as good to tell thousands of messages apart."""

IN_RESPONSES: Final = "in responses"
"""Class of failures that another tool wrote into its response file."""


class FailureGroup(msgspec.Struct, frozen=True):
    """Samples that failed last in the same way."""

    stage: str
    error: str
    form: str
    """The message without what varies; see `message_form`."""
    message: str
    """The newest of them, as it is."""
    datasets: tuple[str, ...]
    open: int
    """Samples that have no answer (or no hidden states) yet, those left out by a rule not counted."""
    retrying: int
    """Of the open ones, those that are tried again by themselves."""
    solved: int
    """Samples that have their answer (or hidden states) by now."""
    last_at: float | None
    check: str | None = None
    left_out: int = 0
    """Samples that a rule leaves out of the store: too long, or nothing in them to learn from."""

    @property
    def can_retry(self) -> bool:
        """Whether a retry would do anything: invalid input has to be mended in its file first."""
        return self.open > 0 and self.error not in (FailureClass.INVALID_INPUT, IN_RESPONSES)

    @property
    def instead(self) -> str:
        """What helps where a retry does nothing."""
        if self.check == CaptureCheck.NOTHING_TO_LEARN:
            return "no token of it would be learnt from, and a retry changes nothing of that"
        if self.check == CaptureCheck.TOO_LONG:
            return (
                "raise max_tokens of the data set, end the daemon, then: eagle3 retry RUN --error invalid_input, "
                "and start it again"
            )
        if self.check == CaptureCheck.NO_IDS:
            return "mend the response, end the daemon, then: eagle3 retry RUN --error invalid_input, and start it again"
        if self.error == FailureClass.INVALID_INPUT:
            return "mend the prompt file; it is read anew at each start"
        if self.error == IN_RESPONSES:
            return "another tool wrote it: there is no attempt of this run to repeat"
        return "nothing of it is open"

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it this group."""
        return self.stage, self.error, self.form


class FailureOverview(msgspec.Struct, frozen=True):
    """All failures of a run, or of one data set."""

    groups: tuple[FailureGroup, ...]
    """Those with the most open samples first."""
    attempts: dict[str, int]
    """Failed attempts at answers so far, by class."""
    checks: dict[str, int]
    """Failed checks of hidden states so far, by kind."""


class Attempt(msgspec.Struct, frozen=True):
    """One failed attempt, with where it is written."""

    dataset: str
    offset: int
    failure: Failure


_DECODER: Final = msgspec.json.Decoder(Failure)


def failure_overview(fold: RunFold, now: float, name: str | None = None) -> FailureOverview:
    """Return what failed, in one data set or in all of them; reads no file."""
    groups: dict[tuple[str, str, str], _Sum] = {}
    attempts: dict[str, int] = {}
    checks: dict[str, int] = {}
    for dataset in _chosen(fold, name):
        for sums, more in ((attempts, dataset.failures.by_class), (checks, dataset.failures.checks)):
            for kind, count in more.items():
                sums[kind] = sums.get(kind, 0) + count
        for group in _parts(dataset):
            groups.setdefault(group.key, _Sum(group)).add(dataset.name, group)
    found = sorted((each.group() for each in groups.values()), key=_order)
    return FailureOverview(tuple(found), attempts, checks)


def attempts_of(fold: RunFold, now: float, group: FailureGroup, name: str | None = None) -> tuple[Attempt, ...]:
    """Return the last failed attempts that belong to a group, the newest first; those of the last 8 MB of each journal.

    Raises:
        OSError: A failure journal cannot be read.
    """
    found: list[Attempt] = []
    for dataset in _chosen(fold, name):
        if dataset.name in group.datasets:
            found += _attempts(dataset, group)
    found.sort(key=lambda attempt: -attempt.failure.at)
    return tuple(found[:LISTED])


@lru_cache(maxsize=8192)
def message_form(message: str) -> str:
    """Return a message with all that varies from sample to sample as ``#``."""
    return _VARYING.sub("#", message)


class _Sum:
    """Adds up the parts of one group."""

    def __init__(self, first: FailureGroup) -> None:
        self._newest = first
        self._open = self._retrying = self._solved = self._left_out = 0
        self._datasets: dict[str, None] = {}

    def add(self, dataset: str, part: FailureGroup) -> None:
        self._datasets[dataset] = None
        self._open += part.open
        self._retrying += part.retrying
        self._solved += part.solved
        self._left_out += part.left_out
        if (part.last_at or 0.0) >= (self._newest.last_at or 0.0):
            self._newest = part

    def group(self) -> FailureGroup:
        return msgspec.structs.replace(
            self._newest,
            datasets=tuple(self._datasets),
            open=self._open,
            retrying=self._retrying,
            solved=self._solved,
            left_out=self._left_out,
        )


def _order(group: FailureGroup) -> tuple[int, int, float]:
    return -group.open, -group.solved, -(group.last_at or 0.0)


def _chosen(fold: RunFold, name: str | None) -> list[DatasetFold]:
    return [dataset for dataset in fold.datasets.values() if name in (None, dataset.name)]


def _parts(dataset: DatasetFold) -> Iterator[FailureGroup]:
    """Yield the groups of one data set, a group for each way to fail."""
    failures, responses = dataset.failures, dataset.responses
    yield from _sampled(Stage.GENERATE, failures.samples.items(), responses.done, dataset.name)
    yield from _sampled(Stage.EXTRACT, failures.extract.items(), dataset.hidden.stored, dataset.name)
    refused = [*failures.refused_lines.values(), *failures.refused_source_lines.values()]
    yield from _said(FailureClass.INVALID_INPUT, refused, dataset.name)
    others = (why for key, why in responses.failures.items() if key not in failures.samples)
    yield from _said(IN_RESPONSES, others, dataset.name)


def _sampled(
    stage: Stage, failures: Iterable[tuple[bytes, SampleFailure]], solved: set[bytes] | dict[bytes, int], name: str
) -> Iterator[FailureGroup]:
    counts: dict[tuple[FailureClass, str], list[int]] = {}
    newest: dict[tuple[FailureClass, str], SampleFailure] = {}
    for key, failure in failures:
        kind = failure.error, failure.message.translate(_SKELETON)
        count = counts.setdefault(kind, [0, 0, 0, 0])
        if key in solved:
            count[2] += 1
        elif failure.is_skipped:
            count[3] += 1
        else:
            count[0] += 1
            count[1] += failure.next is NextStep.RETRY
        if kind not in newest or newest[kind].at <= failure.at:
            newest[kind] = failure
    for (error, skeleton), (unsolved, retrying, done, left_out) in counts.items():
        last = newest[error, skeleton]
        form = message_form(last.message)
        yield FailureGroup(
            stage, error, form, last.message, (name,), unsolved, retrying, done, last.at, last.check, left_out
        )


def _said(error: str, messages: Iterable[str], name: str) -> Iterator[FailureGroup]:
    counts: dict[str, int] = {}
    example: dict[str, str] = {}
    for message in messages:
        form = message_form(message)
        counts[form] = counts.get(form, 0) + 1
        example[form] = message
    for form, count in counts.items():
        yield FailureGroup(Stage.GENERATE, error, form, example[form], (name,), count, 0, 0, None)


def _attempts(dataset: DatasetFold, group: FailureGroup) -> Iterator[Attempt]:
    position = dataset.tails[FAILURES].position
    end = None if position is None else position.offset
    window = lines_before(dataset.folder.failures, end, _LINES, _BLOCKS)
    error = group.error.encode()
    found = 0
    for line in reversed(window.lines):
        if error not in line.text:
            continue
        try:
            failure = _DECODER.decode(line.text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # counted and shown as unreadable, by the fold
        if (failure.stage, failure.error, message_form(failure.message)) == group.key:
            yield Attempt(dataset.name, line.offset, failure)
            found += 1
            if found == LISTED:
                return
