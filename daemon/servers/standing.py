"""How a server stands with this daemon: what it was sent, what came back, why it gets nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Standing:
    """Of one server, at one moment."""

    outstanding: int
    """Requests that this daemon has open there."""
    last_answer_s: float | None = None
    """Seconds since its last accepted answer; None: none since the daemon's start."""
    silent_s: float | None = None
    """For how many seconds requests have been open there without any accepted answer; None: none is open."""
    held: tuple[str, str | None] | None = None
    """State, and why, of a server that gets no work although it answers."""
