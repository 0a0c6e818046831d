"""What is left of the answers of one data set. Unknown is None; finished is 0."""

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
