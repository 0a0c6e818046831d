"""Upright bars: a distribution of lengths, or a rate over time, in a few lines of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from textual.strip import Strip

from contracts.details.lengths import LengthSteps, narrowed
from eagle3_tui.text import cell_width, human_count, human_rate
from eagle3_tui.widgets.line import strip
from eagle3_tui.widgets.look import Look

Value = TypeVar("Value", int, float)

_SCALE = 7
"""Cells for the numbers at the left."""


def upright(values: Sequence[float | None], height: int, look: Look, *, cells: int = 1) -> list[str]:
    """Return bars as ``height`` lines of text, the highest value reaching the top.

    Something is never drawn as nothing. Unknown is a ``-`` on the ground line.

    Args:
        values: From left to right, 0 and above.
        height: Lines.
        look: For the signs.
        cells: Width of each bar.
    """
    levels = look.signs.levels if look.unicode else ".:#"
    most = max((value for value in values if value is not None), default=0.0)
    steps = [_steps(value, most, height * len(levels)) for value in values]
    lines = []
    for row in range(height - 1, -1, -1):
        line = ""
        for step in steps:
            if step is None:
                line += ("-" if row == 0 else " ") * cells
                continue
            filled = min(max(step - row * len(levels), 0), len(levels))
            line += (levels[filled - 1] if filled else " ") * cells
        lines.append(line)
    return lines


def _steps(value: float | None, most: float, all_of_them: int) -> int | None:
    if value is None:
        return None
    if not value or not most:
        return 0
    return max(round(value / most * all_of_them), 1)


def chart_cells(width: int) -> int:
    """Return how many cells of a chart this wide are for its bars."""
    return max(width - _SCALE - 2, 1)


def histogram_lines(
    steps: LengthSteps | None,
    width: int,
    height: int,
    look: Look,
    *,
    empty: str = "no answer with a known length yet",
) -> list[Strip]:
    """Return a distribution of lengths: bars with the most at the left, lengths below them.

    Args:
        steps: The distribution; None: there is none.
        width: Cells.
        height: Lines, that of the axis included.
        look: Signs and styles.
        empty: Said where there is none.
    """
    if steps is None or height < 2:
        return [strip([(f" {empty}", look.dim)], width, look)][:height]
    room = chart_cells(width)
    drawn = narrowed(steps, room)
    cells = max(min(room // len(drawn.counts), 4), 1)
    bars = upright(drawn.counts, height - 1, look, cells=cells)
    lines = [_scaled(bar, index, max(drawn.counts), human_count, width, look) for index, bar in enumerate(bars)]
    return [*lines, strip([(" " * (_SCALE + 1) + _axis(drawn, cells, room), look.dim)], width, look)]


def rate_lines(
    values: Sequence[float | None], width: int, height: int, look: Look, *, empty: str = "nothing was finished yet"
) -> list[Strip]:
    """Return a rate over time, the oldest at the left; unknown before anything happened."""
    room = chart_cells(width)
    drawn = joined(values, room)
    if all(value is None for value in drawn):
        return [strip([(f" {empty}", look.dim)], width, look)][:height]
    most = max(value for value in drawn if value is not None)
    bars = upright(drawn, height, look, cells=max(room // len(drawn), 1))
    return [_scaled(bar, index, most, human_rate, width, look) for index, bar in enumerate(bars)]


def joined(values: Sequence[float | None], most: int) -> list[float | None]:
    """Return at most so many values, neighbours averaged."""
    together = -(-len(values) // max(most, 1))
    if together <= 1:
        return list(values)
    found: list[float | None] = []
    # From the newest on, so that the last one is whole.
    for end in range(len(values), 0, -together):
        known = [value for value in values[max(end - together, 0) : end] if value is not None]
        found.append(sum(known) / len(known) if known else None)
    return found[::-1]


def _scaled(bar: str, index: int, most: Value, say: Callable[[Value], str], width: int, look: Look) -> Strip:
    text = say(most) if index == 0 else ""
    return strip([(f"{text:>{_SCALE}} ", look.dim), (bar, look.active)], width, look)


def _axis(steps: LengthSteps, cells: int, room: int) -> str:
    """Lengths below the bars at which their steps begin, as many as fit."""
    text = ""
    for index, edge in enumerate(steps.edges):
        label = human_count(edge)
        place = index * cells
        if place >= cell_width(text) + (2 if text else 0) and place + len(label) <= room:
            text = text.ljust(place) + label
    return text
