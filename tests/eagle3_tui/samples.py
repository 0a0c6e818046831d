"""Statuses as the monitor would make them, for the screens' tests; a source that hands them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contracts.commands import Command, Reply
from contracts.records import Event, GpuReading, HostSample, ServerReading, Severity
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

NOW = 1_700_000_000.0
"""2023-11-14 22:13:20 UTC."""


def dataset(name: str, stage: DatasetStage | None = DatasetStage.RUNNING, **over: Any) -> DatasetStatus:
    values: dict[str, Any] = {
        "name": name,
        "stage": stage,
        "prompts": 9_000,
        "refused": 0,
        "done": 7_412,
        "failed": 0,
        "quarantined": 0,
        "in_flight": 62,
        "waiting_retry": 0,
        "unreadable": 0,
        "unknown_counts": 0,
        "duplicates": 0,
        "incomplete": 0,
        "prompt_tokens": 1_400_000,
        "completion_tokens": 8_197_672,
        "avg_completion_tokens": 1106.0,
        "target_tokens": 10_000_000,
        "overrun_tokens": None,
        "tokens_per_s": 1402.0,
        "tokens_per_s_run": 1390.0,
        "eta_s": 1_285.0,
        "length_pct": 1.1,
        "truncated": 82,
    }
    return DatasetStatus(**(values | over))


def ten_datasets() -> list[DatasetStatus]:
    idle: dict[str, Any] = {"in_flight": 0, "tokens_per_s": None, "tokens_per_s_run": None, "eta_s": None}
    nothing: dict[str, Any] = {
        **idle, "done": 0, "completion_tokens": 0, "avg_completion_tokens": None, "length_pct": None, "truncated": 0,
        "prompt_tokens": 0,
    }  # fmt: skip
    pre = DatasetStage.PRETOKENIZED
    return [
        dataset("A1_openthoughts", pre, prompts=9_800, target_tokens=None, **nothing),
        dataset("A2_openmathreasoning", pre, prompts=9_800, target_tokens=None, **nothing),
        dataset("A3_mixtureofthoughts", pre, prompts=12_000, target_tokens=None, **nothing),
        dataset("A4_sharegpt", pre, prompts=8_200, target_tokens=None, **nothing),
        dataset("B1_opencodeinstruct", failed=4),
        dataset(
            "B2_magicoder", prompts=9_000, done=3_120, completion_tokens=3_397_680, avg_completion_tokens=1089.0,
            tokens_per_s=1439.0, eta_s=14_588.0, failed=8, quarantined=1, length_pct=0.9, in_flight=186,
        ),
        dataset(
            "B3_metamath", DatasetStage.FINISHED, done=8_811, completion_tokens=10_004_120, overrun_tokens=4_120,
            **(idle | {"length_pct": 0.2, "avg_completion_tokens": 1135.0}),
        ),
        dataset("B4_ultrachat", DatasetStage.WAITING, prompts=8_600, **(nothing | {"eta_s": 38_000.0})),
        dataset("B5_tulu3", DatasetStage.WAITING, prompts=8_600, **(nothing | {"eta_s": 42_000.0})),
        dataset("B6_wildchat", DatasetStage.WAITING, prompts=8_600, **(nothing | {"eta_s": 47_100.0})),
    ]  # fmt: skip


def totals(datasets: list[DatasetStatus], **over: Any) -> DatasetStatus:
    def add(key: str) -> int | None:
        known = [value for entry in datasets if (value := getattr(entry, key)) is not None]
        return sum(known) if known else None

    summed = {
        key: add(key)
        for key in (
            "prompts", "refused", "done", "failed", "quarantined", "in_flight", "waiting_retry", "unreadable",
            "unknown_counts", "duplicates", "incomplete", "prompt_tokens", "completion_tokens", "target_tokens",
            "tokens_per_s", "tokens_per_s_run", "truncated",
        )
    }  # fmt: skip
    done = summed["done"]
    mean = summed["completion_tokens"] / done if summed["completion_tokens"] and done else None
    eta = max((entry.eta_s for entry in datasets if entry.eta_s is not None), default=None)
    return dataset("total", None, **(summed | {"avg_completion_tokens": mean, "eta_s": eta, "length_pct": 0.8} | over))


def hidden(**over: Any) -> HiddenStatus:
    values: dict[str, Any] = {
        "to_store": 7_412, "stored": 7_398, "tokens": 9_600_000, "bytes": 550 * 10**9, "mb_per_s": 57.3, "failed": 2,
        "given_up": 0, "skipped": 0, "truncated": 0, "in_work": 0, "checks": {},
    }  # fmt: skip
    return HiddenStatus(**(values | over))


def storing(count: int = 10, **over: Any) -> RunStatus:
    """A run that stores hidden states: the pre-tokenized ones by passes, the others while they are generated."""
    datasets = ten_datasets()[:count]
    for index, data in enumerate(datasets):
        if data.stage is DatasetStage.PRETOKENIZED:
            data.pretokenized = data.prompts
            data.stage = DatasetStage.FINISHED if index == 0 else DatasetStage.EXTRACTING
            part = data.prompts if index == 0 else 4_100 if index == 1 else 0
            data.hidden = hidden(to_store=data.prompts, stored=part, in_work=16 * (index == 1), failed=0)
            data.eta_s = 0.0 if index == 0 else 9_000.0 if index == 1 else None
        else:
            left = 12 * (data.stage is DatasetStage.RUNNING)
            data.hidden = hidden(to_store=data.done, stored=data.done - left, failed=0)
    datasets[4].hidden = hidden(checks={"ids": 2, "zero_row": 1})
    parts = [data.hidden for data in datasets if data.hidden is not None]
    everything = hidden(
        to_store=sum(part.to_store or 0 for part in parts), stored=sum(part.stored for part in parts), in_work=16,
        bytes=2_310 * 10**9, checks={"ids": 2, "zero_row": 1},
    )  # fmt: skip
    values: dict[str, Any] = {
        "datasets": datasets,
        "totals": totals(datasets, hidden=everything),
        "stages": ["generate", "extract"],
        "dump_used_bytes": 3_100_000_000,
        "dump_budget_bytes": 16_000_000_000,
        "taking": 7,
        "disk_full_in_s": 40_300.0,
    }
    return running(**(values | over))


def extracting() -> RunStatus:
    """A run that only extracts, in trouble: the store is full, some samples are given up."""
    status = storing(7, stages=["extract"], store_trouble="/data: No space left on device", alerts=[STORE_FULL])
    for data in (*status.datasets, status.totals):
        data.target_tokens, data.tokens_per_s, data.in_flight, data.eta_s = None, 0.0, 0, None
        if data.stage is DatasetStage.RUNNING:
            data.stage = DatasetStage.EXTRACTING
    assert status.totals.hidden is not None
    status.totals.hidden.given_up, status.totals.hidden.skipped = 4, 31
    return status


def gpus(count: int) -> list[GpuReading]:
    return [
        GpuReading(
            index=index,
            uuid=f"GPU-{index:04}",
            name="H200",
            utilization_pct=float(99 - (index * 3) % 11),
            memory_used_bytes=(88 + index % 3) * 10**9,
            memory_total_bytes=96 * 10**9,
            power_w=541.0 - index,
            power_limit_w=600.0,
            temperature_c=float(66 + index % 8),
        )
        for index in range(count)
    ]


def host() -> HostSample:
    return HostSample(
        at=NOW, cpu_pct=34.0, load_1m=12.4, memory_used_bytes=121 * 10**9, memory_total_bytes=512 * 10**9,
        disk_free_bytes=2_310 * 10**9, disk_total_bytes=7_000 * 10**9, shm_free_bytes=240 * 10**9,
        shm_total_bytes=256 * 10**9,
    )  # fmt: skip


def server(port: int = 30000, **over: Any) -> ServerReading:
    values: dict[str, Any] = {
        "url": f"http://127.0.0.1:{port}", "state": "ok", "version": "0.5.23", "model": "GLM-4.6", "running": 248,
        "queued": 31, "kv_usage_pct": 81.0, "tokens_per_s": 2_861.0, "retracted": 0, "outstanding": 248,
    }  # fmt: skip
    return ServerReading(**(values | over))


def running(**over: Any) -> RunStatus:
    datasets = over.pop("datasets", None) or ten_datasets()
    values: dict[str, Any] = {
        "run": "synth_100k",
        "path": "/data/synth_100k",
        "state": RunState.RUNNING,
        "reason": None,
        "at": NOW,
        "daemon": DaemonStatus(alive=True, pid=4242, since=NOW - 15_120, heartbeat_age_s=0.4),
        "concurrency": 256,
        "elapsed_s": 15_120.0,
        "totals": totals(datasets),
        "datasets": datasets,
        "gpus": gpus(8),
        "gpu_state": "ok",
        "servers": [server()],
        "host": host(),
        "alerts": [],
        "unreadable": [],
    }
    return RunStatus(**(values | over))


def alert(code: str, severity: Severity, message: str, **over: Any) -> AlertStatus:
    return AlertStatus(code=code, severity=severity, message=message, since=over.pop("since", NOW - 240), **over)


LENGTH_ALERT = alert(
    "length_share", Severity.WARNING, "6.4 % of answers stop by length in the last 500 (limit 5 %)",
    dataset="B2_magicoder", advice="Raise sampling.max_new_tokens, or accept it: set alerts.length_pct in run.toml.",
)  # fmt: skip
NO_PROGRESS = alert(
    "no_progress", Severity.CRITICAL, "nothing has come back for 6m 10s while 248 requests are open",
    advice="Look at the server's log; restart it: what was in flight is sent again, nothing is lost.", since=NOW - 370,
)  # fmt: skip
STORE_FULL = alert(
    "store_trouble", Severity.CRITICAL, "nothing can be stored: /data: No space left on device",
    advice="Make room, or repair the disk. Captured samples wait in the dump folder; it goes on by itself.",
)  # fmt: skip


def stopped() -> RunStatus:
    datasets = [
        dataset("B1_opencodeinstruct", DatasetStage.WAITING, in_flight=None, tokens_per_s=None, eta_s=None),
        dataset("B2_magicoder", DatasetStage.WAITING, in_flight=None, tokens_per_s=None, eta_s=None, done=3_120),
    ]
    return running(
        datasets=datasets,
        state=RunState.STOPPED,
        reason="no daemon, and 7,468 samples are left; go on with: eagle3 start /data/synth_100k",
        daemon=DaemonStatus(alive=False, pid=None, since=None),
        concurrency=None,
        elapsed_s=None,
        gpus=None,
        gpu_state=None,
        servers=[],
        host=None,
    )


def finished() -> RunStatus:
    datasets = [
        dataset(
            name, DatasetStage.FINISHED, done=8_811, completion_tokens=10_004_120, overrun_tokens=4_120, in_flight=0,
            tokens_per_s=None, eta_s=0.0,
        )
        for name in ("B1_opencodeinstruct", "B2_magicoder")
    ]  # fmt: skip
    return running(
        datasets=datasets,
        state=RunState.FINISHED,
        daemon=DaemonStatus(alive=False),
        servers=[],
        gpus=[],
        gpu_state="no NVIDIA driver",
    )


def foreign() -> RunStatus:
    """The founding incident: ten data sets of other tools, two lines that nobody can read."""
    unknown: dict[str, Any] = {
        "in_flight": None, "waiting_retry": None, "target_tokens": None, "eta_s": None, "tokens_per_s_run": None,
    }  # fmt: skip
    watching = DatasetStage.WATCHING
    datasets = [
        dataset(f"A{n}_pre", DatasetStage.PRETOKENIZED, done=0, completion_tokens=None, avg_completion_tokens=None,
                length_pct=None, tokens_per_s=None, **unknown)
        for n in range(1, 5)
    ]  # fmt: skip
    datasets += [dataset(f"B{n}_generated", watching, unreadable=2 * (n == 2), **unknown) for n in range(1, 7)]
    file = "/data/old/prepared/B2_generated/raw_responses.jsonl"
    return running(
        run="old",
        path="/data/old",
        datasets=datasets,
        state=RunState.WATCHING,
        daemon=DaemonStatus(alive=None),
        concurrency=None,
        elapsed_s=None,
        gpus=None,
        gpu_state=None,
        servers=[],
        host=None,
        alerts=[
            alert(
                "unreadable",
                Severity.CRITICAL,
                "2 lines fit no known shape; they are counted nowhere",
                dataset="B2_generated",
                advice=f"First: {file}, byte 88,120: not JSON. Shapes: eagle3 schema response",
            )
        ],
        unreadable=[UnreadableLine(file=file, offset=88_120, line=41, why="not JSON")],
    )


CJK_NAMES = (
    "日本語データセット", "中文指令微调数据集_第一版", "한국어_지시", "é漢_混ぜ", "👩‍👩‍👧-family", "combining_é",
    "שלום_עולם", "plain_ascii", "ｆｕｌｌｗｉｄｔｈ", "[bold red]not markup[/]",
)  # fmt: skip


def many_datasets() -> RunStatus:
    datasets = [
        dataset(f"{CJK_NAMES[index % len(CJK_NAMES)]}_{index}", failed=index % 3, done=100 * index)
        for index in range(30)
    ]
    return running(datasets=datasets)


def events(count: int = 8) -> list[Event]:
    some = [
        (Severity.INFO, "daemon.started", "daemon 4242 started, concurrency 256", None),
        (Severity.INFO, "dataset.finished", "target reached: 10,004,120 of 10,000,000 tokens", "B3_metamath"),
        (Severity.CRITICAL, "server.down", "http://127.0.0.1:30000 is down: connection refused", None),
        (Severity.INFO, "server.up", "http://127.0.0.1:30000 is back after 34 s; 251 samples sent again, none lost",
         None),
        (Severity.WARNING, "alert.raised", "6.4 % of answers stop by length in the last 500 (limit 5 %)",
         "B2_magicoder"),
    ]  # fmt: skip
    return [
        Event(at=NOW - 60.0 * (count - index), severity=severity, kind=kind, message=message, dataset=about)
        for index in range(count)
        for severity, kind, message, about in [some[index % len(some)]]
    ]


class FakeMonitor:
    """Hands out what it was given, as `contracts.monitor.Monitor` would."""

    def __init__(self, status: RunStatus, shown: list[Event] | None = None, folders: list[Path] | None = None) -> None:
        self.status = status
        self.events = events() if shown is None else shown
        self.folders = folders or []
        self.error: OSError | None = None

    def refresh(self) -> RunStatus:
        if self.error is not None:
            raise self.error
        return self.status

    def last_events(self, count: int, /) -> list[Event]:
        return self.events[-count:]

    def watch_paths(self) -> list[Path]:
        return self.folders


class FakeSender:
    """Remembers the commands and answers each with the same reply, or raises."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply or Reply(ok=True, message="done")
        self.sent: list[Command] = []
        self.error: Exception | None = None

    def __call__(self, command: Command) -> Reply:
        self.sent.append(command)
        if self.error is not None:
            raise self.error
        return self.reply


SCENES = {
    "running": lambda: running(),
    "warning": lambda: running(alerts=[LENGTH_ALERT]),
    "paused": lambda: running(state=RunState.PAUSED, reason="by command"),
    "stalled": lambda: running(
        state=RunState.STALLED, reason="248 requests are open, no answer for 6m 10s", alerts=[LENGTH_ALERT, NO_PROGRESS]
    ),
    "stopped": stopped,
    "finished": finished,
    "foreign": foreign,
    "no_gpu": lambda: running(gpus=[], gpu_state="no NVIDIA driver on this machine"),
    "gpus_16": lambda: running(gpus=gpus(16), servers=[server(30000), server(30001, state="down", reason="refused")]),
    "cjk": many_datasets,
    "storing": storing,
    "extracting": extracting,
}
