"""What a person should know now, as pure functions of (fold, telemetry, now).

Each alert has a code, a threshold in ``[alerts]`` of run.toml, and goes away when its cause does.
"""

from __future__ import annotations

from contracts.alerts.datasets import DATASET_RULES
from contracts.alerts.run import RUN_RULES, daemon_gone, stalled_for_s, unreadable_files
from contracts.alerts.shares import share_alerts
from contracts.alerts.store import STORE_RULES, extraction_stalled_for_s
from contracts.alerts.stored import STORED_RULES
from contracts.alerts.view import View
from contracts.fold.events import alert_key
from contracts.records import Severity
from contracts.status import AlertStatus

__all__ = ["View", "current_alerts", "extraction_stalled_for_s", "stalled_for_s"]


def current_alerts(view: View) -> list[AlertStatus]:
    """Return every alert that holds now; the worst first, then by code and data set."""
    found = [*unreadable_files(view), *daemon_gone(view), *share_alerts(view)]
    for dataset in view.fold.datasets.values():
        for rule in (*DATASET_RULES, *STORED_RULES):
            found += rule(view, dataset)
    if view.liveness.alive:
        for watch in (*RUN_RULES, *STORE_RULES):
            found += watch(view)
    opened = view.fold.events.open_alerts
    for alert in found:
        alert.since = opened.get(alert_key(alert.code, alert.dataset), alert.since)
    order = list(Severity)[::-1]
    return sorted(found, key=lambda alert: (order.index(alert.severity), alert.code, alert.dataset or ""))
