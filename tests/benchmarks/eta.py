"""The remaining time as it is told, against what it turned out to be, in made-up runs."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from contracts.eta import forecast
from tests.benchmarks.eta_scenarios import KINDS
from tests.benchmarks.eta_simulation import BEGIN, Moment, Scenario, Simulation

Kind = Callable[[int], Scenario]
SEEDS: Final = range(1000, 1010)
"""Of the report; the model was tuned on others (below 100)."""
LOOKS: Final = 40
FROM: Final = 0.10
"""Share of the tokens from which on it is judged."""
_SMOOTHING: Final = 0.3
"""As in tqdm."""
_UPDATE_S: Final = 0.1


@dataclass(frozen=True)
class Look:
    """One moment of one run: what was told, and the truth."""

    kind: str
    seed: int
    left_s: float
    until_end_s: float
    """With all interruptions that are still to come."""
    point: float | None
    low: float | None
    high: float | None
    elapsed_done: float | None
    tqdm: float | None


def looks_at(scenario: Scenario, count: int = LOOKS) -> list[Look]:
    """Run a scenario and look at it from a tenth of its tokens to its end, evenly in the time in which it goes on.

    What interruptions are still to come nobody can know: the truth is the time that it goes on for, without them.
    """
    alone = Simulation(replace(scenario, incidents=()), None)
    list(alone.run())
    alone_s = alone.finished[-1][0] - BEGIN
    whole = Simulation(scenario, alone_s)
    list(whole.run())
    end, tokens = whole.finished[-1][0], sum(each for _, each in whole.finished)
    begin = _reached(whole.finished, FROM * tokens)
    going = _without(whole.idle, begin, end)
    length = sum(until - since for since, until in going)
    times = [_after(going, length * (index + 0.5) / count) for index in range(count)]
    again = Simulation(scenario, alone_s)
    average, place, found = _Average(), 0, []
    for moment in again.run(times):
        while place < len(again.finished):
            average.add(*again.finished[place])
            place += 1
        if moment.active:
            left_s = sum(until - since for since, until in _without(whole.idle, moment.now, end))
            found.append(_look(scenario, moment, left_s, end - moment.now, average.rate))
    return found


def _without(idle: list[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """Return the stretches from begin to end in which the run goes on."""
    found, at = [], begin
    for since, until in idle:
        if until > at and since < end:
            if since > at:
                found.append((at, since))
            at = max(at, until)
    return [*found, (at, end)] if at < end else found


def _after(going: list[tuple[float, float]], seconds: float) -> float:
    """Return the time at which it has gone on for so long."""
    for since, until in going:
        if seconds <= until - since:
            return since + seconds
        seconds -= until - since
    return going[-1][1]


def _reached(finished: list[tuple[float, int]], tokens: float) -> float:
    total = 0
    for at, each in finished:
        total += each
        if total >= tokens:
            return at
    return finished[-1][0]


def _look(scenario: Scenario, moment: Moment, left_s: float, until_end_s: float, rate: float | None) -> Look:
    eta = forecast(moment.parts, moment.conditions, moment.now).total
    remaining, passed = moment.remaining, moment.now - BEGIN
    simple = remaining * passed / moment.tokens if remaining is not None and moment.tokens else None
    average = remaining / rate if remaining is not None and rate else None
    return Look(scenario.kind, scenario.seed, left_s, until_end_s, eta.point, eta.low, eta.high, simple, average)


class _Average:
    """The rate as tqdm smooths it: of tokens and of seconds, an average of both, updated ten times a second at most."""

    def __init__(self) -> None:
        self._shown = BEGIN
        self._tokens = 0
        self._ema_tokens = self._ema_s = 0.0
        self._calls = 0

    def add(self, at: float, tokens: int) -> None:
        self._tokens += tokens
        if at - self._shown < _UPDATE_S:
            return
        self._ema_tokens = _SMOOTHING * self._tokens + (1 - _SMOOTHING) * self._ema_tokens
        self._ema_s = _SMOOTHING * (at - self._shown) + (1 - _SMOOTHING) * self._ema_s
        self._calls += 1
        self._shown, self._tokens = at, 0

    @property
    def rate(self) -> float | None:
        return self._ema_tokens / self._ema_s if self._ema_s else None


def _error(looks: Iterable[Look], told: Callable[[Look], float | None]) -> float | None:
    """Return the median of the errors, in per cent of the time that was really left."""
    errors = [
        100 * abs(value - look.left_s) / look.left_s
        for look in looks
        if (value := told(look)) is not None and look.left_s > 1.0
    ]
    return statistics.median(errors) if errors else None


def _covered(looks: Iterable[Look]) -> tuple[float, float, float]:
    known = [look for look in looks if look.low is not None and look.high is not None]
    below = sum(look.left_s < (look.low or 0.0) for look in known)
    above = sum(look.left_s > (look.high or 0.0) for look in known)
    count = max(len(known), 1)
    return 100 * (count - below - above) / count, 100 * below / count, 100 * above / count


def _row(name: str, looks: list[Look]) -> str:
    covered, below, above = _covered(looks)
    unknown = 100 * sum(look.point is None for look in looks) / len(looks)
    told = (lambda look: look.point, lambda look: look.elapsed_done, lambda look: look.tqdm)
    errors = " | ".join("-" if (error := _error(looks, each)) is None else f"{error:.1f}" for each in told)
    return f"| {name} | {len(looks)} | {errors} | {covered:.0f} | {below:.0f}, {above:.0f} | {unknown:.0f} |"


def table(seeds: Iterable[int], kinds: Iterable[Kind] = KINDS, count: int = LOOKS) -> str:
    """Return the table over some seeds of each kind."""
    heads = ["runs", "looks", "error %", "of elapsed / done", "of tqdm's average"]
    heads += ["inside 80 % interval", "before, after it", "unknown %"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    every: list[Look] = []
    for kind in kinds:
        looks = [look for seed in seeds for look in looks_at(kind(seed), count)]
        lines.append(_row(looks[0].kind, looks))
        every += looks
    lines.append(_row("all", every))
    late = [replace(look, left_s=look.until_end_s) for look in every]
    lines.append(_row("all, with the interruptions still to come", late))
    return "\n".join(lines)


def report() -> str:
    """Return the table of the seeds that nothing was tuned on."""
    return table(SEEDS)


if __name__ == "__main__":
    print(table(range(*map(int, sys.argv[1:3]))) if len(sys.argv) > 2 else report())
