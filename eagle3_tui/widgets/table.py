"""The data set table: cells drawn singly, so that a tick sends the cells that changed and nothing else.

Not a `DataTable`: that repaints itself whole for one changed cell, ten times the bytes over SSH.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Final

from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from contracts.progress import overall_progress
from contracts.status import DatasetStatus, RunStatus
from eagle3_tui.feed.state import View
from eagle3_tui.widgets import cells
from eagle3_tui.widgets.canvas import PlainLines
from eagle3_tui.widgets.cells import Cell, Row
from eagle3_tui.widgets.columns import Column, choose_columns
from eagle3_tui.widgets.line import cell, strip
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.order import Sort, arranged, next_sort, sort_by

_FIXED: Final = 2
"""Lines that stay while the rows between them scroll: titles and total."""
_MARGIN: Final = 1
_REVERSED: Final = Style(reverse=True, dim=False)
"""Dim letters turned round are hard to read."""


class DatasetTable(ScrollView, PlainLines):
    """Titles, a row a data set with a cursor on one of them, and the total at the bottom."""

    ALLOW_SELECT = False
    can_focus = False

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self.sort = Sort()
        self.wanted = ""
        """What a shown data set has in its name or stage."""
        self.typing = False
        """The filter is being typed: its line has a caret."""
        self._status: RunStatus | None = None
        self._columns: list[Column] = []
        self._lefts: list[int] = []
        self._shown: list[DatasetStatus] = []
        self._cursor: str | None = None
        """Name of the data set under the cursor: it stays there when the order changes."""
        self._cursor_shown = True
        self._drawn: dict[int, list[Cell]] = {}
        """The rows in sight, by their place among those shown."""
        self._drawn_cursor: int | None = None
        self._total: list[Cell] = []
        self._titles = Strip([])

    @property
    def page_rows(self) -> int:
        """Rows shown at once."""
        return max(self.size.height - _FIXED, 1)

    @property
    def count(self) -> tuple[int, int]:
        """Data sets shown, and all there are."""
        return len(self._shown), len(self._status.datasets) if self._status else 0

    @property
    def selected(self) -> str | None:
        """The data set under the cursor; None where none is shown."""
        place = self._place()
        return None if place is None else self._shown[place].name

    def show(self, view: View) -> None:
        """Take a new view and repaint the cells that differ from the screen."""
        if view.status is None or view.status is self._status:
            return
        self._status = view.status
        self._update()

    def sort_next(self) -> None:
        """Order by the column to the right of the present one; after the last one as in run.toml."""
        self._order(next_sort(self.sort, [column.title for column in self._columns]))

    def sort_reverse(self) -> None:
        """Turn the order round."""
        self._order(replace(self.sort, descending=not self.sort.descending))

    def sort_by(self, title: str) -> None:
        """Order by a column; the other way round where that is the order already."""
        self.sort_reverse() if self.sort.title == title else self._order(sort_by(title))

    def filter(self, text: str) -> None:
        """Show the data sets that have every word of a text in their name or stage; all of them for an empty one."""
        self.wanted = text
        self._update()
        self.reveal()

    def show_cursor(self, shown: bool) -> None:
        """Draw the cursor, or not: it is on something else of the screen."""
        self._cursor_shown = shown
        self._update()

    def select(self, name: str) -> None:
        """Put the cursor on a data set."""
        self._cursor = name
        self._update()
        self.reveal()

    def move_cursor(self, rows: int) -> bool:
        """Move the cursor down, or up where ``rows`` is negative; False where it was at that end already."""
        place = self._place()
        if place is None:
            return False
        target = min(max(place + rows, 0), len(self._shown) - 1)
        self.select(self._shown[target].name)
        return target != place

    def reveal(self) -> None:
        """Scroll so far that the cursor is in sight."""
        place = self._place()
        if place is None:
            return
        top = min(max(self.scroll_offset.y, place - self.page_rows + 1), place)
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, immediate=True)

    def title_at(self, x: int) -> str | None:
        """Return the title of the column at a cell of the line."""
        for left, column in zip(self._lefts, self._columns, strict=True):
            if left <= x <= left + column.width:
                return column.title
        return None

    def name_at(self, y: int) -> str | None:
        """Return the data set on a line of the widget."""
        place = y - 1 + self.scroll_offset.y
        within = 0 < y < self._total_line(self.size.height) and place < len(self._shown)
        return self._shown[place].name if within else None

    def on_resize(self) -> None:
        """Choose the columns anew for the new width."""
        self._columns = []
        self._update()
        self.reveal()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the rows that came into sight and repaint all; they moved."""
        super().watch_scroll_y(old_value, new_value)
        self._update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen (Textual's line API)."""
        width, height = self.size
        if self._status is None or not self._columns:
            return Strip.blank(width)
        if y == 0:
            return self._titles
        if y == self._total_line(height):
            return self._strip(self._total, width)
        place = y - 1 + self.scroll_offset.y
        row = self._drawn.get(place) if y < self._total_line(height) else None
        if row is not None:
            return self._strip(row, width, _REVERSED if place == self._drawn_cursor else None)
        nothing = y == 1 and not self._shown and self.wanted
        text = cell("   no data set has that in its name or stage", width, self.look) if nothing else ""
        return strip([(text, self.look.dim)], width, self.look)

    def _order(self, sort: Sort) -> None:
        self.sort = sort
        self._update()
        self.reveal()

    def _place(self) -> int | None:
        """Where the cursor is among the shown rows: on the first one when its data set is not among them."""
        if not self._shown:
            return None
        return next((place for place, data in enumerate(self._shown) if data.name == self._cursor), 0)

    def _update(self) -> None:
        status, (width, height) = self._status, self.size
        if status is None or not width or not height:
            return
        columns = choose_columns(status, max(width - 2 * _MARGIN, 1))
        shown = arranged(status.datasets, self.sort, self.wanted, self.look)
        same_shape = _shape(columns) == _shape(self._columns) and len(shown) == len(self._shown)
        self._shown = shown
        self._columns = columns
        self._lefts = [_MARGIN + left for left in accumulate((c.width + 1 for c in columns[:-1]), initial=0)]
        self.virtual_size = Size(width, len(shown) + _FIXED)
        last, top = self._total_line(height), self.scroll_offset.y
        cursor = self._place() if self._cursor_shown else None
        rows = {
            top + index: self._cells(Row(data, status.at, status.state), selected=top + index == cursor)
            for index, data in enumerate(shown[top : top + last - 1])
        }
        whole = Row(
            status.totals, status.at, status.state, total=True, progress=overall_progress(status),
            filtered=len(shown) < len(status.datasets),
        )  # fmt: skip
        total, titles = self._cells(whole), self._title_line(width)
        old_rows, old_total, old_titles, old_cursor = self._drawn, self._total, self._titles, self._drawn_cursor
        self._drawn, self._total, self._titles, self._drawn_cursor = rows, total, titles, cursor
        if not same_shape:
            self.refresh()
            return
        dirty = self._changed(old_total, total, last)
        if titles != old_titles:
            dirty.append(Region(0, 0, width, 1))
        for place, row in rows.items():
            old = [] if (place == cursor) != (place == old_cursor) else old_rows.get(place, [])
            dirty += self._changed(old, row, place - top + 1)
        if dirty:
            self.refresh(*dirty)

    def _changed(self, old: list[Cell], new: list[Cell], y: int) -> list[Region]:
        if not old:
            return [Region(0, y, self.size.width, 1)]
        return [
            Region(left, y, column.width, 1)
            for left, column, before, after in zip(self._lefts, self._columns, old, new, strict=True)
            if before != after
        ]

    def _total_line(self, height: int) -> int:
        return max(min(len(self._shown) + 1, height - 1), min(2, height - 1) if self.wanted else 0)

    def _cells(self, row: Row, *, selected: bool = False) -> list[Cell]:
        """A bar is not turned round under the cursor: what is filled would look empty."""
        drawn = [(column.draw, *column.draw(row, column.width, self.look)) for column in self._columns]
        return [
            (text, style + _REVERSED if selected and draw is not cells.target else style) for draw, text, style in drawn
        ]

    def _strip(self, row: list[Cell], width: int, between: Style | None = None) -> Strip:
        gap = self.look.plain if between is None else between
        parts = [(" " * _MARGIN, gap)]
        for index, part in enumerate(row):
            if index:
                parts.append((" ", gap))
            parts.append(part)
        used = sum(column.width + 1 for column in self._columns) + _MARGIN - 1
        return strip([*parts, (" " * max(width - used, 0), gap)], width, self.look)

    def _title_line(self, width: int) -> Strip:
        """The titles; the arrow of the order stands in the gap behind its column."""
        style = self.look.heading
        parts = [(" " * _MARGIN, style)]
        for index, column in enumerate(self._columns):
            title = self._name_title(column.width) if index == 0 else column.title
            sorted_by = column.title == self.sort.title
            parts.append((cell(title, column.width, self.look, right=column.right), style))
            parts.append((self.sort.arrow(self.look), self.look.bold) if sorted_by else (" ", style))
        used = sum(column.width + 1 for column in self._columns) + _MARGIN
        return strip([*parts, (" " * max(width - used, 0), style)], width, self.look)

    def _name_title(self, width: int) -> str:
        """The title with the filter or the rows in sight; those alone where short names leave no room for both."""
        first, caret = self.scroll_offset.y + 1, ("▏" if self.look.unicode else "_") * self.typing
        shown, whole = self.count
        if self.wanted or self.typing:
            return f"  /{self.wanted}{caret} {shown}/{whole}"
        room = self.size.height - _FIXED
        if whole <= room:
            return "  data set"
        rows = f"{first}-{min(first + room - 1, shown)}/{whole}{self.look.signs.more}"
        return f"  data set {rows}" if len(rows) + 11 <= width else f"  {rows}"


def table_height(status: RunStatus | None) -> int:
    """Return how many lines show every data set."""
    return (len(status.datasets) if status else 0) + _FIXED


def _shape(columns: list[Column]) -> list[tuple[str, int]]:
    return [(column.title, column.width) for column in columns]
