"""How long answers are, as a histogram to be drawn: every step from the shortest to the longest, empty ones too."""

from __future__ import annotations

import msgspec

from contracts.fold.lengths import Lengths, bucket_bounds


class LengthSteps(msgspec.Struct, frozen=True):
    """A histogram of completion lengths, in tokens."""

    edges: tuple[int, ...]
    """Step i holds lengths from ``edges[i]`` to ``edges[i + 1] - 1``."""
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """Answers counted."""
        return sum(self.counts)


def length_steps(lengths: Lengths) -> LengthSteps | None:
    """Return the histogram of what was counted; None without any."""
    known = [number for number, count in lengths.counts.items() if count]
    if not known:
        return None
    numbers = range(min(known), max(known) + 1)
    edges = (*(bucket_bounds(number)[0] for number in numbers), bucket_bounds(numbers[-1])[1])
    return LengthSteps(edges, tuple(lengths.counts.get(number, 0) for number in numbers))


def narrowed(steps: LengthSteps, most: int) -> LengthSteps:
    """Return a histogram with at most so many steps, neighbours joined."""
    together = -(-len(steps.counts) // max(most, 1))
    if together <= 1:
        return steps
    starts = range(0, len(steps.counts), together)
    counts = tuple(sum(steps.counts[start : start + together]) for start in starts)
    return LengthSteps((*(steps.edges[start] for start in starts), steps.edges[-1]), counts)


def quantile(steps: LengthSteps, share: float) -> int:
    """Return about the length that a share (0 to 1) of the answers does not exceed: exact to its step."""
    wanted = share * steps.total
    before = 0
    for index, count in enumerate(steps.counts):
        if count and before + count >= wanted:
            inside = max(wanted - before, 0.0) / count
            return round(steps.edges[index] + inside * (steps.edges[index + 1] - 1 - steps.edges[index]))
        before += count
    return steps.edges[-1] - 1
