"""The fold over one data set folder: its prompts, responses, failures and stored samples together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from contracts.fold.failures import FailureFold, SampleFailure
from contracts.fold.hidden import HiddenFold
from contracts.fold.places import Places
from contracts.fold.prompts import PromptFold
from contracts.fold.responses import ResponseFold
from contracts.journal.extent import Extent, whole
from contracts.journal.tail import LineSink, Tail
from contracts.records import NextStep
from contracts.run_dir import FAILURES, HIDDEN_STATES, PROMPTS, RESPONSES, DatasetDir


class DatasetState(msgspec.Struct):
    """What a checkpoint keeps of a data set."""

    prompts: PromptFold = msgspec.field(default_factory=PromptFold)
    responses: ResponseFold = msgspec.field(default_factory=ResponseFold)
    failures: FailureFold = msgspec.field(default_factory=FailureFold)
    hidden: HiddenFold = msgspec.field(default_factory=HiddenFold)


@dataclass(frozen=True)
class ExtractTally:
    """What became of samples that are not stored though somebody tried."""

    failed: int = 0
    """Whose last capture failed; given-up ones included, those left out for their length not."""
    given_up: int = 0
    skipped: int = 0
    """Left out because they are too long."""


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
        self._tally: ExtractTally | None = None
        """Made when asked for, good until the next change: there may be many, and every status asks several times."""

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
        sinks: dict[str, LineSink] = {
            PROMPTS: self.prompts,
            RESPONSES: self.responses,
            FAILURES: self.failures,
            HIDDEN_STATES: self.hidden,
        }
        return sinks[file]

    def poll(self, most_bytes: int | None = None) -> bool:
        """Read what is new in the four files, of each at most about ``most_bytes``; return whether there was anything.

        Raises:
            OSError: A file is there and cannot be read.
        """
        try:
            changed = sum(tail.poll(self.sink(name), most_bytes) for name, tail in self.tails.items()) > 0
        except OSError:
            self._tally = None  # of one file, while others may have been read
            raise
        if self.responses.wants_exact:
            # How much is wrong must not depend on how the file was read.
            self.responses.begin_exact()
            self.tails[RESPONSES] = Tail(self.folder.responses, extent=self._extent)
            self.tails[RESPONSES].poll(self.responses, most_bytes)
        if changed:
            self._tally = None
        return changed

    def take_notes(self) -> list[str]:
        """Return, once, what happened to the files (cut, replaced, deleted)."""
        notes: list[str] = []
        for fold in (self.prompts, self.responses, self.failures, self.hidden):
            notes += [f"{self.name}: {note}" for note in fold.notes]
            fold.notes.clear()
        return notes

    @property
    def usable_prompts(self) -> int | None:
        """Prompts that can be sent, or None while there is no prompt file or nothing in it.

        The daemon refuses lines of both kinds: objects that cannot be used, and what is no object at all.
        """
        prompts, bad = self.prompts.prompts, self.prompts.unreadable.count
        if not prompts and not bad:
            return None
        return max(min(prompts, prompts + bad - len(self.failures.refused_lines)), 0)

    @property
    def usable_pretokenized(self) -> int | None:
        """Those of the usable prompts that bring their own answer; None as for `usable_prompts`."""
        if self.usable_prompts is None:
            return None
        return self.prompts.pretokenized - sum(map(self.prompts.is_masked, self.failures.refused_lines))

    @property
    def prompts_to_answer(self) -> int | None:
        """Usable prompts that need an answer; None as for `usable_prompts`."""
        usable, masked = self.usable_prompts, self.usable_pretokenized
        return None if usable is None or masked is None else usable - masked

    @property
    def pretokenized(self) -> bool:
        """Whether every usable prompt brings its own answer: nothing to generate."""
        return bool(self.usable_prompts) and self.prompts_to_answer == 0

    def open_failures(self) -> Iterator[tuple[bytes, SampleFailure]]:
        """Yield samples whose last attempt failed and that have no response."""
        for key, failure in self.failures.samples.items():
            if key not in self.responses.done:
                yield key, failure

    @property
    def failed(self) -> int:
        """Samples that failed and have no response; quarantined ones included."""
        known = sum(1 for _ in self.open_failures())
        return known + sum(1 for key in self.responses.failures if key not in self.failures.samples)

    def given_up(self) -> Iterator[tuple[bytes, SampleFailure]]:
        """Yield samples that are not sent again unless a person says so."""
        for key, failure in self.open_failures():
            if failure.next is NextStep.QUARANTINED:
                yield key, failure

    @property
    def quarantined(self) -> int:
        """How many samples are given up."""
        return sum(1 for _ in self.given_up())

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
        if self._tally is None:
            failures, stored, retry = self.failures.extract, self.hidden.stored, NextStep.RETRY
            # There may be one for each sample (a small dump folder), nearly all to be tried again: look closely at few.
            ended = [key for key, failure in failures.items() if failure.next is not retry and key not in stored]
            skipped = sum(failures[key].is_skipped for key in ended)
            given_up = sum(failures[key].is_final for key in ended) - skipped
            failed = len(failures.keys() - stored.keys()) - skipped
            self._tally = ExtractTally(failed, given_up, skipped)
        return self._tally

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
