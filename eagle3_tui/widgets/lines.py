"""A part of a screen whose lines are made by whoever owns it, from whatever it was given."""

from __future__ import annotations

from collections.abc import Callable

from textual.strip import Strip

from eagle3_tui.feed.state import View
from eagle3_tui.text import cell_width
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import cell, safe, strip
from eagle3_tui.widgets.look import Look

Maker = Callable[[int, int], list[Strip]]
"""(width, height) -> lines."""


class Lines(Canvas):
    """Draws what `put` was last given; repaints the cells that differ."""

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self._view = View()
        self._make: Maker | None = None

    def put(self, make: Maker) -> None:
        """Take another content."""
        self._make = make
        self._repaint()

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the content at this size."""
        return [] if self._make is None else self._make(width, height)


def rule_strip(title: str, width: int, look: Look, *, tail: str = "") -> Strip:
    """Return ``- title ------- tail`` as a line that parts what is above from what is below."""
    sign = look.signs.rule
    end = safe(f" {tail} ", look) if tail else ""
    lead = f"{sign} {safe(title, look)} "
    spare = width - cell_width(lead) - cell_width(end)
    lead = lead + sign * spare if spare >= 0 else cell(lead, max(width - cell_width(end), 0), look)
    return strip([(lead, look.dim), (end, look.dim)], width, look)
