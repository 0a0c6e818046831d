"""(fold, heartbeat, now) -> when the run and each data set is done: answers and hidden states together. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contracts.eta import (
    DONE,
    Conditions,
    Eta,
    Part,
    Storing,
    Work,
    forecast,
    is_finished,
    is_stored,
    later,
    storing_eta,
    tokens_to_store,
    unknown,
)
from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.rates import tokens_per_s
from contracts.records import Heartbeat
from contracts.work import extracts, generates

STORING_WINDOW_S: Final = 600.0
"""What is to be stored yet is judged by the speed of this long."""
FORECAST_S: Final = 4.0
"""How old a forecast may be where time is all that went on."""
NO_DAEMON: Final = "no daemon is running"


@dataclass(frozen=True)
class Remaining:
    """When what is done."""

    total: Eta
    datasets: dict[str, Eta]
    """By name; not of those that are stopped."""


def remaining(
    fold: RunFold, works: dict[str, Work], storings: dict[str, Storing], heartbeat: Heartbeat | None, now: float
) -> Remaining:
    """Return when the run and its data sets are done, as far as the files and the daemon's last word tell.

    Data sets that wait for a person (halted) have no end and are left out of that of the run.
    """
    names = [name for name, dataset in fold.datasets.items() if not _is_halted(fold, dataset)]
    if heartbeat is None:
        return Remaining(unknown(NO_DAEMON), dict.fromkeys(names, unknown(NO_DAEMON)))
    datasets = [fold.datasets[name] for name in names]
    parts = [
        Part(
            works[dataset.name],
            dataset.responses.pace,
            dataset.responses.lengths,
            dataset.responses.times,
            heartbeat.in_flight.get(dataset.name, 0),
        )
        for dataset in datasets
    ]
    answered = forecast(parts, _conditions(fold, heartbeat), now)
    if not extracts(fold):
        return Remaining(answered.total, dict(zip(names, answered.parts, strict=True)))
    own = {
        name: _stored_too(fold, answer, [fold.datasets[name]], [storings[name]], heartbeat, now)
        for name, answer in zip(names, answered.parts, strict=True)
    }
    total = _stored_too(fold, answered.total, datasets, [storings[name] for name in names], heartbeat, now)
    return Remaining(total, own)


class SteadyRemaining:
    """`remaining`, told anew `FORECAST_S` after the last time, and at once when something else than time went on.

    For who asks several times a second: a forecast of many data sets is most of the work of a status. For the same
    moment and files it says the same as `remaining` whenever it is told anew; it is never older than that.
    """

    def __init__(self) -> None:
        self._told: Remaining | None = None
        self._told_at = 0.0
        self._of: tuple[object, ...] = ()

    def __call__(
        self,
        fold: RunFold,
        works: dict[str, Work],
        storings: dict[str, Storing],
        heartbeat: Heartbeat | None,
        now: float,
    ) -> Remaining:
        """Return when the run and its data sets are done, as at most `FORECAST_S` ago; see `remaining`."""
        finished = [(name, is_finished(works[name]), _is_halted(fold, data)) for name, data in fold.datasets.items()]
        known = (None if heartbeat is None else heartbeat.pid, fold.events.lines, finished)
        if self._told is None or known != self._of or not 0 <= now - self._told_at < FORECAST_S:
            self._told, self._told_at, self._of = remaining(fold, works, storings, heartbeat, now), now, known
        return self._told


def _is_halted(fold: RunFold, dataset: DatasetFold) -> bool:
    failures = dataset.failures
    return (failures.halted is not None and generates(fold)) or (failures.extract_halted is not None and extracts(fold))


def _conditions(fold: RunFold, heartbeat: Heartbeat) -> Conditions:
    events = fold.events
    since = events.session_started_at or 0.0
    return Conditions(
        since=since,
        moving_since=max(since, events.resumed_at or 0.0, events.concurrency_set_at),
        concurrency=heartbeat.concurrency,
        oldest_s=heartbeat.oldest_request_s,
        longest=None if fold.config is None else fold.config.max_new_tokens,
    )


def _stored_too(
    fold: RunFold, answered: Eta, datasets: list[DatasetFold], storings: list[Storing], heartbeat: Heartbeat, now: float
) -> Eta:
    """Return when the hidden states of some data sets are stored as well.

    Where storing keeps up with the answers, at most as many samples behind as are in flight, it ends with them.
    """
    if answered == DONE and all(is_stored(storing) for storing in storings):
        return DONE
    behind = [None if each.to_store is None else max(each.to_store - each.settled, 0) for each in storings]
    keeps_up = sum(each or 0 for each in behind) <= heartbeat.concurrency and heartbeat.store_trouble is None
    if answered != DONE and None not in behind and keeps_up:
        return answered
    left = [tokens_to_store(storing) for storing in storings]
    tokens = None if None in left else sum(each or 0.0 for each in left)
    since = fold.events.session_started_at
    speeds = [tokens_per_s(each.hidden.history, now, since, STORING_WINDOW_S) for each in fold.datasets.values()]
    if len(datasets) == 1:
        speeds = [tokens_per_s(datasets[0].hidden.history, now, since, STORING_WINDOW_S)]
    rate = sum(each for each in speeds if each is not None)
    return later(answered, storing_eta(tokens, rate, sum(each.stored for each in datasets)))
