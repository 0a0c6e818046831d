"""The history of a run: one quantity as a curve, with marks where it paused, started again or raised an alert."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from textual.strip import Strip

from contracts.fold.run import RunFold
from contracts.history import SPANS, Quantity, RunHistory, run_history
from eagle3_tui.feed.state import View
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.curve import points_per_cell
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.plot_lines import curve_cells, plot_lines

Asker = Callable[[Callable[[RunFold, float], RunHistory]], Awaitable[RunHistory]]
"""`eagle3_tui.feed.state.Feed.ask`."""

TICK_S: Final = 1.0
"""It is repainted this often at most."""
_SLICE_S: Final = 0.1
"""From one slice of older telemetry to the next: what else is read has its turn."""
_SLOWEST_S: Final = 10.0
_PER_STEP: Final = 4
"""Asked so often in one step of time: what is shown of a day does not change within a second."""


class HistoryPlot(Canvas):
    """Asks for what it shows, in the background, while it is in sight and there is something new.

    Args:
        look: Signs and styles.
        ask: Answers a question about the run.
    """

    DEFAULT_CSS = "HistoryPlot { width: 1fr; height: 1fr; }"

    def __init__(self, look: Look, ask: Asker, *, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self._ask = ask
        self._history: RunHistory | None = None
        self._problem: str | None = None
        self._asked: tuple[object, ...] = ()
        self._asked_view: View | None = None
        self._asked_at = 0.0
        self._busy = False
        self.quantity = Quantity.TOKENS
        """What is shown, or was asked for."""
        self.span = 0
        """Which of `SPANS`."""

    def on_mount(self) -> None:
        """Begin to ask."""
        self.set_interval(TICK_S, self.look_again)
        self.call_after_refresh(self.look_again)

    def show(self, view: View) -> None:
        """Take note that there is something new; what is drawn is asked for at its own pace."""
        is_first = self._view is None
        self._view = view
        if is_first:
            self._repaint()
        if is_first or self._is_elsewhere(view):
            self.look_again()

    def on_resize(self) -> None:
        """Ask for as many points as there is room for."""
        self.look_again()

    def next_quantity(self) -> Quantity:
        """Show the next quantity that this run has; return it."""
        choices = self._history.choices if self._history is not None else (Quantity.TOKENS,)
        place = choices.index(self.quantity) + 1 if self.quantity in choices else 0
        self.quantity = choices[place % len(choices)]
        self.look_again()
        return self.quantity

    def next_span(self) -> str:
        """Show the next stretch of time; return its name."""
        self.span = (self.span + 1) % len(SPANS)
        self.look_again()
        return SPANS[self.span][0]

    def look_again(self) -> None:
        """Ask anew if what is shown may have changed."""
        if self._busy or self._view is None or not self.display or not self.size or not self.screen.is_current:
            return
        wanted = (self.quantity, self.span, self._points)
        now = asyncio.get_running_loop().time()
        history = self._history
        is_same = wanted == self._asked
        if is_same and self._view == self._asked_view and history is not None and not history.reading:
            return
        step_s = 0.0 if history is None else history.step_s
        due = self._asked_at + min(max(step_s / _PER_STEP, TICK_S), _SLOWEST_S) - TICK_S / 2
        is_reading = history is not None and history.reading and self._problem is None
        if is_same and now < due and not is_reading and not self._is_elsewhere(self._view):
            return
        self._asked, self._asked_view, self._asked_at, self._busy = wanted, self._view, now, True
        self.run_worker(self._read(*wanted), group="history", exit_on_error=True)

    def _is_elsewhere(self, view: View) -> bool:
        """Whether this is the past and the last answer of the present, or the other way round, or a jump in time lies
        between: what is drawn would be of another moment, maybe of one that is yet to come."""
        asked = self._asked_view
        if asked is None:
            return False
        if view.replays != asked.replays:
            return True
        if view.status is None or asked.status is None:
            return False
        step_s = 0.0 if self._history is None else self._history.step_s
        return abs(view.status.at - asked.status.at) > max(step_s, TICK_S)

    @property
    def _points(self) -> int:
        return curve_cells(self.size.width) * points_per_cell(self.look.unicode)

    async def _read(self, quantity: Quantity, span: int, points: int) -> None:
        per_cell = points_per_cell(self.look.unicode)
        question = partial(run_history, quantity=quantity, span_s=SPANS[span][1], points=points, together=per_cell)
        try:
            self._history = await self._ask(question)
            self._problem = None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            self._problem = f"can't read {where}{error.strerror or error}"
        finally:
            self._busy = False
        self._repaint()
        if (quantity, span, points) != (self.quantity, self.span, self._points):
            self.look_again()  # a key or a new size came meanwhile
        elif self._problem is None and self._history is not None and self._history.reading:
            self.set_timer(_SLICE_S, self.look_again)

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return title, curve, marks and times."""
        return plot_lines(self._history, self.quantity, self.span, width, height, self.look, self._problem)
