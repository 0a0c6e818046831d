"""When a run and each of its data sets is done: what is left, how fast it goes, and the long tail at the end. Pure.

With every slot filled the rest takes as long as its tokens at the speed of all slots together. Data sets with work left
share the slots by what they have left (`daemon.generate.scheduler`), so that they end at about the same time. When the
prompts run out, slots stay empty and the end is that of the longest answer that is still open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from contracts.eta.estimate import DONE, NO_WORK_KNOWN, Eta, later, stalled, unknown
from contracts.eta.left import Conditions, Left, Lefts, Part
from contracts.eta.speed import Measured, measure
from contracts.eta.survival import Ages
from contracts.eta.tail import Ending, tail_of
from contracts.eta.work import is_finished
from contracts.fold.pace import STRETCH_S

LEAST_ANSWERS: Final = 5
LEAST_S: Final = 10.0
"""Of a session, before anything is said."""

_SILENT_S: Final = 60.0
_SILENT: Final = 1.25
_SILENT_ANSWERS: Final = 30.0
_FILLED: Final = 0.8
"""With fewer slots filled than this share, though work waits, there are not as many as are asked for."""
_WINDOW: Final = 0.25
"""The speed of the past counts for as long as this share of the time that is left: what changed lately says little of
the days to come, and much of the minutes."""
_LEAST_WINDOW_S: Final = 120.0
_LEAST_REQUESTS: Final = 2.0
"""The window is at least as long as so many answers take in the mean."""
_ONE_SIDE: Final = 1.2816
"""Deviations within which eight of ten cases of a normal distribution lie."""
_WILD: Final = 3.0
"""With a deviation above that nobody knows anything: the interval is from a fiftieth to fifty times."""
_FLOOR: Final = 0.05
"""What no past tells of the future: the least deviation of a speed."""
_DRIFT: Final = 0.7
"""Share of the variation of the speed so far that is expected of what is to come."""
_TAIL: Final = 0.2
"""Deviation of a tail: nobody knows how much faster the last requests will be."""
_APART: Final = 0.12
_APART_DEVIATION: Final = 0.2
"""Data sets with targets that share the slots end a little apart: the last one by so many requests later."""
_WASTE: Final = 0.08
"""Deviation of what failing attempts cost, before anything is seen of it."""


@dataclass(frozen=True)
class Forecast:
    """When what is done."""

    total: Eta
    parts: tuple[Eta, ...]
    """In the order of the data sets."""


def forecast(parts: Sequence[Part], conditions: Conditions, now: float) -> Forecast:
    """Return when the run and each data set is done.

    Args:
        parts: The data sets; those that are finished too.
        conditions: Of the run.
        now: The present.
    """
    unfinished = [index for index, part in enumerate(parts) if not is_finished(part.work)]
    if not unfinished:
        return Forecast(DONE, tuple(DONE for _ in parts))

    def missing(why: Eta) -> Forecast:
        return Forecast(why, tuple(why if index in unfinished else DONE for index in range(len(parts))))

    measured = measure((part.pace for part in parts), conditions.since, conditions.moving_since)
    # The stretch in which the session began is not measured: a count would not be the one that a person makes.
    if now - conditions.since < LEAST_S + (STRETCH_S if measured.responses < LEAST_ANSWERS else 0):
        return missing(unknown("it has only begun"))
    if measured.responses < LEAST_ANSWERS:
        return missing(unknown("too few answers since the start"))
    speed = measured.request_speed() or measured.counted_speed(now, conditions.concurrency)
    if speed is None:
        return missing(unknown("nothing is known of the speed"))
    lefts = Lefts(parts, measured, speed, conditions, now)
    left = [each for index in unfinished if (each := lefts.of(index)) is not None]
    if len(left) < len(unfinished):
        return missing(unknown(NO_WORK_KNOWN))
    silent_s = now - max(measured.last_at, conditions.moving_since)
    if silent_s > _silence_s(left, measured, speed, conditions, now - silent_s):
        return missing(stalled(f"no answer for {silent_s:.0f} s"))
    done = sum(part.in_flight for part in parts) - sum(each.part.in_flight for each in left)
    return _Forecaster(left, len(parts), done, measured, conditions, now).forecast()


def _silence_s(left: list[Left], measured: Measured, speed: float, conditions: Conditions, last_at: float) -> float:
    """Return how long no answer may come until it is said that nothing moves.

    That is longer than the longest answer takes: at the beginning all slots may hold long ones. Once a run has gone on
    for so long, it is as long as many answers take to come.
    """
    longest = max(each.seconds.most for each in left)
    if conditions.longest is not None:
        longest = max(longest, conditions.longest / speed)
    longest = max(_SILENT * longest, _SILENT_S)
    moved_s = last_at - measured.moving_since
    if moved_s < longest or any(not each.waiting for each in left):
        return longest
    answers = measured.since(measured.moving_since).responses
    return min(longest, max(_SILENT_ANSWERS * moved_s / max(answers, 1), _SILENT_S))


class _Forecaster:
    def __init__(
        self, left: list[Left], count: int, in_vain: int, measured: Measured, conditions: Conditions, now: float
    ) -> None:
        self._left = left
        self._count = count
        self._in_vain = in_vain * max(each.tokens.standing for each in left)
        """Tokens that are still to be made for data sets that have enough."""
        self._measured = measured
        self._oldest_s = conditions.oldest_s
        self._now = now
        self._flying = sum(each.part.in_flight for each in left)
        could = sum(each.part.in_flight + (math.inf if each.by_target else each.waiting) for each in left)
        self._most = float(max(conditions.concurrency, 1))
        filled = self._flying + in_vain
        if could > filled and 0 < filled < _FILLED * self._most:
            self._most = float(filled)  # something else keeps the others empty
        self._slots = max(min(self._most, could), 1.0)
        self._slower = 1.0
        """How much longer a request takes now than it did in the mean of the session."""
        self._speed, self._uncertain = self._request_speed()
        targets = [each for each in left if each.by_target]
        self._apart = max(each.seconds.mean for each in targets) if len(targets) > 1 else 0.0

    def forecast(self) -> Forecast:
        """Return it all."""
        moving = [each for each in self._left if each.part.in_flight or not self._flying]
        turns = [each for each in self._left if each not in moving]
        etas = dict.fromkeys(range(self._count), DONE)
        for each in moving:
            etas[each.index] = self._by_target(moving) if each.by_target else self._by_prompts(moving, [each])
        if turns:
            for place, each in enumerate(turns):
                etas[each.index] = self._in_turn(moving, turns[: place + 1])
        ending = [each for each in moving if not each.by_target]
        together = self._by_prompts(moving, ending) if ending and not turns else DONE
        return Forecast(reduce(later, etas.values(), together), tuple(etas.values()))

    def _by_target(self, group: list[Left]) -> Eta:
        """Return when the targets of a group that shares the slots are reached; by then its prompts are answered."""
        work = sum(each.work + (0.0 if each.by_target else each.held) for each in group)
        return self._eta(work, math.sqrt(sum(each.deviation**2 for each in group)))

    def _by_prompts(self, group: list[Left], ending: list[Left]) -> Eta:
        """Return when those data sets of a group that end by their prompts have the last answer."""
        beside = sum(each.part.in_flight for each in group if each.by_target)
        if not any(each.waiting for each in ending):
            open_now = [Ending(each.seconds, each.ages_s, float(each.part.in_flight)) for each in ending]
            return self._eta(0.0, 0.0, open_now, float(beside), self._oldest_s)
        work = sum(each.work for each in group)
        total = sum(each.share for each in group)
        open_then = [Ending(each.seconds, Ages(0), self._slots * each.share / total) for each in ending]
        deviation = math.sqrt(sum(each.deviation**2 for each in group))
        return self._eta(work, deviation, open_then, float(beside))

    def _in_turn(self, moving: list[Left], turns: list[Left]) -> Eta:
        """Return when the last of some data sets is done that wait until others have nothing more to send.

        Whenever one ends by its target, what its slots hold is in vain, and the next one has to fill them first.
        """
        work = sum(each.work + (1 if each.by_target else 2) * each.held for each in moving)
        for each in turns:
            work += each.work + (2 * each.tokens.standing * self._slots if each.by_target else 0.0)
        last = turns[-1]
        work -= min(last.tokens.standing * self._slots, last.work)
        deviation = math.sqrt(sum(each.deviation**2 for each in (*moving, *turns)))
        if last.by_target:
            return self._eta(work, deviation)
        return self._eta(work, deviation, [Ending(last.seconds, Ages(0), min(self._slots, max(last.waiting, 1.0)))])

    def _eta(
        self,
        work: float,
        deviation: float,
        endings: list[Ending] | None = None,
        beside: float = 0.0,
        oldest_s: float | None = None,
    ) -> Eta:
        """Return the time of some work with all slots filled, and of a tail after it."""
        main = (work + (self._in_vain if work else 0.0)) / (self._slots * self._speed)
        apart = self._apart if work else 0.0
        main += _APART * apart
        relative = math.hypot(self._uncertain, deviation / work, _APART_DEVIATION * apart / main) if work else 0.0
        relative = min(relative, _WILD)
        up, down = math.exp(_ONE_SIDE * relative), math.exp(-_ONE_SIDE * relative)
        if endings is None:
            return Eta(main, main * down, main * up)
        tail, slow = tail_of(endings, self._most, beside, oldest_s), math.exp(_ONE_SIDE * self._uncertain)
        middle, early, late = (each * self._slower for each in (tail.middle, tail.early / slow, tail.late * slow))
        point = main + middle
        unsure = _ONE_SIDE * _TAIL * middle
        low = point - math.hypot(main * (1 - down), middle - early, unsure)
        high = point + math.hypot(main * (up - 1), late - middle, unsure)
        return Eta(point, max(low, 0.0), high)

    def _request_speed(self) -> tuple[float, float]:
        """Return tokens a second of one request with all slots filled, and how uncertain that is."""
        measured = self._measured
        sums = measured.since(measured.moving_since)
        span = max(self._now - sums.start, 1.0)
        whole = measured.request_speed()
        if whole is None:
            speed = max(sums.tokens, 1) / span / self._most
            return speed, math.hypot(_FLOOR, 1 / math.sqrt(max(sums.responses, 1)))
        held = sum(each.part.in_flight * each.ages.mean_age(each.tokens) for each in self._left)
        if sums.start > measured.moving_since:
            before = Ages(0, 0.0, whole * (sums.start - measured.moving_since))
            held -= sum(each.part.in_flight * before.mean_age(each.tokens) for each in self._left)
        noise = math.sqrt(sum(each.held_deviation**2 for each in self._left))
        made = (sums.tokens + held) / span / self._most
        here = sums.timed_tokens / sums.open_s if sums.open_s > 0 and sums.timed_tokens else whole
        doubt = noise / max(sums.tokens + held, 1.0) + 0.02
        waste, uncertain = 0.0, _WASTE
        if made > 0 and sums.responses >= LEAST_ANSWERS:
            seen = math.log(made / here)
            weight = _WASTE**2 / (_WASTE**2 + doubt**2)
            if abs(seen) > 4 * math.hypot(doubt, _WASTE):
                weight = 1.0  # the times of the requests say something else than what comes in: that counts
            waste, uncertain = seen * weight, math.sqrt(1 - min(weight, 0.999)) * _WASTE
        factor, now = math.exp(waste), whole
        for _ in range(2):
            left = sum(each.work for each in self._left) / (self._slots * now * factor)
            mean = max(each.tokens.mean for each in self._left)
            least = _LEAST_REQUESTS * mean / now
            window = max(_WINDOW * left, _LEAST_WINDOW_S, least)
            # Before a pause was over, few were open, and fast.
            since = measured.moving_since if sums.open_s >= least * self._most else 0.0
            now = measured.request_speed(window * self._most, since) or whole
        self._slower = whole / now
        return now * factor, math.sqrt(_FLOOR**2 + (_DRIFT * measured.spread()) ** 2 + uncertain**2)
