"""The main screen: one run, from the state at the top to the keys at the bottom."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget

from contracts.records import Severity
from eagle3_tui.feed.state import View
from eagle3_tui.keys import usable_keys
from eagle3_tui.screens.layout import Heights, Needs, share_out
from eagle3_tui.terminal import DEFAULT_SIZE, TOO_SMALL
from eagle3_tui.widgets.alerts import Alerts, alerts_height, brief_height, urgent_height
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.events import Events
from eagle3_tui.widgets.footer import Footer
from eagle3_tui.widgets.gpus import Gpus, grid_height
from eagle3_tui.widgets.header import Header, header_height
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.note import Note
from eagle3_tui.widgets.rule import Rule
from eagle3_tui.widgets.servers import Servers, servers_height
from eagle3_tui.widgets.table import DatasetTable, table_height

_RULES: Final = ("rule-table", "rule-machines", "rule-events")


class RunScreen(Screen[None]):
    """Puts the parts in their places and hands each new view on."""

    AUTO_FOCUS = None
    ALLOW_SELECT = False

    def __init__(self, look: Look, *, read_only: bool, farewell: bool) -> None:
        super().__init__()
        self._look = look
        self._view = View()
        self._shown: View | None = None
        self._heights: Heights | None = None
        self._small: bool | None = None
        self.table = DatasetTable(look, id="table")
        self.footer = Footer(
            look, usable_keys(read_only=read_only), read_only=read_only, farewell=farewell, id="footer"
        )

    def compose(self) -> ComposeResult:
        """Yield the parts from top to bottom."""
        look = self._look
        yield Note(look, id="note")
        yield Header(look, id="header")
        yield Alerts(look, id="alerts")
        yield Rule(look, "data sets", id="rule-table")
        yield self.table
        yield Rule(look, "GPUs, servers, host", id="rule-machines")
        yield Gpus(look, id="gpus")
        yield Servers(look, id="servers")
        yield Rule(look, "events", id="rule-events")
        yield Events(look, id="events")
        yield self.footer

    def show(self, view: View) -> None:
        """Show a new view: places first, then each part repaints what differs."""
        if view is self._shown or not self.is_mounted:
            self._view = view
            return
        self._view = self._shown = view
        self._arrange()
        for part in self.query(Canvas):
            part.show(view)
        self.table.show(view)

    def say(self, message: str | None, severity: Severity = Severity.INFO) -> None:
        """Show a sentence at the bottom, or the keys again."""
        self.footer.say(message, severity)

    def on_mount(self) -> None:
        """Show what there is so far."""
        self.show(self._view)

    def on_resize(self, event: Resize) -> None:
        """Share the lines out anew."""
        self._arrange()

    def _arrange(self) -> None:
        width, height = self.app.size
        if not width and not height:
            width, height = DEFAULT_SIZE
        small = width < TOO_SMALL[0] or height < TOO_SMALL[1]
        status = self._view.status
        heights = share_out(
            height,
            Needs(
                header=header_height(self._view),
                alerts=alerts_height(status, width, self._look),
                brief=brief_height(status, width, self._look),
                urgent=urgent_height(status, width, self._look),
                table=table_height(status),
                gpus=grid_height(status, width),
                servers=servers_height(status),
                stores=status is not None and status.totals.hidden is not None,
            ),
        )
        if heights == self._heights and small == self._small:
            return
        self._heights, self._small = heights, small
        self._place("note", height if small else 0)
        for part in ("header", "alerts", "table", "gpus", "servers", "events"):
            self._place(part, 0 if small else getattr(heights, part))
        for rule in _RULES:
            self._place(rule, 1 if heights.rules and not small else 0)
        self._place("footer", 0 if small else 1)

    def _place(self, part: str, height: int) -> None:
        widget = self.query_one(f"#{part}", Widget)
        widget.display = height > 0
        if height:
            widget.styles.height = height
