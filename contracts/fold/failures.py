"""The fold over one ``failures.jsonl``: what failed, how often, and what a person put back."""

from __future__ import annotations

from typing import Final

import msgspec

from contracts.fold.anew import start_again
from contracts.fold.history import History
from contracts.fold.lines import decoded_lines
from contracts.fold.places import Places
from contracts.records import HALTING, CaptureCheck, Failure, FailureClass, NextStep, Requeue, Stage
from contracts.sample_id import sample_key


class SampleFailure(msgspec.Struct, array_like=True, frozen=True):
    """The last failed attempt of one sample."""

    error: FailureClass
    next: NextStep
    attempt: int
    deaths: int
    """Server deaths during which it was in flight."""
    message: str
    at: float
    check: CaptureCheck | None = None
    """The check that its hidden states failed; only of the stage extract."""
    tokens: int | None = None
    """Rows that it has, where it is left out for their number."""

    @property
    def is_final(self) -> bool:
        """Whether it is not tried again unless a person says so."""
        return self.next in (NextStep.QUARANTINED, NextStep.REFUSED)

    @property
    def is_skipped(self) -> bool:
        """Whether it is left out of the store by a rule, which is no failure: too long, or nothing to learn from."""
        by_rule = (CaptureCheck.TOO_LONG, CaptureCheck.NOTHING_TO_LEARN)
        return self.check in by_rule and self.next is NextStep.REFUSED

    def is_helped_by(self, error: FailureClass | None) -> bool:
        """Whether another try of all samples of a class can help it.

        Invalid input comes out the same until a person mends it, and has to be asked for; of what nothing is to be
        learnt from no wish makes more, unless it names the sample.

        Args:
            error: The class; None: all.
        """
        if self.check is CaptureCheck.NOTHING_TO_LEARN:
            return False
        return self.error is error or (error is None and self.error is not FailureClass.INVALID_INPUT)


_DECODER: Final[msgspec.json.Decoder[Failure | Requeue]] = msgspec.json.Decoder(Failure | Requeue)


class FailureFold(msgspec.Struct):
    """Counts of one failure journal; a `contracts.journal.tail.LineSink`.

    The two stages are kept apart: what fails in extraction says nothing of the answers, and the other way round.
    """

    lines: int = 0
    samples: dict[bytes, SampleFailure] = {}
    """Last failure of each sample that no requeue has cleared since; responses may have come meanwhile."""
    refused_lines: dict[int, str] = {}
    """Lines of ``prompts.jsonl`` that cannot be used, with the reason."""
    refused_source_lines: dict[int, str] = {}
    """Lines of the imported file that did not become prompts, with the reason."""
    by_class: dict[str, int] = {}
    """Failed attempts, by class."""
    halted: str | None = None
    """Contract drift that stopped the data set, until a requeue of that class."""
    unreadable: Places = msgspec.field(default_factory=Places)
    history: History = msgspec.field(default_factory=History)
    """Of the answers only."""
    extract: dict[bytes, SampleFailure] = {}
    """Last failed extraction of each sample that no requeue has cleared since; it may be stored meanwhile."""
    extract_halted: str | None = None
    """Systematic fault that stopped the extraction, until a requeue of its class."""
    checks: dict[str, int] = {}
    """Failed checks of hidden states, by `CaptureCheck`; samples that were refused (too long) are none."""
    extract_history: History = msgspec.field(default_factory=History)
    """Failed checks, and captures given up for want of room."""
    notes: list[str] = []

    def reset(self, why: str) -> None:
        """Start again; see `LineSink`."""
        start_again(self)
        self.notes.append(why)

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Apply whole lines; see `LineSink`."""
        for record in decoded_lines(block, end, offset, self.lines, _DECODER, self.unreadable):
            self.apply(record)
        self.lines += block.count(b"\n", 0, end)

    def apply(self, record: Failure | Requeue) -> None:
        """Apply one record."""
        if isinstance(record, Requeue):
            self._requeue(record)
            return
        if record.stage is Stage.EXTRACT:
            self._extract(record)
            return
        self.by_class[record.error] = self.by_class.get(record.error, 0) + 1
        if record.error is FailureClass.INVALID_INPUT:
            if record.line is not None:
                lines = self.refused_lines if record.source is None else self.refused_source_lines
                lines[record.line] = record.message
            return
        if record.error is not FailureClass.SERVER_DOWN:  # says nothing of the samples; the server's own alert does
            bucket = self.history.bucket(record.at)
            bucket.failures += 1
            bucket.aborts += record.completion_tokens is not None
        if record.next is NextStep.STOPPED:
            self.halted = record.message
        _keep(self.samples, record)

    def _extract(self, record: Failure) -> None:
        if record.check is not None and record.next is not NextStep.REFUSED:
            self.checks[record.check] = self.checks.get(record.check, 0) + 1
            bucket = self.extract_history.bucket(record.at)
            bucket.no_room += record.check is CaptureCheck.NO_ROOM
            bucket.failures += record.check is not CaptureCheck.NO_ROOM
        if record.next is NextStep.STOPPED:
            self.extract_halted = record.message
        _keep(self.extract, record)

    def _requeue(self, record: Requeue) -> None:
        wanted = None if record.sample_id is None else sample_key(record.sample_id)
        if record.stage is not Stage.EXTRACT:
            _clear(self.samples, record, wanted)
            if record.error is FailureClass.INVALID_INPUT:
                self.refused_lines.clear()
                self.refused_source_lines.clear()
            if wanted is None and record.error in (None, *HALTING[Stage.GENERATE]):
                self.halted = None
        if record.stage is not Stage.GENERATE:
            _clear(self.extract, record, wanted)
            if wanted is None and record.error in (None, *HALTING[Stage.EXTRACT]):
                self.extract_halted = None


def _keep(samples: dict[bytes, SampleFailure], record: Failure) -> None:
    """Make this the last failure of its sample; deaths add up."""
    if record.sample_id is None:
        return
    key = sample_key(record.sample_id)
    before = samples.get(key)
    deaths = before.deaths if before else 0
    if record.error in (FailureClass.SERVER_DOWN, FailureClass.POISON):
        deaths += 1
    attempt = record.attempt or (before.attempt if before else 0)
    samples[key] = SampleFailure(
        record.error, record.next, attempt, deaths, record.message, record.at, record.check, record.tokens
    )


def _clear(samples: dict[bytes, SampleFailure], record: Requeue, wanted: bytes | None) -> None:
    for key, failure in list(samples.items()):
        if is_put_back(key, failure, record, wanted):
            del samples[key]


def is_put_back(key: bytes, failure: SampleFailure, record: Requeue, wanted: bytes | None) -> bool:
    """Whether a wish for another try is one for this sample, and can help it.

    Args:
        key: Of the sample.
        failure: Its last.
        record: The wish.
        wanted: Key of the sample that it names; None: it names none.
    """
    if wanted is None:
        return failure.is_helped_by(record.error)
    return key == wanted and record.error in (None, failure.error)
