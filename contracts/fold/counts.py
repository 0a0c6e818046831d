"""What follows from several folds of one data set together. Everything is made when it is first asked for, and kept.

Every status asks several times, of every data set: what has not changed since is not counted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from contracts.fold.failures import FailureFold, SampleFailure
from contracts.fold.hidden import HiddenFold
from contracts.fold.prompts import PromptFold
from contracts.fold.responses import ResponseFold
from contracts.records import CaptureCheck, NextStep


@dataclass(frozen=True)
class ExtractTally:
    """What became of samples that are not stored though somebody tried."""

    failed: int = 0
    """Whose last capture failed; given-up ones included, those left out by a rule not."""
    given_up: int = 0
    skipped: int = 0
    """Left out by a rule: too long, or nothing in them to learn from."""
    unteachable: int = 0
    """Those of the skipped ones in which there is nothing to learn from: no retry helps them."""


class Counts:
    """Good for as long as none of the folds changes.

    Args:
        prompts: Of ``prompts.jsonl``.
        responses: Of ``raw_responses.jsonl``.
        failures: Of ``failures.jsonl``.
        hidden: Of ``hidden_states.jsonl``.
    """

    def __init__(self, prompts: PromptFold, responses: ResponseFold, failures: FailureFold, hidden: HiddenFold) -> None:
        self._prompts, self._responses, self._failures, self._hidden = prompts, responses, failures, hidden

    @cached_property
    def usable_prompts(self) -> int | None:
        """Prompts that can be sent, or None while there is no prompt file or nothing in it.

        The daemon refuses lines of both kinds: objects that cannot be used, and what is no object at all.
        """
        prompts, bad = self._prompts.prompts, self._prompts.unreadable.count
        if not prompts and not bad:
            return None
        return max(min(prompts, prompts + bad - len(self._failures.refused_lines)), 0)

    @cached_property
    def usable_pretokenized(self) -> int | None:
        """Those of the usable prompts that bring their own answer; None as for `usable_prompts`."""
        if self.usable_prompts is None:
            return None
        return self._prompts.pretokenized - sum(map(self._prompts.is_masked, self._failures.refused_lines))

    @cached_property
    def prompts_to_answer(self) -> int | None:
        """Usable prompts that need an answer; None as for `usable_prompts`."""
        usable, masked = self.usable_prompts, self.usable_pretokenized
        return None if usable is None or masked is None else usable - masked

    def open_failures(self) -> Iterator[tuple[bytes, SampleFailure]]:
        """Yield samples whose last attempt failed and that have no response."""
        for key, failure in self._failures.samples.items():
            if key not in self._responses.done:
                yield key, failure

    def given_up(self) -> Iterator[tuple[bytes, SampleFailure]]:
        """Yield samples that are not sent again unless a person says so."""
        for key, failure in self.open_failures():
            if failure.next is NextStep.QUARANTINED:
                yield key, failure

    @cached_property
    def failed(self) -> int:
        """Samples that failed and have no response; quarantined ones included."""
        known = sum(1 for _ in self.open_failures())
        return known + sum(key not in self._failures.samples for key in self._responses.failures)

    @cached_property
    def quarantined(self) -> int:
        """Samples without a response that are not sent again unless a person says so."""
        return sum(1 for _ in self.given_up())

    @cached_property
    def extract_tally(self) -> ExtractTally:
        """How many samples are not stored, and what is to become of them."""
        failures, stored, retry = self._failures.extract, self._hidden.stored, NextStep.RETRY
        # There may be one for each sample (a small dump folder), nearly all to be tried again: look closely at few.
        ended = [key for key, failure in failures.items() if failure.next is not retry and key not in stored]
        left_out = [failures[key].check for key in ended if failures[key].is_skipped]
        skipped = len(left_out)
        given_up = sum(failures[key].is_final for key in ended) - skipped
        failed = len(failures.keys() - stored.keys()) - skipped
        return ExtractTally(failed, given_up, skipped, left_out.count(CaptureCheck.NOTHING_TO_LEARN))
