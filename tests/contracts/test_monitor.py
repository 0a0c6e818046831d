"""A folder, watched: the founding incident, and what happens to files meanwhile."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import contracts.monitor as monitor_module
from contracts.daemon_info import DaemonInfo
from contracts.fold.events import EventFold
from contracts.fold.run import NotARunError, RunFold
from contracts.liveness import Liveness
from contracts.monitor import Monitor
from contracts.status import DatasetStage, RunState, RunStatus
from tests.support.incident import GENERATED, PRETOKENIZED, make_incident
from tests.support.records import NOW, event, heartbeat, make_run, prompt_line, response, write


class TestFoundingIncident:
    """Show 4 of the issue: mixed old and new records, a torn last line and two garbage lines."""

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_every_count_is_exact(self, tmp_path: Path, seed: int) -> None:
        truth = make_incident(tmp_path, seed)
        status = Monitor(tmp_path).refresh()
        assert status.state is RunState.WATCHING
        assert [each.name for each in status.datasets] == [*PRETOKENIZED, *GENERATED]
        for each in status.datasets:
            assert each.done == truth.done[each.name]
            is_counted = each.name not in PRETOKENIZED  # else: no tokens, and not none yet
            assert each.prompt_tokens == (truth.prompt_tokens[each.name] if is_counted else None)
            assert each.completion_tokens == (truth.completion_tokens[each.name] if is_counted else None)
            assert each.prompts == truth.prompts.get(each.name)
            expected = DatasetStage.PRETOKENIZED if each.name in PRETOKENIZED else DatasetStage.WATCHING
            assert each.stage is expected
        totals = status.totals
        assert totals.done == sum(truth.done.values())
        assert totals.completion_tokens == sum(truth.completion_tokens.values())
        assert (totals.unreadable, totals.unknown_counts, totals.duplicates, totals.failed) == (2, 0, 0, 0)
        places = [(Path(each.file).parent.name, each.line) for each in status.unreadable]
        assert [name for name, _ in places] == ["B2_opencodeinstruct", "B4_tools"]
        assert places[0][1] == 12
        assert {alert.code for alert in status.alerts} >= {"unreadable_lines"}

    def test_an_independent_recount_agrees(self, tmp_path: Path) -> None:
        make_incident(tmp_path)
        status = Monitor(tmp_path).refresh()
        for each in status.datasets:
            path = tmp_path / "prepared" / each.name / "raw_responses.jsonl"
            done, tokens, bad = set(), 0, 0
            for line in path.read_text("utf-8").split("\n")[:-1] if path.exists() else []:
                try:
                    record = json.loads(line)
                except ValueError:
                    bad += 1
                    continue
                done.add(record["sample_id"])
                tokens += record.get("response", {}).get("usage", record)["completion_tokens"]
            assert (each.done, each.completion_tokens, each.unreadable) == (len(done), tokens if done else None, bad)

    def test_the_torn_line_counts_once_it_is_whole(self, tmp_path: Path) -> None:
        truth = make_incident(tmp_path)
        monitor = Monitor(tmp_path)
        before = monitor.refresh()
        path = tmp_path / "prepared" / GENERATED[-1] / "raw_responses.jsonl"
        write(path, [b',2,3,4,5],"server":"x"}\n'])
        after = monitor.refresh()
        assert after.totals.done == before.totals.done + 1 == sum(truth.done.values()) + 1
        assert after.totals.completion_tokens == (before.totals.completion_tokens or 0) + 5
        assert after.totals.unreadable == 2

    def test_nothing_is_written(self, tmp_path: Path) -> None:
        make_incident(tmp_path)
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        Monitor(tmp_path).refresh()
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_what_happens_to_files_is_shown_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path)
    write(run.dataset("d").responses, [response("d-0"), response("d-1")])
    monitor = Monitor(tmp_path)
    assert monitor.refresh().alerts == []
    run.dataset("d").responses.write_bytes(b"")
    for _ in range(2):
        status = monitor.refresh()
        assert [alert.code for alert in status.alerts] == ["file_changed"]
        assert "raw_responses.jsonl was cut" in status.alerts[0].message
        assert status.totals.done == 0
    monkeypatch.setattr(monitor_module, "NOTE_SHOWN_S", 0.0)
    assert monitor.refresh().alerts == []


def test_a_damaged_checkpoint_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.checkpoint.write_bytes(b"")
    (alert,) = Monitor(tmp_path).refresh().alerts
    assert "fold.checkpoint: is damaged or empty" in alert.message


def test_a_living_daemon_is_seen_by_its_lock(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.daemon_info.write_bytes(msgspec.json.encode(DaemonInfo(pid=os.getpid(), since=NOW)))
    monitor = Monitor(tmp_path)
    assert monitor.refresh().state is RunState.STOPPED
    descriptor = os.open(run.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    beat = heartbeat(NOW + 60, mono=time.monotonic(), pid=os.getpid(), in_flight={"d": 3})
    write(run.telemetry_file("daemon"), [beat])
    status = monitor.refresh()
    os.close(descriptor)
    assert (status.state, status.daemon.pid, status.totals.in_flight) == (RunState.RUNNING, os.getpid(), 3)
    assert status.at == pytest.approx(NOW + 60, abs=5)  # the daemon's time scale, whatever the wall clock says
    assert status.daemon.heartbeat_age_s == pytest.approx(0, abs=5)


def test_the_last_events(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write(run.events, [event(f"x{number}") for number in range(5)])
    monitor = Monitor(tmp_path)
    monitor.refresh()
    assert [each.kind for each in monitor.last_events(2)] == ["x3", "x4"]
    assert monitor.last_events(0) == []
    assert len(monitor.last_events(50)) == 5


def test_what_to_watch(tmp_path: Path) -> None:
    run = make_run(tmp_path, datasets=("d", "missing"))
    run.dataset("missing").prompts.unlink()
    run.dataset("missing").path.rmdir()
    assert set(Monitor(tmp_path).watch_paths()) == {run.path.absolute(), run.dataset("d").path.absolute()}
    run.telemetry.mkdir()
    assert run.telemetry.absolute() in Monitor(tmp_path).watch_paths()


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotARunError):
        Monitor(tmp_path)


def test_a_new_data_set_in_a_foreign_folder_appears(tmp_path: Path) -> None:
    write(tmp_path / "B1" / "raw_responses.jsonl", [response()])
    monitor = Monitor(tmp_path)
    assert len(monitor.refresh().datasets) == 1
    write(tmp_path / "B2" / "prompts.jsonl", [prompt_line("p")])
    assert [each.name for each in monitor.refresh().datasets] == ["B1", "B2"]


class TestOften:
    """A screen asks twice a second: what a run at rest comes to is not reckoned out each time."""

    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """The monotonic clock and the wall clock of the monitor; moved by hand."""
        hands = [100.0]
        monkeypatch.setattr(monitor_module.time, "monotonic", lambda: hands[0])
        monkeypatch.setattr(monitor_module.time, "time", lambda: NOW + hands[0])
        return hands

    @pytest.fixture
    def built(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """When a status was made."""
        times: list[float] = []
        make = monitor_module.build_status

        def build(fold: RunFold, liveness: Liveness, now: float, *more: Any) -> RunStatus:
            times.append(now - NOW)
            return make(fold, liveness, now, *more)

        monkeypatch.setattr(monitor_module, "build_status", build)
        return times

    def test_a_run_at_rest_is_looked_at_less_and_less(
        self, tmp_path: Path, clock: list[float], built: list[float]
    ) -> None:
        write(make_run(tmp_path).dataset("d").responses, [response()])
        monitor = Monitor(tmp_path, often=True)
        for _ in range(60):
            clock[0] += 0.5
            status = monitor.refresh()
            assert (status.at, status.totals.done) == (NOW + clock[0], 1)
        assert built == [100.5, 101.5, 103.5, 107.5, 115.5, 125.5]

    def test_what_is_new_is_seen_at_once(self, tmp_path: Path, clock: list[float]) -> None:
        run = make_run(tmp_path)
        monitor = Monitor(tmp_path, often=True)
        for count in range(4):
            for _ in range(30):
                clock[0] += 0.5
                assert monitor.refresh().totals.done == count
            write(run.dataset("d").responses, [response(f"s{number}") for number in range(count + 1)])
            assert monitor.refresh().totals.done == count + 1

    def test_a_daemon_that_starts_is_seen_at_once(self, tmp_path: Path, clock: list[float]) -> None:
        run = make_run(tmp_path)
        monitor = Monitor(tmp_path, often=True)
        for _ in range(30):
            clock[0] += 0.5
            assert monitor.refresh().state is RunState.STOPPED
        descriptor = os.open(run.lock, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert monitor.refresh().state is RunState.RUNNING
        os.close(descriptor)
        assert monitor.refresh().state is RunState.STOPPED

    def test_an_empty_data_set_of_a_foreign_folder_appears_at_once(self, tmp_path: Path, clock: list[float]) -> None:
        write(tmp_path / "B1" / "raw_responses.jsonl", [response()])
        monitor = Monitor(tmp_path, often=True)
        for _ in range(30):
            clock[0] += 0.5
            monitor.refresh()
        (tmp_path / "B2").mkdir()
        (tmp_path / "B2" / "prompts.jsonl").touch()
        assert [each.name for each in monitor.refresh().datasets] == ["B1", "B2"]

    def test_it_says_what_a_fresh_look_says(self, tmp_path: Path, clock: list[float]) -> None:
        run = make_run(tmp_path)
        often, plain = Monitor(tmp_path, often=True), Monitor(tmp_path)
        for number in range(40):
            clock[0] += 0.5
            if number % 9 == 0:
                write(run.dataset("d").responses, [response(f"s{each}") for each in range(number)])
            assert often.refresh() == plain.refresh()

    def test_after_a_file_that_could_not_be_read_nothing_old_is_said(
        self, tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = make_run(tmp_path)
        monitor = Monitor(tmp_path, often=True)
        monitor.refresh()
        write(run.dataset("d").responses, [response()])

        def broken(_self: EventFold, *_: Any) -> None:
            raise OSError(5, "Input/output error")

        write(run.events, [event("x")])
        with monkeypatch.context() as patch:
            patch.setattr(EventFold, "feed", broken)
            with pytest.raises(OSError, match="Input/output"):
                monitor.refresh()
        assert monitor.refresh().totals.done == 1
