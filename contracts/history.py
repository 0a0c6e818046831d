"""One quantity of a run over time, with marks: a function of (fold, now) and of what a person wants to see.

Time goes in equal steps whose borders do not depend on the present: as time goes on steps are added, and no known one
is judged again because the others have moved. Where no daemon ran, or it paused, a rate has a gap and not a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from contracts.details.rates import SPANS as SPANS
from contracts.fold.history import COARSE_S, FINE_S, Bucket, History
from contracts.fold.marks import Mark
from contracts.fold.run import RunFold
from contracts.fold.series import GPU_STEP_S, Gauge, TelemetrySeries
from contracts.steps import SHORT_S, Steps, rates
from contracts.work import extracts
from contracts.worked import idle_spans

HOP_S: Final = 6.0
"""The borders of what is shown move at least so far at once: moving all of it costs bytes."""
SLICE_BYTES: Final = 4 << 20
"""Of telemetry, read for one answer."""
_MOST_POINTS: Final = 2000
_LEAST_STEP_S: Final = 1.0
_GROWTH: Final = 1.25
"""From one length of a step to the next, where all is shown: the scale changes seldom."""
_PRESENT_S: Final = 30.0
"""A heartbeat as young as this is one of now."""
_LEAST_HOLD_S: Final = 5.0
_HOLD_READINGS: Final = 3
"""A reading holds until the next one, over as many that are missing."""


class Quantity(StrEnum):
    """What can be shown; the value is its name with its unit."""

    TOKENS = "tokens/s"
    IN_FLIGHT = "in flight"
    GPU = "GPU use %"
    KV = "KV cache %"
    STORED = "stored MB/s"
    DUMP = "dump folder GB"


class RunHistory(msgspec.Struct, frozen=True):
    """One quantity over time."""

    quantity: Quantity
    begin: float
    """Of the first step, Unix seconds."""
    step_s: float
    values: tuple[float | None, ...]
    """The mean of each step, in the unit that the quantity's name says; None: not known, no daemon, paused, or to
    come."""
    end: float
    """The present; of a run that is over, when the last thing happened."""
    mean: float | None
    """Of a rate: what came in all of it by the time in which something could."""
    most: float | None
    """Of single readings, where a step holds several."""
    marks: tuple[Mark, ...]
    """In this stretch of time, the oldest first."""
    choices: tuple[Quantity, ...]
    """What this run has."""
    untimed: bool = False
    """There are responses, and none says when it was finished."""
    reading: bool = False
    """Older telemetry was not read yet: ask again."""
    unreadable: int = 0
    """Lines of telemetry that fit no known shape, of those that were read."""


def run_history(
    fold: RunFold,
    now: float,
    quantity: Quantity,
    span_s: float | None,
    points: int,
    *,
    together: int = 1,
    most_bytes: int = SLICE_BYTES,
) -> RunHistory:
    """Return the history of a quantity.

    Args:
        fold: As last brought up to date. Of its telemetry files what is needed and was not read yet is read.
        now: The present.
        quantity: What.
        span_s: Length of it all; None: since the run began.
        points: Number of steps, at least 1.
        together: So many steps move together: the points of one cell of the screen.
        most_bytes: Of telemetry read at most; see `RunHistory.reading`.

    Raises:
        OSError: A telemetry file is there and cannot be read.
    """
    points = min(max(points, together, 1), _MOST_POINTS)
    stores = quantity is Quantity.STORED
    histories = [dataset.hidden.history if stores else dataset.responses.history for dataset in fold.datasets.values()]
    first, end = _first(fold, histories), _end(fold, histories, now)
    begin, step_s = grid(first, end, span_s, points, together)
    series = fold.telemetry.series
    kind = _kind(quantity)
    complete = series.read(kind, begin - COARSE_S, most_bytes)
    steps = Steps(begin, step_s, points, end, _hold_s(fold))
    values: Sequence[float | None]
    if quantity in (Quantity.TOKENS, Quantity.STORED):
        counted: Callable[[Bucket], float] = (lambda bucket: bucket.bytes / 1e6) if stores else _tokens
        values, mean = rates(
            histories, counted, steps, first, series.awake, idle_spans(fold, histories, begin - COARSE_S, end)
        )
        most = max((value for value in values if value is not None), default=None)
    else:
        gauge, scale = _gauge(series, quantity)
        readings = steps.readings(gauge)
        values = [None if reading is None else reading.mean * scale for reading in readings]
        most = max((reading.most * scale for reading in readings if reading is not None), default=None)
        known = [value for value in values if value is not None]
        mean = sum(known) / len(known) if known else None
    return RunHistory(
        quantity=quantity,
        begin=begin,
        step_s=step_s,
        values=tuple(values),
        end=end,
        mean=mean,
        most=most,
        marks=tuple(mark for mark in fold.events.marks.last if begin <= mark.at < begin + points * step_s),
        choices=quantities(fold),
        untimed=first is None and any(dataset.responses.done for dataset in fold.datasets.values()),
        reading=not complete,
        unreadable=series.unreadable(kind),
    )


def quantities(fold: RunFold) -> tuple[Quantity, ...]:
    """Return what a run has, in the order in which it is gone through."""
    telemetry = fold.telemetry
    stores = extracts(fold) or any(dataset.stored for dataset in fold.datasets.values())
    has = {
        Quantity.TOKENS: True,
        Quantity.IN_FLIGHT: telemetry.heartbeat is not None,
        Quantity.GPU: telemetry.gpu is not None and bool(telemetry.gpu.gpus),
        Quantity.KV: telemetry.server is not None
        and any(server.kv_usage_pct is not None for server in telemetry.server.servers),
        Quantity.STORED: stores,
        Quantity.DUMP: telemetry.heartbeat is not None and telemetry.heartbeat.dump_used_bytes is not None,
    }
    return tuple(quantity for quantity, there in has.items() if there)


def gpu_use(fold: RunFold, now: float, steps: int) -> dict[int, tuple[float | None, ...]]:
    """Return the mean utilisation of each GPU, in percent, over the last whole steps of `GPU_STEP_S`, oldest first.

    At most a quarter of an hour is known; None where nothing was read.

    Raises:
        OSError: The telemetry file is there and cannot be read.
    """
    series = fold.telemetry.series
    last = int(now // GPU_STEP_S) - 1
    series.read("gpu", now - (steps + 1) * GPU_STEP_S, SLICE_BYTES)
    return {
        index: tuple(
            None if (reading := ring.over(number, number)) is None else reading.mean
            for number in range(last - steps + 1, last + 1)
        )
        for index, ring in sorted(series.gpus.items())
    }


def _tokens(bucket: Bucket) -> int:
    return bucket.tokens


def _kind(quantity: Quantity) -> str:
    """The telemetry that a quantity needs: a rate needs to know when a daemon was awake."""
    return {Quantity.GPU: "gpu", Quantity.KV: "server"}.get(quantity, "daemon")


def _gauge(series: TelemetrySeries, quantity: Quantity) -> tuple[Gauge, float]:
    """A gauge, and what its values are to be multiplied with."""
    return {
        Quantity.IN_FLIGHT: (series.in_flight, 1.0),
        Quantity.GPU: (series.gpu_pct, 1.0),
        Quantity.KV: (series.kv_pct, 1.0),
        Quantity.DUMP: (series.dump_bytes, 1e-9),
    }[quantity]


def _hold_s(fold: RunFold) -> float:
    interval = 1.0 if fold.config is None else fold.config.telemetry.interval_s
    return max(_HOLD_READINGS * interval, _LEAST_HOLD_S)


def _first(fold: RunFold, histories: Iterable[History]) -> float | None:
    """When the run began: its first daemon, or the first response."""
    known = [] if fold.events.first_started_at is None else [fold.events.first_started_at]
    for history in histories:
        if history.coarse:
            known.append(min(history.coarse) * COARSE_S)
        if history.fine:
            known.append(min(history.fine) * FINE_S)
    return min(known, default=None)


def _end(fold: RunFold, histories: Iterable[History], now: float) -> float:
    """The present; when the last thing happened where no daemon has said anything for a while."""
    heartbeat = fold.telemetry.heartbeat
    if heartbeat is not None and now - heartbeat.at < _PRESENT_S:
        return now
    known = [] if heartbeat is None else [heartbeat.at]
    known += [newest + FINE_S for history in histories if (newest := history.newest) is not None]
    last = max(known, default=now)
    if heartbeat is None and now - last < SHORT_S:
        return now  # other tools give no heartbeats: what comes next may be on its way
    return min(last, now)


def grid(first: float | None, end: float, span_s: float | None, points: int, together: int) -> tuple[float, float]:
    """Return where the steps begin and how long each is; all borders are multiples of that.

    Args:
        first: When the run began.
        end: The present.
        span_s: Length of it all; None: since the run began.
        points: How many steps.
        together: So many move together.
    """
    if span_s is None:
        length = max(end - (end if first is None else first), 1.0)
        step_s = _LEAST_STEP_S
        while (points - _hop(step_s, together)) * step_s < length and step_s < length:
            step_s *= _GROWTH
    else:
        step_s = span_s / points
    hop = _hop(step_s, together)
    last = math.ceil(end / (hop * step_s)) * hop
    return (last - points) * step_s, step_s


def _hop(step_s: float, together: int) -> int:
    """Steps by which the borders move at once."""
    return together * math.ceil(HOP_S / (step_s * together))
