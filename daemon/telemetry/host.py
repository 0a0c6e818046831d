"""The machine and the daemon itself, by psutil: one `HostSample` a call, each value None when it can't be had."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from contracts.disks import DUMPS, RUN, SHM
from contracts.records import DiskReading, HostSample
from contracts.run_dir import path_text

_IDLE: Final = ("idle", "iowait")
_COUNTED_TWICE: Final = ("guest", "guest_nice")
"""Parts of user and nice on Linux."""


class HostCollector:
    """Samples CPU, memory, disks and this process. For one thread at a time, not always the same one.

    CPU use is worked out here from the counters: ``psutil.cpu_percent`` keeps its last counters per thread, so that
    its first call in each thread answers 0.0.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        """Sample nothing yet.

        Args:
            folders: What lies where, by the uses of `contracts.disks`. That of the run is there; others may be made
                later, and are then taken for where they will be.
        """
        self._folders = dict(folders)
        self._process = psutil.Process()
        self._last_cpu: tuple[float, float] | None = None
        self._last_own: tuple[float, float] | None = None

    def sample(self, at: float) -> HostSample:
        """Return the values at ``at`` (steady Unix seconds); CPU shares are over the time since the last call.

        ``daemon_cpu_pct`` is a share of one core.
        """
        memory_used, memory_total = _memory()
        disks = self._disks()
        run, shm = _on(disks, RUN), _on(disks, DUMPS, SHM)
        rss, own_cpu = self._own(at)
        return HostSample(
            at=at,
            cpu_pct=self._cpu(),
            load_1m=_load(),
            memory_used_bytes=memory_used,
            memory_total_bytes=memory_total,
            disk_free_bytes=None if run is None else run.free_bytes,
            disk_total_bytes=None if run is None else run.total_bytes,
            shm_free_bytes=None if shm is None else shm.free_bytes,
            shm_total_bytes=None if shm is None else shm.total_bytes,
            disks=disks,
            daemon_rss_bytes=rss,
            daemon_cpu_pct=own_cpu,
        )

    def _disks(self) -> list[DiskReading]:
        """Measure each file system once, whatever lies on it: two readings of one would differ."""
        found: dict[int, DiskReading] = {}
        for use, folder in self._folders.items():
            there = folder if use == RUN else _existing(folder)
            try:
                device = there.stat().st_dev
                if device not in found:
                    usage = psutil.disk_usage(str(there))
                    path = path_text(os.path.realpath(there))
                    found[device] = DiskReading(path=path, uses=[], free_bytes=usage.free, total_bytes=usage.total)
            except OSError:
                continue  # a link that leads nowhere, a disk that is gone: nothing is known of it
            found[device].uses.append(use)
        return list(found.values())

    def _cpu(self) -> float | None:
        try:
            times = psutil.cpu_times()._asdict()
        except (OSError, psutil.Error):
            self._last_cpu = None
            return None
        total = sum(seconds for name, seconds in times.items() if name not in _COUNTED_TWICE)
        busy = total - sum(times.get(name, 0.0) for name in _IDLE)
        before, self._last_cpu = self._last_cpu, (total, busy)
        if before is None or total <= before[0]:
            return None
        return _clamped(100.0 * (busy - before[1]) / (total - before[0]))

    def _own(self, at: float) -> tuple[int | None, float | None]:
        try:
            rss = int(self._process.memory_info().rss)
            times = self._process.cpu_times()
        except (OSError, psutil.Error):
            self._last_own = None
            return None, None
        used = times.user + times.system
        before, self._last_own = self._last_own, (at, used)
        if before is None or at <= before[0]:
            return rss, None
        return rss, max(0.0, 100.0 * (used - before[1]) / (at - before[0]))


def _memory() -> tuple[int | None, int | None]:
    """Return (used, total) bytes; used is what is not available, so that caches count as free."""
    try:
        memory = psutil.virtual_memory()
    except (OSError, psutil.Error):
        return None, None
    return memory.total - memory.available, memory.total


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest above it that is there; a broken link stays what it is."""
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each)), folder)


def _on(disks: list[DiskReading], *uses: str) -> DiskReading | None:
    return next((disk for disk in disks if any(use in disk.uses for use in uses)), None)


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _clamped(share: float) -> float:
    return min(100.0, max(0.0, share))
