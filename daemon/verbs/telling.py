"""How far a verb is, on standard error: for whoever waits, and nothing while it is quick."""

from __future__ import annotations

import sys
import time
from typing import Final

TELL_EVERY_S: Final = 5.0


class Telling:
    """Lines that tell how far it is: none before `TELL_EVERY_S`, then one each time that has passed."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()
        self._dataset = ""
        self._before = self._bytes = 0

    def count(self, dataset: str, size: int) -> None:
        """Take note that so many bytes of a data set are done; those of data sets before it count too."""
        if dataset != self._dataset:
            self._dataset, self._before = dataset, self._bytes
        self._bytes = self._before + size

    @property
    def bytes(self) -> int:
        """Done in all."""
        return self._bytes

    @property
    def bytes_per_s(self) -> float:
        """Done in a second since the beginning, as of the last line."""
        return self._bytes / (self._told - self._began)

    def is_due(self) -> bool:
        """Whether a line is to be told now; once each time."""
        now = time.monotonic()
        if now - self._told < TELL_EVERY_S:
            return False
        self._told = now
        return True

    def tell(self, words: str) -> None:
        """Print a line."""
        print(f"progress: {words}", file=sys.stderr, flush=True)
