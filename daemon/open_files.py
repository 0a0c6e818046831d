"""How many connections this process may have open."""

from __future__ import annotations

import resource
from typing import Final

RESERVED: Final = 48
"""Descriptors kept for journals, logs, the socket and control calls: an answer must always find its file open."""


def most_connections(wanted: int) -> tuple[int, str | None]:
    """Raise the soft limit of open files as far as wanted and allowed.

    Args:
        wanted: Connections that may be open at a time.

    Returns:
        How many connections fit, and a sentence when that is fewer than wanted.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if allowed > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            soft = allowed
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return max(wanted, 1), None
    fit = max(soft - RESERVED, 1)
    return fit, (
        f"concurrency is lowered from {wanted} to {fit}: the limit of open files is {soft} "
        f"(raise it with: ulimit -n {needed})"
    )
