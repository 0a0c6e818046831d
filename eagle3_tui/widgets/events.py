"""The tail of the run's events, the newest on top."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from textual.strip import Strip

from contracts.fold.events import ALERT_RAISED
from contracts.records import Event, Severity
from contracts.wording import with_dataset
from eagle3_tui.feed.state import View
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import cell, safe, strip
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.times import stamp

_ONE_OCCURRENCE_S: Final = 1.0
_COMPARED: Final = 20
"""Events that may lie between the two."""


class Events(Canvas):
    """A line an event: when, how bad, what."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the last events."""
        now = view.status.at if view.status else None
        newest = islice(occurrences(view.events), height)
        lines = [event_line(event, now, width, self.look) for event in newest]
        if not lines and view.status is not None:
            lines.append(strip([(" no events yet", self.look.dim)], width, self.look))
        return lines


def occurrences(events: Sequence[Event]) -> Iterator[Event]:
    """Yield events, the newest first; of two that say the same within a second, the later one.

    What happens to a data set and the alert that it raises are two events: both stay in the file, one is enough here.
    """
    recent: deque[Event] = deque(maxlen=_COMPARED)
    for event in reversed(events):
        if not any(abs(later.at - event.at) <= _ONE_OCCURRENCE_S and _same(later, event) for later in recent):
            yield event
        recent.append(event)


def _same(one: Event, other: Event) -> bool:
    if one.dataset != other.dataset:
        return False
    if one.message == other.message:
        return True
    # A data set's event and its alert introduce the same reason with different words.
    alerts = (one.kind == ALERT_RAISED) + (other.kind == ALERT_RAISED)
    return one.dataset is not None and alerts == 1 and _reason(one) == _reason(other)


def _reason(event: Event) -> str:
    return event.message.partition(": ")[2] or event.message


def event_line(event: Event, now: float | None, width: int, look: Look) -> Strip:
    """Return one event as a line of exactly ``width`` cells."""
    sign, style = look.severity(event.severity)
    word = "" if event.severity is Severity.INFO else f"{event.severity.value}  "
    lead = f" {stamp(event.at, event.at if now is None else now)}  "
    mark = f"{sign} {word}"
    room = max(width - len(lead) - len(mark) - 1, 0)
    text_style = look.dim if event.severity is Severity.INFO else look.plain
    return strip(
        [
            (lead, look.dim),
            (safe(mark, look), style),
            (cell(with_dataset(event.dataset, event.message), room, look), text_style),
        ],
        width,
        look,
    )
