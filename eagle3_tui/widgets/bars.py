"""Bars in text: a share of a width, by eighths of a cell where the terminal has the signs for it."""

from __future__ import annotations

import math

from eagle3_tui.terminal import Signs


def bar(share: float | None, width: int, signs: Signs, lost: float = 0.0) -> str:
    """Return a bar of exactly ``width`` cells.

    Something is never drawn as nothing, and not yet all is never drawn as all.

    Args:
        share: 0 to 1, cut to that range; None (unknown) gives blanks with a ``-``.
        width: Cells.
        signs: The terminal's signs.
        lost: The share that will never come: at the right end, in another shape.
    """
    if width <= 0:
        return ""
    if share is None or not math.isfinite(share):
        return "-".ljust(width)
    if lost > 0:
        end = max(min(round(lost * width), width - (share > 0)), 1)
        left = 1.0 if share + lost > 1 - 1e-9 else share / (1 - lost)
        return bar(left if share > 0 else 0.0, width - end, signs) + signs.lost * end
    parts = len(signs.blocks)
    filled = math.floor(min(max(share, 0.0), 1.0) * width * parts)
    if filled == 0 and share > 0:
        filled = 1
    if filled >= width * parts and share < 1:
        filled = width * parts - 1
    whole, rest = divmod(filled, parts)
    drawn = signs.blocks[-1] * whole + (signs.blocks[rest - 1] if rest else "")
    return drawn + signs.empty * (width - len(drawn))


def level(share: float | None, signs: Signs) -> str:
    """Return one cell filled from below by a share of 0 to 1; ``-`` when unknown."""
    if share is None or not math.isfinite(share):
        return "-"
    steps = len(signs.levels)
    return signs.levels[min(int(min(max(share, 0.0), 1.0) * steps), steps - 1)]


def whole_percent(share: float | None) -> str:
    """Return a share of 0 to 1 as ``82 %``, rounded down so that 100 % means all of it; ``-`` when unknown."""
    if share is None or not math.isfinite(share):
        return "-"
    return f"{math.floor(min(max(share, 0.0), 1.0) * 100 + 1e-9)} %"
