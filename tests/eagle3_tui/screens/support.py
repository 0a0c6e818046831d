"""What the tests of whole screens share."""

from __future__ import annotations

from collections.abc import Callable

from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from eagle3_tui.app import Eagle3App
from eagle3_tui.feed.state import View
from eagle3_tui.screens.main import MainScreen
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import strip
from tests.eagle3_tui.waiting import eventually


async def until(pilot: Pilot[int], true: Callable[[], bool]) -> None:
    """Let the app run until something holds.

    Raises:
        AssertionError: It does not.
    """
    await eventually(true, pilot.pause)


async def shown(pilot: Pilot[int]) -> None:
    """Wait until the first reading is on the screen."""
    app = pilot.app
    assert isinstance(app, Eagle3App)
    await until(pilot, lambda: app.feed.view().status is not None)
    await pilot.pause()
    await pilot.pause()


def text_of(app: Eagle3App) -> list[str]:
    """Return the lines of the screen, as the compositor would send them."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return [strip.text for strip in lines][:height] if width else []


def part_text(app: Eagle3App, part: str) -> list[str]:
    """Return the lines of one part."""
    widget = app.screen.query_one(f"#{part}", Widget)
    return [widget.render_line(y).text for y in range(widget.size.height)]


class FullCanvas(Canvas):
    """Fills its place, in the place of the history."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        return [strip([("~" * width, self.look.dim)], width, self.look)] * height


def with_history(app: Eagle3App) -> Eagle3App:
    """Give the main screen something in the place of the history."""
    app._run_screen = MainScreen(app.look, read_only=False, farewell=True, history=FullCanvas(app.look, id="plot"))
    return app
