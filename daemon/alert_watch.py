"""Turns alerts into events: one when an alert comes, one when it goes."""

from __future__ import annotations

from contracts.fold.events import ALERT_CLEARED, ALERT_RAISED, alert_key
from contracts.records import Severity
from contracts.status import AlertStatus
from daemon.events import EventLog


class AlertWatch:
    """Remembers which alerts are open.

    Args:
        events: Takes the events.
    """

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._open: dict[str, AlertStatus] = {}

    def update(self, alerts: list[AlertStatus]) -> None:
        """Compare the alerts that hold now with those that held before."""
        now = {alert_key(alert.code, alert.dataset): alert for alert in alerts}
        for key, alert in now.items():
            if key not in self._open:
                self._emit(alert.severity, ALERT_RAISED, alert.message, alert)
        for key, alert in self._open.items():
            if key not in now:
                self._emit(Severity.INFO, ALERT_CLEARED, f"over: {alert.message}", alert)
        self._open = now

    def _emit(self, severity: Severity, kind: str, message: str, alert: AlertStatus) -> None:
        self._events.emit(severity, kind, message, dataset=alert.dataset, data={"code": alert.code})
