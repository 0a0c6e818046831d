"""What alerts are judged from, and how one is made."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TypeVar

from contracts.eta import Storing
from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.liveness import Liveness
from contracts.records import FailureClass, GpuSample, Heartbeat, HostSample, ServerSample, Severity
from contracts.run_config import Alerts
from contracts.status import AlertStatus

Sample = TypeVar("Sample", GpuSample, HostSample, ServerSample)


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
    def run(self) -> str:
        """The run as advice names it in a command."""
        return self.fold.run.quoted

    def retry(self, dataset: DatasetFold, error: FailureClass | None = None) -> str:
        """The command by which samples of a data set are tried again."""
        command = f"eagle3 retry {self.run} --dataset {shlex.quote(dataset.name)}"
        return command if error is None else f"{command} --error {error}"

    @property
    def started_at(self) -> float | None:
        """When the living daemon started; its lock is older than its first event."""
        return self.liveness.since if self.liveness.since is not None else self.fold.events.session_started_at

    @property
    def gone_since(self) -> float | None:
        """When a daemon that is gone without having said its end was last heard of; None: none is."""
        events, beat = self.fold.events, self.fold.telemetry.heartbeat
        started = events.session_started_at
        if self.liveness.alive is not False or started is None or events.session_stopped_at is not None:
            return None
        return started if beat is None else max(beat.at, started)

    @property
    def gpu(self) -> GpuSample | None:
        """The newest readings of GPUs, where they are the living daemon's."""
        return self._own(self.fold.telemetry.gpu)

    @property
    def host(self) -> HostSample | None:
        """The same of the host."""
        return self._own(self.fold.telemetry.host)

    @property
    def server(self) -> ServerSample | None:
        """The same of the servers."""
        return self._own(self.fold.telemetry.server)

    def _own(self, sample: Sample | None) -> Sample | None:
        """What a daemon before this one measured is not the present; without a daemon there is none."""
        if sample is None or not self.liveness.alive:
            return None
        starts = (self.liveness.since, self.fold.events.session_started_at)
        return None if any(at is not None and sample.at < at for at in starts) else sample

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
