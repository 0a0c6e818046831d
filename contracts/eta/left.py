"""What is left of every data set of a run, with how long its answers are and how far the open ones have got. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contracts.eta.speed import Measured
from contracts.eta.survival import Ages, Survival, survival_of
from contracts.eta.work import Work
from contracts.fold.lengths import Lengths
from contracts.fold.pace import Pace

_OWN_ANSWERS: Final = 20
"""With fewer answers of its own a data set is taken for one like the others."""
_STRANGE: Final = 0.6
"""Deviation of the length of answers from that of other data sets."""
_TENTH: Final = 0.1


@dataclass(frozen=True)
class Part:
    """What is known of one data set."""

    work: Work
    pace: Pace
    lengths: Lengths
    """Of its answers, in tokens."""
    times: Lengths
    """For how long their requests were open, in tenths of a second."""
    in_flight: int
    """Its open requests."""


@dataclass(frozen=True)
class Conditions:
    """What is known of the run."""

    since: float
    """Start of the session."""
    moving_since: float
    """The last time at which sending began or went on, as far as events tell."""
    concurrency: int
    oldest_s: float | None
    """Age of the oldest open request."""
    longest: int | None
    """Tokens that the server allows for an answer."""


@dataclass(frozen=True)
class Left:
    """A data set that is not finished."""

    index: int
    part: Part
    tokens: Survival
    """Of its answers."""
    seconds: Survival
    """For how long a request is open with all slots filled."""
    ages: Ages
    """Tokens of its open answers."""
    ages_s: Ages
    """The same in seconds."""
    waiting: float
    """Answers that are not yet being made; infinite where nobody knows the prompts."""
    work: float
    """Tokens until its target, or until its last prompt is sent and the slots hold what they usually do."""
    by_target: bool
    """Whether its target ends it, and not its prompts."""
    deviation: float
    """Of ``work``, in tokens."""

    @property
    def held(self) -> float:
        """Tokens that its open answers lack, in a run that has gone on for long."""
        return self.part.in_flight * self.tokens.standing

    @property
    def held_deviation(self) -> float:
        """Of the tokens that its open answers have."""
        return math.sqrt(self.part.in_flight * max(self.tokens.variance, self.tokens.standing**2 / 3))

    @property
    def share(self) -> float:
        """Its claim to slots."""
        return self.work + (0.0 if self.by_target else self.part.in_flight * self.tokens.mean) + 1.0


class Lefts:
    """Makes `Left` of parts.

    Args:
        parts: All data sets.
        measured: Their speed.
        speed: Tokens a second of one request.
        conditions: Of the run.
        now: The present.
    """

    def __init__(
        self, parts: Sequence[Part], measured: Measured, speed: float, conditions: Conditions, now: float
    ) -> None:
        self._parts = parts
        self._measured = measured
        self._speed = speed
        self._conditions = conditions
        self._now = now
        known = sum(part.work.known for part in parts)
        self._mean = sum(part.work.completion_tokens or 0 for part in parts) / max(known, 1)
        self._lengths = _pool([part.lengths for part in parts])
        self._times = _pool([part.times for part in parts])
        open_requests = sum(part.in_flight for part in parts)
        empty = conditions.concurrency - open_requests
        self._idle_s = measured.answered_since(empty, now) if empty > 0 else 0.0
        """For how long slots have been empty, where no prompts are left."""

    def of(self, index: int) -> Left | None:
        """Return what is left of a data set; None where nobody knows."""
        part, speed = self._parts[index], self._speed
        work = part.work
        if work.prompts is None and work.target_tokens is None:
            return None
        waiting = math.inf if work.prompts is None else float(max(work.prompts - work.settled - part.in_flight, 0))
        own = min(work.known / _OWN_ANSWERS, 1.0)
        mean = self._mean if not work.known else (work.completion_tokens or 0) / work.known
        mean = own * mean + (1 - own) * self._mean
        began = self._measured.began[index]
        since = self._measured.moving_since if began is None else max(began, self._measured.moving_since)
        open_s = mean / speed / 2 if began is None else max(self._now - since, 0.0)
        ages_s = Ages(part.in_flight, 0.0 if waiting else min(self._idle_s, open_s), open_s)
        ages = Ages(part.in_flight, ages_s.least * speed, ages_s.most * speed)
        tokens = survival_of(_filled(part.lengths, self._lengths), ages, mean=mean, most=self._conditions.longest)
        times = _filled(part.times, self._times)
        seconds = survival_of(times, ages_s, unit=_TENTH) if times else tokens.scaled(1 / speed)
        return self._made(index, part, tokens, seconds, ages, ages_s, waiting)

    def _made(
        self, index: int, part: Part, tokens: Survival, seconds: Survival, ages: Ages, ages_s: Ages, waiting: float
    ) -> Left:
        work, flying = part.work, part.in_flight
        deviation = math.sqrt(tokens.variance)
        lack = ages.mean_lack(tokens) if flying else 0.0
        if work.target_tokens is not None:
            to_target = work.target_tokens - (work.completion_tokens or 0)
            if to_target <= waiting * tokens.mean + flying * lack:
                # What is open is not counted until it is finished: the slots have to be as full as they usually are.
                ahead = flying * (tokens.standing - ages.mean_age(tokens)) if flying else 0.0
                left = max(to_target + ahead, 0.0) + tokens.standing
                spread = deviation * math.sqrt(max(flying, 1.0))
                return Left(index, part, tokens, seconds, ages, ages_s, waiting, left, True, spread)
        left = max(waiting * tokens.mean + flying * (lack - tokens.standing), 0.0)
        spread = deviation * math.sqrt(waiting + waiting * waiting / max(work.known, 1))
        if not work.known:
            spread = math.hypot(spread, _STRANGE * left)
        return Left(index, part, tokens, seconds, ages, ages_s, waiting, left, False, spread)


def _pool(lengths: Sequence[Lengths]) -> dict[int, float]:
    """Return the shares of all lengths together."""
    counts: dict[int, float] = {}
    for each in lengths:
        for number, count in each.counts.items():
            counts[number] = counts.get(number, 0.0) + count
    total = sum(counts.values())
    return {number: count / total for number, count in counts.items()}


def _filled(lengths: Lengths, pool: dict[int, float]) -> dict[int, float]:
    """Return the counts of a data set, filled up from the others while it has few."""
    counts: dict[int, float] = dict(lengths.counts)
    lacking = _OWN_ANSWERS - sum(counts.values())
    if lacking > 0:
        for number, share in pool.items():
            counts[number] = counts.get(number, 0.0) + share * lacking
    return counts
