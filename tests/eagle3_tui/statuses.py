"""Status objects for tests: built, not measured."""

from __future__ import annotations

from typing import Any

import msgspec

from contracts.records import DiskReading, GpuReading, HostSample, ServerReading, Severity
from contracts.status import (
    AlertStatus,
    DaemonStatus,
    DatasetStage,
    DatasetStatus,
    HiddenStatus,
    RunState,
    RunStatus,
    UnreadableLine,
)


def dataset(name: str, **changes: Any) -> DatasetStatus:
    plain = DatasetStatus(
        name=name,
        stage=DatasetStage.WAITING,
        prompts=None,
        refused=0,
        done=0,
        failed=0,
        quarantined=0,
        in_flight=None,
        waiting_retry=None,
        unreadable=0,
        unknown_counts=0,
        duplicates=0,
        incomplete=0,
        prompt_tokens=None,
        completion_tokens=None,
        avg_completion_tokens=None,
        target_tokens=None,
        overrun_tokens=None,
        tokens_per_s=None,
        tokens_per_s_run=None,
        eta_s=None,
        length_pct=None,
        truncated=0,
    )
    return msgspec.structs.replace(plain, **changes)


def run_status(**changes: Any) -> RunStatus:
    plain = RunStatus(
        run="synth_100k",
        path="/data/runs/synth_100k",
        state=RunState.WATCHING,
        reason=None,
        at=1_700_000_000.0,
        daemon=DaemonStatus(alive=None),
        concurrency=None,
        elapsed_s=None,
        totals=dataset("total", stage=None),
        datasets=[dataset("B1")],
        gpus=None,
        gpu_state=None,
        servers=[],
        host=None,
        alerts=[],
        unreadable=[],
    )
    return msgspec.structs.replace(plain, **changes)


def running() -> RunStatus:
    """A run in full swing on two GPUs, one of which does not tell its memory."""
    return run_status(
        state=RunState.RUNNING,
        daemon=DaemonStatus(alive=True, pid=4711, since=1_699_984_880.0, heartbeat_age_s=0.4),
        concurrency=256,
        elapsed_s=15_120.0,
        totals=dataset(
            "total",
            stage=None,
            prompts=26_400,
            done=10_532,
            failed=12,
            quarantined=1,
            waiting_retry=3,
            in_flight=248,
            refused=2,
            unreadable=2,
            completion_tokens=41_234_567,
            target_tokens=100_000_000,
            avg_completion_tokens=1_106.2,
            tokens_per_s=2_841.3,
            tokens_per_s_run=2_715.0,
            eta_s=47_100.0,
            length_pct=1.04,
        ),
        datasets=[
            dataset("A1_openthoughts", stage=DatasetStage.PRETOKENIZED, prompts=9_800),
            dataset(
                "B2_opencodeinstruct",
                stage=DatasetStage.RUNNING,
                prompts=9_000,
                done=7_412,
                failed=4,
                completion_tokens=8_197_000,
                target_tokens=10_000_000,
                avg_completion_tokens=1_105.9,
                tokens_per_s=1_402.0,
                eta_s=1_286.0,
            ),
            dataset(
                "B3_漢字のデータセット名は長い",
                stage=DatasetStage.FINISHED,
                prompts=3_120,
                done=3_120,
                failed=8,
                completion_tokens=10_400_123,
                target_tokens=10_400_000,
                avg_completion_tokens=3_333.4,
                tokens_per_s=0.0,
                eta_s=0.0,
            ),
            dataset("B4_\x1b[2Jwaiting", prompts=8_600, target_tokens=10_000_000),
        ],
        gpus=[
            GpuReading(
                index=0,
                name="NVIDIA H200",
                utilization_pct=97.0,
                memory_used_bytes=88_000_000_000,
                memory_total_bytes=96_000_000_000,
                power_w=541.2,
                power_limit_w=600.0,
                temperature_c=71.0,
            ),
            GpuReading(index=1, utilization_pct=37.0, temperature_c=54.0, reason="memory is not reported"),
        ],
        gpu_state="ok",
        servers=[
            ServerReading(
                url="http://127.0.0.1:30000",
                state="ok",
                running=248,
                queued=31,
                kv_usage_pct=81.2,
                tokens_per_s=2_850.0,
                retracted=0,
            ),
            ServerReading(url="http://127.0.0.1:30001", state="down", reason="connection refused for 34 s"),
        ],
        host=HostSample(
            at=1.0,
            cpu_pct=12.3,
            memory_used_bytes=64_000_000_000,
            memory_total_bytes=2_000_000_000_000,
            disk_free_bytes=3_200_000_000_000,
            shm_free_bytes=900_000_000_000,
        ),
        alerts=[
            AlertStatus(
                code="server_down",
                severity=Severity.CRITICAL,
                message="http://127.0.0.1:30001 does not answer; its work waits, no attempt is charged",
                since=None,
                advice="Look at its log and start it again.",
            ),
            AlertStatus(code="unreadable_lines", severity=Severity.WARNING, message="2 lines fit no shape", since=None),
        ],
        unreadable=[
            UnreadableLine(
                file="prepared/B2/raw_responses.jsonl", offset=9_001, line=12, why="not JSON: \x07 at byte 3"
            ),
        ],
    )


