"""The main screen with its keys."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual.binding import BindingType

from eagle3_tui.keys import HISTORY_KEYS, MAIN_KEYS, Key, usable_keys
from eagle3_tui.screens.detail import bindings
from eagle3_tui.screens.run import RunScreen
from eagle3_tui.widgets.gpus import Asker
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.plot import HistoryPlot


class MainScreen(RunScreen):
    """Moves the cursor, orders, filters; what the keys open belongs to the app."""

    BINDINGS: ClassVar[list[BindingType]] = bindings((*MAIN_KEYS, *HISTORY_KEYS))

    def __init__(
        self,
        look: Look,
        *,
        read_only: bool,
        farewell: bool,
        history: HistoryPlot | None = None,
        ask: Asker | None = None,
    ) -> None:
        super().__init__(look, read_only=read_only, farewell=farewell, history=history, ask=ask)
        self._read_only = read_only
        self._plot = history

    @property
    def usable_keys(self) -> tuple[Key, ...]:
        """The keys of this screen that do something here."""
        keys = MAIN_KEYS if self._plot is None else (*MAIN_KEYS, *HISTORY_KEYS)
        return usable_keys(keys, read_only=self._read_only)

    def copied(self) -> str | None:
        """Return the selected alert in words, or the selected data set as JSON."""
        target, status = self.selected, self._view.status
        if target is None or status is None:
            return None
        if target.alert is not None:
            return "\n".join(filter(None, (target.alert.message, target.alert.advice)))
        data = next((one for one in status.datasets if one.name == target.dataset), None)
        return None if data is None else msgspec.json.encode(data).decode()

    def action_move(self, lines: int) -> None:
        """Move the cursor by lines."""
        self.move_cursor(lines)

    def action_page(self, direction: int) -> None:
        """Move the cursor by a page."""
        self.move_page(direction)

    def action_ends(self, direction: int) -> None:
        """Move the cursor to the first or the last data set."""
        self.move_to_end(direction)

    def action_sort(self) -> None:
        """Order by the next column."""
        self.sort_next()

    def action_reverse(self) -> None:
        """Turn the order round."""
        self.sort_reverse()

    def action_filter(self) -> None:
        """Type a filter."""
        self.begin_filter()

    def action_clear(self) -> None:
        """Show all data sets."""
        self.clear_filter()

    def action_span(self) -> None:
        """Draw another stretch of time."""
        if self._plot is not None:
            self._plot.next_span()

    def action_quantity(self) -> None:
        """Draw something else."""
        if self._plot is not None:
            self._plot.next_quantity()

    def action_open(self) -> None:
        """Open what is under the cursor."""
        if self.selected is not None:
            self.post_message(self.Opened(self.selected))
