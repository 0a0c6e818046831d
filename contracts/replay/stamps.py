"""When a line of a journal was made, whatever it says besides."""

from __future__ import annotations

import re
import time
from typing import Any, Final

import msgspec

from contracts.shapes import BadLine, decode_response_line

_LATEST: Final = 1e11
"""Moments beyond are no times."""
_LOGGED: Final = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[,.](\d{1,6}))? ")


class _Stamp(msgspec.Struct):
    at: Any = None
    finished_at: Any = None


_DECODER: Final = msgspec.json.Decoder(_Stamp)


def stamp_of(line: bytes) -> float | None:
    """Return when a record was made, in Unix seconds; None where the line does not say it or cannot be read.

    Args:
        line: Of any journal of ours, a response of another tool, or of ``daemon.log``; without its newline.
    """
    if line[:1].isdigit():
        return logged_at(line)
    try:
        stamp = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    at = _time(stamp.at if stamp.finished_at is None else stamp.finished_at)
    if at is not None or stamp.at is not None:
        return at
    facts = decode_response_line(line)
    return None if isinstance(facts, BadLine) or not facts else _time(facts[0].finished_at)


def logged_at(line: bytes) -> float | None:
    """Return when a line of a log was written, by the clock and the time zone of this machine; None: it says no time.

    A line that goes on with the one before it (a traceback) says none.
    """
    match = _LOGGED.match(line)
    if match is None:
        return None
    try:
        whole = time.mktime(time.strptime(match[1].decode(), "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return whole + (float(f"0.{match[2].decode()}") if match[2] else 0.0)


def _time(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < _LATEST else None
