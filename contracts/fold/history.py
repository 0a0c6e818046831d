"""What happened when: counts in buckets of a second for the last quarter of an hour, and of a minute before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec

FINE_S: Final = 1
"""Fine enough that what an earlier daemon finished just before a restart does not count as this one's speed."""
COARSE_S: Final = 60
_FINE_KEPT: Final = 960
_FINE_MOST: Final = 2 * _FINE_KEPT


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


class History(msgspec.Struct):
    """Buckets by their number (seconds // width). Records may come in any order."""

    fine: dict[int, Bucket] = {}
    coarse: dict[int, Bucket] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no record had a time."""
        return not self.fine and not self.coarse

    @property
    def newest(self) -> float | None:
        """When the last thing happened, to the width of its bucket; None: nothing did."""
        if self.fine:
            return float(max(self.fine) * FINE_S)
        return float(max(self.coarse) * COARSE_S) if self.coarse else None

    def bucket(self, at: float) -> Bucket:
        """Return the bucket to which something that happened at ``at`` is to be added.

        It is good until the next call: then it may have become part of a coarse one.
        """
        number = int(at) // FINE_S
        found = self.fine.get(number)
        if found is None:
            if len(self.fine) >= _FINE_MOST:
                self._coarsen()
            found = self.fine[number] = Bucket()
        return found

    def _coarsen(self) -> None:
        keep_from = max(self.fine) - _FINE_KEPT
        for number in [number for number in self.fine if number < keep_from]:
            self.coarse.setdefault(number * FINE_S // COARSE_S, Bucket()).add(self.fine.pop(number))

    def spans(self) -> Iterator[tuple[float, float, Bucket]]:
        """Yield (start, end, bucket) of every bucket, in no order."""
        for number, bucket in self.fine.items():
            yield number * FINE_S, (number + 1) * FINE_S, bucket
        for number, bucket in self.coarse.items():
            yield number * COARSE_S, (number + 1) * COARSE_S, bucket

    def since(self, start: float) -> Bucket:
        """Return the sum of all buckets that begin at ``start`` or later, at the width they have by now."""
        total = Bucket()
        _add_from(total, self.fine, math.ceil(start / FINE_S))
        _add_from(total, self.coarse, math.ceil(start / COARSE_S))
        return total


def _add_from(total: Bucket, buckets: dict[int, Bucket], first: int) -> None:
    """Add the buckets with the number ``first`` and above; a short window looks at no more than itself."""
    if not buckets:
        return
    last = max(buckets)
    if last - first < len(buckets):
        for number in range(first, last + 1):
            bucket = buckets.get(number)
            if bucket is not None:
                total.add(bucket)
        return
    for number, bucket in buckets.items():
        if number >= first:
            total.add(bucket)
