"""The data set table: cells drawn singly, so that a tick sends the cells that changed and nothing else.

Not a `DataTable`: that repaints itself whole for one changed cell, ten times the bytes over SSH.
"""

from __future__ import annotations

from itertools import accumulate

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from contracts.status import RunStatus
from eagle3_tui.feed.state import View
from eagle3_tui.widgets.columns import Cell, Column, Row, choose_columns
from eagle3_tui.widgets.line import cell, strip
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.progress import overall_share

_FIXED = 2
"""Lines that stay while the rows between them scroll: titles and total."""
_MARGIN = 1


class DatasetTable(ScrollView):
    """Titles, a row a data set, and the total at the bottom."""

    ALLOW_SELECT = False
    can_focus = False

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self._status: RunStatus | None = None
        self._columns: list[Column] = []
        self._lefts: list[int] = []
        self._drawn: dict[int, list[Cell]] = {}
        """The rows in sight, by their place in the status."""
        self._total: list[Cell] = []
        self._count = 0

    @property
    def page_rows(self) -> int:
        """Rows shown at once."""
        return max(self.size.height - _FIXED, 1)

    def show(self, view: View) -> None:
        """Take a new view and repaint the cells that differ from the screen."""
        if view.status is None or view.status is self._status:
            return
        self._status = view.status
        self._update()

    def on_resize(self) -> None:
        """Choose the columns anew for the new width."""
        self._columns = []
        self._update()

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
            return self._titles(width)
        if y == self._total_line(height):
            return self._strip(self._total, width)
        row = self._drawn.get(y - 1 + self.scroll_offset.y) if y < self._total_line(height) else None
        return Strip.blank(width) if row is None else self._strip(row, width)

    def _update(self) -> None:
        status, (width, height) = self._status, self.size
        if status is None or not width or not height:
            return
        self.virtual_size = Size(width, len(status.datasets) + _FIXED)
        columns = choose_columns(status, max(width - 2 * _MARGIN, 1))
        same_shape = _shape(columns) == _shape(self._columns) and len(status.datasets) == self._count
        self._count = len(status.datasets)
        last = self._total_line(height)
        top = self.scroll_offset.y
        rows = {
            top + index: self._cells(Row(data, status.at, status.state), columns)
            for index, data in enumerate(status.datasets[top : top + last - 1])
        }
        all_of_it = Row(status.totals, status.at, status.state, total=True, share=overall_share(status))
        total = self._cells(all_of_it, columns)
        old_rows, old_total = self._drawn, self._total
        self._columns, self._drawn, self._total = columns, rows, total
        self._lefts = [_MARGIN + left for left in accumulate((c.width + 1 for c in columns[:-1]), initial=0)]
        if not same_shape:
            self.refresh()
            return
        dirty = self._changed(old_total, total, last)
        for index, row in rows.items():
            dirty += self._changed(old_rows.get(index, []), row, index - top + 1)
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
        return min(self._count + 1, height - 1)

    def _cells(self, row: Row, columns: list[Column]) -> list[Cell]:
        return [column.draw(row, column.width, self.look) for column in columns]

    def _strip(self, cells: list[Cell], width: int) -> Strip:
        parts = [(" " * _MARGIN, self.look.plain)]
        for index, part in enumerate(cells):
            if index:
                parts.append((" ", self.look.plain))
            parts.append(part)
        return strip(parts, width, self.look)

    def _titles(self, width: int) -> Strip:
        style = self.look.heading
        parts = [(" " * _MARGIN, style)]
        for index, column in enumerate(self._columns):
            title = self._name_title(column) if index == 0 else column.title
            parts.append((cell(title, column.width, self.look, right=column.right), style))
            parts.append((" ", style))
        text = sum(column.width + 1 for column in self._columns) + _MARGIN
        return strip([*parts, (" " * max(width - text, 0), style)], width, self.look)

    def _name_title(self, column: Column) -> str:
        """The title with the rows in sight; those alone where short names leave no room for both."""
        both = column.title + self._shown_rows()
        return both if len(both) <= column.width else f" {self._shown_rows()}"

    def _shown_rows(self) -> str:
        """Which rows of how many, while not all fit."""
        room = self.size.height - _FIXED
        if self._count <= room:
            return ""
        first = self.scroll_offset.y + 1
        return f" {first}-{min(first + room - 1, self._count)}/{self._count}{self.look.signs.more}"


def table_height(status: RunStatus | None) -> int:
    """Return how many lines show every data set."""
    return (len(status.datasets) if status else 0) + _FIXED


def _shape(columns: list[Column]) -> list[tuple[str, int]]:
    return [(column.title, column.width) for column in columns]
