"""Telemetry over time in flat memory: mean and most of every second, of ten seconds, and of a minute for a week."""

from __future__ import annotations

from array import array
from typing import Any, Final, NamedTuple

import msgspec

from contracts.fold.rotated import RotatedLines
from contracts.journal.extent import Extent, whole
from contracts.run_dir import RunDir

LEVELS: Final = ((1, 960), (10, 960), (60, 10_080))
"""Seconds of a stretch, and how many are kept: a quarter of an hour, more than two hours, a week."""
GPU_STEP_S: Final = 5
_GPU_KEPT: Final = 192
_NEVER: Final = -(1 << 62)
_LATEST: Final = 1e11
"""Moments beyond are no times; they would not fit either."""


class Reading(NamedTuple):
    """What was read in one stretch of time."""

    mean: float
    most: float


class Ring:
    """Sum, number and most of the values in each of the newest stretches of time.

    Values may come in any order: what is kept depends on the newest moment alone. The memory is taken once.

    Args:
        width_s: Seconds of a stretch.
        kept: How many.
    """

    def __init__(self, width_s: int, kept: int) -> None:
        self.width_s, self.kept = width_s, kept
        self.reach_s = (kept - 1) * width_s
        """So long before the newest value nothing is lost."""
        self._number = array("q", [_NEVER]) * kept
        self._count = array("q", [0]) * kept
        self._sum = array("d", [0.0]) * kept
        self._most = array("d", [0.0]) * kept

    def add(self, at: float, value: float) -> None:
        """Take a value in; one from before what is kept is dropped.

        Args:
            at: Unix seconds, from 0 to `_LATEST`.
            value: What was read.
        """
        number = int(at // self.width_s)
        slot = number % self.kept
        known = self._number[slot]
        if known == number:
            self._count[slot] += 1
            self._sum[slot] += value
            if value > self._most[slot]:
                self._most[slot] = value
        elif known < number:
            self._number[slot], self._count[slot] = number, 1
            self._sum[slot] = self._most[slot] = value

    def over(self, first: int, last: int) -> Reading | None:
        """Return the mean and most over the stretches from number ``first`` to ``last``; None: nothing was read."""
        count, total, most = 0, 0.0, None
        for number in range(first, last + 1):
            slot = number % self.kept
            if self._number[slot] == number:
                count += self._count[slot]
                total += self._sum[slot]
                if most is None or self._most[slot] > most:
                    most = self._most[slot]
        return None if most is None else Reading(total / count, most)


class Gauge:
    """One quantity, read about once a second."""

    def __init__(self) -> None:
        self._rings = tuple(Ring(width, kept) for width, kept in LEVELS)
        self.oldest: float | None = None
        """The earliest moment at which it was read, as far as the files were."""
        self._newest = 0.0

    def add(self, at: float, value: float) -> None:
        """Take a value in, whatever its order; see `Ring.add`."""
        if self.oldest is None or at < self.oldest:
            self.oldest = at
        if at > self._newest:
            self._newest = at
        age = self._newest - at
        for ring in self._rings:
            if age < ring.reach_s:
                ring.add(at, value)

    def steps(self, begin: float, step_s: float, count: int) -> list[Reading | None]:
        """Return what was read in ``count`` equal steps of time; None for those without a reading.

        Args:
            begin: When the first begins.
            step_s: Length of each.
            count: How many.
        """
        ring = self._ring(begin, step_s)
        width = ring.width_s
        found = []
        for index in range(count):
            start = begin + index * step_s
            if width > step_s:
                number = int(start // width)
                found.append(ring.over(number, number))
            else:  # those that begin within it
                found.append(ring.over(-int(-start // width), -int(-(start + step_s) // width) - 1))
        return found

    def _ring(self, begin: float, step_s: float) -> Ring:
        """The coarsest that is no coarser than the steps; of those that reach back so far."""
        reaching = [ring for ring in self._rings if begin >= self._newest - ring.reach_s] or [self._rings[-1]]
        fine = [ring for ring in reaching if ring.width_s <= step_s]
        return fine[-1] if fine else reaching[0]


class _Beat(msgspec.Struct):
    """What of a heartbeat is kept."""

    at: float
    state: str
    in_flight: dict[str, int] = {}
    dump_used_bytes: int | None = None


class _Gpu(msgspec.Struct):
    index: int
    utilization_pct: float | None = None


class _Gpus(msgspec.Struct):
    at: float
    gpus: list[_Gpu]


class _Server(msgspec.Struct):
    kv_usage_pct: float | None = None


class _Servers(msgspec.Struct):
    at: float
    servers: list[_Server]


class TelemetrySeries:
    """The telemetry files of a run as quantities over time. Nothing is read before somebody asks for it.

    Args:
        run: Where the files are.
        extent: How much of each counts.
    """

    def __init__(self, run: RunDir, extent: Extent = whole) -> None:
        self.awake = Gauge()
        """1 at a heartbeat of a daemon that may send, 0 of one that pauses; nothing where there was none."""
        self.in_flight = Gauge()
        """Open requests that generate answers."""
        self.dump_bytes = Gauge()
        """In the dump folder."""
        self.gpu_pct = Gauge()
        """Mean utilisation of the GPUs that tell it."""
        self.kv_pct = Gauge()
        """Mean use of the servers' KV caches."""
        self.gpus: dict[int, Ring] = {}
        """Utilisation of each GPU, by its index."""
        self._gpus_newest = 0.0
        self._lines: dict[str, RotatedLines[Any]] = {
            "daemon": RotatedLines(run.telemetry_file("daemon"), _Beat, self._add_beat, extent),
            "gpu": RotatedLines(run.telemetry_file("gpu"), _Gpus, self._add_gpus, extent),
            "server": RotatedLines(run.telemetry_file("server"), _Servers, self._add_servers, extent),
        }

    def read(self, kind: str, since: float, most_bytes: int) -> bool:
        """Read one kind of telemetry, the newest first; return whether all since a moment was read.

        Args:
            kind: ``daemon``, ``gpu`` or ``server``.
            since: Unix seconds.
            most_bytes: About so much at most; the next call goes on.

        Raises:
            OSError: A file is there and cannot be read.
        """
        return self._lines[kind].read(since, most_bytes)

    def unreadable(self, kind: str) -> int:
        """Return how many lines fit no known shape, of those of a kind that were read."""
        return self._lines[kind].unreadable

    def _add_beat(self, beat: _Beat) -> None:
        if not _is_time(beat.at):
            return
        self.awake.add(beat.at, 0.0 if beat.state == "paused" else 1.0)
        self.in_flight.add(beat.at, sum(beat.in_flight.values()))
        if beat.dump_used_bytes is not None:
            self.dump_bytes.add(beat.at, beat.dump_used_bytes)

    def _add_gpus(self, sample: _Gpus) -> None:
        if not _is_time(sample.at):
            return
        known = [gpu.utilization_pct for gpu in sample.gpus if gpu.utilization_pct is not None]
        if known:
            self.gpu_pct.add(sample.at, sum(known) / len(known))
        self._gpus_newest = max(self._gpus_newest, sample.at)
        if self._gpus_newest - sample.at >= GPU_STEP_S * (_GPU_KEPT - 1):
            return
        for gpu in sample.gpus:
            if gpu.utilization_pct is None:
                continue
            ring = self.gpus.get(gpu.index)
            if ring is None:
                ring = self.gpus[gpu.index] = Ring(GPU_STEP_S, _GPU_KEPT)
            ring.add(sample.at, gpu.utilization_pct)

    def _add_servers(self, sample: _Servers) -> None:
        known = [server.kv_usage_pct for server in sample.servers if server.kv_usage_pct is not None]
        if known and _is_time(sample.at):
            self.kv_pct.add(sample.at, sum(known) / len(known))


def _is_time(at: float) -> bool:
    return 0 <= at < _LATEST
