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
_MOST_MINUTES: Final = 256


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


class _Sums:
    """What `History.since` added up before, as far as it holds: with it a quarter of an hour is a few minutes."""

    def __init__(self, fine: dict[int, Bucket]) -> None:
        self.oldest, self.newest = min(fine, default=0), max(fine, default=0)
        """Numbers of fine buckets, where there are any."""
        self.minutes: dict[int, Bucket] = {}
        """Of the fine buckets, by their number // `_PER_MINUTE`; each until something is added to it."""
        self.coarse_from: int | None = None
        self.coarse = Bucket()
        """Of the coarse buckets from number `coarse_from` on."""


class History(msgspec.Struct, dict=True):
    """Buckets by their number (seconds // width). Records may come in any order."""

    fine: dict[int, Bucket] = {}
    coarse: dict[int, Bucket] = {}

    @cached_property
    def _sums(self) -> _Sums:
        return _Sums(self.fine)

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

        It is good until the next call: then it may have become part of a coarse one.
        """
        number = int(at) // FINE_S
        found = self.fine.get(number)
        if found is None and len(self.fine) >= _FINE_MOST:
            self._coarsen()
        sums = self._sums
        sums.minutes.pop(number // _PER_MINUTE, None)
        if found is None:
            sums.oldest = min(sums.oldest, number) if self.fine else number
            sums.newest = max(sums.newest, number) if self.fine else number
            found = self.fine[number] = Bucket()
        return found

    def _coarsen(self) -> None:
        keep_from = max(self.fine) - _FINE_KEPT
        for number in [number for number in self.fine if number < keep_from]:
            self.coarse.setdefault(number * FINE_S // COARSE_S, Bucket()).add(self.fine.pop(number))
        self._sums = _Sums(self.fine)

    def spans(self) -> Iterator[tuple[float, float, Bucket]]:
        """Yield (start, end, bucket) of every bucket, in no order."""
        for number, bucket in self.fine.items():
            yield number * FINE_S, (number + 1) * FINE_S, bucket
        for number, bucket in self.coarse.items():
            yield number * COARSE_S, (number + 1) * COARSE_S, bucket

    def since(self, start: float) -> Bucket:
        """Return the sum of all buckets that begin at ``start`` or later, at the width they have by now."""
        total = Bucket()
        for bucket in self._since(start):
            total.add(bucket)
        return total

    def total(self, start: float, counted: Callable[[Bucket], int]) -> int:
        """Return one count of `since`: the others are not added up.

        Args:
            start: Unix seconds.
            counted: Takes it from a bucket.
        """
        return sum(map(counted, self._since(start)))

    def tokens(self, start: float) -> int:
        """Return the tokens of `since`."""
        return self.total(start, _TOKENS)

    def _since(self, start: float) -> Iterator[Bucket]:
        """What adds up to the sum of all buckets that begin at ``start`` or later; not to be changed."""
        for _, bucket in self._fine_minutes(math.ceil(start / FINE_S)):
            yield bucket
        if self.coarse:
            sums, first = self._sums, math.ceil(start / COARSE_S)
            if sums.coarse_from != first:
                sums.coarse_from, sums.coarse = first, Bucket()
                for number, bucket in self.coarse.items():
                    if number >= first:
                        sums.coarse.add(bucket)
            yield sums.coarse

    def minutes(self, start: float) -> Iterator[tuple[int, Bucket]]:
        """Yield (number of the minute, sums) of all that began at ``start`` or later; a minute may come several times.

        The sums are not to be changed.
        """
        yield from self._fine_minutes(math.ceil(start / FINE_S))
        first = math.ceil(start / COARSE_S)
        for number, bucket in self.coarse.items():
            if number >= first:
                yield number, bucket

    def _fine_minutes(self, first: int) -> Iterator[tuple[int, Bucket]]:
        """The fine buckets with the number ``first`` and above: singly up to a whole minute, then by the minute."""
        if not self.fine:
            return
        first, last = max(first, self._sums.oldest), self._sums.newest
        whole = -(-first // _PER_MINUTE)
        if last - first >= _MOST_MINUTES * _PER_MINUTE:  # some lie far apart: look at what there is
            yield from ((number // _PER_MINUTE, bucket) for number, bucket in self.fine.items() if number >= first)
            return
        for number in range(first, min(whole * _PER_MINUTE, last + 1)):
            if number in self.fine:
                yield whole - 1, self.fine[number]
        minutes = self._sums.minutes
        for minute in range(whole, last // _PER_MINUTE + 1):
            if minute not in minutes:
                minutes[minute] = self._minute(minute)
            yield minute, minutes[minute]

    def _minute(self, minute: int) -> Bucket:
        total = Bucket()
        for number in range(minute * _PER_MINUTE, (minute + 1) * _PER_MINUTE):
            bucket = self.fine.get(number)
            if bucket is not None:
                total.add(bucket)
        return total
