"""Tokens a second over a stretch of time, in equal steps."""

from __future__ import annotations

import math
from typing import Final

from contracts.fold.history import History

SPANS: Final[tuple[tuple[str, float | None], ...]] = (("10 min", 600.0), ("1 h", 3600.0), ("all", None))
"""What a person can choose, and how many seconds that is; None: since the first response."""
_WHOLE_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400)
"""Lengths of a step, in seconds, where all of the history is shown: it grows, the step stays for long."""


def rate_steps(history: History, now: float, span_s: float | None, steps: int) -> tuple[float | None, ...]:
    """Return tokens a second in ``steps`` equal stretches up to now, the oldest first.

    Stretches begin at multiples of their length, so that a picture of them stands still between two of them. A bucket
    that lies across a border is shared out by time. The newest stretch is not over: it counts as long as it is by now.

    Args:
        history: What was finished when.
        now: The present.
        span_s: Length of it all; None: about since the first of the history.
        steps: How many.

    Returns:
        None for the stretches before anything was finished.
    """
    spans = [(start, end, bucket.tokens) for start, end, bucket in history.spans() if start < now]
    if not spans or steps < 1:
        return (None,) * max(steps, 0)
    first = min(start for start, _, _ in spans)
    step = _whole_step((now - first) / steps) if span_s is None else span_s / steps
    begin = math.ceil(now / step) * step - steps * step
    sums = [0.0] * steps
    for start, end, tokens in spans:
        index = max(math.floor((start - begin) / step), 0)
        while tokens and index < steps and begin + index * step < end:
            left, right = begin + index * step, begin + (index + 1) * step
            sums[index] += tokens * max(min(end, right) - max(start, left), 0.0) / (end - start)
            index += 1
    lasted = [step] * (steps - 1) + [max(now - begin - (steps - 1) * step, min(step, 1.0))]
    return tuple(
        None if begin + (index + 1) * step <= first else total / lasted[index] for index, total in enumerate(sums)
    )


def _whole_step(least: float) -> float:
    return float(next((step for step in _WHOLE_STEPS if step >= least), math.ceil(least / 86_400) * 86_400))
