"""At what pace answers came: sums over stretches of ten seconds, and longer ones for what is longer ago.

Coarser than `contracts.fold.history`, so that a whole run can be gone through at every status, and with the time that
requests were open: tokens over request seconds is the speed of one request, which no pause, outage or restart
changes, since nothing is open then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec

STRETCH_S: Final = 10
LONG_S: Final = 300
_KEPT: Final = 60
_MOST: Final = 2 * _KEPT
_MOST_LONG: Final = 96
"""Of more, each two become one: the longer a run, the longer its stretches."""


class Stretch(msgspec.Struct, array_like=True):
    """Sums of one stretch of time."""

    responses: int = 0
    tokens: int = 0
    timed_tokens: int = 0
    """Of them, of the responses that say when they were sent."""
    open_ms: int = 0
    """Request milliseconds of those responses, whole so that sums do not depend on their order."""

    def add(self, responses: int, tokens: int, timed_tokens: int, open_ms: int) -> None:
        """Add to the sums."""
        self.responses += responses
        self.tokens += tokens
        self.timed_tokens += timed_tokens
        self.open_ms += open_ms


class Pace(msgspec.Struct):
    """Stretches by their number (seconds // width). Records may come in any order."""

    short: dict[int, Stretch] = {}
    long: dict[int, Stretch] = {}
    long_s: int = LONG_S
    """Width of the long ones."""

    def add(self, at: float, responses: int, tokens: int, timed_tokens: int, open_ms: int) -> None:
        """Add what was finished at a time."""
        number = int(at) // STRETCH_S
        found = self.short.get(number)
        if found is None:
            if len(self.short) >= _MOST:
                self._lengthen()
            found = self.short[number] = Stretch()
        found.add(responses, tokens, timed_tokens, open_ms)

    def _lengthen(self) -> None:
        keep_from = max(self.short) - _KEPT
        for number in [number for number in self.short if number < keep_from]:
            old = self.short.pop(number)
            _merge(self.long, number * STRETCH_S // self.long_s, old)
        while len(self.long) > _MOST_LONG:
            self.long_s *= 2
            narrow, self.long = self.long, {}
            for number, old in narrow.items():
                _merge(self.long, number // 2, old)

    def spans(self, since: float) -> Iterator[tuple[int, int, Stretch]]:
        """Yield (start, width, sums) of the stretches that begin at ``since`` or later, in no order."""
        first = math.ceil(since / STRETCH_S)
        for number, stretch in self.short.items():
            if number >= first:
                yield number * STRETCH_S, STRETCH_S, stretch
        first = math.ceil(since / self.long_s)
        for number, stretch in self.long.items():
            if number >= first:
                yield number * self.long_s, self.long_s, stretch


def _merge(stretches: dict[int, Stretch], number: int, old: Stretch) -> None:
    stretches.setdefault(number, Stretch()).add(old.responses, old.tokens, old.timed_tokens, old.open_ms)
