"""The status: every state, and no number that nobody knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.exit_codes import ExitCode
from contracts.fold.run import RunFold
from contracts.liveness import UNKNOWN, Liveness
from contracts.records import (
    FailureClass,
    GpuReading,
    GpuSample,
    HostSample,
    NextStep,
    ServerReading,
    ServerSample,
    Severity,
)
from contracts.report import build_status
from contracts.run_dir import RunDir
from contracts.status import AlertStatus, DatasetStage, DatasetStatus, RunState, RunStatus, exit_code
from tests.support.records import NOW, PID, event, failure, folded, heartbeat, make_run, prompt_line, response, write

FIXTURES = Path(__file__).parents[1] / "fixtures"
GOLDEN = Path(__file__).parent / "golden" / "status.json"
ALIVE = Liveness(True, PID, NOW - 100)
DEAD = Liveness(False)


def status_of(run: RunDir | RunFold, liveness: Liveness, now: float = NOW) -> RunStatus:
    return build_status(folded(run) if isinstance(run, RunDir) else run, liveness, now, now)


def foreign(folder: Path, **files: bytes) -> RunFold:
    """A folder of other tools; the keyword is the data set's name."""
    for name, content in files.items():
        write(folder / "prepared" / name / "raw_responses.jsonl", [content])
    fold = RunFold(folder)
    fold.poll()
    return fold


