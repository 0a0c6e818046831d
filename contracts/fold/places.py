"""Where lines are that could not be used: all are counted, the first are kept."""

from __future__ import annotations

from typing import Final

import msgspec

KEPT: Final = 20


class Place(msgspec.Struct, frozen=True):
    """One line of a journal."""

    offset: int
    line: int
    """1-based."""
    why: str


class Places(msgspec.Struct):
    """A count with the first places that it counts."""

    count: int = 0
    first: list[Place] = []

    def add(self, offset: int, line: int, why: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(Place(offset, line, why))
