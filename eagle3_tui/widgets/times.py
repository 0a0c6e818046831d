"""Moments as a person reads a clock on the wall."""

from __future__ import annotations

from datetime import datetime
from typing import Final

_FAR_S: Final = 366 * 86_400.0
_WEEK_DAYS: Final = 6


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(at).astimezone()


def moment(at: float, now: float) -> str:
    """Return a time to come in words: ``21:30``, ``02:40 tomorrow``, ``02:40 on Fri``, ``on 12 Mar``."""
    if at - now > _FAR_S:
        return "in over a year"
    then = _local(at)
    days = (then.date() - _local(now).date()).days
    if days <= 0:
        return f"{then:%H:%M}"
    if days == 1:
        return f"{then:%H:%M} tomorrow"
    return f"{then:%H:%M} on {then:%a}" if days <= _WEEK_DAYS else f"on {then.day} {then:%b %Y}"


def short_moment(at: float, now: float) -> str:
    """Return a time to come in at most nine cells: ``21:30``, ``Fri 02:40``, ``12 Mar``."""
    if at - now > _FAR_S:
        return ">1 year"
    then = _local(at)
    days = (then.date() - _local(now).date()).days
    if days <= 0:
        return f"{then:%H:%M}"
    return f"{then:%a %H:%M}" if days <= _WEEK_DAYS else f"{then.day} {then:%b}"


def stamp(at: float, now: float) -> str:
    """Return when something was, in eight cells: ``22:41:07`` today, ``Fri22:41`` this week, ``  12 Mar`` before."""
    then = _local(at)
    days = (_local(now).date() - then.date()).days
    if days <= 0:
        return f"{then:%H:%M:%S}"
    return f"{then:%a%H:%M}" if days <= _WEEK_DAYS else f"{then.day} {then:%b}".rjust(8)
