"""When a run was at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.fold.history import COARSE_S, History
from contracts.fold.run import RunFold
from contracts.worked import idle_spans, worked_s
from tests.support.records import NOW, event, folded, heartbeat, make_run, write

Spans = list[tuple[float, float]]


def seen(folder: Path, *events: tuple[str, float]) -> RunFold:
    run = make_run(folder / "run")
    write(run.events, [event(kind, NOW + at) for kind, at in events])
    return folded(run)


def came(*at: float) -> History:
    history = History()
    for each in at:
        history.bucket(NOW + each).tokens += 1
    return history


def test_between_two_daemons_and_after_the_last(tmp_path: Path) -> None:
    fold = seen(tmp_path, ("daemon.started", 0), ("daemon.stopped", 10), ("daemon.started", 30), ("daemon.stopped", 50))
    assert idle_spans(fold, [], NOW, NOW + 60) == [(NOW + 10, NOW + 30), (NOW + 50, NOW + 60)]
    assert idle_spans(fold, [], NOW + 30, NOW + 60) == [(NOW + 50, NOW + 60)]


def test_a_pause_that_a_daemon_ended_in_is_one_span_with_the_time_after(tmp_path: Path) -> None:
    fold = seen(tmp_path, ("daemon.started", 0), ("run.paused", 5), ("daemon.stopped", 10), ("daemon.started", 30))
    assert idle_spans(fold, [came(2)], NOW, NOW + 60) == [(NOW + 5, NOW + 30)]


@pytest.mark.parametrize(("answers", "idle_from"), [((), 20), ((3, 19), 20), ((25, 31), 32), ((25, 70), 26)])
def test_a_pause_is_idle_from_the_last_answer_of_any_data_set(
    tmp_path: Path, answers: tuple[float, ...], idle_from: float
) -> None:
    fold = seen(tmp_path, ("daemon.started", 0), ("run.paused", 20), ("run.resumed", 60))
    histories = [came(*answers[:1]), came(*answers[1:])]
    assert idle_spans(fold, histories, NOW, NOW + 90) == [(NOW + idle_from, NOW + 60)]


def test_a_pause_that_goes_on_is_idle_when_nothing_is_open(tmp_path: Path) -> None:
    fold = seen(tmp_path, ("daemon.started", 0), ("run.paused", 20))
    for in_flight, idle in ((3, []), (0, [(NOW + 20, NOW + 40)])):
        write(fold.run.telemetry_file("daemon"), [heartbeat(NOW + 40, state="paused", in_flight={"d": in_flight})])
        fold.poll()
        assert idle_spans(fold, [], NOW, NOW + 40) == idle


def test_long_ago_only_whole_minutes_are_surely_of_the_pause(tmp_path: Path) -> None:
    fold = seen(tmp_path, ("daemon.started", 0), ("run.paused", 30), ("run.resumed", 3600))
    history = came(29)
    history.coarse = {int(NOW) // COARSE_S: history.fine.popitem()[1]}
    assert idle_spans(fold, [history], NOW, NOW + 3700) == [(NOW + 30, NOW + 3600)]
    history.coarse[int(NOW) // COARSE_S + 2] = came(150).fine.popitem()[1]
    assert idle_spans(fold, [history], NOW, NOW + 3700) == [(NOW + 180, NOW + 3600)]


@pytest.mark.parametrize(
    ("idle", "seconds"),
    [([], 10.0), ([(0, 5)], 10.0), ([(5, 12)], 8.0), ([(12, 14), (15, 16), (19, 30)], 6.0), ([(0, 99)], 0.0)],
)
def test_what_is_idle_is_taken_off(idle: Spans, seconds: float) -> None:
    assert worked_s(idle, 10.0, 20.0) == seconds
