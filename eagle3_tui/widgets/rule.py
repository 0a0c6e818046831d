"""A line that parts what is above from what is below, with a title."""

from __future__ import annotations

from textual.strip import Strip

from eagle3_tui.feed.state import View
from eagle3_tui.text import cell_width
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import safe, strip
from eagle3_tui.widgets.look import Look


class Rule(Canvas):
    """``- title ----- detail -``, drawn where there is room to spare."""

    def __init__(self, look: Look, title: str, *, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self._title = title
        self._detail = ""

    def detail(self, text: str) -> None:
        """Say something at the right end; nothing for an empty text."""
        self._detail = text
        self._repaint()

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the one line."""
        sign, look = self.look.signs.rule, self.look
        lead = f"{sign} {self._title} "
        tail = f" {safe(self._detail, look)} {sign}" if self._detail else ""
        between = width - len(lead) - cell_width(tail)
        if between < 1:
            tail, between = "", width - len(lead)
        return [strip([(lead + sign * max(between, 0), look.dim), (tail, look.plain)], width, look)]
