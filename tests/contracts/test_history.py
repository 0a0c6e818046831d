"""A run over time: rates from the journals, readings from the telemetry, gaps where nobody could know or work."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.fold.marks import MarkKind
from contracts.fold.run import RunFold
from contracts.history import HOP_S, SPANS, Quantity, RunHistory, gpu_use, grid, quantities, run_history
from contracts.liveness import Liveness
from contracts.records import GpuReading, GpuSample, Heartbeat, ServerReading, ServerSample
from contracts.report import build_status
from contracts.run_dir import RunDir
from tests.support.records import NOW, event, folded, heartbeat, make_run, response, write
from tests.support.stored import stored


def responses(run: RunDir, begin: float, end: float, tokens: int = 100, dataset: str = "d") -> None:
    """One every second."""
    write(
        run.dataset(dataset).responses,
        [response(f"{dataset}-{at}", tokens, finished_at=float(at)) for at in range(int(begin), int(end))],
    )


def beats(run: RunDir, begin: float, end: float, **over: Any) -> None:
    write(run.telemetry_file("daemon"), [heartbeat(float(at), **over) for at in range(int(begin), int(end))])


def history(fold: RunFold, now: float = NOW, quantity: Quantity = Quantity.TOKENS, **over: Any) -> RunHistory:
    return run_history(fold, now, quantity, **({"span_s": 600.0, "points": 100} | over))


def at(found: RunHistory, moment: float) -> float | None:
    return found.values[int((moment - found.begin) // found.step_s)]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return make_run(tmp_path / "run", datasets=("d", "e"))


def test_nothing_is_known_of_a_new_run(run: RunDir) -> None:
    found = history(folded(run))
    assert set(found.values) == {None}
    assert (found.mean, found.most, found.reading, found.untimed) == (None, None, False, False)
    assert found.choices == (Quantity.TOKENS,)


def test_tokens_of_all_data_sets_a_second(run: RunDir) -> None:
    responses(run, NOW - 300, NOW)
    responses(run, NOW - 300, NOW, 20, "e")
    beats(run, NOW - 300, NOW)
    found = history(folded(run))
    assert at(found, NOW - 310) is None
    assert at(found, NOW - 100) == pytest.approx(120)
    assert found.mean == pytest.approx(120)
    assert found.end == NOW
    assert set(found.values[int((NOW - found.begin) // found.step_s) + 1 :]) <= {None}  # to come


def test_a_stall_is_zero_and_a_pause_or_a_missing_daemon_is_a_gap(run: RunDir) -> None:
    write(run.events, [event("daemon.started", NOW - 590)])
    for begin, end, state in ((-590, -400, "running"), (-400, -300, "paused"), (-200, 0, "running")):
        beats(run, NOW + begin, NOW + end, state=state)
    responses(run, NOW - 590, NOW - 500)
    responses(run, NOW - 50, NOW)
    found = history(folded(run))
    assert at(found, NOW - 550) == pytest.approx(100)
    assert at(found, NOW - 420) == 0.0
    assert at(found, NOW - 350) is None
    assert at(found, NOW - 250) is None
    assert at(found, NOW - 100) == 0.0
    assert at(found, NOW - 10) == pytest.approx(100)


def test_gaps_do_not_drag_a_rate_down(run: RunDir) -> None:
    responses(run, NOW - 590, NOW - 300)
    beats(run, NOW - 590, NOW - 300)
    responses(run, NOW - 100, NOW)
    beats(run, NOW - 100, NOW)
    found = history(folded(run))
    assert at(found, NOW - 91) == pytest.approx(100, rel=0.2)  # half of the time before it, nothing ran
    assert at(found, NOW - 60) == pytest.approx(100)
    assert found.mean == pytest.approx(100, rel=0.03)


def test_answers_during_a_pause_count(run: RunDir) -> None:
    beats(run, NOW - 500, NOW, state="paused")
    responses(run, NOW - 200, NOW - 150)
    found = history(folded(run))
    assert at(found, NOW - 160) == pytest.approx(100)
    assert at(found, NOW - 60) is None


@pytest.mark.parametrize("span", [600.0, None])
def test_the_mean_is_that_of_the_session_after_a_start_that_failed(run: RunDir, span: float | None) -> None:
    """No heartbeat tells that nobody was there between the two, but the events do."""
    write(run.events, [event("daemon.started", NOW - 100), event("daemon.stopped", NOW - 99)])
    write(run.events, [event("daemon.started", NOW - 40), event("run.paused", NOW - 20)])
    beats(run, NOW - 38, NOW - 20)
    beats(run, NOW - 20, NOW, state="paused")
    responses(run, NOW - 39, NOW - 15)
    fold = folded(run)
    found = history(fold, span_s=span)
    assert at(found, NOW - 70) is None
    whole = build_status(fold, Liveness(True, heartbeat().pid, NOW - 40), NOW, NOW)
    assert whole.totals.tokens_per_s_run == pytest.approx(24 * 100 / 25)
    assert found.mean == pytest.approx(24 * 100 / 26, rel=0.01)


def test_borders_move_seldom_and_together(run: RunDir) -> None:
    responses(run, NOW - 3000, NOW)
    fold = folded(run)
    for _, span in SPANS:
        found = [history(fold, NOW + second, span_s=span, points=200, together=2) for second in range(20)]
        begins = sorted({each.begin for each in found})
        assert len({each.step_s for each in found}) == 1
        step = found[0].step_s
        assert all(later - before >= HOP_S - 1e-3 for before, later in itertools.pairwise(begins))
        assert all(round((begin - begins[0]) / step) % 2 == 0 for begin in begins)
        for each in found:
            assert each.begin <= each.end - (span or 0) + 60
            assert each.begin + 200 * step >= each.end


@given(st.floats(0, 1e9), st.integers(1, 700), st.integers(1, 2), st.sampled_from([600.0, 3600.0, None]))
def test_any_run_fits_its_steps(length: float, points: int, together: int, span: float | None) -> None:
    begin, step = grid(NOW - length, NOW, span, max(points, together), together)
    assert step > 0
    assert begin + max(points, together) * step >= NOW - 1e-3
    if span is None and points >= 40:
        assert begin <= NOW - length + step


def test_a_run_that_is_over_shows_its_end(run: RunDir) -> None:
    responses(run, NOW - 8000, NOW - 7000)
    beats(run, NOW - 8000, NOW - 7000)
    found = history(folded(run))
    assert found.end == NOW - 7000
    assert found.mean == pytest.approx(100)


def test_folders_of_other_tools(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    responses(run, NOW - 300, NOW - 200)
    found = history(folded(run))
    assert found.end == NOW
    assert at(found, NOW - 100) == 0.0
    late = history(folded(run), NOW + 9000)
    assert late.end == NOW - 200


def test_responses_without_a_time(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    write(run.dataset("x").responses, [b'{"sample_id":"a","completion_tokens":3,"output_ids":[1,2,3]}\n'])
    found = history(folded(run))
    assert found.untimed is True
    assert set(found.values) == {None}


def test_readings_hold_over_a_few_that_are_missing(run: RunDir) -> None:
    write(run.telemetry_file("daemon"), [heartbeat(NOW - 100 + 4 * n, in_flight={"d": n, "e": 1}) for n in range(11)])
    found = history(folded(run), NOW - 40, Quantity.IN_FLIGHT, points=600)
    assert at(found, NOW - 99) == 1
    assert at(found, NOW - 97) == 1
    assert at(found, NOW - 61) == 10
    assert found.most == 11
    later = history(folded(run), NOW - 31, Quantity.IN_FLIGHT, points=600)
    assert at(later, NOW - 56) == 11
    assert at(later, NOW - 50) is None


def test_gpu_kv_and_dump(run: RunDir) -> None:
    gpus = [GpuReading(index=0, utilization_pct=90.0), GpuReading(index=1, utilization_pct=70.0)]
    servers = [ServerReading(url="u", state="ok", kv_usage_pct=81.0)]
    for second in range(60):
        write(run.telemetry_file("gpu"), [GpuSample(at=NOW - 60 + second, state="ok", gpus=gpus)])
        write(run.telemetry_file("server"), [ServerSample(at=NOW - 60 + second, servers=servers)])
    beats(run, NOW - 60, NOW, dump_used_bytes=3_000_000_000)
    fold = folded(run)
    assert history(fold, quantity=Quantity.GPU).mean == 80.0
    assert history(fold, quantity=Quantity.KV).mean == 81.0
    assert history(fold, quantity=Quantity.DUMP).mean == pytest.approx(3.0)
    assert quantities(fold) == (Quantity.TOKENS, Quantity.IN_FLIGHT, Quantity.GPU, Quantity.KV, Quantity.DUMP)
    assert gpu_use(fold, NOW, 3) == {0: (90.0,) * 3, 1: (70.0,) * 3}
    assert gpu_use(fold, NOW + 5, 3) == {0: (90.0, 90.0, None), 1: (70.0, 70.0, None)}


def test_stored_bytes(run: RunDir) -> None:
    write(
        run.dataset("d").hidden_states,
        [stored(f"d-{number}", at=NOW - 120 + number, bytes=50_000_000) for number in range(120)],
    )
    beats(run, NOW - 120, NOW)
    fold = folded(run)
    assert Quantity.STORED in quantities(fold)
    assert history(fold, quantity=Quantity.STORED).mean == pytest.approx(50, rel=0.02)


def test_older_telemetry_is_read_slice_by_slice(run: RunDir) -> None:
    beats(run, NOW - 20_000, NOW, in_flight={"d": 5})
    responses(run, NOW - 20_000, NOW - 19_999)
    fold = folded(run)
    found = history(fold, quantity=Quantity.IN_FLIGHT, span_s=None, most_bytes=300_000)
    assert found.reading is True
    assert found.values[0] is None
    assert found.mean == 5
    calls = 1
    while found.reading:
        found = history(fold, quantity=Quantity.IN_FLIGHT, span_s=None, most_bytes=300_000)
        calls += 1
    assert 3 < calls < 40
    assert at(found, NOW - 19_000) == 5


def test_unreadable_lines_are_counted(run: RunDir) -> None:
    beats(run, NOW - 20, NOW)
    write(run.telemetry_file("daemon"), [b"what\n", b'{"at":"x"}\n'])
    assert history(folded(run)).unreadable == 2


def test_marks(run: RunDir) -> None:
    said: dict[str, Any] = {"message": "6 % stop by length", "dataset": "d", "data": {"code": "length_share"}}
    write(
        run.events,
        [
            event("daemon.started", NOW - 5000),
            event("run.paused", NOW - 4000, message="paused: by user"),
            event("run.resumed", NOW - 3900),
            event("daemon.started", NOW - 300),
            event("alert.raised", NOW - 200, **said),
            event("alert.cleared", NOW - 150, **said),
            event("dataset.halted", NOW - 100, message="stopped", dataset="d"),
        ],
    )
    fold = folded(run)
    assert [(mark.at, mark.kind, mark.text) for mark in history(fold).marks] == [
        (NOW - 300, MarkKind.RESTART, "restarted"),
        (NOW - 200, MarkKind.ALERT, "d: 6 % stop by length"),
        (NOW - 100, MarkKind.ALERT, "d: stopped"),
    ]
    assert fold.events.marks.last[0].kind is MarkKind.PAUSE


def test_one_moment_of_the_past_is_as_it_was(run: RunDir) -> None:
    """A replay asks with an earlier present: what was known of that time, without what came later."""
    responses(run, NOW - 5000, NOW)
    beats(run, NOW - 5000, NOW, in_flight={"d": 9})
    fold = folded(run)
    fold.telemetry.poll()
    found = history(fold, NOW - 3000, Quantity.IN_FLIGHT)
    assert isinstance(fold.telemetry.heartbeat, Heartbeat)
    assert found.end == NOW - 3000
    assert at(found, NOW - 3100) == 9
    assert all(value is None for value in found.values[int((NOW - 3000 - found.begin) // found.step_s) + 1 :])
