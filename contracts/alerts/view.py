"""What alerts are judged from, and how one is made."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.eta import Storing
from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.liveness import Liveness
from contracts.records import Heartbeat, Severity
from contracts.run_config import Alerts
from contracts.status import AlertStatus


@dataclass(frozen=True)
class View:
    """All that alerts are judged from."""

    fold: RunFold
    liveness: Liveness
    heartbeat: Heartbeat | None
    """The living daemon's own."""
    now: float
    heartbeat_age_s: float | None
    finished: bool
    storings: dict[str, Storing]
    """What is known of the hidden states of each data set."""

    @property
    def limits(self) -> Alerts:
        """Thresholds."""
        return self.fold.config.alerts if self.fold.config else Alerts()

    @property
    def open_requests(self) -> int:
        """Requests that the living daemon has open: answers and prefill passes."""
        beat = self.heartbeat
        return 0 if beat is None else sum(beat.in_flight.values()) + sum(beat.extracting.values())


def make_alert(
    code: str, severity: Severity, message: str, advice: str, dataset: DatasetFold | None = None
) -> AlertStatus:
    """Make one alert; that of a data set begins with its name."""
    name = None if dataset is None else dataset.name
    if name is not None:
        message = f"{name}: {message}"
    return AlertStatus(code=code, severity=severity, message=message, since=None, dataset=name, advice=advice)
