"""Folds of some moments of the past, kept so that going back does not count everything again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from contracts.fold.dataset import DatasetState
from contracts.fold.run import RunFold
from contracts.journal.tail import Position

MOST_BYTES: Final = 64 << 20
"""Of all that is kept beside the base."""
LEAST_STEP_S: Final = 60.0
"""The nearest moment that is kept lies so far before the one that is shown."""
_PART: Final = 4
"""Each kept moment is so many times nearer than the one before it."""


@dataclass(frozen=True)
class _Dataset:
    state: bytes
    positions: dict[str, Position | None]


@dataclass(frozen=True)
class _Moment:
    at: float
    datasets: dict[str, _Dataset]

    @property
    def size(self) -> int:
        return sum(len(dataset.state) for dataset in self.datasets.values())


class Kept:
    """The base of a recording, from where any moment can be reached, and some moments after it, the last used ones.

    Args:
        most_bytes: Of those; one that alone is larger is not kept.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._base: _Moment | None = None
        self._moments: list[_Moment] = []
        """The last used one last."""
        self._too_large_from = math.inf
        """A fold grows with time: those from here on need not be tried, which takes seconds each."""

    def best(self, at: float) -> float | None:
        """Return the newest kept moment that is not later than another; None: there is none."""
        kept = self._moments if self._base is None else [self._base, *self._moments]
        return max((moment.at for moment in kept if moment.at <= at), default=None)

    def keep_base(self, fold: RunFold, at: float) -> None:
        """Keep a fold as it is, and for good."""
        self._base = _moment(fold, at)

    def keep(self, fold: RunFold, at: float) -> None:
        """Keep a fold as it is; what was used longest ago makes room."""
        if self.best(at) == at or at >= self._too_large_from:
            return
        moment = _moment(fold, at)
        if moment.size > self._most_bytes:
            self._too_large_from = at
            return
        self._moments.append(moment)
        while sum(each.size for each in self._moments) > self._most_bytes:
            del self._moments[0]

    def restore(self, fold: RunFold, at: float) -> None:
        """Put a kept moment into a fold that has read nothing yet; its next poll goes on from there."""
        if self._base is not None and self._base.at == at:
            moment = self._base
        else:
            place = next(place for place, moment in enumerate(self._moments) if moment.at == at)
            moment = self._moments.pop(place)
            self._moments.append(moment)
        for name, kept in moment.datasets.items():
            dataset = fold.datasets.get(name)
            if dataset is None:
                continue  # its folder is gone
            dataset.state = msgspec.msgpack.decode(kept.state, type=DatasetState)
            for file, position in kept.positions.items():
                dataset.tails[file].position = position


def _moment(fold: RunFold, at: float) -> _Moment:
    return _Moment(
        at,
        {
            name: _Dataset(
                msgspec.msgpack.encode(dataset.state), {file: tail.position for file, tail in dataset.tails.items()}
            )
            for name, dataset in fold.datasets.items()
        },
    )


def stops(since: float, at: float) -> Iterator[float]:
    """Yield the moments to be kept on the way to one, ascending: from there back each a good deal further."""
    steps = []
    step = LEAST_STEP_S
    while step < at - since:
        steps.append(step)
        step *= _PART
    for step in reversed(steps):
        yield at - step
