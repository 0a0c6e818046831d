"""The tail of the run's events, the newest on top."""

from __future__ import annotations

from textual.strip import Strip

from contracts.records import Event, Severity
from eagle3_tui.feed.state import View
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import cell, safe, strip
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.times import stamp


class Events(Canvas):
    """A line an event: when, how bad, what."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the last events."""
        now = view.status.at if view.status else None
        lines = [event_line(event, now, width, self.look) for event in reversed(view.events[-height:])]
        if not lines and view.status is not None:
            lines.append(strip([(" no events yet", self.look.dim)], width, self.look))
        return lines


def event_line(event: Event, now: float | None, width: int, look: Look) -> Strip:
    """Return one event as a line of exactly ``width`` cells."""
    sign, style = look.severity(event.severity)
    word = "" if event.severity is Severity.INFO else f"{event.severity.value}  "
    about = f"{event.dataset}: " if event.dataset and event.dataset not in event.message else ""
    lead = f" {stamp(event.at, event.at if now is None else now)}  "
    mark = f"{sign} {word}"
    room = max(width - len(lead) - len(mark) - 1, 0)
    text_style = look.dim if event.severity is Severity.INFO else look.plain
    return strip(
        [(lead, look.dim), (safe(mark, look), style), (cell(about + event.message, room, look), text_style)],
        width,
        look,
    )
