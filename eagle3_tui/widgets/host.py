"""The machine on which the daemon runs: processor, memory, and what may fill: the disk and /dev/shm.

What this run's own dumps take of their budget there stands with what is stored."""

from __future__ import annotations

from typing import Final

from rich.style import Style

from contracts.disks import RUN, STORE
from contracts.records import HostSample
from contracts.status import RunStatus
from eagle3_tui.store_text import named_disks, of_path, used_of
from eagle3_tui.text import human_bytes, human_duration, human_percent, human_rate
from eagle3_tui.widgets.line import Group, group, labelled
from eagle3_tui.widgets.look import Look

_LOW: Final = 0.05
"""Less than that free is worth a look."""
_SOON_S: Final = 6 * 3600.0
"""A disk that is full sooner than that wants a person today."""


def host_groups(status: RunStatus, look: Look) -> list[Group]:
    """Return the host's figures; none without a reading."""
    host = status.host
    if host is None:
        return []
    groups = [
        group("host", look.dim, look),
        labelled("CPU", human_percent(host.cpu_pct), look.plain, look, 2),
        labelled("memory", _memory(host), look.plain, look, 3),
    ]
    full_in = status.disk_full_in_s
    for words, path, disk in named_disks(host):
        short, kept = _short(disk.free_bytes, disk.total_bytes), RUN in disk.uses or STORE in disk.uses
        free = human_bytes(disk.free_bytes) + of_path(path)
        groups.append(labelled(words, free, _style(short, look), look, 0 if short or kept else 5))
        if full_in is not None and kept and disk.path in ("", status.disk_full_path):
            groups.append(labelled("full in", human_duration(full_in), _style(full_in < _SOON_S, look), look, 1))
    groups.append(labelled("load", human_rate(host.load_1m), look.plain, look, 6))
    return groups


def _memory(host: HostSample) -> str:
    used, total = host.memory_used_bytes, host.memory_total_bytes
    return human_bytes(used) if total is None else used_of(used, total)


def _short(free: int | None, total: int | None) -> bool:
    return free is not None and total is not None and total > 0 and free / total < _LOW


def _style(worrying: bool, look: Look) -> Style:
    return look.warn if worrying else look.plain
