"""What is left of the hidden states of one data set. Unknown is None; finished is 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from contracts.eta.estimate import DONE, Eta, unknown

_ONE_SIDE: Final = 1.2816
_FLOOR: Final = 0.12
"""The least deviation of a storing speed: it depends on the disk, and on who else uses it."""


@dataclass(frozen=True)
class Storing:
    """What is known of the hidden states of one data set."""

    to_store: int | None
    """Samples whose hidden states can be taken by now."""
    settled: int
    """Samples that are stored, or given up."""
    to_come: float | None
    """Answers that are still to come: their hidden states will be wanted too."""
    sample_tokens: float | None
    """Mean of the samples that are stored; None while none is."""
    sample_bytes: float | None


def is_stored(storing: Storing) -> bool:
    """Whether nothing is left to be stored of what is there by now."""
    return storing.to_store is not None and storing.settled >= storing.to_store


def samples_to_store(storing: Storing) -> float | None:
    """Return the samples that are still to be stored, those included whose answers are to come."""
    if storing.to_store is None or storing.to_come is None:
        return None
    return max(storing.to_store - storing.settled, 0) + storing.to_come


def tokens_to_store(storing: Storing) -> float | None:
    """Return the tokens (rows) that are still to be stored, by the mean of those that are.

    Returns:
        None while nothing is stored, or nobody knows how many samples there will be.
    """
    return _product(samples_to_store(storing), storing.sample_tokens)


def bytes_to_store(storing: Storing) -> float | None:
    """Return the bytes that are still to be stored; None as for `tokens_to_store`."""
    return _product(samples_to_store(storing), storing.sample_bytes)


def _product(count: float | None, each: float | None) -> float | None:
    if count == 0:
        return 0.0
    return None if count is None or each is None else count * each


def storing_eta(tokens: float | None, rate: float | None, stored: int) -> Eta:
    """Return when so many tokens are stored.

    Args:
        tokens: That are left, see `tokens_to_store`.
        rate: Tokens a second, of late.
        stored: Samples that the mean is of.
    """
    if tokens == 0:
        return DONE
    if tokens is None or not rate:
        return unknown("how much is to be stored is not known" if tokens is None else "nothing was stored of late")
    point = tokens / rate
    spread = math.exp(_ONE_SIDE * math.hypot(_FLOOR, 1 / math.sqrt(max(stored, 1))))
    return Eta(point, point / spread, point * spread)
