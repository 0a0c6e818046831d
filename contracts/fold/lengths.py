"""How long answers are: how many of each length, in buckets that are at most an eighth of their length wide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

_STEPS: Final = 8
"""Buckets for each doubling."""
_SHIFT: Final = 3
_BITS: Final = 16
_KNOWN: Final = 1 << _BITS


def bucket_of(tokens: int) -> int:
    """Return the number of the bucket of a length: exact below 16 tokens, then eight to each doubling."""
    shift = max(tokens.bit_length() - _SHIFT - 1, 0)
    return (shift << _SHIFT) + (tokens >> shift)


def bucket_bounds(number: int) -> tuple[int, int]:
    """Return the lengths of a bucket: from the first up to, and without, the second."""
    shift = max((number >> _SHIFT) - 1, 0)
    low = (number - (shift << _SHIFT)) << shift
    return low, low + (1 << shift)


def _table() -> bytes:
    """The bucket of every length below 65,536, made of runs of equal bytes: quick, for this is imported by all."""
    runs = []
    number = length = 0
    while length < _KNOWN:
        _, high = bucket_bounds(number)
        runs.append(bytes((number,)) * (high - length))
        number, length = number + 1, high
    return b"".join(runs)


_TABLE: Final = _table()


class Lengths(msgspec.Struct):
    """Counts by bucket, see `bucket_of`. Takes lengths of any order; nothing is ever taken out."""

    counts: dict[int, int] = {}

    def add(self, lengths: list[int]) -> None:
        """Count lengths, of tokens."""
        counts, table = self.counts, _TABLE
        for tokens in lengths:
            number = table[tokens] if tokens < _KNOWN else bucket_of(tokens)
            counts[number] = counts.get(number, 0) + 1

    @property
    def total(self) -> int:
        """How many lengths were counted."""
        return sum(self.counts.values())

    def buckets(self) -> Iterator[tuple[int, int, int]]:
        """Yield (from, up to and without, count) of every bucket that is not empty, shortest first."""
        for number in sorted(self.counts):
            low, high = bucket_bounds(number)
            yield low, high, self.counts[number]
