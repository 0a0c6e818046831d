"""When a run was at work, and when not: while no daemon ran, and in a pause once nothing was open any more. Pure.

A pause lets what is in flight finish: its answers count, and so does the time that they took. It begins to count as a
pause with the last answer that came in it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from contracts.fold.dataset import DatasetFold
from contracts.fold.history import COARSE_S, FINE_S, Bucket, History
from contracts.fold.run import RunFold

_LEAST_S: Final = 5.0
"""Over less than that nothing is said of a speed."""

Span = tuple[float, float]
"""Begin and end, Unix seconds."""


def idle_spans(fold: RunFold, histories: Sequence[History], begin: float, now: float) -> list[Span]:
    """Return when nothing could come, as far as events tell: in order, none over another.

    Args:
        fold: The run.
        histories: What came when: answers, or stored samples.
        begin: What ended before is left out.
        now: The present.
    """
    events, beat = fold.events, fold.telemetry.heartbeat
    spans = list(events.absences)
    if events.session_stopped_at is not None:
        spans.append((events.session_stopped_at, now))
    pauses = list(events.pauses)
    paused_at = events.paused_at
    is_draining = beat is not None and paused_at is not None and beat.at >= paused_at and any(beat.in_flight.values())
    if paused_at is not None and not is_draining:
        pauses.append((paused_at, now))
    spans += [(_last_between(histories, start, end), end) for start, end in pauses if end > begin]
    return _merged(span for span in spans if span[1] > max(begin, span[0]))


def worked_s(idle: Sequence[Span], begin: float, end: float) -> float:
    """Return the seconds of a stretch of time without what of it was idle; see `idle_spans`."""
    lost = 0.0
    for index in range(bisect_right(idle, begin, key=itemgetter(1)), len(idle)):
        start, stop = idle[index]
        if start >= end:
            break
        lost += min(stop, end) - max(start, begin)
    return max(end - begin - lost, 0.0)


def session_elapsed_s(fold: RunFold, now: float, alive: bool) -> float | None:
    """Return the seconds since the last session's start, of one that ended until its end; None as for
    `session_worked_s`."""
    started, stopped = fold.events.session_started_at, fold.events.session_stopped_at
    if started is None or not (alive or stopped is not None):
        return None
    return max((now if alive or stopped is None else stopped) - started, 0.0)


def session_worked_s(fold: RunFold, now: float, alive: bool) -> float | None:
    """Return for how many seconds the last session was at work.

    Args:
        fold: The run.
        now: The present.
        alive: Whether its daemon is there.

    Returns:
        None before the first session, and where nobody knows when it ended (the daemon was killed).
    """
    started, stopped = fold.events.session_started_at, fold.events.session_stopped_at
    if started is None or not (alive or stopped is not None):
        return None
    histories = [dataset.responses.history for dataset in fold.datasets.values()]
    return worked_s(idle_spans(fold, histories, started, now), started, now if stopped is None else stopped)


def session_tokens_per_s(fold: RunFold, datasets: Iterable[DatasetFold], worked: float | None) -> float | None:
    """Return the completion tokens a second of the last session; None after less than five seconds of work,
    and where there is no data set.

    Args:
        fold: The run.
        datasets: Whose tokens.
        worked: See `session_worked_s`.
    """
    started = fold.events.session_started_at
    datasets = list(datasets)
    if started is None or worked is None or worked < _LEAST_S or not datasets:
        return None
    return sum(dataset.responses.history.tokens(started) for dataset in datasets) / worked


def _last_between(histories: Sequence[History], begin: float, end: float) -> float:
    """Return when the last answer of a pause came, its begin where none did."""
    return max([begin, *(_last_of(history, begin, end) for history in histories)])


def _last_of(history: History, begin: float, end: float) -> float:
    """Return the same of one history. Of what is kept by the minute only whole minutes are surely of the pause."""
    newest = history.newest
    if newest is None or newest + COARSE_S <= begin:
        return begin
    fine = _highest(history.fine, math.floor(begin / FINE_S), math.ceil(end / FINE_S))
    if fine is not None:
        return min((fine + 1) * FINE_S, end)
    coarse = _highest(history.coarse, math.ceil(begin / COARSE_S), math.floor(end / COARSE_S))
    return begin if coarse is None else float((coarse + 1) * COARSE_S)


def _highest(buckets: Mapping[int, Bucket], first: int, stop: int) -> int | None:
    """Return the highest number of a bucket that is at least ``first`` and below ``stop``, looking at few."""
    if stop - first <= len(buckets):
        return next((number for number in range(stop - 1, first - 1, -1) if number in buckets), None)
    return max((number for number in buckets if first <= number < stop), default=None)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
