"""How many connections this process may have open."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Final

_OWN: Final = 32
"""Descriptors of the event loop, the log, the lock, the control socket and its clients, telemetry."""
_PER_DATASET: Final = 3
"""Its two journals and its prompts."""
_PER_SERVER: Final = 3
"""Control calls and probes."""


def reserved(datasets: int, servers: int) -> int:
    """Return the descriptors that are kept from connections: an answer must always find its file open."""
    return _OWN + _PER_DATASET * datasets + _PER_SERVER * servers


class ConnectionLimit:
    """Knows how many connections fit, and raises the soft limit of open files as far as wanted and allowed.

    Args:
        kept: Descriptors that are not for connections, see `reserved`.
        on_lowered: Called, once for each number wanted, with a sentence when that many do not fit.
    """

    def __init__(self, kept: int, on_lowered: Callable[[str], None]) -> None:
        self._kept = kept
        self._on_lowered = on_lowered
        self._fit: dict[int, int] = {}

    def fit(self, wanted: int) -> int:
        """Return how many of the connections that are wanted at a time may be open."""
        found = self._fit.get(wanted)
        if found is None:
            found, lowered = most_connections(wanted, self._kept)
            self._fit[wanted] = found
            if lowered is not None:
                self._on_lowered(lowered)
        return found


def most_connections(wanted: int, kept: int) -> tuple[int, str | None]:
    """Raise the soft limit of open files as far as wanted and allowed.

    Args:
        wanted: Connections that may be open at a time.
        kept: Descriptors needed beside them.

    Returns:
        How many connections fit, and a sentence when that is fewer than wanted.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + kept
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if allowed > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            soft = allowed
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return max(wanted, 1), None
    fit = max(soft - kept, 1)
    return fit, (
        f"concurrency is lowered from {wanted} to {fit}: the limit of open files is {soft} "
        f"(raise it with: ulimit -n {needed})"
    )
