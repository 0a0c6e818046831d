"""A widget of whole lines that sends only the cells that changed."""

from __future__ import annotations

from itertools import repeat

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from eagle3_tui.feed.state import View
from eagle3_tui.text import single_cells
from eagle3_tui.widgets.look import Look

_JOIN = 4
"""Changed stretches closer than this are sent as one: moving the cursor costs about as many bytes."""


class PlainLines(Widget):
    """A widget whose lines are whole and styled already."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return a part of the lines.

        Where nothing is around them and nothing recolours them (NO_COLOR does) they are as they are shown: Textual's
        own way to find that out takes as long as all else of a frame.
        """
        if self.size != self.outer_size or self.get_line_filters():
            return super().render_lines(crop)
        first, last = crop.column_span
        return [self.render_line(y).crop(first, last) for y in crop.line_range]


class Canvas(PlainLines):
    """Lines made from the latest `View`; a subclass says which."""

    ALLOW_SELECT = False

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self._view: View | None = None
        self._lines: list[Strip] = []

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the lines for a view; those beyond ``height`` are not shown."""
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Take a new view and repaint what differs from the screen."""
        self._view = view
        self._repaint()

    def on_resize(self) -> None:
        """Make the lines anew for the new size."""
        self._lines = []
        self._repaint()

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen (Textual's line API)."""
        return self._lines[y] if y < len(self._lines) else Strip.blank(self.size.width)

    def _repaint(self) -> None:
        width, height = self.size
        if self._view is None or not width or not height:
            return
        fresh = self.lines(self._view, width, height)[:height]
        if len(fresh) != len(self._lines):
            self._lines = fresh
            self.refresh()
            return
        regions = [
            Region(start, y, length, 1)
            for y, (old, new) in enumerate(zip(self._lines, fresh, strict=True))
            for start, length in changed_spans(old, new)
        ]
        self._lines = fresh
        if regions:
            self.refresh(*regions)


def changed_spans(old: Strip, new: Strip) -> list[tuple[int, int]]:
    """Return the stretches of cells, as (start, length), in which two lines differ."""
    if old == new:
        return []
    before, after = _cells(old), _cells(new)
    length = max(len(before), len(after))
    before += [("", None)] * (length - len(before))
    after += [("", None)] * (length - len(after))
    spans: list[tuple[int, int]] = []
    start = end = -_JOIN
    for place, (one, other) in enumerate(zip(before, after, strict=True)):
        if one == other:
            continue
        if place - end >= _JOIN:
            if end > start:
                spans.append((start, end - start))
            start = place
        end = place + 1
    if end > start:
        spans.append((start, end - start))
    return spans


def _cells(strip: Strip) -> list[tuple[str, Style | None]]:
    """One entry per cell; the second cell of a wide character repeats it, so that both halves count as changed."""
    cells: list[tuple[str, Style | None]] = []
    for text, style, _ in strip:
        if single_cells(text):
            cells.extend(zip(text, repeat(style)))
            continue
        for char in text:
            size = cell_len(char)
            if size == 0 and cells:
                cells[-1] = (cells[-1][0] + char, style)
            cells.extend([(char, style)] * size)
    return cells
