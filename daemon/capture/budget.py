"""How much of the dump folder captures may take: reserved before they start, measured while they run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from contracts.fold.lengths import Lengths
from daemon.sglang_plugin.eagle3_sglang.dump_format import HEADER_BYTES, MARK_BYTES

_PAGE: Final = 4096


@dataclass
class _Reservation:
    nbytes: int
    can_be_given_up: bool


class DumpBudget:
    """Reservations of one run, by rid, in the order in which they were made.

    Args:
        limit_bytes: Most that dumps may take together; it may be changed, and lie below what they take.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._reserved: dict[str, _Reservation] = {}
        self._used = 0

    @property
    def used(self) -> int:
        """Bytes that dumps take, or may come to take."""
        return self._used

    def try_reserve(self, rid: str, nbytes: int, at_least: int | None = None) -> bool:
        """Reserve room for a capture that is about to start.

        Args:
            rid: The request; it must have no reservation yet.
            nbytes: What its dump is expected to take (`dump_bytes`).
            at_least: While generating: what it takes for certain, by its prompt. The expectation is then no more than
                that: one beyond the limit waits for the whole limit instead of being refused, and the capture is one
                that `over` may name. None: its size is known.

        Returns:
            False while there is no room; of one that is larger than the limit as a whole that is always.
        """
        if rid in self._reserved:
            raise ValueError(f"{rid} has a reservation already")
        nbytes = nbytes if at_least is None else max(at_least, min(nbytes, self.limit_bytes))
        if not self.has_room(nbytes):
            return False
        self._reserved[rid] = _Reservation(nbytes, can_be_given_up=at_least is not None)
        self._used += nbytes
        return True

    def has_room(self, nbytes: int) -> bool:
        """Whether so much could be reserved now."""
        return self._used + nbytes <= self.limit_bytes

    def settle(self, rid: str, nbytes: int) -> None:
        """Note that a capture's answer has come: it takes just so much until it is stored, and is not given up.

        One without a reservation (its dump is of an earlier session) gets one, room or not: the dump is there.
        """
        self.release(rid)
        self._reserved[rid] = _Reservation(nbytes, can_be_given_up=False)
        self._used += nbytes

    def release(self, rid: str) -> None:
        """Forget a reservation: its dump is gone. One that there never was is fine."""
        reservation = self._reserved.pop(rid, None)
        if reservation is not None:
            self._used -= reservation.nbytes

    def over(self, actual: Mapping[str, int]) -> list[str]:
        """Return the captures to give up so that dumps come back under the limit, youngest first.

        Only such as are still being generated: the others take what was reserved for them, and end soon. A capture that
        has outgrown its reservation has it enlarged.

        Args:
            actual: What every dump of the run takes now (see `daemon.capture.dump_folder`), wanted or not.
        """
        for rid, reservation in self._reserved.items():
            growth = max(0, actual.get(rid, 0) - reservation.nbytes)
            reservation.nbytes += growth
            self._used += growth
        excess = sum(actual.values()) - self.limit_bytes
        chosen: list[str] = []
        for rid in reversed(self._reserved):
            if excess <= 0:
                break
            if self._reserved[rid].can_be_given_up and actual.get(rid, 0) > 0:
                chosen.append(rid)
                excess -= actual[rid]
        return chosen


class LengthEstimate:
    """Tokens that an answer is expected to have: mean and two deviations of those seen.

    Args:
        max_new_tokens: Most that there can be; taken until one was seen.
        seen: Lengths of the answers of earlier sessions, in buckets: without them the first captures after each start
            would reserve room for the longest answers that there can be, and most would be refused.
    """

    def __init__(self, max_new_tokens: int, seen: Iterable[Lengths] = ()) -> None:
        self._most = max_new_tokens
        counts = [((low + high - 1) / 2, count) for lengths in seen for low, high, count in lengths.buckets()]
        self.count = sum(count for _, count in counts)
        self.mean = sum(tokens * count for tokens, count in counts) / max(self.count, 1)
        """Of those seen; 0 before any was."""
        self._squares = sum((tokens - self.mean) ** 2 * count for tokens, count in counts)
        """Sum of squared distances from the mean (Welford)."""

    def add(self, tokens: int) -> None:
        """Take an answer's length into account."""
        self.count += 1
        before = tokens - self.mean
        self.mean += before / self.count
        self._squares += before * (tokens - self.mean)

    @property
    def tokens(self) -> int:
        """The expectation, at most ``max_new_tokens``."""
        if not self.count:
            return self._most
        return min(self._most, math.ceil(self.mean + 2 * math.sqrt(self._squares / self.count)))


def dump_bytes(rows: int, row_bytes: int) -> int:
    """Return the memory that a dump of so many rows takes: whole pages; the hole before the rows takes none."""
    return _pages(HEADER_BYTES + rows * MARK_BYTES) + _pages(rows * row_bytes)


def _pages(count: int) -> int:
    return -(-count // _PAGE) * _PAGE
