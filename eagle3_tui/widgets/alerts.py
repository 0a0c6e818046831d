"""What a person should know now, the worst first, each with what to do."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from textual.strip import Strip

from contracts.records import Severity
from contracts.status import AlertStatus, RunStatus
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


class Alerts(Canvas):
    """As many lines as the alerts take and there are; none without alerts."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the alerts, whole as far as there is room, and how many do not fit."""
        return alert_lines(view.status, width, height, self.look) if view.status else []


def sorted_alerts(status: RunStatus) -> list[AlertStatus]:
    """Return the alerts, critical ones first, otherwise in the order of the status."""
    return sorted(status.alerts, key=lambda alert: _ORDER[alert.severity])


def alerts_height(status: RunStatus | None, width: int, look: Look) -> int:
    """Return how many lines show all alerts, whole, with their advice."""
    return _whole_height(status.alerts, status.at, width, look) if status else 0


def brief_height(status: RunStatus | None, width: int, look: Look) -> int:
    """Return how many lines show all alerts: one each where they are many, else whole."""
    many = status is not None and len(status.alerts) > _MANY
    return len(status.alerts) if status and many else alerts_height(status, width, look)


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


def _whole_height(alerts: Iterable[AlertStatus], now: float, width: int, look: Look) -> int:
    return sum(
        len(_message_lines(alert, now, "", width, look)) + len(_advice_lines(alert, width, look)) for alert in alerts
    )


def alert_lines(status: RunStatus, width: int, height: int, look: Look) -> list[Strip]:
    """Return at most ``height`` lines: a line for every alert that fits, the rest of them from the worst on.

    Where not all fit the last line says how many are missing; if there is one line only, at its end.
    """
    if not status.alerts or height < 1:
        return []
    if 1 < height < len(status.alerts):
        shown = sorted_alerts(status)[: height - 1]
        missing = f" {look.signs.ellipsis} and {len(status.alerts) - len(shown)} more (eagle3 status)"
        lines = [_first_line(alert, status.at, "", width, look) for alert in shown]
        return [*lines, strip([(cell(missing, width, look), look.bold)], width, look)]
    shown = sorted_alerts(status)[:height]
    hidden = len(status.alerts) - len(shown)
    more = f"  (+{hidden} more)" if hidden else ""
    spare = height - len(shown)
    lines = []
    for alert in shown:
        message, advice = _message_lines(alert, status.at, more, width, look), _advice_lines(alert, width, look)
        block = message + advice
        if len(block) - 1 > spare:
            block = message if len(message) - 1 <= spare else [_first_line(alert, status.at, more, width, look)]
        lines += block
        spare -= len(block) - 1
    return lines


def _message_lines(alert: AlertStatus, now: float, more: str, width: int, look: Look) -> list[Strip]:
    """The whole message, over as many lines as it takes."""
    lead, tail = _lead(alert, look), _tail(alert, now, more, width)
    first, *rest = wrap(_message(alert), max(width - len(lead) - len(tail) - 1, 1), look)
    lines = [_line(lead, look.severity(alert.severity)[1], first, tail, width, look)]
    return lines + [_line(" " * len(lead), look.plain, text, "", width, look) for text in rest]


def _advice_lines(alert: AlertStatus, width: int, look: Look) -> list[Strip]:
    if not alert.advice:
        return []
    texts = wrap(alert.advice, max(width - _INDENT - 1, 1), look)
    return [strip([(" " * _INDENT + text, look.dim)], width, look) for text in texts]


def _first_line(alert: AlertStatus, now: float, more: str, width: int, look: Look) -> Strip:
    """As much of the message as fits on one line."""
    tail = _tail(alert, now, more, width)
    return _line(_lead(alert, look), look.severity(alert.severity)[1], _message(alert), tail, width, look)


def _message(alert: AlertStatus) -> str:
    about = f"{alert.dataset}: " if alert.dataset and alert.dataset not in alert.message else ""
    return about + alert.message


def _lead(alert: AlertStatus, look: Look) -> str:
    return safe(f" {look.severity(alert.severity)[0]} {alert.severity.value}  ", look)


def _tail(alert: AlertStatus, now: float, more: str, width: int) -> str:
    since = f"  {human_duration(now - alert.since)}" if alert.since is not None and width >= _WIDE else ""
    return since + more


def _line(lead: str, style: Style, text: str, tail: str, width: int, look: Look) -> Strip:
    room = max(width - len(lead) - len(tail) - 1, 0)
    return strip([(lead, style), (cell(text, room, look), look.bold), (tail, look.dim)], width, look)
