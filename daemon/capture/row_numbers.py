"""Numbers of the samples in a data set's store, from 0."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable


class RowNumbers:
    """Gives each sample the lowest number that is free, so that numbered files have no gaps. For several threads."""

    def __init__(self, used: Iterable[int] = ()) -> None:
        """Take over a store.

        Args:
            used: Numbers of the samples that are in it.
        """
        self._lock = threading.Lock()
        self._next = 0
        self._free: list[int] = []
        self.take_over(used)

    def take_over(self, used: Iterable[int]) -> None:
        """Forget what was, while no number is out: the samples of the store have these now."""
        taken = set(used)
        with self._lock:
            self._next = max(taken, default=-1) + 1
            self._free = [number for number in range(self._next) if number not in taken]  # ascending: a heap

    def take(self) -> int:
        """Return a number that nobody has."""
        with self._lock:
            if self._free:
                return heapq.heappop(self._free)
            self._next += 1
            return self._next - 1

    def give_back(self, number: int) -> None:
        """Make a number free that was taken and not used, or whose sample is gone."""
        with self._lock:
            heapq.heappush(self._free, number)
