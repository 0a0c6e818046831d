"""What happened when: counts in time buckets, fine for the last hour and coarse before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec

FINE_S: Final = 10
COARSE_S: Final = 60
_FINE_KEPT: Final = 360
_FINE_MOST: Final = 720


class Bucket(msgspec.Struct, array_like=True):
    """Counts of one stretch of time."""

    responses: int = 0
    tokens: int = 0
    lengths: int = 0
    """Responses that ended by length."""
    think_missing: int = 0
    failures: int = 0
    aborts: int = 0

    def add(self, other: Bucket) -> None:
        """Add the counts of another stretch."""
        self.responses += other.responses
        self.tokens += other.tokens
        self.lengths += other.lengths
        self.think_missing += other.think_missing
        self.failures += other.failures
        self.aborts += other.aborts


class History(msgspec.Struct):
    """Buckets by their number (seconds // width). Records may come in any order."""

    fine: dict[int, Bucket] = {}
    coarse: dict[int, Bucket] = {}

    def bucket(self, at: float) -> Bucket:
        """Return the bucket to which something that happened at ``at`` is to be added."""
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
        first = math.ceil(start / FINE_S)
        for number, bucket in self.fine.items():
            if number >= first:
                total.add(bucket)
        if self.coarse and start < (max(self.coarse) + 1) * COARSE_S:
            first = math.ceil(start / COARSE_S)
            for number, bucket in self.coarse.items():
                if number >= first:
                    total.add(bucket)
        return total