class TestStates:
    @pytest.mark.parametrize(
        ("beat", "state", "reason"),
        [
            ({}, RunState.RUNNING, None),
            ({"reason": "waiting for a server"}, RunState.RUNNING, "waiting for a server"),
            ({"state": "paused", "reason": "by command"}, RunState.PAUSED, "by command"),
            ({"state": "draining"}, RunState.DRAINING, None),
            (
                {"in_flight": {"d": 2}, "since_progress_s": 500.0},
                RunState.STALLED,
                "nothing for 500 s, 2 requests open",
            ),
            ({"at": NOW - 20}, RunState.STALLED, "no heartbeat of the daemon for 20 s"),
            ({"at": NOW - 500}, RunState.RUNNING, "starting"),  # of the daemon before
        ],
    )
    def test_with_a_daemon(self, tmp_path: Path, beat: dict[str, Any], state: RunState, reason: str | None) -> None:
        run = make_run(tmp_path)
        write(run.telemetry_file("daemon"), [heartbeat(**beat)])
        status = status_of(run, ALIVE)
        assert (status.state, status.reason) == (state, reason)

    def test_before_the_first_heartbeat(self, tmp_path: Path) -> None:
        status = status_of(make_run(tmp_path), ALIVE)
        assert (status.state, status.reason) == (RunState.RUNNING, "starting")
        assert (status.daemon.pid, status.daemon.heartbeat_age_s) == (PID, None)
        assert (status.totals.in_flight, status.totals.tokens_per_s, status.totals.eta_s) == (None, None, None)

    def test_stopped_with_work_left(self, tmp_path: Path) -> None:
        run = make_run(tmp_path)
        write(run.telemetry_file("daemon"), [heartbeat(in_flight={"d": 3})])
        status = status_of(run, DEAD)
        assert status.state is RunState.STOPPED
        assert (status.totals.in_flight, status.gpus, status.host, status.servers) == (None, None, None, [])
        assert exit_code(status) is ExitCode.STOPPED

    def test_finished(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=3)
        write(run.dataset("d").responses, [response("d-0"), response("d-1")])
        write(run.dataset("d").failures, [failure("d-2", next=NextStep.QUARANTINED)])
        status = status_of(run, DEAD)
        assert (status.state, status.totals.eta_s) == (RunState.FINISHED, 0.0)
        assert status.datasets[0].stage is DatasetStage.FINISHED
        assert exit_code(status) is ExitCode.OK
        write(run.telemetry_file("daemon"), [heartbeat(in_flight={"d": 1})])
        assert status_of(run, ALIVE).state is RunState.RUNNING  # something is still to come in
        write(run.telemetry_file("daemon"), [heartbeat()])
        assert status_of(run, ALIVE).state is RunState.FINISHED

    def test_finished_by_target_says_how_far_beyond(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, extra="[generate]\ntarget_tokens = 5")
        write(run.dataset("d").responses, [response("d-0", 3)])
        assert status_of(run, DEAD).totals.overrun_tokens is None
        write(run.dataset("d").responses, [response("d-1", 4)])
        status = status_of(run, DEAD)
        assert (status.state, status.totals.overrun_tokens) == (RunState.FINISHED, 2)
        assert status.reason == "target reached", "and not that prompts were lost"

    def test_finished_by_the_targets_of_some_names_them(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, datasets=("d", "e"), prompts=2, extra="[generate]\ntarget_tokens = 5")
        write(run.dataset("d").responses, [response("d-0", 6)])
        write(run.dataset("e").responses, [response("e-0", 1), response("e-1", 1)])
        assert status_of(run, DEAD).reason == "target reached (d)"
        write(run.telemetry_file("daemon"), [heartbeat()])
        assert status_of(run, ALIVE).reason == "target reached (d)"

    def test_a_failure_that_will_be_tried_again_is_work_left(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=1)
        write(run.dataset("d").failures, [failure("d-0")])
        assert status_of(run, DEAD).state is RunState.STOPPED

    def test_zero_byte_prompts_are_not_a_finished_run(self, tmp_path: Path) -> None:
        """Case 52."""
        run = make_run(tmp_path, prompts=2)
        write(run.dataset("d").responses, [response("d-0"), response("d-1")])
        assert status_of(run, DEAD).state is RunState.FINISHED
        run.dataset("d").prompts.write_bytes(b"")
        status = status_of(run, DEAD)
        assert (status.state, status.totals.prompts, status.totals.done) == (RunState.STOPPED, None, 2)

    def test_halted_is_neither_finished_nor_running(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, datasets=("d", "e"), prompts=1)
        drift = {"error": FailureClass.CONTRACT_DRIFT, "next": NextStep.STOPPED}
        write(run.dataset("d").failures, [failure("d-0", **drift)])
        write(run.dataset("e").responses, [response("e-0")])
        status = status_of(run, DEAD)
        assert [each.stage for each in status.datasets] == [DatasetStage.HALTED, DatasetStage.FINISHED]
        assert (status.state, status.totals.eta_s) == (RunState.STOPPED, None)
        assert exit_code(status) is ExitCode.CRITICAL

    def test_pretokenized_data_sets_need_nothing(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, datasets=("d", "masked"), prompts=0, extra="[generate]\ntarget_tokens = 9")
        write(run.dataset("d").prompts, [prompt_line("a")])
        write(run.dataset("masked").prompts, [prompt_line(number, masked=True) for number in range(4)])
        status = status_of(run, DEAD)
        assert [each.stage for each in status.datasets] == [DatasetStage.WAITING, DatasetStage.PRETOKENIZED]
        assert (status.datasets[1].eta_s, status.datasets[1].target_tokens) == (0.0, None)
        assert (status.totals.prompts, status.totals.pretokenized, status.totals.target_tokens) == (5, 4, 9)
        write(run.dataset("d").responses, [response("a", 9)])
        assert status_of(run, DEAD).state is RunState.FINISHED

    def test_a_mixed_data_set_is_finished_without_its_pretokenized_part(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=2)
        write(run.dataset("d").prompts, [prompt_line(f"m{number}", masked=True) for number in range(3)])
        write(run.dataset("d").responses, [response("d-0")])
        assert status_of(run, DEAD).state is RunState.STOPPED
        write(run.dataset("d").responses, [response("d-1")])
        assert status_of(run, DEAD).state is RunState.FINISHED

    def test_a_foreign_folder_is_watched(self, tmp_path: Path) -> None:
        status = status_of(foreign(tmp_path, B1=b'{"sample_id":1,"completion_tokens":2}\n'), UNKNOWN)
        assert (status.state, status.daemon.alive, status.run) == (RunState.WATCHING, None, tmp_path.name)
        assert status.datasets[0].stage is DatasetStage.WATCHING
        assert (status.totals.prompts, status.totals.eta_s, status.totals.target_tokens) == (None, None, None)
        assert exit_code(status) is ExitCode.OK


class TestExitCodes:
    def status(self, tmp_path: Path) -> RunStatus:
        return status_of(make_run(tmp_path), ALIVE)

    @pytest.mark.parametrize(
        ("state", "severity", "code"),
        [
            (RunState.RUNNING, None, 0),
            (RunState.RUNNING, Severity.WARNING, 0),
            (RunState.RUNNING, Severity.CRITICAL, 4),
            (RunState.PAUSED, None, 0),
            (RunState.DRAINING, None, 0),
            (RunState.FINISHED, None, 0),
            (RunState.WATCHING, None, 0),
            (RunState.STOPPED, None, 3),
            (RunState.STOPPED, Severity.CRITICAL, 4),
            (RunState.STALLED, None, 4),
        ],
    )
    def test_each(self, tmp_path: Path, state: RunState, severity: Severity | None, code: int) -> None:
        status = self.status(tmp_path)
        status.state = state
        if severity is not None:
            status.alerts = [AlertStatus(code="x", severity=severity, message="x", since=None)]
        assert exit_code(status) == code


