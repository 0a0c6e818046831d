"""The end of a run, when no prompts are left and it takes as long as the longest answer that is still open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contracts.eta.survival import Ages, Survival

_GAIN: Final = 2.5
"""A request alone is up to 1 + this many times as fast as one with all slots filled."""
_STEPS: Final = 24
_EARLY: Final = 0.1
_MIDDLE: Final = 0.5
_LATE: Final = 0.9


@dataclass(frozen=True)
class Tail:
    """Seconds until the last answer is there: in one case of ten earlier than, as likely as not, and so on."""

    early: float
    middle: float
    late: float


@dataclass(frozen=True)
class Ending:
    """Open answers of one data set, after which there are no more."""

    survival: Survival
    """Of the seconds that a request takes with all slots filled."""
    ages: Ages
    """In seconds."""
    count: float


def tail_of(endings: Sequence[Ending], slots: float, beside: float, oldest_s: float | None) -> Tail:
    """Return how long open answers take to their end.

    Args:
        endings: The open answers.
        slots: All.
        beside: Slots that others fill at first; they end alike.
        oldest_s: Age of the oldest of them; None: not known.
    """
    count = sum(each.count for each in endings)
    if count <= 0:
        return Tail(0.0, 0.0, 0.0)
    most = max(each.survival.most for each in endings)
    grid = [most * (index / _STEPS) ** 2 for index in range(_STEPS + 1)]
    lacks = [(each.count, each.ages.lacking(each.survival, grid)) for each in endings]
    lacking = [
        min(max(sum(many * shares[index] for many, shares in lacks) / count, 0.0), 1.0) for index in range(len(grid))
    ]
    first = lacking
    if oldest_s is not None:
        standing = sum(each.count * each.survival.at(oldest_s) for each in endings)
        if standing > 0:
            first = [sum(each.count * each.survival.at(oldest_s + at) for each in endings) / standing for at in grid]
    times, done = [0.0], []
    for index, at in enumerate(grid):
        done.append((1 - first[index]) * (1 - lacking[index]) ** max(count - 1.0, 0.0))
        if index:
            still = max((count + beside) * (lacking[index] + lacking[index - 1]) / 2, 1.0)
            gain = (1 + _GAIN) / (1 + _GAIN * min(still / slots, 1.0))
            times.append(times[-1] + (at - grid[index - 1]) / gain)
    return Tail(*(_quantile(times, done, share) for share in (_EARLY, _MIDDLE, _LATE)))


def _quantile(times: list[float], done: list[float], share: float) -> float:
    """Return the time at which that share of cases is done."""
    for index in range(1, len(times)):
        if done[index] >= share:
            rise = done[index] - done[index - 1]
            part = (share - done[index - 1]) / rise if rise > 0 else 1.0
            return times[index - 1] + max(part, 0.0) * (times[index] - times[index - 1])
    return times[-1]
