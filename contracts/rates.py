"""Speeds, as pure functions of (history, now)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Final

from contracts.fold.history import COARSE_S, FINE_S, History

WINDOW_S: Final = 60.0
_LEAST_S: Final = 5.0


def tokens_per_s(history: History, now: float, since: float | None, window_s: float = WINDOW_S) -> float | None:
    """Return completion tokens a second over the last ``window_s`` seconds.

    Args:
        history: What was finished when.
        now: The present.
        since: When work began; the window is no longer than that.
        window_s: Length of the window.

    Returns:
        None before anything can be said: no time stamps, or less than five seconds of work.
    """
    if not history.fine and not history.coarse:
        return 0.0 if since is not None and now - since >= window_s else None
    start = now - window_s
    if since is not None and since > start:
        start = since
    # Buckets are counted whole: begin at the edge of the first one, and divide by the time it really spans.
    edge = start - start % FINE_S
    span = now - max(edge, since if since is not None and since > now - window_s else edge)
    if span < _LEAST_S:
        return None
    return history.since(edge).tokens / span


def median_tokens_per_s(histories: Iterable[History], now: float, since: float) -> float | None:
    """Return the median of tokens a second over the minutes since ``since`` in which any response came.

    Returns:
        None with fewer than five such minutes: no basis to call anything slow.
    """
    minutes: dict[int, int] = {}
    for history in histories:
        for begin, end, bucket in history.spans():
            if begin >= since and end <= now - now % COARSE_S and bucket.tokens:
                minute = int(begin) // COARSE_S
                minutes[minute] = minutes.get(minute, 0) + bucket.tokens
    if len(minutes) < 5:
        return None
    return statistics.median(minutes.values()) / COARSE_S
