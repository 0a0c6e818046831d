"""Figures and counts in words, once for alerts, the daemon's replies and the screen. `None` is unknown: ``-``."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from typing import Final

UNKNOWN: Final = "-"


def human_bytes(value: float | None) -> str:
    """Return bytes in decimal units, as disks are sold: ``512 B``, ``88.0 GB``, ``2.3 TB``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) < 1000:
        return f"{value:.0f} B"
    return scaled(value, ("kB", "MB", "GB", "TB", "PB"))


def scaled(value: float, units: tuple[str, ...]) -> str:
    """Return a value of 1000 or more with one decimal and its unit: ``123.4 k``; the units are a thousand apart."""
    shown = value / 1000
    for unit in units[:-1]:
        # 999.95 would round to four digits: that belongs to the next unit.
        if abs(shown) < 999.95:
            return f"{shown:.1f} {unit}"
        shown /= 1000
    return f"{shown:,.1f} {units[-1]}"


def clock_time(at: float, now: float) -> str:
    """Return local time ``03:02:11``, with month and day before it where that is not today: ``11-30 03:02:11``."""
    then, today = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else "%m-%d %H:%M:%S", then)


def listed(things: Sequence[str]) -> str:
    """Return things as a sentence names them: ``host``, ``host and GPUs``, ``host, servers and GPUs``."""
    *rest, last = things
    return f"{', '.join(rest)} and {last}" if rest else last


def counted(count: int | None, noun: str, many: str | None = None) -> str:
    """Return a count with its noun: ``1 sample``, ``1,204 samples``, ``- samples``.

    Args:
        count: How many; None: unknown.
        noun: For one.
        many: For more, where that is not ``noun`` with an s.
    """
    shown = UNKNOWN if count is None else f"{count:,}"
    return f"{shown} {noun if count == 1 else many or noun + 's'}"


def with_dataset(dataset: str | None, message: str) -> str:
    """Return a message with the data set that it is about before it, where it does not name that itself."""
    if not dataset or re.search(rf"(?<!\w){re.escape(dataset)}(?!\w)", message):
        return message
    return f"{dataset}: {message}"
