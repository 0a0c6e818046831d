"""How much of a sample is stored, and why not all or none of it: limits of length, of the dump folder, of a server."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.fold.failures import SampleFailure
from contracts.records import CaptureCheck, NextStep
from daemon.capture.fault import CaptureFault
from daemon.extract.captures import Captures
from daemon.extract.entry import ExtractEntry
from daemon.prompts.index import PromptEntry


@dataclass(frozen=True)
class SampleLimits:
    """How long a sample may be."""

    longest: int | None
    """Of the data set; None: no limit."""
    truncate: bool
    """Cut longer ones to it, instead of leaving them out."""
    longest_prefill: int | None
    """What every server can take in one pass; None: not known."""


class Fitting:
    """Judges the lengths of one data set's samples.

    Args:
        limits: How long a sample may be.
        captures: Say what the dump folder can hold.
    """

    def __init__(self, limits: SampleLimits, captures: Captures) -> None:
        self._limits = limits
        self._captures = captures

    def fit(self, prompt: PromptEntry, whole: int) -> int | CaptureFault:
        """Return how many rows of a sample are stored, or why none is.

        Args:
            prompt: Its prompt.
            whole: Rows that it has: prompt and answer without the answer's last token.
        """
        limits, tokens = self._limits, whole
        if not prompt.pretokenized and whole <= prompt.n_tokens:
            answer = "has one token, which" if whole == prompt.n_tokens else "is empty: its last token"
            return CaptureFault(
                CaptureCheck.NOTHING_TO_LEARN,
                f"its answer {answer} is never fed to the model: there is nothing to learn from",
            )
        if limits.longest is not None and whole > limits.longest:
            if not limits.truncate:
                return CaptureFault(CaptureCheck.TOO_LONG, f"has {whole} tokens, the limit is {limits.longest}", whole)
            tokens = limits.longest
        return _nothing_left(prompt, whole, tokens) or self._captures.too_large(tokens) or tokens

    def cut_to_pass(self, entry: ExtractEntry) -> CaptureFault | None:
        """Make a sample fit into a prefill pass; return why that cannot be, or None."""
        most = self._limits.longest_prefill
        if most is None or entry.tokens <= most:
            return None
        if not self._limits.truncate:
            return CaptureFault(
                CaptureCheck.TOO_LONG,
                f"has {entry.tokens} tokens, of which a server takes {most} in one pass: its rows can only be taken "
                f"while it is generated",
            )
        entry.tokens = most
        return _nothing_left(entry.prompt, entry.whole_tokens, most)


def may_fit_now(failure: SampleFailure, limits: SampleLimits, captures: Captures) -> bool:
    """Whether a sample that an earlier session left out for its length may be stored with the limits of this one.

    Args:
        failure: What was recorded of it.
        limits: How long a sample may be; of a server's pass nothing need be known.
        captures: Say what the dump folder can hold.
    """
    if failure.next is not NextStep.REFUSED:
        return False
    if failure.check is CaptureCheck.TOO_LARGE:  # by an older version: nobody knows how large it is
        return failure.tokens is None or captures.too_large(failure.tokens) is None
    if failure.check is CaptureCheck.TOO_LONG and failure.tokens is not None:
        return limits.truncate or limits.longest is None or failure.tokens <= limits.longest
    return False


def _nothing_left(prompt: PromptEntry, whole: int, tokens: int) -> CaptureFault | None:
    if prompt.pretokenized or tokens > prompt.n_tokens:
        return None
    return CaptureFault(
        CaptureCheck.TOO_LONG,
        f"has {whole} tokens, its prompt {prompt.n_tokens}: cut to {tokens} nothing of its answer is left",
    )
