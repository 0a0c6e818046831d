"""A list with titles and a cursor: only the rows in sight are drawn, and of them only the cells that changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.message import Message
from textual.strip import Strip

from eagle3_tui.feed.state import View
from eagle3_tui.text import cell_width, fit
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import cell, strip
from eagle3_tui.widgets.look import Look

Item = TypeVar("Item")

_MARGIN = 1
_WHEEL = 3


@dataclass(frozen=True)
class ListColumn(Generic[Item]):
    """One column."""

    title: str
    width: int
    draw: Callable[[Item, float, Look], tuple[str, Style]]
    """(item, now, look) -> text (made safe here) and style."""
    rank: int = 0
    """Where there is no room the highest rank goes first; 0 stays to the last."""
    right: bool = False
    grows: bool = False
    """Takes the cells that are left."""


class Listing(Canvas, Generic[Item]):
    """Titles, then rows; the selected one is reversed.

    Args:
        look: Signs and styles.
        columns: From left to right.
        identify: What makes an item the same one after a reading: the cursor stays with it. On the first row it stays
            on the first row, so that a list of the newest can be followed.
        empty: Said where there is none.
        id: Of the widget.
    """

    class Chosen(Message):
        """A row was clicked that was selected already."""

    def __init__(
        self,
        look: Look,
        columns: Sequence[ListColumn[Item]],
        identify: Callable[[Item], Hashable],
        *,
        empty: str,
        id: str | None = None,
    ) -> None:
        super().__init__(look, id=id)
        self._view = View()
        self._columns = columns
        self._identify = identify
        self._empty = empty
        self._items: Sequence[Item] = ()
        self._now = 0.0
        self._cursor = 0
        self._picked: Hashable = None
        self._top = 0

    @property
    def selected(self) -> Item | None:
        """The item under the cursor; None in an empty list."""
        return self._items[self._cursor] if self._items else None

    @property
    def page_rows(self) -> int:
        """Rows shown at once."""
        return max(self.size.height - 1, 1)

    def put(self, items: Sequence[Item], now: float) -> None:
        """Take another content; the cursor stays with its item, or where it was."""
        self._items, self._now = items, now
        if self._picked is not None and items:
            keys = (index for index, item in enumerate(items) if self._identify(item) == self._picked)
            self._cursor = next(keys, self._cursor)
        self._cursor = min(self._cursor, max(len(items) - 1, 0))
        self._repaint()

    @property
    def place(self) -> int:
        """Number of the selected row, from 0."""
        return self._cursor

    def go_to(self, row: int) -> None:
        """Select a row by its number, or the nearest there is."""
        self._select(row)

    def move(self, rows: int) -> None:
        """Move the cursor."""
        self._select(self._cursor + rows)

    def move_pages(self, pages: int) -> None:
        """Move the cursor by what is shown at once."""
        self._select(self._cursor + pages * self.page_rows)

    def move_to_end(self, direction: int) -> None:
        """Move the cursor to the first or the last row."""
        self._select(len(self._items) - 1 if direction > 0 else 0)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Move down."""
        event.stop()
        self.move(_WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Move up."""
        event.stop()
        self.move(-_WHEEL)

    def on_click(self, event: Click) -> None:
        """Select a row; one that is selected is chosen."""
        row = self._top + event.y - 1
        if event.y < 1 or row >= len(self._items):
            return
        if row == self._cursor:
            self.post_message(self.Chosen())
        self._select(row)

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return titles and the rows in sight."""
        rows = max(height - 1, 0)
        self._top = max(min(self._top, self._cursor, len(self._items) - rows), 0)
        self._top = max(self._top, self._cursor - rows + 1)
        columns = self._placed(width)
        lines = [self._titles(columns, width, rows)]
        if not self._items:
            lines.append(strip([(cell(f" {self._empty}", width, self.look), self.look.dim)], width, self.look))
        lines += [
            self._row(self._items[index], columns, width, selected=index == self._cursor)
            for index in range(self._top, min(self._top + rows, len(self._items)))
        ]
        blank = strip([], width, self.look)
        return lines + [blank] * (height - len(lines))

    def _select(self, row: int) -> None:
        self._cursor = max(min(row, len(self._items) - 1), 0)
        self._picked = self._identify(self._items[self._cursor]) if self._cursor and self._items else None
        self._repaint()

    def _placed(self, width: int) -> list[tuple[ListColumn[Item], int]]:
        room = width - 2 * _MARGIN
        kept = list(self._columns)
        while len(kept) > 1 and sum(column.width + 1 for column in kept) - 1 > room:
            kept.remove(max(kept, key=lambda column: column.rank))
        spare = max(room - (sum(column.width + 1 for column in kept) - 1), 0)
        growing = next((column for column in kept if column.grows), None)
        return [(column, column.width + (spare if column is growing else 0)) for column in kept]

    def _titles(self, columns: list[tuple[ListColumn[Item], int]], width: int, rows: int) -> Strip:
        style = self.look.heading
        count = len(self._items)
        more = ""
        if count > rows:
            more = f" {self._top + 1:,}-{min(self._top + rows, count):,}/{count:,}{self.look.signs.more}"
        text = " " * _MARGIN
        for column, size in columns:
            title = cell(column.title, size, self.look, right=column.right)
            fits = cell_width((text + title).rstrip()) <= width - len(more)  # half of a title is read as another one
            text += (title if fits else " " * size) + " "
        text = fit(text, width - len(more), ellipsis="") + more
        return strip([(text, style)], width, self.look)

    def _row(self, item: Item, columns: list[tuple[ListColumn[Item], int]], width: int, *, selected: bool) -> Strip:
        parts = [(" " * _MARGIN, self.look.plain)]
        for column, size in columns:
            text, style = column.draw(item, self._now, self.look)
            parts += [(cell(text, size, self.look, right=column.right), style), (" ", self.look.plain)]
        drawn = strip(parts, width, self.look)
        return drawn.apply_style(_CURSOR) if selected else drawn


_CURSOR = Style(reverse=True)
