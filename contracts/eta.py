"""Remaining work and time, as pure functions. Unknown is None; finished is 0."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """What is known of one data set's work."""

    prompts: int | None
    """Prompts that need an answer."""
    settled: int
    """Prompts with a response, or with a final failure."""
    completion_tokens: int | None
    known: int
    """Responses that state a count."""
    target_tokens: int | None


def is_finished(work: Work) -> bool:
    """Whether nothing is left: the target is reached, or every prompt is settled."""
    if work.target_tokens is not None and (work.completion_tokens or 0) >= work.target_tokens:
        return True
    return work.prompts is not None and work.settled >= work.prompts


def remaining_tokens(work: Work) -> float | None:
    """Return the completion tokens still to come: up to the target, but no more than the prompts left can give.

    Returns:
        None while no response says how long answers are and no target bounds them.
    """
    if is_finished(work):
        return 0.0
    to_target = None
    if work.target_tokens is not None:
        to_target = float(work.target_tokens - (work.completion_tokens or 0))
    if work.prompts is None or not work.known or work.completion_tokens is None:
        return to_target
    from_prompts = (work.prompts - work.settled) * work.completion_tokens / work.known
    return from_prompts if to_target is None else min(to_target, from_prompts)


def eta_s(remaining: float | None, rate: float | None) -> float | None:
    """Return the seconds that the remaining tokens take at a rate, or None when either is unknown or nothing moves."""
    if remaining is None:
        return None
    if remaining <= 0:
        return 0.0
    if not rate:
        return None
    return remaining / rate


@dataclass(frozen=True)
class Storing:
    """What is known of the hidden states of one data set."""

    to_store: int | None
    """Samples whose hidden states can be taken by now."""
    settled: int
    """Samples that are stored, or given up."""
    to_come: float | None
    """Answers that are still to come: their hidden states will be wanted too."""
    sample_tokens: float | None
    """Mean of the samples that are stored; None while none is."""
    sample_bytes: float | None


def is_stored(storing: Storing) -> bool:
    """Whether nothing is left to be stored of what is there by now."""
    return storing.to_store is not None and storing.settled >= storing.to_store


def answers_to_come(work: Work, mean_tokens: float | None) -> float | None:
    """Return how many answers are still to come.

    Args:
        work: Of the data set.
        mean_tokens: Of an answer, where the data set has none yet: as long as those of others.
    """
    if is_finished(work):
        return 0.0
    if work.known and work.completion_tokens:
        mean_tokens = work.completion_tokens / work.known
    remaining = remaining_tokens(work)
    if remaining is not None and mean_tokens:
        return remaining / mean_tokens
    return None if work.prompts is None or work.target_tokens is not None else float(work.prompts - work.settled)


def samples_to_store(storing: Storing) -> float | None:
    """Return the samples that are still to be stored, those included whose answers are to come."""
    if storing.to_store is None or storing.to_come is None:
        return None
    return max(storing.to_store - storing.settled, 0) + storing.to_come


def tokens_to_store(storing: Storing) -> float | None:
    """Return the tokens (rows) that are still to be stored, by the mean of those that are.

    Returns:
        None while nothing is stored, or nobody knows how many samples there will be.
    """
    return _product(samples_to_store(storing), storing.sample_tokens)


def bytes_to_store(storing: Storing) -> float | None:
    """Return the bytes that are still to be stored; None as for `tokens_to_store`."""
    return _product(samples_to_store(storing), storing.sample_bytes)


def _product(count: float | None, each: float | None) -> float | None:
    if count == 0:
        return 0.0
    return None if count is None or each is None else count * each


def longer(one: float | None, other: float | None) -> float | None:
    """Return the longer of two times in which work is done side by side; None when either is unknown."""
    return None if one is None or other is None else max(one, other)
