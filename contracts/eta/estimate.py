"""A remaining time that says how sure it is, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_WORK_KNOWN: Final = "how much is left is not known"


@dataclass(frozen=True)
class Eta:
    """Seconds until something is done; all three are None where nobody can say, and ``why`` says why."""

    point: float | None = None
    """In the middle: as likely too long as too short."""
    low: float | None = None
    """In one case of ten it is done before that."""
    high: float | None = None
    """In one case of ten it is done after that."""
    why: str | None = None
    """Why there is no time."""
    stalled: bool = False
    """There is none because nothing moves."""


DONE: Final = Eta(0.0, 0.0, 0.0)


def unknown(why: str) -> Eta:
    """Return that there is no time yet."""
    return Eta(why=why)


def stalled(why: str) -> Eta:
    """Return that there is no time because nothing moves."""
    return Eta(why=why, stalled=True)


def later(one: Eta, other: Eta) -> Eta:
    """Return when both of two are done that go on side by side; unknown when either is."""
    if one.point is None or one.low is None or one.high is None:
        return one
    if other.point is None or other.low is None or other.high is None:
        return other
    return Eta(max(one.point, other.point), max(one.low, other.low), max(one.high, other.high))
