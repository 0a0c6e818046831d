"""The fold over one data set folder: its prompts, responses, failures and stored samples together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from contracts.fold.counts import Counts, ExtractTally
from contracts.fold.failures import FailureFold, SampleFailure
from contracts.fold.hidden import HiddenFold
from contracts.fold.places import Places
from contracts.fold.prompts import PromptFold
from contracts.fold.responses import ResponseFold
from contracts.journal.extent import Extent, whole
from contracts.journal.tail import LineSink, Tail
from contracts.records import NextStep
from contracts.run_dir import FAILURES, HIDDEN_STATES, PROMPTS, RESPONSES, DatasetDir

PARTS: Final = {PROMPTS: "prompts", RESPONSES: "responses", FAILURES: "failures", HIDDEN_STATES: "hidden"}
"""Fields of a `DatasetState`, in their order, by the file that they are of."""


class DatasetState(msgspec.Struct):
    """What a checkpoint keeps of a data set."""

    prompts: PromptFold = msgspec.field(default_factory=PromptFold)
    responses: ResponseFold = msgspec.field(default_factory=ResponseFold)
    failures: FailureFold = msgspec.field(default_factory=FailureFold)
    hidden: HiddenFold = msgspec.field(default_factory=HiddenFold)


class DatasetFold:
    """The four folds of one data set, kept up to date from its files.

    Args:
        folder: Where they are.
        extent: How much of each counts.
    """

    def __init__(self, folder: DatasetDir, extent: Extent = whole) -> None:
        self.folder = folder
        self.name = folder.name
        self._extent = extent
        self.tails = {
            name: Tail(folder.path / name, extent=extent) for name in (PROMPTS, RESPONSES, FAILURES, HIDDEN_STATES)
        }
        self.state = DatasetState()
        self._counts: Counts | None = None
        """Of the files as they are; None after every change."""

    @property
    def prompts(self) -> PromptFold:
        """Fold of ``prompts.jsonl``."""
        return self.state.prompts

    @property
    def responses(self) -> ResponseFold:
        """Fold of ``raw_responses.jsonl``."""
        return self.state.responses

    @property
    def failures(self) -> FailureFold:
        """Fold of ``failures.jsonl``."""
        return self.state.failures

    @property
    def hidden(self) -> HiddenFold:
        """Fold of ``hidden_states.jsonl``."""
        return self.state.hidden

    def sink(self, file: str) -> LineSink:
        """Return the fold of one of the four files, by its name."""
        sink: LineSink = getattr(self.state, PARTS[file])
        return sink

    def poll(self, most_bytes: int | None = None) -> bool:
        """Read what is new in the four files, of each at most about ``most_bytes``; return whether there was anything.

        Raises:
            OSError: A file is there and cannot be read.
        """
        try:
            changed = sum([tail.poll(self.sink(name), most_bytes) for name, tail in self.tails.items()]) > 0
        except OSError:
            self._counts = None  # of one file, while others may have been read
            raise
        if self.responses.wants_exact:
            # How much is wrong must not depend on how the file was read.
            self.responses.begin_exact()
            self.tails[RESPONSES] = Tail(self.folder.responses, extent=self._extent)
            self.tails[RESPONSES].poll(self.responses, most_bytes)
        if changed:
            self._counts = None
        return changed

    @property
    def counts(self) -> Counts:
        """What follows from the four files together."""
        if self._counts is None:
            self._counts = Counts(self.prompts, self.responses, self.failures, self.hidden)
        return self._counts

    def take_notes(self) -> list[str]:
        """Return, once, what happened to the files (cut, replaced, deleted)."""
        notes: list[str] = []
        for fold in (self.prompts, self.responses, self.failures, self.hidden):
            if fold.notes:
                notes += [f"{self.name}: {note}" for note in fold.notes]
                fold.notes.clear()
        return notes

    @property
    def usable_prompts(self) -> int | None:
        """Prompts that can be sent, or None while there is no prompt file or nothing in it."""
        return self.counts.usable_prompts

    @property
    def usable_pretokenized(self) -> int | None:
        """Those of the usable prompts that bring their own answer; None as for `usable_prompts`."""
        return self.counts.usable_pretokenized

    @property
    def prompts_to_answer(self) -> int | None:
        """Usable prompts that need an answer; None as for `usable_prompts`."""
        return self.counts.prompts_to_answer

    @property
    def pretokenized(self) -> bool:
        """Whether every usable prompt brings its own answer: nothing to generate."""
        return bool(self.usable_prompts) and self.prompts_to_answer == 0

    def open_failures(self) -> Iterator[tuple[bytes, SampleFailure]]:
        """Return samples whose last attempt failed and that have no response."""
        return self.counts.open_failures()

    @property
    def failed(self) -> int:
        """Samples that failed and have no response; quarantined ones included."""
        return self.counts.failed

    def given_up(self) -> Iterator[tuple[bytes, SampleFailure]]:
        """Return samples that are not sent again unless a person says so."""
        return self.counts.given_up()

    @property
    def quarantined(self) -> int:
        """How many samples are given up."""
        return self.counts.quarantined

    @property
    def to_store(self) -> int | None:
        """Samples whose hidden states can be taken by now: answered ones and pre-tokenized ones; None as for
        `usable_prompts`."""
        masked = self.usable_pretokenized
        return None if masked is None else len(self.responses.done) - self.responses.nameless + masked

    @property
    def stored(self) -> int:
        """Samples whose hidden states are in the store."""
        return len(self.hidden.stored)

    def open_extract_failures(self) -> Iterator[tuple[bytes, SampleFailure]]:
        """Yield samples whose last extraction failed and that are not stored."""
        for key, failure in self.failures.extract.items():
            if key not in self.hidden.stored:
                yield key, failure

    def extract_given_up_samples(self) -> Iterator[tuple[bytes, SampleFailure]]:
        """Yield those of them that are not tried again unless a person says so: quarantined, or refused (too long)."""
        retry = NextStep.RETRY
        for key, failure in self.failures.extract.items():
            if failure.next is not retry and failure.is_final and key not in self.hidden.stored:
                yield key, failure

    @property
    def extract_tally(self) -> ExtractTally:
        """How many samples are not stored, and what is to become of them."""
        return self.counts.extract_tally

    @property
    def extract_given_up(self) -> int:
        """How many samples are not stored and not tried again, those left out for their length included."""
        return self.extract_tally.given_up + self.extract_tally.skipped

    @property
    def extract_settled(self) -> int:
        """Samples whose hidden states need nothing more: stored or given up."""
        return self.stored + self.extract_given_up

    @property
    def unreadable(self) -> int:
        """Lines of all four files that fit no known shape."""
        return sum(places.count for _, places in self.unreadable_places())

    def unreadable_places(self) -> Iterator[tuple[str, Places]]:
        """Yield the places of unreadable lines, by file name."""
        yield PROMPTS, self.prompts.unreadable
        yield RESPONSES, self.responses.unreadable
        yield FAILURES, self.failures.unreadable
        yield HIDDEN_STATES, self.hidden.unreadable
