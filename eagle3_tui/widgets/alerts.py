"""What a person should know now, the worst first, each with what to do."""

from __future__ import annotations

from textual.strip import Strip

from contracts.records import Severity
from contracts.status import AlertStatus, RunStatus
from eagle3_tui.feed.state import View
from eagle3_tui.text import human_duration
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import cell, safe, strip
from eagle3_tui.widgets.look import Look

_ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


class Alerts(Canvas):
    """One or two lines an alert; none without alerts."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the alerts, with advice as far as there is room, and how many do not fit."""
        return alert_lines(view.status, width, height, self.look) if view.status else []


def sorted_alerts(status: RunStatus) -> list[AlertStatus]:
    """Return the alerts, critical ones first, otherwise in the order of the status."""
    return sorted(status.alerts, key=lambda alert: _ORDER[alert.severity])


def alerts_height(status: RunStatus | None) -> int:
    """Return how many lines show all alerts with their advice."""
    return sum(2 if alert.advice else 1 for alert in status.alerts) if status else 0


def alert_lines(status: RunStatus, width: int, height: int, look: Look) -> list[Strip]:
    """Return at most ``height`` lines: every alert that fits, then advice from the worst on."""
    alerts = sorted_alerts(status)
    shown = alerts[:height]
    advice = height - len(shown) if len(shown) == len(alerts) else 0
    hidden = len(alerts) - len(shown)
    lines = []
    for index, alert in enumerate(shown):
        more = f"  (+{hidden} more)" if hidden and index == len(shown) - 1 else ""
        lines.append(_alert(alert, status.at, more, width, look))
        if alert.advice and advice > 0:
            advice -= 1
            lines.append(strip([("   " + cell(alert.advice, max(width - 4, 0), look), look.dim)], width, look))
    return lines


def _alert(alert: AlertStatus, now: float, more: str, width: int, look: Look) -> Strip:
    sign, style = look.severity(alert.severity)
    about = f"{alert.dataset}: " if alert.dataset and alert.dataset not in alert.message else ""
    since = f"  {human_duration(now - alert.since)}" if alert.since is not None and width >= 60 else ""
    tail = since + more
    lead = f" {sign} {alert.severity.value}  "
    room = max(width - len(lead) - len(tail) - 1, 0)
    text = cell(about + alert.message, room, look)
    return strip([(safe(lead, look), style), (text, look.bold), (tail, look.dim)], width, look)
