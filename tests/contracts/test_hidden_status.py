"""The status of runs that store hidden states: stages, counts, time left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contracts.eta import Storing, Work, answers_to_come, bytes_to_store, is_stored, tokens_to_store
from contracts.exit_codes import ExitCode
from contracts.liveness import Liveness
from contracts.records import CaptureCheck, DiskReading, FailureClass, HostSample, NextStep
from contracts.report import build_status
from contracts.run_dir import RunDir
from contracts.status import DatasetStage, HiddenStatus, RunState, RunStatus, exit_code
from tests.support.records import NOW, PID, event, failure, folded, heartbeat, make_run, prompt_line, response, write
from tests.support.stored import failed_capture, stages, stored

ALIVE = Liveness(True, PID, NOW - 100)
DEAD = Liveness(False)
REFUSED = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
BOTH = stages("generate", "extract")


def status_of(run: RunDir, liveness: Liveness = DEAD, now: float = NOW) -> RunStatus:
    return build_status(folded(run), liveness, now, now)


def hidden_of(status: RunStatus) -> HiddenStatus:
    hidden = status.datasets[0].hidden
    assert hidden is not None
    return hidden


def stage_of(run: RunDir, liveness: Liveness = DEAD) -> DatasetStage | None:
    return status_of(run, liveness).datasets[0].stage


class TestStages:
    def test_answers_alone_finish_no_run_that_extracts(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=2, extra=BOTH)
        assert stage_of(run) is DatasetStage.WAITING
        write(run.dataset("d").responses, [response("d-0"), response("d-1")])
        status = status_of(run)
        assert (status.datasets[0].stage, status.state) == (DatasetStage.EXTRACTING, RunState.STOPPED)
        assert exit_code(status) is ExitCode.STOPPED
        write(run.dataset("d").hidden_states, [stored("d-0", 0)])
        assert stage_of(run) is DatasetStage.EXTRACTING
        write(run.dataset("d").hidden_states, [stored("d-1", 1)])
        status = status_of(run)
        assert (status.datasets[0].stage, status.state, status.totals.eta_s) == ("finished", "finished", 0.0)

    @pytest.mark.parametrize(
        ("record", "stage"),
        [
            (failed_capture("d-1"), DatasetStage.EXTRACTING),
            (failed_capture("d-1", next=NextStep.QUARANTINED), DatasetStage.FINISHED),
            (failed_capture("d-1", CaptureCheck.TOO_LONG, **REFUSED), DatasetStage.FINISHED),
            (failed_capture("d-1", CaptureCheck.LAYERS, next=NextStep.STOPPED), DatasetStage.HALTED),
        ],
    )
    def test_what_a_failed_capture_leaves(self, tmp_path: Path, record: Any, stage: DatasetStage) -> None:
        run = make_run(tmp_path, prompts=2, extra=BOTH)
        write(run.dataset("d").responses, [response("d-0"), response("d-1")])
        write(run.dataset("d").hidden_states, [stored("d-0", 0)])
        write(run.dataset("d").failures, [record])
        assert stage_of(run) is stage

    def test_a_target_bounds_what_is_stored(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=9, extra=BOTH + "[generate]\ntarget_tokens = 6\n")
        write(run.dataset("d").responses, [response("d-0", 3), response("d-1", 3)])
        write(run.dataset("d").hidden_states, [stored("d-0", 0), stored("d-1", 1)])
        assert stage_of(run) is DatasetStage.FINISHED

    def test_pretokenized_samples_are_to_be_stored(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=0, extra=BOTH + "[generate]\ntarget_tokens = 6\n")
        write(run.dataset("d").prompts, [prompt_line("a", masked=True), prompt_line("b", masked=True)])
        status = status_of(run)
        assert (status.datasets[0].stage, status.state) == (DatasetStage.EXTRACTING, RunState.STOPPED)
        assert (status.datasets[0].target_tokens, status.totals.target_tokens) == (None, None)
        write(run.dataset("d").hidden_states, [stored("a", 0), stored("b", 1)])
        assert (stage_of(run), status_of(run).state) == (DatasetStage.FINISHED, RunState.FINISHED)

    def test_a_run_that_does_not_extract_is_as_before(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=1)
        write(run.dataset("d").responses, [response("d-0")])
        write(run.dataset("d").failures, [failed_capture("d-0", next=NextStep.STOPPED)])
        status = status_of(run)
        assert (status.state, status.totals.hidden, status.stages) == (RunState.FINISHED, None, ["generate"])
        write(run.dataset("d").hidden_states, [stored("d-0", 0)])
        status = status_of(run)
        assert (status.state, hidden_of(status).stored) == (RunState.FINISHED, 1)

    def test_a_run_that_only_extracts_takes_responses_as_given(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=5, extra=stages("extract", extra="[generate]\ntarget_tokens = 99\n"))
        write(run.dataset("d").failures, [failure("d-3", error=FailureClass.CONTRACT_DRIFT, next=NextStep.STOPPED)])
        status = status_of(run)
        assert (status.datasets[0].stage, status.state) == (DatasetStage.WAITING, RunState.STOPPED)
        assert hidden_of(status).to_store is None  # nobody asks for a store of nothing
        assert [alert.code for alert in status.alerts] == ["nothing_to_store"]
        write(run.dataset("d").responses, [response("d-0"), response("d-1")])
        status = status_of(run)
        assert (status.datasets[0].stage, status.alerts) == (DatasetStage.EXTRACTING, [])
        assert (hidden_of(status).to_store, status.totals.target_tokens) == (2, None)
        write(run.dataset("d").hidden_states, [stored("d-0", 0), stored("d-1", 1)])
        assert status_of(run).state is RunState.FINISHED

    def test_without_prompts_nobody_knows_how_much_there_is(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=0, extra=stages("extract"))
        write(run.dataset("d").responses, [response("d-0")])
        status = status_of(run)
        assert (status.state, hidden_of(status).to_store) == (RunState.STOPPED, None)

    def test_responses_to_prompts_that_are_gone_need_no_hidden_states(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=2, extra=stages("extract"))
        write(run.dataset("d").responses, [response("d-0"), response("d-1"), response("of-before")])
        write(run.dataset("d").hidden_states, [stored("d-0", 0), stored("d-1", 1)])
        assert stage_of(run) is DatasetStage.EXTRACTING
        write(run.events, [event("prompts.strangers", dataset="d", data={"count": 1})])
        assert stage_of(run) is DatasetStage.FINISHED

    def test_what_is_stored_of_prompts_that_are_gone_settles_none(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=2, extra=stages("extract"))
        write(run.dataset("d").responses, [response("d-0"), response("d-1")])
        write(run.dataset("d").hidden_states, [stored("d-0", 0), stored("of-before", 1)])
        write(run.events, [event("prompts.strangers", dataset="d", data={"count": 0, "stored": 1})])
        assert stage_of(run) is DatasetStage.EXTRACTING
        write(run.dataset("d").hidden_states, [stored("d-1", 2)])
        assert stage_of(run) is DatasetStage.FINISHED

    def test_passes_and_captures_in_hand_keep_a_run_going(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, prompts=1, extra=BOTH)
        write(run.dataset("d").responses, [response("d-0")])
        write(run.dataset("d").hidden_states, [stored("d-0", 0)])
        for beat, state in (({"extracting": {"d": 1}}, "running"), ({"taking": 2}, "running"), ({}, "finished")):
            write(run.telemetry_file("daemon"), [heartbeat(**beat)])
            assert status_of(run, ALIVE).state == state
        (run.telemetry_file("daemon")).unlink()
        write(run.dataset("d").hidden_states, [b'{"type":"dropped","sample_id":"d-0","why":"x","at":1}\n'])
        write(run.telemetry_file("daemon"), [heartbeat(extracting={"d": 1}, blocked="no server")])
        assert status_of(run, ALIVE).state is RunState.RUNNING


class TestCounts:
    def test_each(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, datasets=("d", "e"), prompts=9, extra=BOTH)
        write(run.dataset("d").responses, [response(f"d-{number}") for number in range(6)])
        write(run.dataset("d").hidden_states, [stored("d-0", 0), stored("d-1", 1, truncated_from=50)])
        write(
            run.dataset("d").failures,
            [
                failed_capture("d-1", CaptureCheck.ZERO_ROW),
                failed_capture("d-2"),
                failed_capture("d-3", next=NextStep.QUARANTINED),
                failed_capture("d-4", CaptureCheck.TOO_LONG, **REFUSED),
                failed_capture("d-5", CaptureCheck.TOO_LARGE, **REFUSED),
            ],
        )
        write(run.events, [event("daemon.started", NOW - 100)])
        beat = {"extracting": {"d": 3}, "taking": 4, "dump_used_bytes": 5, "dump_budget_bytes": 9}
        write(run.telemetry_file("daemon"), [heartbeat(NOW, **beat)])
        status = status_of(run, ALIVE)
        assert hidden_of(status) == HiddenStatus(
            to_store=6,
            stored=2,
            tokens=20,
            bytes=2000,
            mb_per_s=0.0,
            failed=3,
            given_up=2,
            skipped=1,
            truncated=1,
            in_work=3,
            checks={"ids": 2, "zero_row": 1},
        )
        totals = status.totals.hidden
        assert totals is not None
        assert (totals.to_store, totals.stored, totals.failed, totals.in_work) == (6, 2, 3, 3)
        assert (status.taking, status.dump_used_bytes, status.dump_budget_bytes) == (4, 5, 9)
        assert (status.totals.failed, status.totals.quarantined) == (0, 0)

    def test_without_a_daemon_nobody_knows_what_is_in_hand(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, extra=BOTH)
        write(run.telemetry_file("daemon"), [heartbeat(extracting={"d": 3}, taking=4, dump_used_bytes=5)])
        status = status_of(run)
        hidden = hidden_of(status)
        assert (hidden.in_work, hidden.mb_per_s, status.taking, status.dump_used_bytes) == (None, None, None, None)
        assert (hidden.stored, hidden.bytes) == (0, 0)

    def test_unreadable_lines_of_the_index_are_counted_and_located(self, tmp_path: Path) -> None:
        run = make_run(tmp_path, extra=BOTH)
        write(run.dataset("d").hidden_states, [b"garbage\n", stored("d-0", 0)])
        status = status_of(run)
        assert (status.totals.unreadable, status.unreadable[0].line) == (1, 1)
        assert status.unreadable[0].file.endswith("hidden_states.jsonl")
        assert "1 of 2 lines of hidden_states.jsonl" in status.alerts[0].message


class TestTime:
    """100 s after the start: 50 answers and 40 stored samples of 10 tokens in 40 s, one a second."""

    def run(self, folder: Path, prompts: int = 100, extra: str = "") -> RunDir:
        run = make_run(folder, datasets=("d", "e"), prompts=prompts, extra=BOTH + extra)
        write(run.events, [event("daemon.started", NOW - 100)])
        write(run.dataset("d").responses, [response(f"d-{n}", 3, finished_at=NOW - 60 + n) for n in range(50)])
        write(run.dataset("d").hidden_states, [stored(f"d-{n}", n, at=NOW - 50 + n, bytes=10**6) for n in range(40)])
        write(run.telemetry_file("daemon"), [heartbeat(in_flight={"d": 2}, extracting={"d": 1})])
        return run

    def test_the_longer_of_the_two_halves_counts(self, tmp_path: Path) -> None:
        status = status_of(self.run(tmp_path, extra="[generate]\ntarget_tokens = 300\n"), ALIVE)
        d, _ = status.datasets
        # 50 answers at one every two seconds; 60 samples to store at 0.4 a second
        assert d.eta_s == pytest.approx(150, rel=0.02)
        # of e nothing is there yet: it is taken for one like d
        assert status.totals.eta_s == pytest.approx(160 / 0.4, rel=0.02)
        assert hidden_of(status).mb_per_s == pytest.approx(40 / 60, rel=0.02)

    def test_answers_done_leave_the_store(self, tmp_path: Path) -> None:
        status = status_of(self.run(tmp_path, prompts=50), ALIVE)
        assert status.datasets[0].stage is DatasetStage.EXTRACTING
        assert status.datasets[0].eta_s == pytest.approx(10 / 0.4, rel=0.02)

    def test_unknown_while_nothing_was_ever_stored(self, tmp_path: Path) -> None:
        run = self.run(tmp_path)
        run.dataset("d").hidden_states.unlink()
        status = status_of(run, ALIVE)
        assert (status.datasets[0].eta_s, status.totals.eta_s) == (None, None)

    def test_the_disk_is_full_at_the_rate_at_which_the_store_grows(self, tmp_path: Path) -> None:
        run = self.run(tmp_path)
        assert status_of(run, ALIVE).disk_full_in_s is None
        write(run.telemetry_file("host"), [HostSample(at=NOW, disk_free_bytes=400 * 10**6)])
        assert status_of(run, ALIVE).disk_full_in_s == pytest.approx(1000, rel=0.02)
        assert status_of(run, DEAD).disk_full_in_s is None

    def test_each_disk_is_full_at_its_own_rate_and_the_first_is_told(self, tmp_path: Path) -> None:
        run = self.run(tmp_path)
        disks = [
            DiskReading(path="/data/run", uses=["run"], free_bytes=10**6),
            DiskReading(path="/big/hs", uses=["store"], free_bytes=400 * 10**6),
            DiskReading(path="/dev/shm", uses=["dumps"], free_bytes=0),
        ]
        write(run.telemetry_file("host"), [HostSample(at=NOW, disks=disks)])
        status = status_of(run, ALIVE)
        assert (status.disk_full_in_s, status.disk_full_path) == (pytest.approx(1000, rel=0.02), "/big/hs")
        # 50 answers in 100 s: the journal of answers grows by half a line a second
        half_a_line = run.dataset("d").responses.stat().st_size / 100
        disks[0].free_bytes = round(500 * half_a_line)
        write(run.telemetry_file("host"), [HostSample(at=NOW, disks=disks)])
        status = status_of(run, ALIVE)
        assert (status.disk_full_in_s, status.disk_full_path) == (pytest.approx(500, rel=0.02), "/data/run")
        run.dataset("d").responses.unlink()
        run.dataset("d").hidden_states.unlink()
        assert status_of(run, ALIVE).disk_full_in_s is None

    @pytest.mark.parametrize("grows", [True, False])
    def test_less_than_nothing_free_is_full_now_where_something_grows(self, tmp_path: Path, grows: bool) -> None:
        run = self.run(tmp_path)
        if not grows:
            run.dataset("d").responses.unlink()
            run.dataset("d").hidden_states.unlink()
        write(run.telemetry_file("host"), [HostSample(at=NOW, disk_free_bytes=-5)])
        assert status_of(run, ALIVE).disk_full_in_s == (0.0 if grows else None)


def storing(**over: Any) -> Storing:
    values = {"to_store": 10, "settled": 4, "to_come": 0.0, "sample_tokens": 5.0, "sample_bytes": 100.0}
    return Storing(**(values | over))


@pytest.mark.parametrize(
    ("over", "done", "tokens", "size"),
    [
        ({}, False, 30.0, 600.0),
        ({"to_come": 4.0}, False, 50.0, 1000.0),
        ({"settled": 10}, True, 0.0, 0.0),
        ({"settled": 12, "to_come": 1.0}, True, 5.0, 100.0),
        ({"to_store": None}, False, None, None),
        ({"to_come": None}, False, None, None),
        ({"sample_tokens": None, "sample_bytes": None}, False, None, None),
        ({"sample_tokens": None, "sample_bytes": None, "settled": 10}, True, 0.0, 0.0),
    ],
)
def test_what_is_left_to_store(over: dict[str, Any], done: bool, tokens: float | None, size: float | None) -> None:
    assert is_stored(storing(**over)) is done
    assert tokens_to_store(storing(**over)) == tokens
    assert bytes_to_store(storing(**over)) == size


@pytest.mark.parametrize(
    ("over", "mean", "expected"),
    [
        ({}, None, 60.0),
        ({"target_tokens": 5000}, None, 10.0),
        ({"target_tokens": 4000}, None, 0.0),
        ({"known": 0, "completion_tokens": None}, None, 60.0),
        ({"known": 0, "completion_tokens": None, "target_tokens": 500}, None, None),
        ({"known": 0, "completion_tokens": None, "target_tokens": 500}, 50.0, 10.0),
        ({"prompts": None}, None, None),
    ],
)
def test_answers_to_come(over: dict[str, Any], mean: float | None, expected: float | None) -> None:
    values = {"prompts": 100, "settled": 40, "completion_tokens": 4000, "known": 40, "target_tokens": None}
    assert answers_to_come(Work(**(values | over)), mean) == expected
