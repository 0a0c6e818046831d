"""Quantities over time: what is kept, in any order, at any age."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.fold.series import Gauge, Reading, Ring, TelemetrySeries
from contracts.records import GpuReading, GpuSample, ServerReading, ServerSample
from contracts.run_dir import RunDir
from tests.support.records import NOW, heartbeat, write

values = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 100)), min_size=1, max_size=80)


@given(values)
def test_a_ring_keeps_the_newest_stretches_whatever_the_order(pairs: list[tuple[int, int]]) -> None:
    rings = [Ring(5, 8), Ring(5, 8)]
    for ring, order in zip(rings, (pairs, pairs[::-1]), strict=True):
        for at, value in order:
            ring.add(at, value)
    newest = max(at for at, _ in pairs) // 5
    for number in range(newest - 7, newest + 1):
        inside = [value for at, value in pairs if at // 5 == number]
        expected = Reading(sum(inside) / len(inside), max(inside)) if inside else None
        assert [ring.over(number, number) for ring in rings] == [expected, expected]
        assert rings[0].over(number + 80, number + 80) is None


@given(st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 100)), min_size=1, max_size=60), st.randoms())
def test_a_gauge_does_not_depend_on_the_order(pairs: list[tuple[int, int]], random: object) -> None:
    gauges = [Gauge(), Gauge(), Gauge()]
    for gauge, order in zip(gauges, (pairs, pairs[::-1], sorted(pairs)), strict=True):
        for at, value in order:
            gauge.add(NOW + at, value)
    for begin, step, count in ((0, 600, 50), (24_000, 60, 100), (29_100, 2, 450)):
        found = [gauge.steps(NOW + begin, step, count) for gauge in gauges]
        assert found[0] == found[1] == found[2]
    for index, reading in enumerate(gauges[0].steps(NOW, 600, 51)):
        inside = [value for at, value in pairs if at // 600 == index]
        assert reading == (Reading(pytest.approx(sum(inside) / len(inside)), max(inside)) if inside else None)


def test_steps_finer_than_what_is_kept_repeat_it() -> None:
    gauge = Gauge()
    gauge.add(NOW, 7.0)
    gauge.add(NOW + 86_400, 1.0)
    assert gauge.steps(NOW, 20.0, 4) == [Reading(7.0, 7.0)] * 3 + [None]


def test_telemetry_files_as_quantities(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    write(
        run.telemetry_file("daemon"),
        [
            heartbeat(NOW, state="running", in_flight={"a": 5, "b": 2}, dump_used_bytes=100),
            heartbeat(NOW + 1, state="paused", in_flight={}),
            heartbeat(-5.0),
            heartbeat(1e300),
        ],
    )
    gpus = [GpuReading(index=index, utilization_pct=use) for index, use in ((0, 90.0), (3, 50.0), (4, None))]
    write(
        run.telemetry_file("gpu"), [GpuSample(at=NOW, state="ok", gpus=gpus), GpuSample(at=NOW, state="none", gpus=[])]
    )
    servers = [ServerReading(url="u", state="ok", kv_usage_pct=use) for use in (80.0, 60.0, None)]
    write(run.telemetry_file("server"), [ServerSample(at=NOW, servers=servers)])
    series = TelemetrySeries(run)
    assert series.awake.oldest is None
    assert [series.read(kind, NOW - 60, 1 << 20) for kind in ("daemon", "gpu", "server")] == [True] * 3
    assert series.awake.steps(NOW, 1, 3) == [Reading(1, 1), Reading(0, 0), None]
    assert series.in_flight.steps(NOW, 1, 2) == [Reading(7, 7), Reading(0, 0)]
    assert series.dump_bytes.steps(NOW, 1, 2) == [Reading(100, 100), None]
    assert series.gpu_pct.steps(NOW, 1, 1) == [Reading(70, 90 - 20)]
    assert series.kv_pct.steps(NOW, 1, 1) == [Reading(70, 70)]
    assert {index: ring.over(int(NOW) // 5, int(NOW) // 5) for index, ring in series.gpus.items()} == {
        0: Reading(90, 90),
        3: Reading(50, 50),
    }
