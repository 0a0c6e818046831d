"""How fast requests advance, from the sums that `contracts.fold.pace` keeps. Pure.

The speed of one request is tokens over the time that requests were open, of the answers that came: what was paused,
down or not yet started is not in it, and a run of a minute has it as well as one of a day. What requests at work bring
in beside what they should (`efficiency`) tells how much is lost to attempts that fail.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from contracts.fold.pace import STRETCH_S, Pace

_GAP_S: Final = 60.0
_GAP_ANSWERS: Final = 20.0
"""A time without answers in which so many were to be expected was an interruption."""
_BLOCKS: Final = 12


@dataclass(frozen=True)
class Sums:
    """Of a stretch of time, over all data sets."""

    start: float
    width: int
    responses: int
    tokens: int
    timed_tokens: int
    open_s: float

    @property
    def end(self) -> float:
        """When it ends."""
        return self.start + self.width


@dataclass(frozen=True)
class Measured:
    """What is known of the speed of a session."""

    sums: tuple[Sums, ...]
    """Newest first."""
    moving_since: float
    """The requests that are at work now were sent after that, the first of them about then."""
    began: tuple[float | None, ...]
    """When each data set had its first answer of this session, and as long before as that took."""

    @property
    def last_at(self) -> float:
        """End of the stretch in which the newest answer came."""
        return self.sums[0].end if self.sums else self.moving_since

    @property
    def responses(self) -> int:
        """Answers of this session."""
        return sum(each.responses for each in self.sums)

    def request_speed(self, open_s: float = math.inf, since: float = 0.0) -> float | None:
        """Return tokens a second of one request, over the newest answers that were open for so long, added up.

        Args:
            open_s: Request seconds.
            since: None from before that.
        """
        tokens, seconds = 0, 0.0
        for each in self.sums:
            if each.start < since:
                break
            tokens += each.timed_tokens
            seconds += each.open_s
            if seconds >= open_s:
                break
        return tokens / seconds if seconds > 0 and tokens > 0 else None

    def counted_speed(self, now: float, slots: int) -> float | None:
        """Return the same from what came in while so many were open, where answers say nothing of their time."""
        sums = self.since(self.moving_since)
        return sums.tokens / max(now - sums.start, 1.0) / max(slots, 1) if sums.tokens else None

    def since(self, start: float) -> Sums:
        """Return the sums since a time, but only of whole stretches: their start is that of the first of those.

        A stretch of ten seconds may begin a little before.
        """
        chosen = [each for each in self.sums if each.start >= start - (STRETCH_S / 2 if each.width == STRETCH_S else 0)]
        first = chosen[-1] if chosen else None
        begin = start if first is None or first.width == STRETCH_S else float(first.start)
        return Sums(
            begin,
            0,
            sum(each.responses for each in chosen),
            sum(each.tokens for each in chosen),
            sum(each.timed_tokens for each in chosen),
            sum(each.open_s for each in chosen),
        )

    def spread(self) -> float:
        """Return by how much the speed of a request varied through the session, as the deviation of its logarithm."""
        total = sum(each.open_s for each in self.sums)
        blocks: list[float] = []
        tokens, open_s = 0, 0.0
        for each in self.sums:
            tokens += each.timed_tokens
            open_s += each.open_s
            if open_s >= total / _BLOCKS and tokens:
                blocks.append(math.log(tokens / open_s))
                tokens, open_s = 0, 0.0
        if len(blocks) < 3:
            return 0.0
        middle = sum(blocks) / len(blocks)
        return math.sqrt(sum((each - middle) ** 2 for each in blocks) / (len(blocks) - 1))

    def answered_since(self, count: float, now: float) -> float:
        """Return how long ago the newest ``count`` answers began to come, in seconds."""
        for each in self.sums:
            if count <= each.responses:
                return now - (each.start + each.width * (1 - count / max(each.responses, 1)))
            count -= each.responses
        return now - self.moving_since


def measure(paces: Iterable[Pace], since: float, moving_since: float) -> Measured:
    """Add the data sets up.

    Args:
        paces: Of all data sets.
        since: Start of the session: only what came after it counts.
        moving_since: The last time at which sending began or went on, as far as events tell.
    """
    merged: dict[tuple[int, int], list[float]] = {}
    began: list[float | None] = []
    for pace in paces:
        first, took = math.inf, 0.0
        for start, width, stretch in pace.spans(since):
            if start < first:
                first, took = start, stretch.open_ms / 1000 / max(stretch.responses, 1)
            into = merged.setdefault((start, width), [0, 0, 0, 0])
            into[0] += stretch.responses
            into[1] += stretch.tokens
            into[2] += stretch.timed_tokens
            into[3] += stretch.open_ms
        began.append(first + STRETCH_S / 2 - took if first < math.inf else None)
    sums = tuple(
        Sums(start, width, int(each[0]), int(each[1]), int(each[2]), each[3] / 1000)
        for (start, width), each in sorted(merged.items(), reverse=True)
    )
    return Measured(sums, _moving_since(sums, max(since, moving_since)), tuple(began))


def _moving_since(sums: tuple[Sums, ...], at_least: float) -> float:
    """Return when the first of the requests were sent that followed on the last interruption.

    That was before the first answers after it came, by the time that these took.
    """
    # Long stretches of one data set may lie over short ones of another.
    chosen = sorted((each for each in sums if each.end > at_least), key=lambda each: each.end, reverse=True)
    if not chosen:
        return at_least
    busy_s = sum(each.width for each in chosen)
    gap_s = max(_GAP_S, _GAP_ANSWERS * busy_s / max(sum(each.responses for each in chosen), 1))
    first = chosen[0]
    for each in chosen[1:]:
        if first.start - each.end > gap_s:
            break
        first = min(first, each, key=lambda one: one.start)
    if first.width > STRETCH_S:
        return max(at_least, float(first.start))
    took = first.open_s / first.responses if first.responses else 0.0
    if first.start - took <= at_least + STRETCH_S:
        return at_least  # they were sent at once
    return first.start + first.width / 2 - took
