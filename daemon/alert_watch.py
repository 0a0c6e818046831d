"""Turns alerts into events: one when an alert comes or gets worse, one when it is over."""

from __future__ import annotations

from typing import Final

from contracts.clock import Clock
from contracts.fold.events import ALERT_CLEARED, ALERT_OF, ALERT_RAISED, alert_key
from contracts.records import Severity
from contracts.status import AlertStatus
from daemon.events import EventLog

CALM_S: Final = 10.0
"""How long an alert must be gone to be over: one that comes and goes at its threshold is one alert, not a hundred."""
_LOOK_BACK: Final = 500
_ORDER: Final = list(Severity)


class AlertWatch:
    """Remembers which alerts are open.

    Args:
        events: Takes the events.
        clock: Gives the times.
    """

    def __init__(self, events: EventLog, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._since = clock.now()
        self._open: dict[str, AlertStatus] = {}
        self._gone_since: dict[str, float] = {}

    def update(self, alerts: list[AlertStatus]) -> None:
        """Compare the alerts that hold now with those that held before."""
        at = self._clock.now()
        now = {alert_key(alert.code, alert.dataset): alert for alert in reversed(alerts)}  # the worst of a key is first
        for key, alert in now.items():
            known = self._open.get(key)
            self._gone_since.pop(key, None)
            is_news = known is None or _ORDER.index(alert.severity) > _ORDER.index(known.severity)
            if is_news and not self._was_told(alert):
                self._emit(alert.severity, ALERT_RAISED, alert.message, alert)
            self._open[key] = alert
        for key in self._open.keys() - now.keys():
            if at - self._gone_since.setdefault(key, at) >= CALM_S:
                alert = self._open.pop(key)
                del self._gone_since[key]
                self._emit(Severity.INFO, ALERT_CLEARED, f"over: {alert.message}", alert)

    def _was_told(self, alert: AlertStatus) -> bool:
        """Whether an event of this session has said it: a data set that stops says so itself, at once."""
        return any(
            ALERT_OF.get(event.kind) == alert.code and event.dataset == alert.dataset and event.at >= self._since
            for event in self._events.last(_LOOK_BACK)
        )

    def _emit(self, severity: Severity, kind: str, message: str, alert: AlertStatus) -> None:
        self._events.emit(severity, kind, message, dataset=alert.dataset, data={"code": alert.code})
