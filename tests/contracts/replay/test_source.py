"""A run as it was: lives of the daemon, rotated telemetry, going back, histories; nothing of the present shows."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from contracts.fold.marks import MarkKind
from contracts.fold.run import NotARunError
from contracts.history import Quantity, run_history
from contracts.records import GpuReading, GpuSample, encode_line
from contracts.replay.kept import Kept, stops
from contracts.replay.source import ReplaySource
from contracts.status import RunState
from tests.support.records import NOW, PID, event, failure, heartbeat, make_run, response, write

BEGIN = NOW - 3600.0
OTHER_PID = PID + 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A daemon killed at 1,000 s, another from 2,000 s to 3,000 s that says its end."""
    run = make_run(tmp_path / "run", datasets=["B1", "B2"], prompts=300)
    write(
        run.events,
        [
            event("daemon.started", BEGIN, data={"pid": PID}),
            event("run.paused", BEGIN + 500, message="held"),
            event("run.resumed", BEGIN + 520),
            event("daemon.started", BEGIN + 2000, data={"pid": OTHER_PID}),
            event("alert.raised", BEGIN + 2500, message="slow", data={"code": "slow"}),
            event("daemon.stopped", BEGIN + 3000),
        ],
    )
    beats = [heartbeat(BEGIN + n, in_flight={"B1": 2}) for n in range(1, 1001)]
    beats += [heartbeat(BEGIN + n, pid=OTHER_PID) for n in range(2001, 3000)]
    rotated = run.telemetry_file("daemon")
    write(rotated.with_name("daemon.jsonl.1"), beats[:700])
    write(rotated, beats[700:])
    gpus = [
        GpuSample(at=BEGIN + n, state="ok", gpus=[GpuReading(index=0, utilization_pct=n / 40)])
        for n in (*range(1, 1001), *range(2001, 3000))
    ]
    write(run.telemetry_file("gpu").with_name("gpu.jsonl.1"), gpus[:1200])
    write(run.telemetry_file("gpu"), gpus[1200:])
    for name in ("B1", "B2"):
        ends = [BEGIN + 3.0 * n for n in range(1, 300) if not 1000 < 3.0 * n < 2000]
        write(
            run.dataset(name).responses,
            [response(f"{name}-{n}", n % 9 + 1, finished_at=at, started_at=at - 2) for n, at in enumerate(ends)],
        )
    write(run.dataset("B2").failures, [failure("B2-299", at=BEGIN + 50.0)])
    return run.path


def replay(folder: Path, start: float | None = None) -> ReplaySource:
    return ReplaySource(folder, start, present=lambda: NOW + 1e6)


def at(source: ReplaySource, seconds: float) -> dict[str, object]:
    source.seek(BEGIN + seconds)
    return msgspec.to_builtins(source.refresh())


def test_a_killed_daemon_is_gone_where_its_heartbeats_end(folder: Path) -> None:
    source = replay(folder)
    alive = {}
    for seconds in (0, 10, 999, 1001, 1010, 1999, 2000, 2500, 2999.5, 3000, 3003):
        source.seek(BEGIN + seconds)
        daemon = source.refresh().daemon
        alive[seconds] = daemon.pid if daemon.alive else None
    assert alive == {
        0: PID, 10: PID, 999: PID, 1001: PID, 1010: None, 1999: None,
        2000: OTHER_PID, 2500: OTHER_PID, 2999.5: OTHER_PID, 3000: None, 3003: None,
    }  # fmt: skip


def test_states_and_ages_are_those_of_the_moment(folder: Path) -> None:
    source = replay(folder)
    source.seek(BEGIN + 800.4)
    status = source.refresh()
    assert status.state is RunState.RUNNING
    assert status.daemon.heartbeat_age_s == pytest.approx(0.4)
    assert status.elapsed_s == pytest.approx(800.4)
    assert status.gpus is not None
    assert status.gpus[0].utilization_pct == 20.0  # of a file rotated since
    assert status.at == source.now == BEGIN + 800.4
    source.seek(BEGIN + 1500)
    assert source.refresh().state is RunState.STOPPED


def test_every_moment_is_the_same_whichever_way_one_came(folder: Path) -> None:
    draw = random.Random(3)
    moments = [draw.uniform(0, 3003) for _ in range(25)]
    travelled = replay(folder)
    for seconds in moments:
        assert at(travelled, seconds) == at(replay(folder), seconds)


def test_the_checkpoint_of_the_present_does_not_count(folder: Path) -> None:
    before = at(replay(folder), 100)
    source = replay(folder)
    at(source, 3003)
    source.fold.save_checkpoint()
    assert at(replay(folder), 100) == before
    assert before["totals"]["done"] == 66  # type: ignore[index]


