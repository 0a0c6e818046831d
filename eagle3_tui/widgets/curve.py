"""A filled curve in dots of braille, or in characters of ASCII, with its two axes. Pure: values -> lines of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Final

DOTS: Final = 4
"""Steps of height in one cell."""
_LEFT: Final = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT: Final = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
"""Bits of a braille cell for 0 to `DOTS` dots from below, in its two columns."""
_ASCII: Final = " .:|#"
_NICE: Final = (1.0, 2.0, 2.5, 5.0)
_INTERVALS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800)
"""Seconds between two times below the curve."""
_LEAST: Final = 0.01
"""No scale is made for less: its steps would be too long to write, or could not be told from 0."""
_TIME_CELLS: Final = 12
"""At least from one time to the next."""


def points_per_cell(unicode: bool) -> int:
    """Return how many values stand side by side in one cell."""
    return 2 if unicode else 1


def curve_rows(values: Sequence[float | None], top: float, rows: int, *, unicode: bool) -> list[str]:
    """Return the area below a curve as ``rows`` lines of text, the highest first.

    A value of 0 is drawn as one dot: only what is not known is left empty.

    Args:
        values: From left to right, `points_per_cell` to a cell.
        top: The value that reaches the top.
        rows: Lines.
        unicode: Braille; else ASCII.
    """
    heights = [_height(value, top, rows * DOTS) for value in values]
    lines = []
    for row in range(rows - 1, -1, -1):
        filled = [min(max(height - row * DOTS, 0), DOTS) for height in heights]
        if unicode:
            filled += [0] * (len(filled) % 2)
            pairs = zip(filled[::2], filled[1::2], strict=True)
            lines.append("".join(chr(0x2800 + _LEFT[a] + _RIGHT[b]) if a or b else " " for a, b in pairs))
        else:
            lines.append("".join(_ASCII[steps] for steps in filled))
    return lines


def _height(value: float | None, top: float, most: int) -> int:
    if value is None or not math.isfinite(value):
        return 0
    return min(max(round(value / top * most), 1), most)


def scale(most: float | None, ticks: int) -> tuple[float, float]:
    """Return the value at the top and that between two ticks, both round.

    Args:
        most: The highest value there is; None or next to 0: none.
        ticks: How many there may be at most, from 1 on, that at 0 not counted.
    """
    if most is None or most < _LEAST or not math.isfinite(most):
        return 1.0, 1.0
    least = most / max(ticks, 1)
    unit = 10.0 ** math.floor(math.log10(least))
    step = next((nice * unit for nice in _NICE if nice * unit >= least * (1 - 1e-9)), 10 * unit)
    return step * max(math.ceil(most / step - 1e-9), 1), step


def tick_rows(top: float, step: float, rows: int) -> dict[int, float]:
    """Return the value that stands beside a row (0 is the highest); always those of the top and of 0."""
    places = {rows - 1: 0.0}
    for number in range(1, round(top / step) + 1):
        value = number * step
        places[rows - math.ceil(value / top * rows - 1e-9)] = value
    return places if rows > 1 else {0: top}


def time_places(begin: float, cell_s: float, cells: int) -> list[tuple[int, str]]:
    """Return (first cell, text) of the times below the curve: round ones, each centred below its moment.

    Args:
        begin: Of the first cell, Unix seconds.
        cell_s: Seconds of a cell.
        cells: How many.
    """
    interval = next((each for each in _INTERVALS if each / cell_s >= _TIME_CELLS), _INTERVALS[-1])
    offset = datetime.fromtimestamp(begin).astimezone().utcoffset()
    shift = 0.0 if offset is None else offset.total_seconds()
    found: list[tuple[int, str]] = []
    free = 0
    at = math.ceil((begin + shift) / interval) * interval - shift
    while at < begin + cells * cell_s:
        moment = datetime.fromtimestamp(at)
        text = f"{moment:%a %d}" if (moment.hour, moment.minute) == (0, 0) else f"{moment:%H:%M}"
        start = int((at - begin) / cell_s) - len(text) // 2
        if start >= free and start + len(text) <= cells:
            found.append((start, text))
            free = start + len(text) + 1
        at += interval
    return found
