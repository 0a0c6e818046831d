"""A line that parts what is above from what is below, with a title."""

from __future__ import annotations

from textual.strip import Strip

from eagle3_tui.feed.state import View
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import strip
from eagle3_tui.widgets.look import Look


class Rule(Canvas):
    """``- title -----``, drawn where there is room to spare."""

    def __init__(self, look: Look, title: str, *, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self._title = title

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the one line."""
        sign = self.look.signs.rule
        lead = f"{sign} {self._title} "
        return [strip([(lead + sign * max(width - len(lead), 0), self.look.dim)], width, self.look)]
