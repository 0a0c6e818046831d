"""The main screen: one run, from the state at the top to the keys at the bottom."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Click, Key, Paste, Resize
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from contracts.records import Severity
from contracts.status import AlertStatus
from eagle3_tui.feed.state import View
from eagle3_tui.keys import usable_keys
from eagle3_tui.screens.layout import Heights, Needs, gpu_rows, gpus_width, has_plot, share_out
from eagle3_tui.terminal import DEFAULT_SIZE, TOO_SMALL
from eagle3_tui.widgets.alerts import Alerts, alerts_height, brief_height, key_of, sorted_alerts, urgent_height
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.events import Events
from eagle3_tui.widgets.footer import Footer
from eagle3_tui.widgets.gpus import Asker, Gpus, grid_height
from eagle3_tui.widgets.header import Header, header_height
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.note import Note
from eagle3_tui.widgets.rule import Rule
from eagle3_tui.widgets.servers import Servers, full_height, servers_height
from eagle3_tui.widgets.table import DatasetTable, table_height
from eagle3_tui.widgets.target import Target

_FILTER_LENGTH: Final = 60


class RunScreen(Screen[None]):
    """Puts the parts in their places, hands each new view on, and moves the cursor over alerts and data sets.

    Args:
        look: Signs and styles.
        read_only: Keys that change the run are not shown.
        farewell: The daemon goes on after leaving, and the screen says so.
        history: Draws what was, its title line included; None: nothing of that is shown.
        ask: Answers questions about the run, for how busy the GPUs were before; None: that is not shown.
    """

    AUTO_FOCUS = None
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    RunScreen Container { background: ansi_default; width: 100%; height: auto; }
    """

    class Opened(Message):
        """A person clicked on what was under the cursor already."""

        def __init__(self, target: Target) -> None:
            super().__init__()
            self.target = target

    def __init__(
        self, look: Look, *, read_only: bool, farewell: bool, history: Canvas | None = None, ask: Asker | None = None
    ) -> None:
        super().__init__()
        self._look = look
        self._view = View()
        self._shown: View | None = None
        self._placed: tuple[Heights, int, bool] | None = None
        self._history = history
        self._reserved = 0
        """Lines at the top that are somebody else's."""
        self.filtering = False
        """Keys go into the filter."""
        self.alerts = Alerts(look, id="alerts")
        self.table = DatasetTable(look, id="table")
        self.footer = Footer(
            look, usable_keys(read_only=read_only), read_only=read_only, farewell=farewell, id="footer"
        )
        self._note = Note(look, id="note")
        self._header = Header(look, id="header")
        self._table_rule = Rule(look, "data sets", id="rule-table")
        self._machines_rule = Rule(look, "servers, host, GPUs", id="rule-machines")
        self._servers = Servers(look, id="servers")
        self._gpus = Gpus(look, ask, id="gpus")
        self._middle = Container(id="middle")
        self._events_rule = Rule(look, "events", id="rule-events")
        self._events = Events(look, id="events")

    def compose(self) -> ComposeResult:
        """Yield the parts from top to bottom."""
        yield self._note
        yield self._header
        yield self.alerts
        yield self._table_rule
        yield self.table
        yield self._machines_rule
        yield self._servers
        with self._middle:
            yield self._gpus
            if self._history is not None:
                yield self._history
        yield self._events_rule
        yield self._events
        yield self.footer

    def show(self, view: View) -> None:
        """Show a new view: places first, then each part repaints what differs."""
        if view is self._shown or not self.is_mounted:
            self._view = view
            return
        self._view = self._shown = view
        if self.alerts.selected is not None and self._alert() is None:
            self._select_alert(None)  # its cause is gone
        self._arrange()
        for part in self.query(Canvas):
            part.show(view)
        self.table.show(view)
        self._say_order()

    def say(self, message: str | None, severity: Severity = Severity.INFO) -> None:
        """Show a sentence at the bottom, or the keys again."""
        self.footer.say(message, severity)

    def reserve(self, lines: int) -> None:
        """Leave lines free at the top."""
        if lines != self._reserved:
            self._reserved = lines
            self._arrange()

    @property
    def selected(self) -> Target | None:
        """What is under the cursor; None where there is neither an alert nor a data set."""
        alert = self._alert()
        if alert is not None:
            return Target(alert.dataset, alert)
        return None if self.table.selected is None else Target(self.table.selected)

    def move_cursor(self, lines: int) -> None:
        """Move the cursor by lines, up from the first data set to the alerts and down again."""
        alerts = self._sorted_alerts()
        alert = self._alert()
        if alert is not None:
            place = alerts.index(alert) + lines
            self._select_alert(alerts[max(place, 0)] if place < len(alerts) else None)
        elif not self.table.move_cursor(lines) and lines < 0 and alerts:
            self._select_alert(alerts[-1])

    def move_page(self, direction: int) -> None:
        """Move the cursor by as many data sets as are shown."""
        self._select_alert(None)
        self.table.move_cursor(direction * self.table.page_rows)

    def move_to_end(self, direction: int) -> None:
        """Move the cursor to the first data set, or to the last where ``direction`` is positive."""
        self._select_alert(None)
        self.table.move_cursor(direction * max(self.table.count[0], 1))

    def sort_next(self) -> None:
        """Order the data sets by the next column; after the last one as in run.toml."""
        self.table.sort_next()
        self._say_order()

    def sort_reverse(self) -> None:
        """Turn the order of the data sets round."""
        self.table.sort_reverse()
        self._say_order()

    def begin_filter(self) -> None:
        """Let the next keys go into the filter, until Enter keeps it or Esc takes it back."""
        self._filter_mode(True)
        self._select_alert(None)

    def filter(self, text: str) -> None:
        """Show the data sets with every word of a text in their name or stage; all of them for an empty one."""
        self.table.filter(text[:_FILTER_LENGTH])
        self._say_order()

    def clear_filter(self) -> bool:
        """Show all data sets; False where no filter was set."""
        was = bool(self.table.wanted) or self.filtering
        self._filter_mode(False)
        self.filter("")
        return was

    def on_key(self, event: Key) -> None:
        """While the filter is typed, keys that write go into it; those that move the cursor still do.

        The key that begins it is taken here too: as a binding it would be acted upon after keys that came with it in
        one piece, as they do over SSH, and ``/p`` would pause the run.
        """
        if event.key == "slash" and not self.filtering:
            self.begin_filter()
        elif not self.filtering:
            return
        elif event.key == "enter":
            self._filter_mode(False)
        elif event.key == "escape":
            self.clear_filter()
        elif event.key == "backspace":
            self.filter(self.table.wanted[:-1])
        elif event.is_printable and event.character is not None:
            self.filter(self.table.wanted + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: Paste) -> None:
        """Take pasted text into the filter."""
        if self.filtering:
            self.filter(self.table.wanted + " ".join(event.text.split()))
            event.stop()

    def on_click(self, event: Click) -> None:
        """Order by the title, or put the cursor on the line, under the mouse; a second click there opens it."""
        before = self.selected
        if event.widget is self.table:
            title = self.table.title_at(event.x) if event.y == 0 else None
            name = self.table.name_at(event.y)
            if title is not None:
                self.table.sort_by(title)
                self._say_order()
            if name is None:
                return
            self._select_alert(None)
            self.table.select(name)
        elif event.widget is self.alerts:
            alert = self.alerts.alert_at(event.y)
            if alert is None:
                return
            self._select_alert(alert)
        else:
            return
        if self.selected is not None and self.selected == before:
            self.post_message(self.Opened(self.selected))

    def on_mount(self) -> None:
        """Show what there is so far."""
        self.show(self._view)

    def on_resize(self, event: Resize) -> None:
        """Share the lines out anew."""
        self._arrange()

    def _sorted_alerts(self) -> list[AlertStatus]:
        status = self._view.status
        return sorted_alerts(status) if status is not None else []

    def _alert(self) -> AlertStatus | None:
        """The alert under the cursor, as it is now."""
        key = self.alerts.selected
        return None if key is None else next((each for each in self._sorted_alerts() if key_of(each) == key), None)

    def _select_alert(self, alert: AlertStatus | None) -> None:
        self.alerts.select(None if alert is None else key_of(alert))
        self.table.show_cursor(alert is None)
        self._arrange()

    def _filter_mode(self, on: bool) -> None:
        if on != self.filtering:
            self.say("filter: type part of a name or stage; Enter keeps it, Esc shows all" if on else None)
        self.filtering = self.table.typing = on
        self.filter(self.table.wanted)

    def _say_order(self) -> None:
        """Say in the title line what is shown and in which order, where that is not everything as in run.toml."""
        sort, (shown, whole) = self.table.sort, self.table.count
        parts = []
        if self.table.wanted or self.filtering:
            parts.append(f"/{self.table.wanted}  {shown} of {whole}")
        if sort.title is not None or sort.descending:
            parts.append(f"by {sort.title or 'run.toml'} {sort.arrow(self._look)}")
        self._table_rule.detail("  ".join(parts))

    def _arrange(self) -> None:
        width, height = self.app.size
        if not width and not height:
            width, height = DEFAULT_SIZE
        small = width < TOO_SMALL[0] or height < TOO_SMALL[1]
        height -= self._reserved
        status, look = self._view.status, self._look
        count = len(status.gpus) if status is not None and status.gpus else 0
        plot, beside = has_plot(width, height, count, wanted=self._history is not None)
        narrow = gpus_width(width, count, beside=beside)
        heights = share_out(
            height,
            Needs(
                header=header_height(self._view, width, height, look),
                alerts=alerts_height(status, width, look),
                brief=brief_height(status, width, look, self.alerts.selected),
                urgent=urgent_height(status, width, look),
                table=table_height(status),
                gpus=grid_height(status, narrow, gpu_rows(width, count, beside=beside)),
                servers=servers_height(status),
                figures=full_height(status, width, look),
                stores=status is not None and status.totals.hidden is not None,
                plot=plot,
                beside=beside,
            ),
        )
        if (heights, width, small) == self._placed:
            return
        self._placed = heights, width, small
        _place(self._note, height if small else 0)
        lines = {
            self._header: heights.header, self.alerts: heights.alerts, self.table: heights.table,
            self._servers: heights.servers, self._gpus: heights.gpus, self._middle: heights.middle(),
            self._events: heights.events, self._table_rule: heights.rules,
            self._machines_rule: heights.rules, self._events_rule: heights.rules,
        }  # fmt: skip
        if self._history is not None:
            lines[self._history] = heights.plot
            self._history.styles.width = "1fr" if heights.beside else "100%"
        self._middle.styles.layout = "horizontal" if heights.beside else "vertical"
        self._gpus.styles.width = narrow
        for part, wanted in lines.items():
            _place(part, 0 if small else int(wanted))
        self.footer.display = not small  # its height is its own: a long sentence takes more lines


def _place(part: Widget, height: int) -> None:
    part.display = height > 0
    if height:
        part.styles.height = height
