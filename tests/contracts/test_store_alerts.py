"""One test for each alert on hidden states: there above its threshold, not below, and gone when its cause is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from contracts.liveness import Liveness
from contracts.records import CaptureCheck, DiskReading, DroppedSample, FailureClass, HostSample, NextStep, Requeue
from contracts.status import RunState
from tests.contracts.test_alerts import DEAD, Scene, severities
from tests.support.records import NOW, PID, event, prompt_line, response, write
from tests.support.stored import failed_capture, stages, stored

ALIVE = Liveness(True, PID, NOW - 10_000)
REFUSED = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}


class StoreScene(Scene):
    """A run that extracts, seen again after each change."""

    def __init__(self, folder: Path, *names: str, extra: str = "") -> None:
        super().__init__(folder, stages(*(names or ("generate", "extract")), extra=extra))
        self.rows = 0

    def store(self, count: int, at: float = NOW - 5, **over: Any) -> None:
        """Append stored samples ``d-<row>``."""
        records = [stored(f"d-{row}", row, at=at, **over) for row in range(self.rows, self.rows + count)]
        self.rows += count
        write(self.run.dataset("d").hidden_states, records)


@pytest.fixture
def scene(tmp_path: Path) -> StoreScene:
    return StoreScene(tmp_path / "run")


def test_a_healthy_run_has_none(scene: StoreScene) -> None:
    scene.events(event("daemon.started", NOW - 2000))
    scene.responses(100, finished_at=NOW - 1000)
    scene.store(90)
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=10**12))
    scene.failures(failed_capture("d-95"), failed_capture("d-96", CaptureCheck.NO_ROOM))
    scene.failures(failed_capture("d-97", CaptureCheck.TOO_LONG, **REFUSED))
    scene.beat(in_flight={"d": 5}, extracting={"d": 2}, taking=3, dump_used_bytes=99, dump_budget_bytes=100)
    assert [alert.code for alert in scene.status().alerts if alert.code != "telemetry_stale"] == []


def test_capture_failures(scene: StoreScene) -> None:
    scene.store(94)
    scene.failures(*(failed_capture(f"x-{each}") for each in range(4)))
    assert scene.alerts("capture_failures") == []
    scene.failures(failed_capture("x", CaptureCheck.ZERO_ROW), failed_capture("y", CaptureCheck.ZERO_ROW))
    (alert,) = scene.alerts("capture_failures", DEAD)
    assert alert.message == "d: 6 of 100 recent captures (6.0 %) failed a check, limit 5 %; so far: ids 4, zero_row 2"
    scene.now += 1000
    assert scene.alerts("capture_failures") == []


def test_failed_captures_are_no_failed_answers(scene: StoreScene) -> None:
    scene.responses(50)
    scene.failures(*(failed_capture(f"d-{each}") for each in range(40)))
    assert scene.alerts("failure_share") == []


def test_dump_budget_when_captures_are_given_up(scene: StoreScene) -> None:
    scene.store(80)
    scene.failures(*(failed_capture(f"x-{each}", CaptureCheck.NO_ROOM) for each in range(20)))
    assert scene.alerts("dump_budget") == []
    scene.failures(*(failed_capture(f"y-{each}", CaptureCheck.NO_ROOM) for each in range(2)))
    (alert,) = scene.alerts("dump_budget")
    assert (alert.severity, alert.dataset) == ("warning", "d")
    assert "22 of 102 recent captures (21.6 %) were given up for want of room" in alert.message
    assert scene.alerts("capture_failures") == []


def test_dump_budget_when_it_is_full_and_nothing_flows(scene: StoreScene) -> None:
    scene.events(event("daemon.started", NOW - 2000))
    scene.responses(20, finished_at=NOW - 1000)
    scene.store(10, at=NOW - 100)
    full = {"taking": 3, "dump_used_bytes": 15_000_000_000, "dump_budget_bytes": 16_000_000_000}
    scene.beat(**full)
    assert scene.alerts("dump_budget") == []
    scene.now += 30
    scene.beat(**full)
    (alert,) = scene.alerts("dump_budget")
    assert "holds 15.0 GB of 16.0 GB, and nothing of it was stored for 130 s" in alert.message
    scene.beat(**(full | {"store_trouble": "No space left on device"}))
    assert scene.alerts("dump_budget") == []  # that is said by another
    scene.beat(**(full | {"dump_used_bytes": 1}))
    assert scene.alerts("dump_budget") == []


def test_extract_halted(scene: StoreScene) -> None:
    scene.events(event("extract.halted", NOW - 60, dataset="d"))
    assert scene.alerts("extract_halted") == []
    scene.failures(failed_capture("d-1", CaptureCheck.LAYERS, next=NextStep.STOPPED, message="layers [1] for [2]"))
    (alert,) = scene.alerts("extract_halted", DEAD)
    assert (alert.severity, alert.dataset, alert.since) == ("critical", "d", NOW - 60)
    assert "layers [1] for [2]" in alert.message
    assert alert.advice is not None
    assert f"eagle3 retry {scene.run.path} --dataset d --error capture" in alert.advice
    assert scene.alerts("dataset_halted") == []
    scene.failures(Requeue(at=NOW, error=FailureClass.CAPTURE))
    assert scene.alerts("extract_halted", DEAD) == []


def test_not_stored(scene: StoreScene) -> None:
    scene.failures(failed_capture("d-1"), failed_capture("d-2", CaptureCheck.TOO_LONG, **REFUSED))
    assert scene.alerts("not_stored") == []
    scene.failures(failed_capture("d-0", message="row 7 is zero", next=NextStep.QUARANTINED, at=NOW))
    scene.failures(failed_capture("d-3", CaptureCheck.NO_IDS, **REFUSED))
    (alert,) = scene.alerts("not_stored", DEAD)
    assert alert.message == "d: the hidden states of 2 samples are given up; newest: ids: row 7 is zero"
    assert scene.alerts("quarantined") == []
    scene.store(1)
    assert "of 1 sample are" in scene.alerts("not_stored")[0].message


def test_skipped_share(scene: StoreScene) -> None:
    scene.store(45)
    long = [failed_capture(f"x-{each}", CaptureCheck.TOO_LONG, **REFUSED) for each in range(6)]
    scene.failures(*long[:5])
    assert scene.alerts("skipped_share") == []
    scene.failures(long[5])
    (alert,) = scene.alerts("skipped_share", DEAD)
    assert "6 of 51 samples (11.8 %) are left out of the store: 6 too long; limit 10 %" in alert.message
    assert alert.advice is not None and "max_tokens" in alert.advice and "Nothing to learn" not in alert.advice
    scene.failures(*(failed_capture(f"y-{each}", CaptureCheck.NOTHING_TO_LEARN, **REFUSED) for each in range(14)))
    (alert,) = scene.alerts("skipped_share", DEAD)
    assert "20 of 65 samples (30.8 %) are left out of the store: 6 too long and 14 with nothing" in alert.message
    assert alert.advice is not None and "no retry changes that" in alert.advice


def test_answers_of_one_token_are_no_matter_of_max_tokens(scene: StoreScene) -> None:
    scene.store(45)
    scene.failures(*(failed_capture(f"y-{each}", CaptureCheck.NOTHING_TO_LEARN, **REFUSED) for each in range(14)))
    (alert,) = scene.alerts("skipped_share", DEAD)
    assert "store: 14 with nothing to learn from (an answer of one token" in alert.message
    assert alert.advice is not None
    assert "max_tokens" not in alert.advice and "eagle3 retry" not in alert.advice


def test_store_mixed(scene: StoreScene) -> None:
    scene.store(2)
    assert scene.alerts("store_mixed") == []
    scene.store(1, dtype="float32")
    (alert,) = scene.alerts("store_mixed", DEAD)
    assert alert.severity == "critical"
    assert "line 3 of hidden_states.jsonl: dtype is 'float32'" in alert.message
    write(scene.run.dataset("d").hidden_states, [DroppedSample(sample_id="d-2", why="x", at=NOW)])
    assert scene.alerts("store_mixed", DEAD) == []


def test_nothing_to_store(tmp_path: Path) -> None:
    scene = StoreScene(tmp_path / "run", "extract")
    (alert,) = scene.alerts("nothing_to_store", DEAD)
    assert alert.severity == "warning"
    scene.responses(1)
    assert scene.alerts("nothing_to_store", DEAD) == []


def test_a_run_that_only_extracts_is_short_of_no_target(tmp_path: Path) -> None:
    scene = StoreScene(tmp_path / "run", "extract", extra="[generate]\ntarget_tokens = 10000\n")
    scene.responses(2000)
    assert scene.status(DEAD).alerts == []


def test_store_trouble(scene: StoreScene) -> None:
    scene.beat()
    assert scene.alerts("store_trouble") == []
    scene.beat(store_trouble="/store: No space left on device")
    (alert,) = scene.alerts("store_trouble")
    assert (alert.severity, alert.message) == ("critical", "nothing can be stored: /store: No space left on device")
    assert scene.status().store_trouble == "/store: No space left on device"
    assert scene.alerts("store_trouble", DEAD) == []


def test_store_disk(scene: StoreScene) -> None:
    """1 GB in 100 s; of 100 answers 10 are stored: 9 GB are missing, and 190 GB for the answers to come."""
    scene.events(event("daemon.started", NOW - 2000))
    scene.responses(100, finished_at=NOW - 300)
    scene.store(10, at=NOW - 100, bytes=100_000_000)
    scene.beat()
    assert scene.alerts("store_disk") == []
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=200 * 10**9))
    assert scene.alerts("store_disk") == []
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=198 * 10**9))
    (alert,) = scene.alerts("store_disk")
    assert alert.severity == "warning"
    assert "is full in 33.0 h, before the run is done: 199.0 GB are still to be stored, 198.0 GB are" in alert.message
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=5_900_000_000))
    (alert,) = scene.alerts("store_disk")
    assert severities([alert]) == ["critical"]
    assert "is full in 59 min" in alert.message
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=50_000_000))
    assert "is full in less than a minute, before" in scene.alerts("store_disk")[0].message
    assert scene.alerts("store_disk", DEAD) == []


def test_store_disk_looks_at_the_disk_of_the_store(scene: StoreScene) -> None:
    scene.events(event("daemon.started", NOW - 2000))
    scene.responses(100, finished_at=NOW - 300)
    scene.store(10, at=NOW - 100, bytes=100_000_000)
    scene.beat()
    run = DiskReading(path="/data/run", uses=["run"], free_bytes=10**9)
    store = DiskReading(path="/big/hs", uses=["store"], free_bytes=200 * 10**9)
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=10**9, disks=[run, store]))
    assert scene.alerts("store_disk") == []
    run.free_bytes, store.free_bytes = 10**12, 198 * 10**9
    scene.telemetry("host", HostSample(at=NOW, disk_free_bytes=10**12, disks=[run, store]))
    (alert,) = scene.alerts("store_disk")
    assert alert.message.startswith("the disk of store, /big/hs, is full in 33.0 h, before the run is done: 199.0 GB")
    assert alert.advice is not None and "df -h /big/hs" in alert.advice


PASSES: Final[dict[str, Any]] = {"extracting": {"d": 4}, "taking": 1}


class TestNoExtractProgress:
    def test_nothing_is_stored_while_passes_are_open(self, scene: StoreScene) -> None:
        scene.events(event("daemon.started", NOW - 2000))
        scene.responses(20, finished_at=NOW - 1000)
        scene.store(10, at=NOW - 299)
        scene.beat(**PASSES)
        assert scene.alerts("no_extract_progress") == []
        scene.now += 1
        scene.beat(**PASSES)
        (alert,) = scene.alerts("no_extract_progress")
        assert alert.severity == "critical"
        assert "for 300 s while 4 prefill passes are open and 1 capture waits" in alert.message
        assert scene.status().state is RunState.STALLED
        scene.beat(**(PASSES | {"in_flight": {"d": 9}}))
        assert scene.status().state is RunState.RUNNING  # answers come
        assert len(scene.alerts("no_extract_progress")) == 1

    @pytest.mark.parametrize(
        "change",
        [
            lambda scene: scene.store(1),
            lambda scene: scene.failures(failed_capture("d-15")),
            lambda scene: scene.store(10, at=NOW - 900),
            lambda scene: scene.events(event("run.paused", NOW - 900), event("run.resumed", NOW - 20)),
            lambda scene: scene.events(event("daemon.started", NOW - 20)),
            lambda scene: scene.beat(),
            lambda scene: scene.beat(extracting={"d": 4}, store_trouble="full"),
            lambda scene: scene.beat(extracting={"d": 4}, since_progress_s=500.0),  # no_progress says it
        ],
    )
    def test_what_ends_it(self, scene: StoreScene, change: Callable[[StoreScene], None]) -> None:
        scene.events(event("daemon.started", NOW - 2000))
        scene.responses(20, finished_at=NOW - 1000)
        scene.store(10, at=NOW - 900)
        scene.beat(**PASSES)
        assert len(scene.alerts("no_extract_progress")) == 1
        change(scene)
        assert scene.alerts("no_extract_progress") == []

    def test_the_first_pass_after_a_long_time_of_answers_is_none(self, scene: StoreScene) -> None:
        """Passes begin when the answers are done: nothing was stored before, and nothing hangs."""
        scene.events(event("daemon.started", NOW - 5000))
        scene.responses(20, finished_at=NOW - 10)
        scene.beat(**PASSES)
        assert scene.alerts("no_extract_progress") == []

    def test_a_slow_answer_that_was_waited_for_is_none(self, scene: StoreScene) -> None:
        scene.events(event("daemon.started", NOW - 5000))
        scene.responses(10, finished_at=NOW - 1000)
        scene.store(10, at=NOW - 990)
        scene.responses(1, finished_at=NOW - 3)
        scene.beat(**PASSES)
        assert scene.alerts("no_extract_progress") == []

    def test_passes_that_hang_while_answers_come_are_seen(self, scene: StoreScene) -> None:
        scene.events(event("daemon.started", NOW - 5000))
        scene.responses(20, finished_at=NOW - 1000)
        scene.store(10, at=NOW - 900)
        scene.responses(30, finished_at=NOW - 3)
        scene.beat(**PASSES)
        assert len(scene.alerts("no_extract_progress")) == 1

    def test_pretokenized_samples_wait_from_the_start(self, scene: StoreScene) -> None:
        write(scene.run.dataset("d").prompts, [prompt_line("masked", masked=True)])
        scene.events(event("daemon.started", NOW - 400))
        scene.beat(**PASSES)
        assert len(scene.alerts("no_extract_progress")) == 1


def test_no_progress_counts_open_passes_too(scene: StoreScene) -> None:
    scene.beat(extracting={"d": 4}, since_progress_s=400.0, oldest_request_s=400.0)
    (alert,) = scene.alerts("no_progress")
    assert "nothing has come back for 400 s while 4 requests are open" in alert.message
    write(scene.run.dataset("d").responses, [response("d-0")])
    scene.beat(extracting={"d": 4}, since_progress_s=1.0, oldest_request_s=700.0)
    assert "the oldest of 4 open requests" in scene.alerts("slow_requests")[0].message
