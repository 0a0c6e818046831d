"""Time that does not jump: wall seconds that advance with the monotonic clock.

A daemon runs for days while NTP and people set the wall clock. Everything that is subtracted comes from one `Clock`,
so durations and rates stay right; log lines may jump, nothing else does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path


class Clock:
    """Unix seconds as of the start of the process, carried on by the monotonic clock."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()

    def now(self) -> float:
        """Return Unix seconds, steady for the life of this object."""
        return self._offset + self._monotonic()

    def mono(self) -> float:
        """Return the machine's monotonic seconds, comparable between processes of one boot."""
        return self._monotonic()


@cache
def boot_id() -> str:
    """Return the id of this boot, or an empty string where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