class TestWhatNobodyKnows:
    UNCOUNTED = b'{"sample_id":%d,"text":"words"}\n'

    def test_no_count_at_all_is_none_not_zero(self, tmp_path: Path) -> None:
        fold = foreign(tmp_path, B1=self.UNCOUNTED % 1 + self.UNCOUNTED % 2)
        for each in (status_of(fold, UNKNOWN).totals, status_of(fold, UNKNOWN).datasets[0]):
            assert (each.done, each.unknown_counts) == (2, 2)
            assert (each.completion_tokens, each.prompt_tokens, each.avg_completion_tokens) == (None, None, None)
            assert each.tokens_per_s is None

    def test_an_empty_data_set_beside_it_makes_no_zero_of_it(self, tmp_path: Path) -> None:
        write(tmp_path / "prepared" / "A1" / "prompts.jsonl", [prompt_line("a", masked=True)])
        totals = status_of(foreign(tmp_path, B1=self.UNCOUNTED % 1), UNKNOWN).totals
        assert (totals.completion_tokens, totals.prompt_tokens) == (None, None)
        assert totals.prompts is None  # of B1 nobody knows

    def test_what_is_known_is_added_up(self, tmp_path: Path) -> None:
        known = b'{"sample_id":1,"prompt_tokens":5,"completion_tokens":7}\n'
        totals = status_of(foreign(tmp_path, B1=self.UNCOUNTED % 1, B2=known), UNKNOWN).totals
        assert (totals.completion_tokens, totals.prompt_tokens, totals.avg_completion_tokens) == (7, 5, 7.0)
        assert totals.unknown_counts == 1

    def test_nothing_done_yet_is_zero(self, tmp_path: Path) -> None:
        totals = status_of(make_run(tmp_path), DEAD).totals
        assert (totals.done, totals.completion_tokens, totals.avg_completion_tokens, totals.length_pct) == (
            0,
            0,
            None,
            None,
        )

    def test_a_target_that_one_data_set_lacks_is_no_target_of_the_run(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, datasets=("d", "e"))
        write(run.events, [event("control.set", data={"targets": {"d": 9}})])
        assert status_of(run, DEAD).totals.target_tokens is None

    def test_33_the_average_is_over_known_counts(self, tmp_path: Path) -> None:
        content = (FIXTURES / "cases/33-zero-usage.jsonl").read_bytes()
        totals = status_of(foreign(tmp_path, B1=content), UNKNOWN).totals
        assert (totals.completion_tokens, totals.unknown_counts, totals.avg_completion_tokens) == (12, 3, 12.0)

    def test_16_failures_among_responses(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=0)
        write(run.dataset("d").prompts, [prompt_line(f"p{number}") for number in range(1, 7)])
        write(run.dataset("d").responses, [(FIXTURES / "cases/16-failures-in-responses.jsonl").read_bytes()])
        status = status_of(run, DEAD)
        assert (status.totals.done, status.totals.failed, status.totals.prompts) == (3, 2, 6)
        assert status.state is RunState.STOPPED
        write(run.dataset("d").failures, [failure("p4")])  # the same sample failed here too
        assert status_of(run, DEAD).totals.failed == 2

    def test_31_truncated_answers_are_visible(self, tmp_path: Path) -> None:
        content = (FIXTURES / "cases/31-cut-while-thinking.jsonl").read_bytes()
        totals = status_of(foreign(tmp_path, B1=content), UNKNOWN).totals
        assert (totals.done, totals.truncated, totals.completion_tokens) == (3, 2, 131)
        assert totals.length_pct == pytest.approx(66.667)
        assert totals.finish_reasons == {"length": 2, "stop": 1}

    def test_35_a_contradiction_is_an_alert(self, tmp_path: Path) -> None:
        content = (FIXTURES / "cases/35-stop-token-stripped.json").read_bytes()
        status = status_of(foreign(tmp_path, B1=content), UNKNOWN)
        assert (status.totals.completion_tokens, [alert.code for alert in status.alerts]) == (4, ["count_mismatch"])


