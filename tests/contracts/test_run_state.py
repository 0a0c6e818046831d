"""What a run is doing when nothing can be sent, when requests hang, when the lock may not be asked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from contracts.exit_codes import ExitCode
from contracts.liveness import UNKNOWN, Liveness
from contracts.records import FailureClass, NextStep, ServerReading, ServerSample
from contracts.report import build_status
from contracts.run_dir import RunDir
from contracts.status import DatasetStage, RunState, RunStatus, exit_code
from tests.support.records import NOW, PID, event, failure, folded, heartbeat, make_run, response, write

ALIVE = Liveness(True, PID, NOW - 100)
NO_SERVER = "no server can be used: http://a down: refused"
NO_DATASET = "only stopped data sets are left"


def busy(folder: Path, **beat: Any) -> RunDir:
    """A run of 100 s with a speed, and so with a time that is left."""
    run = make_run(folder, datasets=("d", "e"), prompts=500)
    write(run.events, [event("daemon.started", NOW - 100)])
    for name in ("d", "e"):
        answers = [response(f"{name}-{each}", 3, finished_at=NOW - each) for each in range(100)]
        write(run.dataset(name).responses, answers)
    write(run.telemetry_file("daemon"), [heartbeat(**beat)])
    return run


def servers(run: RunDir, *states: str, at: float = NOW) -> None:
    readings = [ServerReading(url=f"http://s{each}", state=word, reason="why") for each, word in enumerate(states)]
    write(run.telemetry_file("server"), [ServerSample(at=at, servers=readings)])


def seen(run: RunDir, liveness: Liveness = ALIVE, now: float = NOW) -> RunStatus:
    return build_status(folded(run), liveness, now, now)


def etas(status: RunStatus) -> set[float | None]:
    return {status.totals.eta_s, *(each.eta_s for each in status.datasets)}


class TestNothingCanBeSent:
    @pytest.mark.parametrize("why", [NO_SERVER, NO_DATASET])
    def test_with_nothing_open_it_is_stalled(self, tmp_path: Path, why: str) -> None:
        status = seen(busy(tmp_path, blocked=why, reason=why))
        assert (status.state, status.reason, etas(status)) == (RunState.STALLED, why, {None})

    def test_in_the_first_minute_its_servers_may_be_starting(self, tmp_path: Path) -> None:
        run = busy(tmp_path, blocked=NO_SERVER)
        early, late = Liveness(True, PID, NOW - 59.9), Liveness(True, PID, NOW - 60)
        assert (seen(run, early).state, seen(run, early).reason) == (RunState.RUNNING, NO_SERVER)
        assert etas(seen(run, early)) == {None}
        assert seen(run, late).state is RunState.STALLED
        assert seen(run, Liveness(True)).state is RunState.STALLED  # the event tells when it started

    def test_while_answers_are_still_to_come_it_runs_without_an_end_in_sight(self, tmp_path: Path) -> None:
        run = busy(tmp_path, blocked=NO_SERVER, reason=NO_SERVER, in_flight={"d": 2}, since_progress_s=1.0)
        status = seen(run)
        assert (status.state, status.reason, etas(status)) == (RunState.RUNNING, NO_SERVER, {None})

    @pytest.mark.parametrize(("state", "expected"), [("paused", RunState.PAUSED), ("draining", RunState.DRAINING)])
    def test_what_a_person_wanted_is_no_stall(self, tmp_path: Path, state: str, expected: RunState) -> None:
        assert seen(busy(tmp_path, blocked=NO_SERVER, state=state)).state is expected

    def test_all_servers_down_is_critical_and_says_what_to_do(self, tmp_path: Path) -> None:
        run = busy(tmp_path, blocked=NO_SERVER)
        servers(run, "down", "refused")
        status = seen(run)
        assert exit_code(status) is ExitCode.CRITICAL
        assert {"server_down", "server_refused"} <= {alert.code for alert in status.alerts}
        assert all(alert.advice for alert in status.alerts)

    @pytest.mark.parametrize(
        ("states", "known"), [(("ok", "down"), True), (("down", "refused"), False), (("unknown",), False), ((), True)]
    )
    def test_time_left_needs_a_usable_server(self, tmp_path: Path, states: tuple[str, ...], known: bool) -> None:
        run = busy(tmp_path, in_flight={"d": 2, "e": 2})
        servers(run, *states)
        assert (None not in etas(seen(run))) is known

    def test_old_readings_say_nothing_of_the_servers(self, tmp_path: Path) -> None:
        run = busy(tmp_path, in_flight={"d": 2, "e": 2})
        servers(run, "down", at=NOW - 30)
        assert None not in etas(seen(run))

    def test_readings_of_the_daemon_before_say_nothing_either(self, tmp_path: Path) -> None:
        run = busy(tmp_path, in_flight={"d": 2, "e": 2})
        servers(run, "down", at=NOW - 11)
        assert None in etas(seen(run))
        assert None not in etas(seen(run, Liveness(True, PID, NOW - 10)))


def test_a_stopped_data_set_has_no_speed_and_no_time_left(tmp_path: Path) -> None:
    run = busy(tmp_path, in_flight={"e": 2})
    before = seen(run).datasets[0]
    assert before.tokens_per_s == pytest.approx(3.0, rel=0.05)
    assert before.eta_s is not None
    drift = {"error": FailureClass.CONTRACT_DRIFT, "next": NextStep.STOPPED}
    write(run.dataset("d").failures, [failure("d-499", **drift)])
    status = seen(run)
    halted, other = status.datasets
    assert (halted.stage, halted.eta_s, halted.tokens_per_s) == (DatasetStage.HALTED, None, 0.0)
    assert other.eta_s is not None
    assert status.totals.tokens_per_s == other.tokens_per_s


def test_a_drain_that_hangs_says_both(tmp_path: Path) -> None:
    status = seen(busy(tmp_path, state="draining", in_flight={"d": 16}, since_progress_s=653.0))
    assert (status.state, status.reason) == (RunState.STALLED, "draining: nothing for 653 s, 16 requests open")


def test_a_daemon_that_was_killed_is_gone_and_not_stopped_in_order(tmp_path: Path) -> None:
    run = busy(tmp_path)
    status = seen(run, Liveness(False), NOW + 3)
    since = time.strftime("%H:%M:%S", time.localtime(NOW))
    assert (status.state, status.reason) == (
        RunState.STOPPED,
        f"no word since {since}, the daemon is gone; go on with: eagle3 start {run.path}",
    )
    later = seen(run, Liveness(False), NOW + 2 * 86_400)
    assert time.strftime("no word since %m-%d %H:%M:%S,", time.localtime(NOW)) in str(later.reason)
    assert "gone" not in str(seen(run, UNKNOWN, NOW + 100).reason)
    write(run.events, [event("daemon.stopped", NOW + 1)])
    assert str(seen(run, Liveness(False), NOW + 3).reason).startswith("no daemon is running, and work is left")


def test_the_age_of_the_oldest_request(tmp_path: Path) -> None:
    run = busy(tmp_path, in_flight={"d": 1}, oldest_request_s=12.3456)
    assert seen(run).oldest_request_s == 12.346
    assert seen(run, Liveness(False)).oldest_request_s is None
    assert seen(busy(tmp_path / "idle")).oldest_request_s is None


class TestLockOfAnotherUser:
    def test_a_fresh_heartbeat_shows_a_daemon(self, tmp_path: Path) -> None:
        run = busy(tmp_path, in_flight={"d": 2, "e": 1})
        status = seen(run, UNKNOWN, NOW + 14.9)
        assert (status.state, status.daemon.alive, status.daemon.pid) == (RunState.RUNNING, True, PID)
        assert (status.totals.in_flight, status.daemon.heartbeat_age_s) == (3, 14.9)

    def test_an_old_heartbeat_leaves_it_unknown(self, tmp_path: Path) -> None:
        status = seen(busy(tmp_path, in_flight={"d": 2}), UNKNOWN, NOW + 15)
        assert (status.state, status.daemon.alive, status.totals.in_flight) == (RunState.STOPPED, None, None)
        assert status.reason == "cannot tell whether a daemon runs: daemon.lock may not be read"
        assert exit_code(status) is ExitCode.STOPPED

    def test_a_daemon_that_said_it_ended_is_gone_at_once(self, tmp_path: Path) -> None:
        run = busy(tmp_path)
        write(run.events, [event("daemon.stopped", NOW)])
        assert seen(run, UNKNOWN).state is RunState.STOPPED

    def test_without_any_heartbeat(self, tmp_path: Path) -> None:
        assert seen(make_run(tmp_path), UNKNOWN).state is RunState.STOPPED
