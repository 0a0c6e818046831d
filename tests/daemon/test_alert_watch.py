"""Alerts become events: once when they come, once when they are over."""

from contracts.clock import Clock
from contracts.records import Event, Severity
from contracts.status import AlertStatus
from daemon.alert_watch import CALM_S, AlertWatch
from daemon.events import EventLog
from tests.daemon.test_events import decode


class Watched:
    def __init__(self) -> None:
        self.now = 1000.0
        clock = Clock(wall=lambda: 0.0, monotonic=lambda: self.now)
        self.events: list[Event] = []
        self.log = EventLog(lambda line: self.events.append(decode(line)), clock, [])
        self.watch = AlertWatch(self.log, clock)

    def see(self, *alerts: AlertStatus, after: float = 1.0) -> list[tuple[str, str]]:
        """What is new when these alerts hold."""
        self.now += after
        before = len(self.events)
        self.watch.update(list(alerts))
        return [(event.kind, event.severity) for event in self.events[before:]]


def alert(code: str, severity: Severity = Severity.WARNING, dataset: str | None = None) -> AlertStatus:
    return AlertStatus(code=code, severity=severity, message=f"{code} holds", since=None, dataset=dataset)


def test_raised_once_and_cleared_once() -> None:
    watched = Watched()
    assert watched.see(alert("disk_short")) == [("alert.raised", "warning")]
    assert watched.see(alert("disk_short")) == []
    assert watched.see() == []
    assert watched.see(after=CALM_S) == [("alert.cleared", "info")]
    assert watched.see(after=CALM_S) == []
    assert watched.events[-1].message == "over: disk_short holds"
    assert watched.events[-1].data == {"code": "disk_short"}


def test_a_data_set_that_stops_has_said_so_itself() -> None:
    watched = Watched()
    watched.log.emit(Severity.CRITICAL, "dataset.halted", "B1 is stopped", dataset="B1")
    halted = alert("dataset_halted", Severity.CRITICAL, "B1")
    assert watched.see(halted) == []
    assert watched.see(halted, alert("dataset_halted", Severity.CRITICAL, "B2")) == [("alert.raised", "critical")]
    watched.see()
    assert ("alert.cleared", "info") in watched.see(after=CALM_S)


def test_one_that_flaps_is_one() -> None:
    watched = Watched()
    watched.see(alert("slow"))
    for _ in range(20):
        assert watched.see(after=CALM_S / 2) == []
        assert watched.see(alert("slow"), after=CALM_S / 4) == []


def test_one_that_gets_worse_is_told_again_one_that_gets_better_is_not() -> None:
    watched = Watched()
    watched.see(alert("server_down"))
    assert watched.see(alert("server_down", Severity.CRITICAL)) == [("alert.raised", "critical")]
    assert watched.see(alert("server_down")) == []


def test_data_sets_are_apart_and_of_two_with_one_name_the_worse_counts() -> None:
    watched = Watched()
    assert len(watched.see(alert("quarantined", dataset="B1"), alert("quarantined", dataset="B2"))) == 2
    worse = [alert("unreadable_lines", Severity.CRITICAL), alert("unreadable_lines")]
    assert watched.see(*worse, alert("quarantined", dataset="B1"), alert("quarantined", dataset="B2")) == [
        ("alert.raised", "critical")
    ]
