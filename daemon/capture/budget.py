"""How much of the dump folder captures may take: reserved before they start, measured while they run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.fold.lengths import Lengths
from contracts.records import CaptureCheck
from daemon.capture.fault import CaptureFault
from daemon.capture.leftovers import files_of_requests
from daemon.sglang_plugin.eagle3_sglang.dump_format import DUMP_SUFFIX, HEADER_BYTES, MARK_BYTES

SHARE_OF_FREE: Final = 0.8
_PAGE: Final = 4096


@dataclass
class _Reservation:
    nbytes: int
    can_be_given_up: bool


class DumpBudget:
    """Reservations of one run, by rid, in the order in which they were made.

    Args:
        limit_bytes: Most that dumps may take together.
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
            False while there is no room.

        Raises:
            CaptureFault: It is larger than the limit as a whole (``TOO_LARGE``).
        """
        if rid in self._reserved:
            raise ValueError(f"{rid} has a reservation already")
        certain = nbytes if at_least is None else at_least
        if certain > self.limit_bytes:
            raise CaptureFault(
                CaptureCheck.TOO_LARGE,
                f"its rows take {certain / 1e6:,.1f} MB of the dump folder, whose budget is "
                f"{self.limit_bytes / 1e6:,.1f} MB: make it larger (docker: --shm-size; [extract] dump_budget_gb) or "
                f"set [extract] max_tokens",
            )
        nbytes = max(certain, min(nbytes, self.limit_bytes))
        if self._used + nbytes > self.limit_bytes:
            return False
        self._reserved[rid] = _Reservation(nbytes, can_be_given_up=at_least is not None)
        self._used += nbytes
        return True

    def settle(self, rid: str, nbytes: int) -> None:
        """Note that a capture's answer has come: it takes just so much until it is stored, and is not given up."""
        if rid in self._reserved:
            self._used += nbytes - self._reserved[rid].nbytes
            self._reserved[rid] = _Reservation(nbytes, can_be_given_up=False)

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
            actual: What every dump of the run takes now (`measure`), whether anybody wants it or not.
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


def free_budget(folder: Path, configured_gb: float | None, own_bytes: int = 0) -> int:
    """Return the limit for a run's dumps, in bytes.

    Args:
        folder: The dump folder; it exists.
        configured_gb: ``[extract] dump_budget_gb``; no more than there is. None: 80 % of what is free.
        own_bytes: That dumps of this run take there already: they count as free.

    Raises:
        OSError: The folder cannot be looked at.
    """
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize + own_bytes
    return int(SHARE_OF_FREE * free) if configured_gb is None else min(int(configured_gb * 1e9), free)


def measure(folder: Path, tag: str) -> dict[str, int]:
    """Return the memory that each dump of a run takes, by rid; those that vanish meanwhile are left out.

    Raises:
        OSError: The folder cannot be read.
    """
    return {rid: taken for rid, kind, taken in files_of_requests(folder, tag) if kind == DUMP_SUFFIX}


def _pages(count: int) -> int:
    return -(-count // _PAGE) * _PAGE
