"""The clock of a replay: wall time -> moment of the recording, by speed, pauses and jumps. Pure: time is handed in."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Final

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""Those that the keys go through; any other may be set."""
MOST_SPEED: Final = 86_400.0
_NEAR_S: Final = 0.05
"""A moment of note as near as this is where one is."""


class Player:
    """Where a replay is, and how fast it goes.

    Args:
        at: The moment at which it begins, Unix seconds.
        wall: Seconds of a clock that only goes on; every other call takes the same clock.
        begin: The first moment of the recording.
        end: The last one.
        speed: Seconds of the recording in a second.
        paused: Stand still at first.
    """

    def __init__(
        self, at: float, wall: float, *, begin: float, end: float, speed: float = 1.0, paused: bool = False
    ) -> None:
        self.begin = begin
        self.end = end
        """May move on, where the run does."""
        self.paused = paused
        self._speed = min(max(speed, SPEEDS[0]), MOST_SPEED)
        self._at = at
        self._since = wall

    @property
    def speed(self) -> float:
        """Seconds of the recording in a second, where it is not paused."""
        return self._speed

    def at(self, wall: float) -> float:
        """Return the moment of the recording; it stays at the end once it came there."""
        gone = 0.0 if self.paused else (wall - self._since) * self._speed
        return self._inside(self._at + gone)

    def is_at_end(self, wall: float) -> bool:
        """Whether there is nothing more to play."""
        return self.at(wall) >= self.end

    def toggle(self, wall: float) -> None:
        """Pause, or play on; from the beginning where the end was reached."""
        here = self.at(wall)
        if here >= self.end:
            here, self.paused = self.begin, True
        self._settle(here, wall)
        self.paused = not self.paused

    def jump(self, to: float, wall: float) -> None:
        """Go to a moment, or as near as the recording reaches."""
        self._settle(self._inside(to), wall)

    def move(self, seconds: float, wall: float) -> None:
        """Go some seconds of the recording on, or back where they are negative."""
        self.jump(self.at(wall) + seconds, wall)

    def to_note(self, notes: Sequence[float], direction: int, wall: float) -> bool:
        """Go to the next moment of note, or to the one before; return whether there is one.

        Args:
            notes: Ascending.
            direction: 1 or -1.
            wall: As ever.
        """
        here = self.at(wall)
        if direction > 0:
            place = bisect.bisect_right(notes, here + _NEAR_S)
        else:
            place = bisect.bisect_left(notes, here - _NEAR_S) - 1
        if not 0 <= place < len(notes):
            return False
        self.jump(notes[place], wall)
        return True

    def faster(self, steps: int, wall: float) -> None:
        """Take the next higher speed of `SPEEDS`, or the next lower one where ``steps`` is negative."""
        self._settle(self.at(wall), wall)
        if steps > 0:
            self._speed = next((speed for speed in SPEEDS if speed > self._speed), max(self._speed, SPEEDS[-1]))
        else:
            self._speed = next((speed for speed in reversed(SPEEDS) if speed < self._speed), SPEEDS[0])

    def _settle(self, at: float, wall: float) -> None:
        self._at, self._since = at, wall

    def _inside(self, at: float) -> float:
        return min(max(at, self.begin), self.end)
