"""Sums of values some of which nobody knows: unknown is None, and never a 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Value = TypeVar("Value", int, float)


def all_known(values: Sequence[Value | None]) -> Value | None:
    """Return the sum, or None when any part is unknown."""
    return None if any(value is None for value in values) else sum_of_known(values)


def known_sum(values: Sequence[Value | None]) -> Value | None:
    """Return the sum of the known, or None when none is, or when that would be 0 only because the rest is unknown."""
    total = sum_of_known(values)
    return None if total == 0 and any(value is None for value in values) else total


def sum_of_known(values: Sequence[Value | None]) -> Value | None:
    """Return the sum of the known, or None when none is."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
