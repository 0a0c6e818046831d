"""How many answers are longer than so many tokens, from those that are finished and those that are still open.

Short answers finish first. At the beginning of a run the finished ones say little of the long ones, and what the open
ones say is only that they are not finished yet. So each length is judged by the answers that got so far: of them, how
many ended there (the estimate of Kaplan and Meier). How far the open ones have got nobody measures: it follows from
the speed of one request and from how long answers are, and so it is found by going round a few times.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from contracts.fold.lengths import bucket_bounds

_ROUNDS: Final = 3
_FEW: Final = 0.02
"""Share of open answers, of all, below which they change nothing."""
_BEYOND: Final = 1.5
"""Answers that are open and longer than any finished one end within this many times that length."""


class Survival:
    """The share of answers that are longer than x tokens; straight lines between the edges.

    Args:
        edges: Tokens, ascending, from 0.
        shares: At each edge; from 1 down to 0.
    """

    def __init__(self, edges: list[float], shares: list[float]) -> None:
        self._edges = edges
        self._shares = shares
        self._areas = [0.0]
        moment = 0.0
        for index in range(1, len(edges)):
            low, high = edges[index - 1], edges[index]
            area = (high - low) * (shares[index - 1] + shares[index]) / 2
            self._areas.append(self._areas[-1] + area)
            moment += area * (low + high) / 2
        self.mean = self._areas[-1]
        """Tokens of an answer."""
        self.half_square = moment
        """Half of the mean square."""

    def scaled(self, factor: float) -> Survival:
        """Return the same in another unit."""
        return Survival([edge * factor for edge in self._edges], self._shares)

    @property
    def variance(self) -> float:
        """Of the tokens of an answer."""
        return max(2 * self.half_square - self.mean**2, 0.0)

    @property
    def most(self) -> float:
        """No answer is longer."""
        return self._edges[-1]

    @property
    def edges(self) -> list[float]:
        """Where it bends; not to be changed."""
        return self._edges

    @property
    def standing(self) -> float:
        """Tokens that an open answer has, and as many that it lacks, in the mean of a run that has gone on for long."""
        return self.half_square / self.mean

    def at(self, tokens: float) -> float:
        """Return the share of answers that are longer than so many tokens."""
        index, part = self._place(tokens)
        if part is None:
            return self._shares[index]
        low = self._shares[index]
        return low + part * (self._shares[index + 1] - low)

    def area(self, tokens: float) -> float:
        """Return the integral from 0: the tokens that an answer has, in the mean, among its first so many."""
        index, part = self._place(tokens)
        return self._areas[index] if part is None else self._area_within(index, part)

    def areas(self, tokens: Iterable[float]) -> list[float]:
        """Return `area` of many, ascending: one walk along the edges."""
        edges, index, found = self._edges, 0, []
        for at in tokens:
            if at <= 0:
                found.append(self._areas[0])
            elif at >= edges[-1]:
                found.append(self._areas[-1])
            else:
                while edges[index + 1] <= at:
                    index += 1
                found.append(self._area_within(index, (at - edges[index]) / (edges[index + 1] - edges[index])))
        return found

    def _area_within(self, index: int, part: float) -> float:
        low, width = self._shares[index], self._edges[index + 1] - self._edges[index]
        return self._areas[index] + part * width * (low + part * (self._shares[index + 1] - low) / 2)

    def _place(self, tokens: float) -> tuple[int, float | None]:
        if tokens <= 0:
            return 0, None
        if tokens >= self._edges[-1]:
            return len(self._edges) - 1, None
        index = bisect.bisect_right(self._edges, tokens) - 1
        return index, (tokens - self._edges[index]) / (self._edges[index + 1] - self._edges[index])


@dataclass(frozen=True)
class Ages:
    """How many tokens open answers have: as a run leaves them that has sent a new one for each that ended."""

    count: int
    least: float = 0.0
    """Nothing was sent for so many tokens."""
    most: float = float("inf")
    """The first were sent so many tokens ago: all at once, and those not finished are so old."""

    def parts(self, survival: Survival) -> tuple[float, float, float]:
        """Return the share of the oldest, and between which ages the others are spread."""
        most = min(self.most, survival.most)
        first = survival.at(most) if most < survival.most else 0.0
        if most <= self.least:
            return 1.0, most, most
        return first, self.least, most

    def is_usual(self, survival: Survival) -> bool:
        """Whether the run has gone on for so long that its beginning makes no difference."""
        return self.least <= 0 and self.most >= survival.most

    def older(self, survival: Survival, tokens: Sequence[float]) -> list[float]:
        """Return the shares of open answers that have more than so many tokens, for many, ascending."""
        if self.is_usual(survival):
            return [1 - area / survival.mean for area in survival.areas(tokens)]
        first, least, most = self.parts(survival)
        at_most = survival.area(most)
        spread = at_most - survival.area(least)
        oldest = [first if at < most else 0.0 for at in tokens]
        if first >= 1.0 or spread <= 0:
            return oldest
        areas = survival.areas([min(max(at, least), most) for at in tokens])
        return [share + (1 - first) * (at_most - area) / spread for share, area in zip(oldest, areas, strict=True)]

    def lacking(self, survival: Survival, tokens: Sequence[float]) -> list[float]:
        """Return the shares of open answers that lack more than so many tokens, for many, ascending."""
        if self.is_usual(survival):
            return [1 - area / survival.mean for area in survival.areas(tokens)]
        first, least, most = self.parts(survival)
        spread, standing = survival.area(most) - survival.area(least), survival.at(most)
        shares = [0.0] * len(tokens)
        if first > 0 and standing > 0:
            shares = [first * survival.at(most + at) / standing for at in tokens]
        if first >= 1.0 or spread <= 0:
            return shares
        beyond = survival.areas([most + at for at in tokens])
        within = survival.areas([least + at for at in tokens])
        return [
            share + (1 - first) * (one - other) / spread
            for share, one, other in zip(shares, beyond, within, strict=True)
        ]

    def mean_age(self, survival: Survival) -> float:
        """Return the mean of the tokens that open answers have."""
        if self.is_usual(survival):
            return survival.standing
        return _integral(survival, self.older(survival, survival.edges))

    def mean_lack(self, survival: Survival) -> float:
        """Return the mean of the tokens that open answers lack."""
        if self.is_usual(survival):
            return survival.standing
        return _integral(survival, self.lacking(survival, survival.edges))


def survival_of(
    counts: Mapping[int, float],
    ages: Ages,
    *,
    mean: float | None = None,
    unit: float = 1.0,
    most: float | None = None,
) -> Survival:
    """Return how long answers are, in tokens or in seconds.

    Args:
        counts: Finished answers by `contracts.fold.lengths.bucket_of` their length; not empty.
        ages: Of those that are open.
        mean: Of the finished ones, exactly; the buckets are moved to that.
        unit: What the buckets count in.
        most: No answer is longer.
    """
    edges, ended = _steps(counts, mean, unit)
    total = sum(ended)
    plain = Survival(edges, _shares(ended, [0.0] * len(ended)))
    if ages.count <= _FEW * total:
        return plain
    found = plain
    middles = [(edges[index] + edges[index + 1]) / 2 for index in range(len(ended))]
    for _ in range(_ROUNDS):
        shares = _shares(ended, [ages.count * share for share in ages.older(found, middles)])
        beyond = edges
        if shares[-1] > 1e-9:
            end = max(edges[-1] * _BEYOND, min(ages.most, edges[-1] * 8) * 1.25)
            beyond = [*edges, max(min(end, most or end), edges[-1] * 1.01)]
            shares = [*shares, 0.0]
        found = Survival(beyond, shares)
    return found


def _steps(counts: Mapping[int, float], mean: float | None, unit: float) -> tuple[list[float], list[float]]:
    """Return the edges of all buckets, and how many ended between each two."""
    edges: list[float] = [0.0]
    ended: list[float] = []
    for number in sorted(counts):
        low, high = bucket_bounds(number)
        if low > edges[-1]:
            edges.append(float(low))
            ended.append(0.0)
        edges.append(float(high))
        ended.append(counts[number])
    middle = sum(count * (edges[index] + edges[index + 1]) / 2 for index, count in enumerate(ended)) / sum(ended)
    scale = mean / middle if mean else unit
    return [edge * scale for edge in edges], ended


def _shares(ended: list[float], open_there: list[float]) -> list[float]:
    """Return the share that goes beyond each edge: of those that got to a step, how many did not end in it."""
    left, share, shares = sum(ended), 1.0, [1.0]
    for count, still in zip(ended, open_there, strict=True):
        reached = left + still
        share *= 1 - count / reached if reached > 0 else 1.0
        left -= count
        shares.append(max(share, 0.0) if share > 1e-12 else 0.0)
    return shares


def _integral(survival: Survival, shares: Sequence[float]) -> float:
    """Return the integral of a share over the tokens, from what it is at each edge."""
    edges = survival.edges
    total, before, at = 0.0, shares[0], 0.0
    for edge, value in zip(edges[1:], shares[1:], strict=True):
        total += (edge - at) * (before + value) / 2
        before, at = value, edge
    return total