def stopped() -> RunStatus:
    """Stopped with nothing done: all is unknown or nought."""
    return run_status(
        state=RunState.STOPPED,
        reason="no daemon is running, and work is left; go on with: eagle3 start /data/runs/synth_100k",
        daemon=DaemonStatus(alive=False),
        totals=dataset("total", stage=None, prompts=10),
        datasets=[dataset("B1", prompts=10)],
        gpus=[],
        gpu_state="none: no NVIDIA driver",
    )


def storing() -> RunStatus:
    """The run in full swing, storing hidden states."""
    status = running()
    status.stages = ["generate", "extract"]
    status.dump_used_bytes, status.dump_budget_bytes, status.taking = 900_000_000, 16_000_000_000, 3
    status.disk_full_in_s = 40_000.0
    pretokenized, generated, done, waiting = status.datasets
    pretokenized.stage, pretokenized.pretokenized = DatasetStage.EXTRACTING, pretokenized.prompts
    checks = {"ids": 2, "zero_row": 11}
    pretokenized.hidden = _hidden(9_800, 120, given_up=2, skipped=7, truncated=5, checks=checks)
    generated.hidden, done.hidden = _hidden(7_412, 7_400), _hidden(3_120, 3_120)
    waiting.hidden = _hidden(0, 0)
    status.totals.hidden = _hidden(20_332, 10_640, given_up=2, skipped=7, truncated=5, in_work=16, checks=checks)
    return status


def elsewhere() -> RunStatus:
    """Storing on a disk of its own, which is full first; the interval of the remaining time is known."""
    status = storing()
    assert status.host is not None
    status.host.disks = [
        DiskReading(path="/data/runs/synth_100k", uses=["run"], free_bytes=3_200 * 10**9),
        DiskReading(path="/big/raid/hidden_states", uses=["store"], free_bytes=41 * 10**9),
        DiskReading(path="/scratch/dumps", uses=["dumps"], free_bytes=900 * 10**9),
    ]
    status.disk_full_in_s, status.disk_full_path = 4_000.0, "/big/raid/hidden_states"
    status.totals.eta_low_s, status.totals.eta_high_s = 43_800.0, 51_600.0
    return status


def with_losses() -> RunStatus:
    """Finished, with some prompts refused and some samples given up."""
    data = dataset(
        "B1", stage=DatasetStage.FINISHED, prompts=980, done=970, failed=10, quarantined=10, refused=20,
        completion_tokens=1_000_000, avg_completion_tokens=1_030.9, tokens_per_s=0.0, eta_s=0.0,
    )  # fmt: skip
    totals = msgspec.structs.replace(data, name="total", stage=None)
    return run_status(
        state=RunState.FINISHED, daemon=DaemonStatus(alive=False), stages=["generate"], datasets=[data], totals=totals
    )


def stalled() -> RunStatus:
    """Nobody can say when it is done, and the reason is long."""
    reason = "http://127.0.0.1:30001 refused: its layers are [2, 30, 57], run.toml asks for [2, 30, 58]"
    status = running()
    status.state, status.reason = RunState.STALLED, reason
    status.totals.eta_s, status.totals.eta_why = None, f"stalled: {reason}"
    return status


def _hidden(to_store: int, stored: int, **over: Any) -> HiddenStatus:
    values: dict[str, Any] = {
        "to_store": to_store, "stored": stored, "tokens": 1_300 * stored, "bytes": 57_000_000 * stored,
        "mb_per_s": 57.3, "failed": 2, "given_up": 0, "skipped": 0, "truncated": 0, "in_work": 0,
    }  # fmt: skip
    return HiddenStatus(**(values | over))
