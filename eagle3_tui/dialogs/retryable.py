"""What a retry would put back into the queue: a question to the fold, asked before the person is."""

from __future__ import annotations

import msgspec

from contracts.fold.run import RunFold
from contracts.records import HALTING, FailureClass, Stage


class GivenUp(msgspec.Struct, frozen=True):
    """Samples of a data set that failed in the same way and are not tried again by themselves."""

    dataset: str
    error: str
    samples: int


class Halted(msgspec.Struct, frozen=True):
    """A data set that is stopped in a stage until a person asks for another try."""

    dataset: str
    stage: Stage


class Retryable(msgspec.Struct, frozen=True):
    """Everything that a retry can reach."""

    given_up: tuple[GivenUp, ...] = ()
    halted: tuple[Halted, ...] = ()

    def samples(self, dataset: str | None, error: FailureClass | None) -> int:
        """Return how many samples a retry puts back; None: of any data set, of any class."""
        return sum(
            each.samples for each in self.given_up if dataset in (None, each.dataset) and error in (None, each.error)
        )

    def going_on(self, dataset: str | None, error: FailureClass | None) -> list[str]:
        """Return the data sets that go on again after a retry of all samples of a class."""
        return sorted(
            {
                each.dataset
                for each in self.halted
                if dataset in (None, each.dataset) and (error is None or error in HALTING[each.stage])
            }
        )


def retryable(fold: RunFold, now: float) -> Retryable:
    """Return what a retry can reach; reads no file."""
    counts: dict[tuple[str, str], int] = {}
    halted = []
    for name, dataset in fold.datasets.items():
        for _, failure in (*dataset.given_up(), *dataset.extract_given_up_samples()):
            if failure.is_helped_by(None):
                counts[name, failure.error] = counts.get((name, failure.error), 0) + 1
        if dataset.failures.halted is not None:
            halted.append(Halted(name, Stage.GENERATE))
        if dataset.failures.extract_halted is not None:
            halted.append(Halted(name, Stage.EXTRACT))
    return Retryable(tuple(GivenUp(name, error, count) for (name, error), count in counts.items()), tuple(halted))
