"""All of a data set that the status does not hold: lengths, rates, newest records, what failed, what is stored."""

from __future__ import annotations

from typing import Final

import msgspec

from contracts.details.latest import Record, latest_records
from contracts.details.lengths import LengthSteps, length_steps
from contracts.details.rates import SPANS, rate_steps
from contracts.details.stored import StoredRecord, latest_stored
from contracts.fold.dataset import DatasetFold
from contracts.fold.hidden import StoredForm
from contracts.fold.run import RunFold
from contracts.journal.tail import Tail
from contracts.run_dir import HIDDEN_STATES, RESPONSES
from contracts.work import extracts

LATEST: Final = 100
"""Records that are listed."""
STEPS: Final = 60
"""Of the rate history, unless the screen wants another number."""


class FailedClass(msgspec.Struct, frozen=True):
    """The failures of one class."""

    stage: str
    error: str
    attempts: int | None
    """Failed attempts so far; None where they are not counted by class (extraction)."""
    open: int
    """Samples that failed so last and have neither answer nor hidden states."""


class DatasetDetail(msgspec.Struct, frozen=True):
    """One data set."""

    name: str
    folder: str
    lengths: LengthSteps | None
    rates: tuple[tuple[float | None, ...], ...]
    """Tokens a second in equal steps, one row for each of `contracts.details.rates.SPANS`."""
    latest: tuple[Record, ...]
    """The newest first."""
    failed: tuple[FailedClass, ...]
    checks: dict[str, int]
    """Failed checks of hidden states, by kind."""
    captures: dict[str, int]
    form: StoredForm | None
    dropped: int
    odd: int
    """Stored samples that contradict the others."""
    think_missing: int
    contradictions: int
    """Answers whose count differs from their ids."""
    halted: str | None
    extract_halted: str | None
    nameless: int
    prompts: int
    """Lines of the prompt file that are prompts."""
    pretokenized: int
    """Those of them that bring their answer."""
    latest_stored: tuple[StoredRecord, ...]
    """The newest first."""
    stored_rates: tuple[tuple[float | None, ...], ...]
    """Rows a second that came into the store, as ``rates``."""
    extracts: bool
    """The run takes hidden states."""

    @property
    def is_brought(self) -> bool:
        """Whether every prompt brings its answer: there is nothing to generate."""
        return 0 < self.prompts == self.pretokenized and not self.latest


def dataset_detail(fold: RunFold, now: float, name: str, steps: int = STEPS) -> DatasetDetail | None:
    """Return what is known of a data set; None when the run has none of that name.

    Args:
        fold: Of the run.
        now: The present.
        name: Of the data set.
        steps: Of the rate history.

    Raises:
        OSError: Its response file, or the index of its store, cannot be read.
    """
    dataset = fold.datasets.get(name)
    if dataset is None:
        return None
    responses, hidden, failures = dataset.responses, dataset.hidden, dataset.failures
    latest = latest_records(dataset.folder.responses, read_so_far(dataset.tails[RESPONSES]), LATEST)
    return DatasetDetail(
        name=name,
        folder=str(dataset.folder.path),
        lengths=length_steps(responses.lengths),
        rates=tuple(rate_steps(responses.history, now, span, steps) for _, span in SPANS),
        latest=latest,
        failed=tuple(_failed(dataset)),
        checks=dict(sorted(failures.checks.items())),
        captures={kind: count for kind, count in sorted(hidden.captures.items()) if count},
        form=hidden.form,
        dropped=hidden.dropped,
        odd=len(hidden.odd),
        think_missing=responses.think_missing,
        contradictions=responses.contradictions.count,
        halted=failures.halted,
        extract_halted=failures.extract_halted,
        nameless=responses.nameless,
        prompts=dataset.prompts.prompts,
        pretokenized=dataset.prompts.pretokenized,
        latest_stored=latest_stored(dataset.folder.hidden_states, read_so_far(dataset.tails[HIDDEN_STATES]), LATEST),
        stored_rates=tuple(rate_steps(hidden.history, now, span, steps) for _, span in SPANS),
        extracts=extracts(fold),
    )


def read_so_far(tail: Tail) -> int | None:
    """Return how far a file was folded: what is shown of it ends there, like the counts; None: to its end."""
    return None if tail.position is None else tail.position.offset


def _failed(dataset: DatasetFold) -> list[FailedClass]:
    answers: dict[str, int] = {}
    for _, failure in dataset.open_failures():
        answers[failure.error] = answers.get(failure.error, 0) + 1
    attempts = dataset.failures.by_class
    found = [
        FailedClass("generate", error, attempts.get(error), answers.get(error, 0))
        for error in sorted({*attempts, *answers}, key=lambda error: (-answers.get(error, 0), error))
    ]
    captures: dict[str, int] = {}
    for _, failure in dataset.open_extract_failures():
        captures[failure.error] = captures.get(failure.error, 0) + 1
    return found + [FailedClass("extract", error, None, count) for error, count in sorted(captures.items())]