class TestSpeedAndTime:
    def run(self, folder: Path) -> RunDir:
        """Two data sets, 100 s after the start: d at 3 tokens a second, e at none."""
        run = make_run(folder, datasets=("d", "e"), prompts=500)
        write(run.events, [event("daemon.started", NOW - 100)])
        write(run.dataset("d").responses, [response(f"d-{each}", 3, finished_at=NOW - each) for each in range(100)])
        write(run.telemetry_file("daemon"), [heartbeat(in_flight={"d": 4}, waiting_retry={"e": 2})])
        return run

    def test_the_rest_at_the_speed_of_the_whole_run(self, tmp_path: Path) -> None:
        status = status_of(self.run(tmp_path), ALIVE)
        d, e = status.datasets
        assert d.tokens_per_s == pytest.approx(3.0, rel=0.05)
        assert d.tokens_per_s_run == pytest.approx(3.0, rel=0.05)
        assert d.eta_s == pytest.approx(400, rel=0.05)
        assert (e.tokens_per_s, e.in_flight, e.waiting_retry) == (0.0, 0, 2)
        # Of e there is no answer yet: it is taken for one like d, which may be far from the truth.
        assert status.totals.eta_s == pytest.approx(900, rel=0.05)
        assert e.eta_s == status.totals.eta_s
        assert status.totals.eta_low_s is not None
        assert status.totals.eta_high_s is not None
        assert status.totals.eta_low_s < 700 < 1200 < status.totals.eta_high_s
        assert (d.stage, e.stage) == (DatasetStage.RUNNING, DatasetStage.WAITING)
        assert status.elapsed_s == 100.0

    def test_with_a_target_for_the_other(self, tmp_path: Path) -> None:
        run = self.run(tmp_path)
        write(run.events, [event("control.set", data={"targets": {"e": 600}})])
        assert status_of(run, ALIVE).totals.eta_s == pytest.approx((1200 + 600) / 3, rel=0.05)

    @pytest.mark.parametrize("drained_s", [0, 5, 20])
    def test_a_pause_counts_from_its_last_answer(self, tmp_path: Path, drained_s: int) -> None:
        """The answers of what was in flight count: so does the time that they took."""
        run = make_run(tmp_path, datasets=("d", "e"), prompts=500)
        write(run.events, [event("daemon.started", NOW - 100)])
        write(run.events, [event("run.paused", NOW - 50), event("run.resumed", NOW - 25)])
        times = [each for each in range(100) if not NOW - 50 + drained_s <= NOW - each < NOW - 25]
        write(run.dataset("d").responses, [response(f"d-{each}", 3, finished_at=NOW - each) for each in times])
        write(run.telemetry_file("daemon"), [heartbeat(in_flight={"d": 4})])
        assert status_of(run, ALIVE).totals.tokens_per_s_run == pytest.approx(3.0, rel=0.05)

    def test_in_a_pause_that_goes_on_what_is_open_counts_on(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=500)
        write(run.events, [event("daemon.started", NOW - 100), event("run.paused", NOW - 50)])
        write(run.dataset("d").responses, [response(f"d-{each}", 3, finished_at=NOW - each) for each in range(50, 100)])
        write(run.telemetry_file("daemon"), [heartbeat(state="paused", in_flight={"d": 1})])
        assert status_of(run, ALIVE).totals.tokens_per_s_run == pytest.approx(1.5, rel=0.05)
        write(run.telemetry_file("daemon"), [heartbeat(state="paused", in_flight={"d": 0})])
        assert status_of(run, ALIVE).totals.tokens_per_s_run == pytest.approx(3.0, rel=0.05)

    @pytest.mark.parametrize("beat", [{"state": "paused"}, {"state": "draining"}, {"blocked": "no server can be used"}])
    def test_where_nothing_is_open_and_nothing_sent_it_stands_still_at_once(
        self, tmp_path: Path, beat: dict[str, Any]
    ) -> None:
        run = self.run(tmp_path)
        write(run.telemetry_file("daemon"), [heartbeat(**beat, in_flight={"d": 1})])
        assert status_of(run, ALIVE).totals.tokens_per_s == pytest.approx(3.0, rel=0.05)
        write(run.telemetry_file("daemon"), [heartbeat(**beat, in_flight={"d": 0})])
        status = status_of(run, ALIVE)
        assert (status.totals.tokens_per_s, status.datasets[0].tokens_per_s) == (0.0, 0.0)
        write(run.telemetry_file("daemon"), [heartbeat(in_flight={"d": 0})])
        assert status_of(run, ALIVE).totals.tokens_per_s == pytest.approx(3.0, rel=0.05), "between two answers"

    def test_after_the_end(self, tmp_path: Path) -> None:
        run = self.run(tmp_path)
        killed = status_of(run, DEAD, NOW + 500)
        assert (killed.elapsed_s, killed.totals.tokens_per_s_run, killed.totals.tokens_per_s) == (None, None, None)
        write(run.events, [event("daemon.stopped", NOW)])
        status = status_of(run, DEAD, NOW + 500)
        assert status.elapsed_s == 100.0
        assert status.totals.tokens_per_s_run == pytest.approx(3.0, rel=0.05)
        assert status.totals.eta_s is None


