"""Facts about one thing, as labelled lines that flow over as many lines as they need; and long text to scroll."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual.events import MouseScrollDown, MouseScrollUp
from textual.strip import Strip

from eagle3_tui.feed.state import View
from eagle3_tui.text import cell_width, shorten
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import Part, safe, strip
from eagle3_tui.widgets.look import Look

LABEL = 12
"""Cells of the labels at the left."""
_GAP = 2
_WHEEL = 3


@dataclass(frozen=True)
class Fact:
    """A label and what is to be said; a part is broken at its spaces only where it is wider than a line."""

    label: str
    parts: tuple[Part, ...]


def fact_lines(facts: Iterable[Fact], width: int, look: Look) -> list[Strip]:
    """Return facts as lines of exactly ``width`` cells."""
    return [strip(row, width, look) for row in fact_rows(facts, width, look)]


def fact_rows(facts: Iterable[Fact], width: int, look: Look) -> list[list[Part]]:
    """Return facts as lines of safe parts, none wider than ``width`` cells."""
    rows = []
    for fact in facts:
        rows += _flowed(fact, width, look)
    return rows


def _flowed(fact: Fact, width: int, look: Look) -> list[list[Part]]:
    indent = LABEL if width >= 3 * LABEL else 1
    room = max(width - indent - 1, 1)
    rows: list[list[Part]] = [[]]
    used = 0
    for text, style in fact.parts:
        for piece, fresh in _pieces(safe(text, look), room):
            size = cell_width(piece)
            if rows[-1] and (fresh or used + _GAP + size > room):
                rows.append([])
                used = 0
            if rows[-1]:
                rows[-1].append((" " * _GAP, look.plain))
                used += _GAP
            rows[-1].append((piece, style))
            used += size
    label = safe(shorten(fact.label, indent - 2, ellipsis=look.signs.ellipsis), look) if indent == LABEL else ""
    lead = f" {label}".ljust(indent)
    return [[(lead if index == 0 else " " * indent, look.dim), *row] for index, row in enumerate(rows)]


def _pieces(text: str, room: int) -> Iterable[tuple[str, bool]]:
    """Yield a part in pieces that fit a line, and whether each begins one."""
    if cell_width(text) <= room:
        yield text, False
        return
    first = True
    for row in wrapped(text, room):
        yield row, not first
        first = False


def wrapped(text: str, width: int) -> list[str]:
    """Return safe text as lines of at most ``width`` cells, broken behind spaces where there are some."""
    lines: list[str] = []
    begin = used = 0
    space = -1
    for index, character in enumerate(text):
        size = 1 if character.isascii() else cell_width(character)
        if used + size > width and index > begin:
            cut = space if space > begin else index
            lines.append(text[begin:cut])
            begin = cut
            used = cell_width(text[begin:index])
            space = -1
        if character == " ":
            space = index + 1
        used += size
    return [*lines, text[begin:]]


class Pager(Canvas):
    """Lines that are too many for the screen, with a place in them."""

    def __init__(self, look: Look, *, margin: int = 1, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self._margin = " " * margin
        self._view = View()
        self._rows: Sequence[Sequence[Part]] = ()
        self._top = 0

    @property
    def shown(self) -> tuple[int, int, int]:
        """First and last line in sight, from 1, and how many there are."""
        count = len(self._rows)
        return min(self._top + 1, count), min(self._top + self.size.height, count), count

    def put(self, rows: Sequence[Sequence[Part]], *, top: int | None = None) -> None:
        """Take other lines of safe parts; stay at the same place, or begin at ``top``."""
        self._rows = rows
        if top is not None:
            self._top = top
        self._repaint()

    def move(self, rows: int) -> None:
        """Scroll."""
        self._top += rows
        self._repaint()

    def move_pages(self, pages: int) -> None:
        """Scroll by what is shown at once, less a line."""
        self.move(pages * max(self.size.height - 1, 1))

    def move_to_end(self, direction: int) -> None:
        """Scroll to the first or the last line."""
        self._top = len(self._rows) if direction > 0 else 0
        self._repaint()

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self.move(_WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self.move(-_WHEEL)

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the lines in sight."""
        self._top = max(min(self._top, len(self._rows) - height), 0)
        rows = self._rows[self._top : self._top + height]
        lines = [strip([(self._margin, self.look.plain), *row], width, self.look) for row in rows]
        return lines + [strip([], width, self.look)] * (height - len(lines))
