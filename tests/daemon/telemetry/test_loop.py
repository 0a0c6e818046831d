"""The telemetry loop: every file gets its line, and nothing that hangs or fails costs more than its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from contracts.clock import Clock
from contracts.records import GpuSample, Heartbeat, HostSample, ServerSample
from daemon.telemetry.loop import Collector, Telemetry
from daemon.telemetry.rotation import RotatingAppender

KINDS = ("gpu", "host", "server", "daemon")


class Time:
    """A wall clock and a monotonic one, set by hand."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000.0
        self.mono = 50.0

    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.mono)


class Gpus:
    """A collector that can be made to hang."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.calls: list[float] = []

    def sample(self, at: float) -> GpuSample:
        self.calls.append(at)
        self.go.wait(30)
        return GpuSample(at=at, state="none", gpus=[])


class Host:
    def sample(self, at: float) -> HostSample:
        return HostSample(at=at)


class Servers:
    def sample(self, at: float) -> ServerSample:
        return ServerSample(at=at, servers=[])


class Broken:
    def sample(self, at: float) -> HostSample:
        raise ValueError("a bug in a collector")


def heartbeat(clock: Clock) -> Callable[[], Heartbeat]:
    return lambda: Heartbeat(
        at=clock.now(),
        mono=clock.mono(),
        boot_id="b",
        pid=1,
        state="running",
        reason=None,
        concurrency=4,
        in_flight={},
        waiting_retry={},
    )


def telemetry(
    folder: Path,
    time: Time,
    gpu: Gpus | None = None,
    host: Collector[HostSample] | None = None,
    interval_s: float = 1.0,
) -> Telemetry:
    clock = time.clock()
    return Telemetry(
        gpu=gpu,
        host=host or Host(),
        server=Servers(),
        heartbeat=heartbeat(clock),
        appenders={kind: RotatingAppender(folder / f"{kind}.jsonl", max_bytes=1 << 20) for kind in KINDS},
        clock=clock,
        interval_s=interval_s,
    )


def lines(folder: Path, kind: str) -> list[float]:
    path = folder / f"{kind}.jsonl"
    return [msgspec.json.decode(line)["at"] for line in path.read_bytes().splitlines()] if path.exists() else []


def test_a_tick_writes_a_line_to_each_file_and_shows_the_latest(tmp_path: Path) -> None:
    time = Time()
    loop = telemetry(tmp_path, time, Gpus())
    assert (loop.gpu, loop.host, loop.server) == (None, None, None)
    for _ in range(2):
        loop.tick()
        assert loop.wait(5.0)
        time.mono += 1
    for kind in KINDS:
        assert lines(tmp_path, kind) == [1_700_000_000.0, 1_700_000_001.0]
    assert loop.gpu == GpuSample(at=1_700_000_001.0, state="none", gpus=[])
    assert loop.host == HostSample(at=1_700_000_001.0)
    assert loop.server == ServerSample(at=1_700_000_001.0, servers=[])
    assert (loop.problems, loop.dropped) == ([], 0)


def test_without_gpus(tmp_path: Path) -> None:
    loop = telemetry(tmp_path, Time())
    loop.tick()
    assert loop.wait(5.0)
    assert loop.gpu is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["daemon.jsonl", "host.jsonl", "server.jsonl"]


def test_a_hanging_driver_blocks_nothing_and_piles_up_nothing(tmp_path: Path) -> None:
    time, gpus = Time(), Gpus()
    gpus.go.clear()
    loop = telemetry(tmp_path, time, gpus)
    started = time.clock().now()
    for _ in range(20):
        loop.tick()
        assert loop._host.lane.wait(5.0)
        assert loop._server.lane.wait(5.0)
        assert loop._beats.wait(5.0)
        time.mono += 1
    assert [len(lines(tmp_path, kind)) for kind in KINDS] == [0, 20, 20, 20]
    assert gpus.calls == [started]
    assert [thread.name for thread in threading.enumerate()].count("telemetry-gpu") == 1
    assert loop.problems == ["telemetry of gpu has not come back for 20 s"]
    gpus.go.set()
    assert loop.wait(5.0)
    assert loop.gpu is not None
    assert loop.problems == []
    loop.tick()
    assert loop.wait(5.0)
    assert gpus.calls == [started, started + 20]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_collector_that_raises_costs_its_own_samples(tmp_path: Path) -> None:
    loop = telemetry(tmp_path, Time(), host=Broken())
    for _ in range(3):
        loop.tick()
        assert loop.wait(5.0)
    assert [len(lines(tmp_path, kind)) for kind in KINDS] == [0, 0, 3, 3]


def test_files_that_cannot_be_written_are_reported_and_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "server.jsonl").mkdir()
    loop = telemetry(tmp_path, Time())
    for _ in range(3):
        loop.tick()
        assert loop.wait(5.0)
    assert loop.dropped == 3
    assert len(loop.problems) == 1
    assert str(tmp_path / "server.jsonl") in loop.problems[0]
    assert loop.server is not None
    assert len(lines(tmp_path, "daemon")) == 3


def test_case_65_a_wall_clock_that_is_set_moves_no_sample(tmp_path: Path) -> None:
    time = Time()
    loop = telemetry(tmp_path, time, Gpus())
    for shift in (0.0, -3600.0, 7200.0, 0.0):
        time.wall += shift
        loop.tick()
        assert loop.wait(5.0)
        time.mono += 1
        time.wall += 1
    for kind in KINDS:
        assert lines(tmp_path, kind) == [1_700_000_000.0 + second for second in range(4)]
    assert loop.problems == []


async def test_run_ticks_until_cancelled_and_leaves_a_hanging_call_behind(tmp_path: Path) -> None:
    gpus = Gpus()
    gpus.go.clear()
    beats = asyncio.Event()
    loop = telemetry(tmp_path, Time(), gpus, interval_s=0.001)
    made, inner = [], loop._heartbeat

    def counting() -> Heartbeat:
        made.append(threading.current_thread())
        if len(made) == 3:
            beats.set()
        return inner()

    loop._heartbeat = counting
    task = asyncio.create_task(loop.run())
    await asyncio.wait_for(beats.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert set(made) == {threading.main_thread()}
    assert gpus.calls
    assert loop.gpu is None
    gpus.go.set()
    assert loop.wait(5.0)
