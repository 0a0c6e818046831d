"""An imitation of SGLang's radix cache: what it would have reused of a prompt, computed or not."""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Sequence

MOST_SEQUENCES = 256
"""Remembered sequences; the oldest go first, as when a cache is full."""


class PrefixCache:
    """Remembers token sequences and says how much of a prompt they share; may be used by several threads."""

    def __init__(self, most: int = MOST_SEQUENCES) -> None:
        self._lock = threading.Lock()
        self._sequences: deque[tuple[str, array[int]]] = deque(maxlen=most)

    def cached(self, ids: Sequence[int], key: str = "") -> int:
        """Tokens of a prompt that are not computed again: all that it shares with an earlier one, but its last.

        Args:
            ids: the prompt.
            key: the request's `extra_key` and `cache_salt`: nothing is shared between different ones.
        """
        wanted = array("q", ids)
        with self._lock:
            longest = max((_shared(wanted, each) for own, each in self._sequences if own == key), default=0)
        return max(0, min(longest, len(ids) - 1))

    def remember(self, ids: Sequence[int], key: str = "") -> None:
        """Add a sequence whose tokens were all fed."""
        with self._lock:
            self._sequences.append((key, array("q", ids)))

    def clear(self) -> None:
        """Forget all, as `/flush_cache` does."""
        with self._lock:
            self._sequences.clear()


def _shared(one: array[int], other: array[int]) -> int:
    """Length of the common prefix; compared in halves, because slices compare at the speed of memory."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