@pytest.mark.parametrize("other", [False, True])
def test_where_nothing_is_generated_there_is_no_speed_and_no_count_of_tokens(tmp_path: Path, other: bool) -> None:
    run = make_run(tmp_path, datasets=("A1", "B1") if other else ("A1",), prompts=0)
    write(run.dataset("A1").prompts, [prompt_line(f"A1-{number}", masked=True) for number in range(4)])
    write(run.events, [event("daemon.started", NOW - 100)])
    write(run.telemetry_file("daemon"), [heartbeat(in_flight={"A1": 0, "B1": 0})])

    def figures(of: DatasetStatus) -> tuple[float | None, ...]:
        return of.completion_tokens, of.prompt_tokens, of.tokens_per_s, of.tokens_per_s_run

    if other:
        write(run.dataset("B1").prompts, [prompt_line(f"B1-{number}") for number in range(4)])
    status = status_of(run, ALIVE)
    assert figures(status.datasets[0]) == (None, None, None, None)
    assert figures(status.totals) == ((0, 0, 0.0, 0.0) if other else (None, None, None, None))
    if other:
        write(run.dataset("B1").responses, [response("B1-1", 3, finished_at=NOW - 50)])
        status = status_of(run, ALIVE)
        assert figures(status.totals) == figures(status.datasets[1])
        assert status.totals.completion_tokens == 3
        write(run.dataset("A1").responses, [response("A1-1", 4, finished_at=NOW - 50)])  # somebody put it there
        assert status_of(run, ALIVE).totals.completion_tokens == 7


def test_the_whole_status_of_a_constructed_run(tmp_path: Path) -> None:
    """A golden file: what scripts read must not change unnoticed. `GOLDEN.write_bytes` of what is here renews it."""
    run = make_run(tmp_path / "run", datasets=("B1", "A1"), prompts=0, extra="[generate]\ntarget_tokens = 400")
    write(run.dataset("B1").prompts, [*(prompt_line(f"B1-{number}") for number in range(120)), b"broken\n"])
    write(run.dataset("A1").prompts, [prompt_line(f"A1-{number}", masked=True) for number in range(4)])
    answers = [
        response(f"B1-{number}", 3, finished_at=NOW - 99 + number, finish_reason="length" if number < 9 else "stop")
        for number in range(80)
    ]
    write(run.dataset("B1").responses, [*answers, b"garbage\n", response("B1-1")])
    refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED, "message": "B1: line 121: not JSON"}
    write(
        run.dataset("B1").failures,
        [failure(None, line=121, **refused), failure("B1-90"), failure("B1-91", next=NextStep.QUARANTINED)],
    )
    write(
        run.events, [event("daemon.started", NOW - 100), event("alert.raised", NOW - 9, data={"code": "server_down"})]
    )
    beat = heartbeat(NOW - 0.5, in_flight={"B1": 5}, waiting_retry={"B1": 1}, oldest_request_s=3.5)
    write(run.telemetry_file("daemon"), [beat])
    write(run.telemetry_file("host"), [HostSample(at=NOW - 1, cpu_pct=12.5, disk_free_bytes=10**12)])
    servers = [
        ServerReading(url="http://127.0.0.1:30000", state="down", reason="connection refused"),
        ServerReading(url="http://127.0.0.1:30001", state="ok", outstanding=5, last_answer_s=7.5, silent_s=3.5),
    ]
    write(run.telemetry_file("server"), [ServerSample(at=NOW - 1, servers=servers)])
    gpus = [GpuReading(index=0, name="H200", utilization_pct=97.0), GpuReading(index=1, state="lost", reason="lost")]
    write(run.telemetry_file("gpu"), [GpuSample(at=NOW - 1, state="ok", gpus=gpus)])
    status = status_of(run, ALIVE)
    found = msgspec.json.format(msgspec.json.encode(status), indent=2).decode() + "\n"
    found = found.replace(str(run.path), "RUN")
    assert found == GOLDEN.read_text(encoding="utf-8")
    assert msgspec.json.decode(msgspec.json.encode(status), type=RunStatus) == status
