"""(host sample) -> the disks that a run writes to, and when they are full: each file system once. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.rates import bytes_per_s, tokens_per_s
from contracts.records import DiskReading, HostSample
from contracts.run_dir import RESPONSES

RUN: Final = "run"
STORE: Final = "store"
DUMPS: Final = "dumps"
SHM: Final = "shm"
"""Uses of a disk; the last one where a run captures nothing."""
GROWTH_WINDOW_S: Final = 600.0
"""When a disk will be full is judged by the rate of this long."""
FARTHEST_S: Final = 365 * 86_400.0
"""What is full later than that is not worth a word."""

_WORDS: Final = {RUN: "run directory", STORE: "store", DUMPS: "dump folder", SHM: "shared memory"}


@dataclass(frozen=True)
class FullDisk:
    """The disk that is full first."""

    disk: DiskReading
    in_s: float


def disks_of(host: HostSample) -> list[DiskReading]:
    """Return the file systems of a sample; lines of earlier versions know the run's disk and /dev/shm alone."""
    if host.disks:
        return host.disks
    found = []
    if host.disk_free_bytes is not None:
        free, total = host.disk_free_bytes, host.disk_total_bytes
        found.append(DiskReading(path="", uses=[RUN, STORE], free_bytes=free, total_bytes=total))
    if host.shm_free_bytes is not None:
        free, total = host.shm_free_bytes, host.shm_total_bytes
        found.append(DiskReading(path="/dev/shm", uses=[SHM], free_bytes=free, total_bytes=total))
    return found


def disk_of(host: HostSample | None, use: str) -> DiskReading | None:
    """Return the disk that something lies on; None where nobody measured it."""
    return None if host is None else next((disk for disk in disks_of(host) if use in disk.uses), None)


def disk_words(disk: DiskReading) -> str:
    """Return what a disk is: ``the disk of run directory and store, /data/my_run``."""
    path = f", {disk.path}" if disk.path else ""
    return f"the disk of {' and '.join(_WORDS.get(use, use) for use in disk.uses)}{path}"


def folder_on(disk: DiskReading, fold: RunFold) -> str:
    """Return a folder on a disk; lines of earlier versions name none, and mean the run's."""
    return disk.path or str(fold.run.path)


def see_what_fills(folders: Iterable[str]) -> str:
    """Return the commands that show what fills the disks of these folders."""
    paths = " ".join(sorted({shlex.quote(folder) for folder in folders}))
    return f"See what fills it: df -h {paths}; du -xhd2 {paths} | sort -h | tail."


def full_first(fold: RunFold, host: HostSample | None, now: float) -> FullDisk | None:
    """Return the disk of the run or the store that is full first; None when none is known to grow."""
    return min(full_disks(fold, host, now), key=lambda each: each.in_s, default=None)


def full_disks(fold: RunFold, host: HostSample | None, now: float) -> list[FullDisk]:
    """Return when the disks of the run and the store are full, each by what grows on it; not those with more room than
    a run ever takes."""
    since = fold.events.session_started_at
    found = []
    for disk in [] if host is None else disks_of(host):
        rate = 0.0
        for dataset in fold.datasets.values():
            if STORE in disk.uses:
                rate += bytes_per_s(dataset.hidden.history, now, since, GROWTH_WINDOW_S) or 0.0
            if RUN in disk.uses:
                rate += _answers_per_s(dataset, now, since)
        if disk.free_bytes is not None and rate > 0 and rate * FARTHEST_S > disk.free_bytes:
            found.append(FullDisk(disk, max(disk.free_bytes, 0) / rate))
    return found


def _answers_per_s(dataset: DatasetFold, now: float, since: float | None) -> float:
    """Return the bytes a second by which the journal of answers grows: tokens a second, at what one has taken there."""
    tokens, position = dataset.responses.completion_tokens, dataset.tails[RESPONSES].position
    if not tokens or position is None:
        return 0.0
    return (tokens_per_s(dataset.responses.history, now, since, GROWTH_WINDOW_S) or 0.0) * position.offset / tokens
