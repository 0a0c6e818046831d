"""What a person should know now, the worst first, each with what to do; the cursor can be on one of them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from textual.strip import Strip

from contracts.records import Severity
from contracts.status import AlertStatus, RunStatus
from contracts.wording import with_dataset
from eagle3_tui.feed.state import View
from eagle3_tui.text import human_duration
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import cell, safe, strip, wrap
from eagle3_tui.widgets.look import Look

_INDENT = 3
_MANY = 2
"""More alerts than that take a line each before any takes two."""
_WIDE = 60
"""From this width on it is said since when."""
_ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_REVERSED = Style(reverse=True, dim=False)

AlertKey = tuple[str, str | None]
"""What makes two alerts the same one: code and data set."""


class Alerts(Canvas):
    """As many lines as the alerts take and there are; none without alerts."""

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self.selected: AlertKey | None = None

    def select(self, key: AlertKey | None) -> None:
        """Put the cursor on an alert, or on none."""
        if key != self.selected:
            self.selected = key
            self._repaint()

    def alert_at(self, y: int) -> AlertStatus | None:
        """Return the alert on a line of the widget."""
        status = self._view.status if self._view is not None else None
        if status is None:
            return None
        blocks = _blocks(status, self.size.width, self.size.height, self.look, self.selected)
        owners = [alert for alert, lines in blocks for _ in lines]
        return owners[y] if 0 <= y < len(owners) else None

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the alerts, whole as far as there is room, and how many do not fit."""
        return alert_lines(view.status, width, height, self.look, self.selected) if view.status else []


def key_of(alert: AlertStatus) -> AlertKey:
    """Return what an alert is known by while it lasts."""
    return alert.code, alert.dataset


def sorted_alerts(status: RunStatus) -> list[AlertStatus]:
    """Return the alerts, critical ones first, otherwise in the order of the status."""
    return sorted(status.alerts, key=lambda alert: _ORDER[alert.severity])


def alerts_height(status: RunStatus | None, width: int, look: Look) -> int:
    """Return how many lines show all alerts, whole, with their advice."""
    return _whole_height(status.alerts, status.at, width, look) if status else 0


def brief_height(status: RunStatus | None, width: int, look: Look, selected: AlertKey | None = None) -> int:
    """Return how many lines show all alerts: one each where they are many, but the selected one whole; else whole."""
    if status is None or len(status.alerts) <= _MANY:
        return alerts_height(status, width, look)
    chosen = [alert for alert in status.alerts if key_of(alert) == selected]
    return len(status.alerts) - len(chosen) + _whole_height(chosen, status.at, width, look)


def urgent_height(status: RunStatus | None, width: int, look: Look) -> int:
    """Return how many lines are worth more than data sets: 0 without a critical alert.

    Of one or two alerts the critical ones are shown with their advice; of more, each has a line.
    """
    if status is None or not any(alert.severity is Severity.CRITICAL for alert in status.alerts):
        return 0
    if len(status.alerts) > _MANY:
        return len(status.alerts)
    critical = [alert for alert in status.alerts if alert.severity is Severity.CRITICAL]
    return _whole_height(critical, status.at, width, look) + len(status.alerts) - len(critical)


def alert_lines(
    status: RunStatus, width: int, height: int, look: Look, selected: AlertKey | None = None
) -> list[Strip]:
    """Return at most ``height`` lines: a line for every alert that fits, the rest of them from the worst on.

    Where not all fit the last line says how many are missing; if there is one line only, at its end. The selected alert
    is always among them, with its advice before any other.
    """
    blocks = _blocks(status, width, height, look, selected)
    lines = [line for _, block in blocks for line in block]
    hidden = len(status.alerts) - len(blocks)
    if hidden and height > 1:
        missing = f" {look.signs.ellipsis} and {hidden} more (eagle3 status)"
        lines.append(strip([(cell(missing, width, look), look.bold)], width, look))
    return lines


def _blocks(
    status: RunStatus, width: int, height: int, look: Look, selected: AlertKey | None
) -> list[tuple[AlertStatus, list[Strip]]]:
    """The alerts that are shown, each with its lines."""
    if not status.alerts or height < 1:
        return []
    every = sorted_alerts(status)
    room = height - 1 if 1 < height < len(every) else min(height, len(every))
    chosen = next((place for place, alert in enumerate(every) if key_of(alert) == selected), None)
    first = 0 if chosen is None else max(chosen - room + 1, 0)
    shown = every[first : first + room]
    more = f"  (+{len(every) - 1} more)" if height == 1 and len(every) > 1 else ""
    spare = height - room - (len(shown) < len(every) and height > 1)
    blocks: dict[int, list[Strip]] = {}
    # The selected one is served first; the others from the worst on.
    for alert in sorted(shown, key=lambda alert: key_of(alert) != selected):
        mark = key_of(alert) == selected
        message = _message_lines(alert, status.at, more, width, look, mark=mark)
        block = message + _advice_lines(alert, width, look)
        if len(block) - 1 > spare:
            first_line = _first_line(alert, status.at, more, width, look, mark=mark)
            block = message if len(message) - 1 <= spare else [first_line]
        blocks[id(alert)] = block
        spare -= len(block) - 1
    return [(alert, blocks[id(alert)]) for alert in shown]


def _whole_height(alerts: Iterable[AlertStatus], now: float, width: int, look: Look) -> int:
    return sum(
        len(_message_lines(alert, now, "", width, look)) + len(_advice_lines(alert, width, look)) for alert in alerts
    )


def _message_lines(
    alert: AlertStatus, now: float, more: str, width: int, look: Look, *, mark: bool = False
) -> list[Strip]:
    """The whole message, over as many lines as it takes."""
    lead, tail = _lead(alert, look), _tail(alert, now, more, width)
    first, *rest = wrap(_message(alert), max(width - len(lead) - len(tail) - 1, 1), look)
    lines = [_line(lead, look.severity(alert.severity)[1], first, tail, width, look, mark=mark)]
    return lines + [_line(" " * len(lead), look.plain, text, "", width, look, mark=mark) for text in rest]


def _advice_lines(alert: AlertStatus, width: int, look: Look) -> list[Strip]:
    if not alert.advice:
        return []
    texts = wrap(alert.advice, max(width - _INDENT - 1, 1), look)
    return [strip([(" " * _INDENT + text, look.dim)], width, look) for text in texts]


def _first_line(alert: AlertStatus, now: float, more: str, width: int, look: Look, *, mark: bool) -> Strip:
    """As much of the message as fits on one line."""
    tail = _tail(alert, now, more, width)
    style = look.severity(alert.severity)[1]
    return _line(_lead(alert, look), style, _message(alert), tail, width, look, mark=mark)


def _message(alert: AlertStatus) -> str:
    return with_dataset(alert.dataset, alert.message)


def _lead(alert: AlertStatus, look: Look) -> str:
    return safe(f" {look.severity(alert.severity)[0]} {alert.severity.value}  ", look)


def _tail(alert: AlertStatus, now: float, more: str, width: int) -> str:
    since = f"  {human_duration(now - alert.since)}" if alert.since is not None and width >= _WIDE else ""
    return since + more


def _line(lead: str, style: Style, text: str, tail: str, width: int, look: Look, *, mark: bool) -> Strip:
    room = max(width - len(lead) - len(tail) - 1, 0)
    parts = [(lead, style), (cell(text, room, look), look.bold), (tail, look.dim), (" ", look.plain)]
    return strip([(part, each + _REVERSED if mark else each) for part, each in parts], width, look)
