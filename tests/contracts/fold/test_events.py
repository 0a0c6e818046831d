"""What events carry: sessions, pauses, what people set, open alerts."""

from __future__ import annotations

import pytest

from contracts.fold.events import KEPT, EventFold, alert_key
from contracts.records import Event, encode_line
from tests.support.records import event


def fold_of(*events: Event | bytes) -> EventFold:
    fold = EventFold()
    content = b"".join(each if isinstance(each, bytes) else encode_line(each) for each in events)
    fold.feed(bytearray(content), len(content), 0, False)
    return fold


def test_no_daemon_yet() -> None:
    assert (fold_of().session_started_at, fold_of().first_started_at) == (None, None)


def test_pauses_are_kept() -> None:
    fold = fold_of(
        event("daemon.started", 100),
        event("run.paused", 110),
        event("run.paused", 115),
        event("run.resumed", 130),
        event("run.paused", 150),
    )
    assert list(fold.pauses) == [(110, 130)]
    assert (fold.paused_at, fold.resumed_at) == (150, 130)


def test_a_stopped_session_ends() -> None:
    fold = fold_of(event("daemon.started", 100), event("run.paused", 110), event("daemon.stopped", 120))
    assert (list(fold.pauses), fold.paused_at, list(fold.absences)) == ([(110, 120)], None, [])
    fold.apply(event("daemon.started", 150))
    assert list(fold.absences) == [(120, 150)], "until the next"


def test_a_new_session_starts_from_nothing_but_keeps_what_was_set() -> None:
    fold = fold_of(
        event("daemon.started", 100),
        event("run.paused", 110),
        event("control.set", 111, data={"concurrency": 64, "targets": {"a": 5, "b": 6}}),
        event("alert.raised", 112, data={"code": "slow"}),
        event("daemon.started", 200),
        event("control.set", 211, data={"concurrency": None, "targets": {"b": 7}}),
    )
    assert (fold.first_started_at, fold.session_started_at) == (100, 200)
    assert (fold.paused_at, fold.resumed_at, list(fold.pauses)) == (None, None, [(110, 200)])
    assert (fold.concurrency, fold.targets) == (64, {"a": 5, "b": 7})
    assert fold.open_alerts == {}


def test_a_resume_without_a_pause_takes_back_a_drain_and_no_time() -> None:
    fold = fold_of(event("daemon.started", 100), event("run.resumed", 130))
    assert list(fold.pauses) == []


def test_alerts_are_open_until_they_are_cleared() -> None:
    raised = event("alert.raised", 5, dataset="d", data={"code": "length_share"})
    other = event("alert.raised", 6, dataset="e", data={"code": "length_share"})
    cleared = event("alert.cleared", 9, dataset="d", data={"code": "length_share"})
    assert fold_of(raised, other).open_alerts == {"length_share/d": 5, "length_share/e": 6}
    assert fold_of(raised, other, cleared).open_alerts == {"length_share/e": 6}
    assert fold_of(cleared).open_alerts == {}


def test_alert_keys() -> None:
    assert (alert_key("slow", None), alert_key("slow", "d")) == ("slow", "slow/d")


def test_the_last_events_are_kept() -> None:
    fold = fold_of(*(event("x", number) for number in range(KEPT + 5)))
    assert len(fold.last) == KEPT
    assert fold.last[-1].at == KEPT + 4


@pytest.mark.parametrize("data", [{"targets": 3}, {"targets": {"a": "many"}, "concurrency": "all"}, {}])
def test_nonsense_that_was_set_changes_nothing(data: dict[str, object]) -> None:
    fold = fold_of(event("control.set", data=data))
    assert (fold.concurrency, fold.targets) == (None, {})


def test_lines_that_are_no_events() -> None:
    fold = fold_of(b"\n", b"garbage\n", event("x"), b'{"at":1}\n', b'{"at":1,"severity":"\\u001b","kind":"x"}\n')
    assert (fold.unreadable.count, len(fold.last), fold.lines) == (3, 1, 5)
    assert fold.unreadable.first[0].line == 2
    assert all(place.why.isprintable() for place in fold.unreadable.first)
    fold.reset("events.jsonl was deleted")
    assert (fold.unreadable.count, len(fold.last), fold.lines, fold.notes) == (0, 0, 0, ["events.jsonl was deleted"])


def test_what_was_set_can_be_taken_back() -> None:
    fold = fold_of(
        event("control.set", 1, data={"concurrency": 64, "targets": {"a": 5, "b": 6}}),
        event("control.set", 2, data={"concurrency": None, "targets": {"b": "default"}}),
    )
    assert (fold.concurrency, fold.targets, fold.targets_set_at["a"], fold.concurrency_set_at) == (64, {"a": 5}, 1, 1)
    fold = fold_of(
        event("control.set", 1, data={"concurrency": 64, "targets": {}}),
        event("control.set", 2, data={"concurrency": "default", "targets": {"never": "default"}}),
    )
    assert (fold.concurrency, fold.targets) == (None, {})


def test_a_data_set_that_stops_opens_its_alert() -> None:
    halted = event("dataset.halted", 5, dataset="B1")
    assert fold_of(halted).open_alerts == {"dataset_halted/B1": 5}
    assert fold_of(halted, event("alert.cleared", 9, dataset="B1", data={"code": "dataset_halted"})).open_alerts == {}
