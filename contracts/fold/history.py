"""What happened when: counts in buckets of a second for the last quarter of an hour, and of a minute before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from operator import attrgetter
from typing import Final

import msgspec

FINE_S: Final = 1
"""Fine enough that what an earlier daemon finished just before a restart does not count as this one's speed."""
COARSE_S: Final = 60
_FINE_KEPT: Final = 960
_FINE_MOST: Final = 2 * _FINE_KEPT
_TOKENS: Final = attrgetter("tokens")
_PER_MINUTE: Final = COARSE_S // FINE_S
_REMEMBERED: Final = 8
"""Moments of which the sum before them is kept: a status asks for some four spans of time, every second anew."""


class Bucket(msgspec.Struct, array_like=True):
    """Counts of one stretch of time."""

    responses: int = 0
    """Responses; in the history of a store, stored samples."""
    tokens: int = 0
    lengths: int = 0
    """Responses that ended by length."""
    think_missing: int = 0
    failures: int = 0
    """Failed attempts; in the history of extraction, those that failed a check."""
    aborts: int = 0
    bytes: int = 0
    """Stored."""
    no_room: int = 0
    """Captures given up because the dump folder was full; not in ``failures``."""

    def add(self, other: Bucket) -> None:
        """Add the counts of another stretch."""
        self.responses += other.responses
        self.tokens += other.tokens
        self.lengths += other.lengths
        self.think_missing += other.think_missing
        self.failures += other.failures
        self.aborts += other.aborts
        self.bytes += other.bytes
        self.no_room += other.no_room

    def take(self, other: Bucket) -> None:
        """Take away the counts of another stretch, which is part of this one."""
        self.responses -= other.responses
        self.tokens -= other.tokens
        self.lengths -= other.lengths
        self.think_missing -= other.think_missing
        self.failures -= other.failures
        self.aborts -= other.aborts
        self.bytes -= other.bytes
        self.no_room -= other.no_room


class _Before:
    """Sums of the buckets below a number. Asked again for a number a little higher, only what lies between is added."""

    def __init__(self, buckets: dict[int, Bucket]) -> None:
        self._buckets = buckets
        self._known: dict[int, Bucket] = {}
        """By the number; that asked for last comes last."""

    def below(self, number: int) -> Bucket:
        """Return the sum of all buckets with a lower number; not to be changed."""
        total = self._known.pop(number, None)
        if total is None:
            total = self._sum(number)
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
        self._known[number] = total
        return total

    def _sum(self, number: int) -> Bucket:
        total = Bucket()
        near = max((each for each in self._known if each < number), default=None)
        if near is None or number - near > len(self._buckets):  # there is less than lies between
            for each, bucket in self._buckets.items():
                if each < number:
                    total.add(bucket)
            return total
        total.add(self._known[near])
        for each in range(near, number):
            between = self._buckets.get(each)
            if between is not None:
                total.add(between)
        return total

    def forget_above(self, number: int) -> None:
        """A bucket is about to change: forget the sums that it is part of."""
        for each in [each for each in self._known if each > number]:
            del self._known[each]


class _Sums:
    """What `History` added up before: with it the sum since a moment costs the same however much came before it."""

    def __init__(self, fine: dict[int, Bucket], coarse: dict[int, Bucket]) -> None:
        self.newest = max(fine, default=0)
        """Number of the newest fine bucket, where there is any."""
        self.total = Bucket()
        """Of all buckets but the open one."""
        self.open: Bucket | None = None
        """Somebody may be adding to it yet."""
        self.fine, self.coarse = _Before(fine), _Before(coarse)
        for bucket in (*fine.values(), *coarse.values()):
            self.total.add(bucket)

    def close(self) -> None:
        """Nobody adds any more to the bucket that was asked for last."""
        if self.open is not None:
            self.total.add(self.open)
            self.open = None


class History(msgspec.Struct, dict=True):
    """Buckets by their number (seconds // width). Records may come in any order."""

    fine: dict[int, Bucket] = {}
    coarse: dict[int, Bucket] = {}

    @cached_property
    def _sums(self) -> _Sums:
        return _Sums(self.fine, self.coarse)

    @property
    def is_empty(self) -> bool:
        """Whether no record had a time."""
        return not self.fine and not self.coarse

    @property
    def newest(self) -> float | None:
        """When the last thing happened, to the width of its bucket; None: nothing did."""
        if self.fine:
            return float(self._sums.newest * FINE_S)
        return float(max(self.coarse) * COARSE_S) if self.coarse else None

    def bucket(self, at: float) -> Bucket:
        """Return the bucket to which something that happened at ``at`` is to be added.

        It is good until the history is used again in any way: then it may be counted, or part of a coarse one.
        """
        self._sums.close()
        number = int(at) // FINE_S
        found = self.fine.get(number)
        if found is None and len(self.fine) >= _FINE_MOST:
            self._coarsen()
        sums = self._sums
        sums.fine.forget_above(number)
        if found is None:
            sums.newest = max(sums.newest, number) if self.fine else number
            found = self.fine[number] = Bucket()
        else:
            sums.total.take(found)
        sums.open = found
        return found

    def _coarsen(self) -> None:
        keep_from = max(self.fine) - _FINE_KEPT
        for number in [number for number in self.fine if number < keep_from]:
            self.coarse.setdefault(number * FINE_S // COARSE_S, Bucket()).add(self.fine.pop(number))
        self._sums = _Sums(self.fine, self.coarse)

    def spans(self) -> Iterator[tuple[float, float, Bucket]]:
        """Yield (start, end, bucket) of every bucket, in no order."""
        for number, bucket in self.fine.items():
            yield number * FINE_S, (number + 1) * FINE_S, bucket
        for number, bucket in self.coarse.items():
            yield number * COARSE_S, (number + 1) * COARSE_S, bucket

    def since(self, start: float) -> Bucket:
        """Return the sum of all buckets that begin at ``start`` or later, at the width they have by now."""
        since = Bucket()
        if self.is_empty:
            return since
        total, *before = self._total_and_before(start)
        since.add(total)
        for each in before:
            since.take(each)
        return since

    def total(self, start: float, counted: Callable[[Bucket], int]) -> int:
        """Return one count of `since`: the others are not added up.

        Args:
            start: Unix seconds.
            counted: Takes it from a bucket.
        """
        total, fine, coarse = self._total_and_before(start)
        return counted(total) - counted(fine) - counted(coarse)

    def tokens(self, start: float) -> int:
        """Return the tokens of `since`."""
        return self.total(start, _TOKENS)

    def _total_and_before(self, start: float) -> tuple[Bucket, Bucket, Bucket]:
        """Return the sum of all, and of the fine and the coarse buckets that begin before ``start``."""
        sums = self._sums
        sums.close()
        return sums.total, sums.fine.below(math.ceil(start / FINE_S)), sums.coarse.below(math.ceil(start / COARSE_S))

    def minutes(self, start: float) -> Iterator[tuple[int, Bucket]]:
        """Yield (number of the minute, bucket) of all that began at ``start`` or later; a minute comes many times."""
        first = math.ceil(start / FINE_S)
        for number, bucket in self.fine.items():
            if number >= first:
                yield number // _PER_MINUTE, bucket
        first = math.ceil(start / COARSE_S)
        for number, bucket in self.coarse.items():
            if number >= first:
                yield number, bucket
