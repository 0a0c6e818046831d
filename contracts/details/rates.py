"""Tokens a second over a stretch of time, in equal steps."""

from __future__ import annotations

import math
from typing import Final

from contracts.fold.history import History

SPANS: Final[tuple[tuple[str, float | None], ...]] = (("10 min", 600.0), ("1 h", 3600.0), ("all", None))
"""What a person can choose, and how many seconds that is; None: since the first response."""
_LEAST_STEP_S: Final = 1.0


def rate_steps(history: History, now: float, span_s: float | None, steps: int) -> tuple[float | None, ...]:
    """Return tokens a second in ``steps`` equal stretches that end now, the oldest first.

    A bucket that lies across a border is shared out by time.

    Args:
        history: What was finished when.
        now: The present.
        span_s: Length of it all; None: since the first of the history.
        steps: How many.

    Returns:
        None for the stretches before anything was finished.
    """
    spans = [(start, end, bucket.tokens) for start, end, bucket in history.spans()]
    if not spans or steps < 1:
        return (None,) * max(steps, 0)
    first = min(start for start, _, _ in spans)
    span = max(now - first, steps * _LEAST_STEP_S) if span_s is None else span_s
    begin, step = now - span, span / steps
    sums = [0.0] * steps
    for start, end, tokens in spans:
        if end <= begin or start >= now or not tokens:
            continue
        index = max(math.floor((start - begin) / step), 0)
        while index < steps and begin + index * step < end:
            left, right = begin + index * step, begin + (index + 1) * step
            sums[index] += tokens * max(min(end, right) - max(start, left), 0.0) / (end - start)
            index += 1
    return tuple(None if begin + (index + 1) * step <= first else total / step for index, total in enumerate(sums))
