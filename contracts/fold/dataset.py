"""The fold over one data set folder: its prompt, response and failure files together."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from contracts.fold.failures import FailureFold, SampleFailure
from contracts.fold.places import Places
from contracts.fold.prompts import PromptFold
from contracts.fold.responses import ResponseFold
from contracts.journal.tail import LineSink, Tail
from contracts.records import NextStep
from contracts.run_dir import FAILURES, PROMPTS, RESPONSES, DatasetDir


class DatasetState(msgspec.Struct):
    """What a checkpoint keeps of a data set."""

    prompts: PromptFold = msgspec.field(default_factory=PromptFold)
    responses: ResponseFold = msgspec.field(default_factory=ResponseFold)
    failures: FailureFold = msgspec.field(default_factory=FailureFold)


class DatasetFold:
    """The three folds of one data set, kept up to date from its files."""

    def __init__(self, folder: DatasetDir) -> None:
        self.folder = folder
        self.name = folder.name
        self.tails = {name: Tail(folder.path / name) for name in (PROMPTS, RESPONSES, FAILURES)}
        self.state = DatasetState()

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

    def sink(self, file: str) -> LineSink:
        """Return the fold of one of the three files, by its name."""
        sinks: dict[str, LineSink] = {PROMPTS: self.prompts, RESPONSES: self.responses, FAILURES: self.failures}
        return sinks[file]

    def poll(self, most_bytes: int | None = None) -> bool:
        """Read what is new in the three files, of each at most about ``most_bytes``; return whether there was anything.

        Raises:
            OSError: A file is there and cannot be read.
        """
        changed = sum(tail.poll(self.sink(name), most_bytes) for name, tail in self.tails.items()) > 0
        if self.responses.wants_exact:
            # How much is wrong must not depend on how the file was read.
            self.responses.begin_exact()
            self.tails[RESPONSES] = Tail(self.folder.responses)
            self.tails[RESPONSES].poll(self.responses, most_bytes)
        return changed

    def take_notes(self) -> list[str]:
        """Return, once, what happened to the files (cut, replaced, deleted)."""
        notes: list[str] = []
        for fold in (self.prompts, self.responses, self.failures):
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
    def unreadable(self) -> int:
        """Lines of all three files that fit no known shape."""
        return self.prompts.unreadable.count + self.responses.unreadable.count + self.failures.unreadable.count

    def unreadable_places(self) -> Iterator[tuple[str, Places]]:
        """Yield the places of unreadable lines, by file name."""
        yield PROMPTS, self.prompts.unreadable
        yield RESPONSES, self.responses.unreadable
        yield FAILURES, self.failures.unreadable
