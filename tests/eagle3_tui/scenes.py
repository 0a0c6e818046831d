"""More statuses for the main screen: how a run begins, what goes wrong, and very much of everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from contracts.records import GpuReading, Severity
from contracts.status import DatasetStage, RunState, RunStatus
from tests.eagle3_tui.samples import (
    CJK_NAMES,
    NOW,
    SCENES,
    alert,
    dataset,
    gpus,
    host,
    running,
    server,
    stopped,
    storing,
)

SERVER_DOWN: Final = alert(
    "server_down", Severity.CRITICAL, "http://127.0.0.1:30000 is down: connection refused",
    advice="Look at its log and start it again; samples that were in flight are sent again by themselves.",
)  # fmt: skip
DAEMON_GONE: Final = alert(
    "daemon_gone", Severity.CRITICAL,
    "the daemon is gone without a word; last heard of 21:06:40", since=NOW - 4000,
    advice="Killed, out of memory (dmesg), power? See daemon.log. Go on with: eagle3 start /data/synth_100k; only what "
    "was in flight is repeated.",
)  # fmt: skip
FAILURES: Final = alert(
    "failures", Severity.WARNING, "31 % of the last 500 attempts failed, most of them: 503 queue is full",
    dataset="B2_magicoder", advice="Lower the concurrency (-), or give the server a longer queue.",
)  # fmt: skip


def start() -> RunStatus:
    """The first second: nothing is there yet, and nothing of that is a zero that means something."""
    nothing: dict[str, Any] = {
        "done": 0, "completion_tokens": 0, "prompt_tokens": 0, "avg_completion_tokens": None, "length_pct": None,
        "truncated": 0, "in_flight": None, "waiting_retry": None, "tokens_per_s": None, "tokens_per_s_run": None,
        "eta_s": None, "failed": 0, "quarantined": 0,
    }  # fmt: skip
    datasets = [dataset(f"B{n}_{name}", DatasetStage.WAITING, **nothing) for n, name in enumerate(("code", "chat"), 1)]
    status = running(
        datasets=datasets, reason="starting", elapsed_s=0.4, gpus=None, gpu_state=None, servers=[], host=None,
        concurrency=None,
    )  # fmt: skip
    status.totals.eta_why = "no answer yet"
    return status


def server_down() -> RunStatus:
    status = running(
        state=RunState.STALLED, reason="no server can be used: http://127.0.0.1:30000 is down", alerts=[SERVER_DOWN],
        servers=[server(state="down", reason="connection refused", running=None, queued=None)],
    )  # fmt: skip
    for data in (*status.datasets, status.totals):
        data.eta_s, data.tokens_per_s, data.in_flight = None, 0.0, 0
    return status


def daemon_gone() -> RunStatus:
    """Killed while it worked: how long it ran nobody knows, but when it was last heard of."""
    status = stopped()
    status.daemon.gone_since = NOW - 4000
    status.reason = "no word since 21:06:40, the daemon is gone; go on with: eagle3 start /data/synth_100k"
    status.alerts = [DAEMON_GONE]
    status.totals.tokens_per_s_run = None
    return status


def hundred() -> RunStatus:
    """100 data sets with long names in wide letters."""
    stages = [DatasetStage.RUNNING, DatasetStage.WAITING, DatasetStage.FINISHED, DatasetStage.HALTED]
    datasets = [
        dataset(
            f"{CJK_NAMES[index % len(CJK_NAMES)]}_長い名前のデータセット_第{index}版", stages[index % 4],
            done=90 * index, completion_tokens=98_000 * index, tokens_per_s=13.0 * index if index % 4 == 0 else None,
        )
        for index in range(100)
    ]  # fmt: skip
    return running(datasets=datasets)


def failing() -> RunStatus:
    """Thousands of failures, and a GPU that is gone, one in slices, one that tells little."""
    status = running(alerts=[FAILURES], gpus=gpus(8))
    status.totals.eta_low_s, status.totals.eta_high_s = 43_800.0, 51_600.0
    for data in (status.datasets[5], status.totals):
        data.failed, data.quarantined, data.waiting_retry, data.length_pct = 12_345, 2_310, 8_077, 11.5
    assert status.gpus is not None
    status.gpus[2] = GpuReading(index=2, state="lost", reason="GPU is lost: see dmesg, then restart the machine")
    status.gpus[5] = GpuReading(index=5, state="mig", mig=True, memory_used_bytes=31 * 10**9, processes=3)
    status.gpus[6] = GpuReading(index=6, utilization_pct=3.0, temperature_c=41.0, processes=1)
    return status


def wide_run() -> RunStatus:
    """Two servers with all their figures, and a disk that is full in the afternoon."""
    servers = [server(30000, cache_hit_pct=43.2), server(30001, cache_hit_pct=41.0, retracted=17, running=201)]
    status = storing(servers=servers, host=host(), disk_full_in_s=17_000.0, gpus=gpus(16))
    status.totals.eta_low_s, status.totals.eta_high_s = 43_800.0, 51_600.0
    return status


ALL_SCENES: Final[dict[str, Callable[[], RunStatus]]] = {
    **SCENES,
    "start": start,
    "server_down": server_down,
    "daemon_gone": daemon_gone,
    "hundred": hundred,
    "failing": failing,
    "wide_run": wide_run,
}