def test_histories_end_at_the_moment(folder: Path) -> None:
    source = replay(folder)
    for seconds in (2800, 700):
        source.seek(BEGIN + seconds)
        source.refresh()
        for quantity in (Quantity.TOKENS, Quantity.GPU, Quantity.IN_FLIGHT):
            history = source.ask(lambda fold, now, which=quantity: run_history(fold, now, which, 600.0, 60))
            assert history.end == BEGIN + seconds
            late = [
                value
                for n, value in enumerate(history.values)
                if history.begin + n * history.step_s > BEGIN + seconds and value is not None
            ]
            assert late == []
        history = source.ask(lambda fold, now: run_history(fold, now, Quantity.GPU, 600.0, 60))
        assert history.most == pytest.approx(seconds / 40, abs=0.1)


def test_the_outline_holds_what_is_of_note(folder: Path) -> None:
    outline = replay(folder).outline
    assert [note - BEGIN for note in outline.notes] == [0, 500, 520, 2000, 2500, 3000]
    assert [(mark.at - BEGIN, mark.kind) for mark in outline.marks] == [
        (500, MarkKind.PAUSE),
        (2000, MarkKind.RESTART),
        (2500, MarkKind.ALERT),
    ]
    assert (outline.begin - BEGIN, outline.end - BEGIN) == (0, 3003)


def test_events_are_those_of_the_moment(folder: Path) -> None:
    source = replay(folder)
    at(source, 510)
    assert [each.kind for each in source.last_events(9)] == ["daemon.started", "run.paused"]
    assert source.last_events(0) == []
    assert source.watch_paths() == []


def test_seeking_outside_stays_inside(folder: Path) -> None:
    source = replay(folder, BEGIN - 1e6)
    source.refresh()
    assert source.now == BEGIN
    source.seek(9e9)
    source.refresh()
    assert source.now == source.outline.end


def test_a_run_that_goes_on_has_a_later_end(folder: Path) -> None:
    source = replay(folder)
    at(source, 3003)
    with (folder / "events.jsonl").open("ab") as file:
        file.write(encode_line(event("daemon.started", BEGIN + 3100, data={"pid": PID})))
    source.refresh()
    assert source.outline.end == BEGIN + 3103
    assert source.outline.notes[-1] == BEGIN + 3100


def test_the_end_of_a_living_run_is_the_present(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write(run.events, [event("daemon.started", BEGIN, data={"pid": PID})])
    write(run.telemetry_file("daemon"), [heartbeat(BEGIN + n) for n in range(30)])
    source = ReplaySource(run.path, present=lambda: BEGIN + 29.8)
    source.seek(9e9)
    status = source.refresh()
    assert (source.now, status.daemon.alive) == (BEGIN + 29.8, True)
    killed = replay(run.path)
    killed.seek(9e9)
    assert killed.refresh().daemon.alive is False


def test_a_folder_of_other_tools_knows_no_daemon(tmp_path: Path) -> None:
    write(tmp_path / "d" / "raw_responses.jsonl", [response(f"s{n}", finished_at=BEGIN + n) for n in range(10)])
    source = replay(tmp_path)
    source.seek(BEGIN + 4.5)
    status = source.refresh()
    assert (status.state, status.totals.done, status.daemon.alive) == (RunState.WATCHING, 5, None)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotARunError):
        replay(tmp_path)


def test_no_file_is_written(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    at(replay(folder), 1500)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_kept_moments_are_dropped_where_they_take_too_much(folder: Path) -> None:
    source = replay(folder)
    at(source, 800)
    tight = Kept(most_bytes=1)
    tight.keep_base(source.fold, 0.0)
    tight.keep(source.fold, 1.0)
    assert tight.best(2.0) == 0.0  # the base stays, whatever it takes
    roomy = Kept()
    roomy.keep(source.fold, 1.0)
    assert (roomy.best(2.0), roomy.best(0.5)) == (1.0, None)


@pytest.mark.parametrize("most_bytes", [1, 10**5])
def test_what_is_too_large_to_be_kept_changes_no_moment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    encoded = []
    monkeypatch.setattr(
        "contracts.replay.kept.msgspec.msgpack.encode",
        lambda state, encode=msgspec.msgpack.encode: encoded.append(1) or encode(state),
    )
    source = replay(folder)
    source._kept = Kept(most_bytes)
    for seconds in (2800, 2805, 700, 2500, 2600, 5):
        assert at(source, seconds) == at(replay(folder), seconds)
    encoded.clear()
    if most_bytes == 1:
        for seconds in (2800, 2805, 700, 2500, 2600, 5):
            at(source, seconds)
        assert encoded == []


def test_moments_are_kept_nearer_and_nearer() -> None:
    assert [1000 - stop for stop in stops(0.0, 1000.0)] == [960, 240, 60]
    assert list(stops(990.0, 1000.0)) == []
