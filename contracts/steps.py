"""Equal steps of time: what was read in each, and how much a second came."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from contracts.fold.history import COARSE_S, FINE_S, Bucket, History
from contracts.fold.series import Gauge, Reading
from contracts.worked import Span, worked_s

SHORT_S: Final = 900.0
"""A span up to this is one in which a person looks for what happened just now."""
_SMOOTH_S: Final = (30.0, 60.0)
"""A rate is the mean over so long: of short spans, and of longer ones."""
_LEAST_S: Final = 1.0
"""Over less than that nothing can be said of a rate."""


class Steps:
    """Equal steps of time.

    Args:
        begin: When the first begins, Unix seconds.
        step_s: Length of each.
        count: How many.
        end: The present: those behind it are still to come.
        hold_s: So long a reading holds where the next ones are missing.
    """

    def __init__(self, begin: float, step_s: float, count: int, end: float, hold_s: float) -> None:
        self.begin, self.step_s, self.count, self.end, self._hold_s = begin, step_s, count, end, hold_s

    def start(self, index: int) -> float:
        """Return when a step begins."""
        return self.begin + index * self.step_s

    def lasted(self, index: int) -> float:
        """Return how many seconds of a step are over."""
        return min(max(self.end - self.start(index), 0.0), self.step_s)

    def widened(self, back: int) -> Steps:
        """Return the same steps and so many before them."""
        return Steps(self.start(-back), self.step_s, self.count + back, self.end, self._hold_s)

    def readings(self, gauge: Gauge) -> list[Reading | None]:
        """Return what was read in each; a reading holds over the few that are missing behind it."""
        found = gauge.steps(self.begin, self.step_s, self.count)
        last, held = None, 0.0
        for index, reading in enumerate(found):
            if self.lasted(index) <= 0:
                found[index] = None
            elif reading is not None:
                last, held = reading, 0.0
            else:
                held += self.step_s
                found[index] = last if held <= self._hold_s else None
        return found


class Rates(NamedTuple):
    """How much a second came."""

    values: list[float | None]
    """In each step: the mean over a while that ends with it. None where nothing came because no daemon was there or it
    paused, before the run began, and for what is to come."""
    mean: float | None
    """Over all that is shown: what came by the time in which something could, gaps left out."""


def rates(
    histories: Iterable[History],
    counted: Callable[[Bucket], float],
    steps: Steps,
    first: float | None,
    awake: Gauge,
    idle: Sequence[Span],
) -> Rates:
    """Return how much a second came in each step, and in all of them.

    Args:
        histories: What was finished when.
        counted: What of a bucket.
        steps: The steps.
        first: When the run began; before there is nothing to know.
        awake: Whether a daemon said that it may send: 1 it may, 0 it pauses, no reading where there was none.
        idle: When nothing could come, as far as events tell; see `contracts.worked.idle_spans`.
    """
    window = _SMOOTH_S[0] if steps.count * steps.step_s <= SHORT_S else _SMOOTH_S[1]
    back = max(round(window / steps.step_s), 1)
    wider = steps.widened(back)
    sums = _sums(histories, counted, wider)
    seconds = _seconds(sums, wider, first, awake, idle)
    values: list[float | None] = []
    for index in range(back, wider.count):
        spent = sum(seconds[index - back + 1 : index + 1])
        is_known = seconds[index] > 0 and spent >= _LEAST_S
        values.append(sum(sums[index - back + 1 : index + 1]) / spent if is_known else None)
    spent = sum(seconds[back:])
    return Rates(values, sum(sums[back:]) / spent if spent >= _LEAST_S else None)


def _seconds(sums: list[float], steps: Steps, first: float | None, awake: Gauge, idle: Sequence[Span]) -> list[float]:
    """How long of each step counts: 0 in a gap."""
    seconds = []
    for index, (total, beat) in enumerate(zip(sums, steps.readings(awake), strict=True)):
        start = steps.start(index)
        is_told = awake.oldest is not None and awake.oldest <= start
        is_gap = not total and is_told and (beat is None or beat.mean == 0.0)
        lasted = steps.lasted(index)
        begin = start + lasted if first is None else max(first, start)
        spent = 0.0 if is_gap else worked_s(idle, begin, start + lasted)
        # What came took some time, whatever second it was counted in.
        seconds.append(max(spent, min(lasted, FINE_S)) if total else spent)
    return seconds


def _sums(histories: Iterable[History], counted: Callable[[Bucket], float], steps: Steps) -> list[float]:
    """How much came in each step. A bucket that lies across a border is shared out by time."""
    sums = [0.0] * steps.count
    begin, step_s = steps.begin, steps.step_s
    end = steps.start(steps.count)
    for history in histories:
        for start, width, bucket in _between(history, begin, end):
            amount = counted(bucket)
            if not amount:
                continue
            index, last = math.floor((start - begin) / step_s), math.ceil((start + width - begin) / step_s) - 1
            if index == last and 0 <= index < steps.count:
                sums[index] += amount
                continue
            for step in range(max(index, 0), min(last, steps.count - 1) + 1):
                left = max(start, steps.start(step))
                right = min(start + width, steps.start(step + 1))
                sums[step] += amount * max(right - left, 0.0) / width
    return sums


def _between(history: History, begin: float, end: float) -> Iterator[tuple[int, int, Bucket]]:
    """Yield (start, width, bucket) of what lies in a stretch of time, looking at no more than that."""
    for buckets, width in ((history.fine, FINE_S), (history.coarse, COARSE_S)):
        first, last = math.floor(begin / width), math.ceil(end / width)
        if last - first < len(buckets):
            for number in range(first, last):
                bucket = buckets.get(number)
                if bucket is not None:
                    yield number * width, width, bucket
        else:
            for number, bucket in buckets.items():
                if first <= number < last:
                    yield number * width, width, bucket
