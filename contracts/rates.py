"""Speeds, as pure functions of (history, now)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final

from contracts.fold.history import COARSE_S, FINE_S, Bucket, History

WINDOW_S: Final = 60.0
_LEAST_S: Final = 5.0
_LEAST_MINUTES: Final = 5


def tokens_per_s(history: History, now: float, since: float | None, window_s: float = WINDOW_S) -> float | None:
    """Return tokens a second over the last ``window_s`` seconds; see `per_s`."""
    return per_s(history, now, since, window_s, attrgetter("tokens"))


def bytes_per_s(history: History, now: float, since: float | None, window_s: float = WINDOW_S) -> float | None:
    """Return stored bytes a second over the last ``window_s`` seconds; see `per_s`."""
    return per_s(history, now, since, window_s, attrgetter("bytes"))


def per_s(
    history: History, now: float, since: float | None, window_s: float, counted: Callable[[Bucket], int]
) -> float | None:
    """Return how much a second came over the last ``window_s`` seconds.

    Args:
        history: What was finished when.
        now: The present.
        since: When work began; the window is no longer than that, so that what was done before is no speed.
        window_s: Length of the window.
        counted: What of a bucket.

    Returns:
        None before anything can be said: no time stamps, or less than five seconds of work.
    """
    if history.is_empty:
        return 0.0 if since is not None and now - since >= window_s else None
    start = now - window_s if since is None else max(since, now - window_s)
    # Only buckets that lie in the window as a whole, over the time that they span.
    edge = math.ceil(start / FINE_S) * FINE_S
    span = now - edge
    if span < _LEAST_S:
        return None
    return history.total(edge, counted) / span


class MedianSpeed:
    """The median of tokens a second over the minutes of a session; kept while it can be no other.

    It is asked for several times a second and changes once a minute; a day is 1,440 minutes of each data set.
    """

    def __init__(self) -> None:
        self._of: tuple[float, float, list[int]] | None = None
        self._median: float | None = None

    def __call__(self, histories: Sequence[History], now: float, since: float) -> float | None:
        """Return the median of tokens a second over the whole minutes since ``since`` in which any response came.

        Returns:
            None with fewer than five such minutes: no basis to call anything slow.
        """
        this_minute = now - now % COARSE_S
        tokens = [history.tokens(since) - history.tokens(this_minute) for history in histories]
        if self._of != (since, this_minute, tokens):
            self._of = (since, this_minute, tokens)
            self._median = _median_tokens_per_s(histories, this_minute, since)
        return self._median


def _median_tokens_per_s(histories: Iterable[History], until: float, since: float) -> float | None:
    minutes: dict[int, int] = {}
    last = until // COARSE_S
    for history in histories:
        for minute, bucket in history.minutes(since):
            if minute < last and bucket.tokens:
                minutes[minute] = minutes.get(minute, 0) + bucket.tokens
    if len(minutes) < _LEAST_MINUTES:
        return None
    return statistics.median(minutes.values()) / COARSE_S
