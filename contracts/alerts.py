"""What a person should know now, as pure functions of (fold, telemetry, now).

Each alert has a code, a threshold in ``[alerts]`` of run.toml, and goes away when its cause does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from contracts.fold.dataset import DatasetFold
from contracts.fold.events import alert_key
from contracts.fold.history import Bucket
from contracts.fold.run import RunFold
from contracts.liveness import Liveness
from contracts.rates import median_tokens_per_s, tokens_per_s
from contracts.records import GpuSample, Heartbeat, HostSample, NextStep, ServerSample, Severity
from contracts.run_config import Alerts
from contracts.status import AlertStatus

RAMP_UP_S: Final = 300.0
"""So long after a start or a pause nothing is called slow."""

RECENT_S: Final = 900.0
"""Shares (length, failures, aborts, unclosed thinking) are judged over this long."""


@dataclass(frozen=True)
class View:
    """All that alerts are judged from."""

    fold: RunFold
    liveness: Liveness
    heartbeat: Heartbeat | None
    """The living daemon's own."""
    now: float
    heartbeat_age_s: float | None
    finished: bool

    @property
    def limits(self) -> Alerts:
        """Thresholds."""
        return self.fold.config.alerts if self.fold.config else Alerts()


def current_alerts(view: View) -> list[AlertStatus]:
    """Return every alert that holds now; the worst first, then by code and data set."""
    found: list[AlertStatus] = []
    for dataset in view.fold.datasets.values():
        for rule in (_tokens_zero, _unreadable, _count_mismatch, _halted, _quarantined, _shares):
            found += rule(view, dataset)
    found += _unreadable_events(view)
    if view.liveness.alive:
        for watch in (_no_progress, _slow, _heartbeat_stale, _telemetry_stale, _servers, _disk):
            found += watch(view)
    opened = view.fold.events.open_alerts
    for alert in found:
        alert.since = opened.get(alert_key(alert.code, alert.dataset))
    order = list(Severity)[::-1]
    return sorted(found, key=lambda alert: (order.index(alert.severity), alert.code, alert.dataset or ""))


def _alert(code: str, severity: Severity, message: str, advice: str, dataset: DatasetFold | None = None) -> AlertStatus:
    name = None if dataset is None else dataset.name
    if name is not None:
        message = f"{name}: {message}"
    return AlertStatus(code=code, severity=severity, message=message, since=None, dataset=name, advice=advice)


def _tokens_zero(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    responses = dataset.responses
    if not responses.done or responses.completion_tokens:
        return
    stated = "their token counts add up to 0" if responses.known else "none of them states a token count"
    yield _alert(
        "tokens_zero",
        Severity.CRITICAL,
        f"{len(responses.done)} responses are there, but {stated}",
        "The producer's record shape may have changed: look at the newest lines of raw_responses.jsonl.",
        dataset,
    )


def _unreadable(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    for file, places in dataset.unreadable_places():
        if not places.count:
            continue
        first = places.first[0]
        lines = {"prompts.jsonl": dataset.prompts.lines, "failures.jsonl": dataset.failures.lines}
        of_lines = lines.get(file, dataset.responses.lines)
        severity = Severity.CRITICAL if places.count * 10 > of_lines and places.count > 10 else Severity.WARNING
        yield _alert(
            "unreadable_lines",
            severity,
            f"{places.count} of {of_lines} lines of {file} fit no known shape; the first is line {first.line} "
            f"(byte {first.offset}): {first.why}",
            "They are not in any count. Repair or remove the lines; their samples are sent again if prompts are there.",
            dataset,
        )


def _unreadable_events(view: View) -> Iterator[AlertStatus]:
    places = view.fold.events.unreadable
    if places.count:
        yield _alert(
            "unreadable_lines",
            Severity.WARNING,
            f"{places.count} lines of events.jsonl fit no known shape; the first is line {places.first[0].line}",
            "Targets, concurrency or pauses that they held are lost: check them with eagle3 status.",
        )


def _count_mismatch(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    places = dataset.responses.contradictions
    if places.count:
        first = places.first[0]
        yield _alert(
            "count_mismatch",
            Severity.CRITICAL,
            f"{places.count} responses contradict themselves; the first is line {first.line} (byte {first.offset}): "
            f"{first.why}",
            "Do not train on this file before you know which of the two is right.",
            dataset,
        )


def _halted(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    if dataset.failures.halted is not None:
        yield _alert(
            "dataset_halted",
            Severity.CRITICAL,
            f"stopped, the server's answers do not hold what was agreed: {dataset.failures.halted}",
            f"Check the server (eagle3 check), then: eagle3 retry --dataset {dataset.name} --class contract_drift",
            dataset,
        )


def _quarantined(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    held = [failure for _, failure in dataset.open_failures() if failure.next is NextStep.QUARANTINED]
    if held:
        last = max(held, key=lambda failure: failure.at)
        yield _alert(
            "quarantined",
            Severity.WARNING,
            f"{len(held)} samples are given up after their last attempt; newest: {last.error}: {last.message}",
            f"Try them again with: eagle3 retry --dataset {dataset.name}",
            dataset,
        )


def _shares(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    """Judge recent outcomes; in files without time stamps, all of them."""
    limits, responses = view.limits, dataset.responses
    if not responses.history.is_empty or not dataset.failures.history.is_empty:
        recent = responses.history.since(view.now - RECENT_S)
        recent.add(dataset.failures.history.since(view.now - RECENT_S))
    else:
        recent = Bucket(
            responses=len(responses.done),
            lengths=responses.finish_reasons.get("length", 0),
            think_missing=responses.think_missing,
            failures=len(responses.failures),
        )
    outcomes = recent.responses + recent.failures
    judged = (
        ("length_share", recent.lengths, recent.responses, limits.length_share_pct, "end by length",
         "Raise [sampling] max_new_tokens, or accept cut answers and raise [alerts] length_share_pct."),
        ("failure_share", recent.failures, outcomes, limits.failure_share_pct, "of attempts fail",
         "See why: eagle3 events, and failures.jsonl of the data set."),
        ("abort_share", recent.aborts, outcomes, limits.abort_share_pct, "of attempts are aborted by the server",
         "See the server's log: it may be out of KV memory, or somebody aborts requests."),
        ("think_end_missing", recent.think_missing, recent.responses, limits.think_end_missing_pct,
         "never close their thinking part", "Raise [sampling] max_new_tokens, or check think_end_token."),
    )  # fmt: skip
    for code, count, of, limit, words, advice in judged:
        if of >= limits.min_samples and count * 100 > limit * of:
            yield _alert(
                code, Severity.WARNING, f"{count} of {of} recent outcomes ({count * 100 / of:.1f} %) {words}, limit "
                f"{limit:g} %", advice, dataset,
            )  # fmt: skip


def _no_progress(view: View) -> Iterator[AlertStatus]:
    waited, heartbeat = stalled_for_s(view), view.heartbeat
    if waited is not None and heartbeat is not None:
        open_requests = sum(heartbeat.in_flight.values())
        yield _alert(
            "no_progress",
            Severity.CRITICAL,
            f"nothing has come back for {waited:.0f} s while {open_requests} requests are open",
            "Look at the server's log. A hanging server must be restarted; nothing is lost by that.",
        )


def stalled_for_s(view: View) -> float | None:
    """Return for how long nothing came back while requests were open, when that is too long."""
    heartbeat = view.heartbeat
    if heartbeat is None or not sum(heartbeat.in_flight.values()):
        return None
    waited = heartbeat.since_progress_s
    return waited if waited is not None and waited >= view.limits.stall_after_s else None


def _slow(view: View) -> Iterator[AlertStatus]:
    heartbeat, events = view.heartbeat, view.fold.events
    if heartbeat is None or heartbeat.state != "running" or view.finished or events.session_started_at is None:
        return
    if not sum(heartbeat.in_flight.values()) or _began_lately(view):
        return
    histories = [dataset.responses.history for dataset in view.fold.datasets.values()]
    median = median_tokens_per_s(histories, view.now, events.session_started_at)
    speeds = [tokens_per_s(history, view.now, events.session_started_at, 120.0) for history in histories]
    if median is None:
        return
    speed = sum(each for each in speeds if each is not None)
    if speed * 100 < view.limits.slow_share_pct * median:
        yield _alert(
            "slow",
            Severity.WARNING,
            f"{speed:,.0f} tokens/s over the last two minutes, the median of this run is {median:,.0f}",
            "Look at the servers and GPUs: fewer requests running, retractions, clocks throttled by heat or power?",
        )


def _began_lately(view: View) -> bool:
    """Whether the run was started or resumed so lately that its first answers are only coming in."""
    events = view.fold.events
    began = [at for at in (events.session_started_at, events.resumed_at) if at is not None]
    return bool(began) and view.now - max(began) < RAMP_UP_S


def _heartbeat_stale(view: View) -> Iterator[AlertStatus]:
    age = view.heartbeat_age_s
    if age is not None and age >= view.limits.heartbeat_stale_s:
        yield _alert(
            "heartbeat_stale",
            Severity.CRITICAL,
            f"the daemon is there but has not said anything for {age:.0f} s",
            "It hangs, or its disk does. Look at daemon.log; eagle3 stop and start lose nothing.",
        )


def _telemetry_stale(view: View) -> Iterator[AlertStatus]:
    heartbeat, telemetry, started = view.heartbeat, view.fold.telemetry, view.fold.events.session_started_at
    if heartbeat is None or view.fold.config is None:
        return
    samples: list[tuple[str, GpuSample | HostSample | ServerSample | None]]
    samples = [("host", telemetry.host), ("servers", telemetry.server)]
    if view.fold.config.telemetry.gpus:
        samples.append(("GPUs", telemetry.gpu))
    for what, sample in samples:
        # Of this session: right after a start the newest sample is one of the daemon before.
        times = [at for at in (started, None if sample is None else sample.at) if at is not None]
        age = heartbeat.at - max(times) if times else 0.0
        if age >= view.limits.telemetry_stale_s:
            yield _alert(
                "telemetry_stale",
                Severity.WARNING,
                f"the readings of {what} are {age:.0f} s old: what is shown of them is not the present",
                "The driver or server behind them hangs; see daemon.log.",
            )


def _servers(view: View) -> Iterator[AlertStatus]:
    sample = view.fold.telemetry.server
    if sample is None:
        return
    down = [server for server in sample.servers if server.state == "down"]
    if down:
        every = len(down) == len(sample.servers)
        yield _alert(
            "server_down",
            Severity.CRITICAL if every else Severity.WARNING,
            f"{len(down)} of {len(sample.servers)} servers do not answer: "
            + "; ".join(f"{server.url} ({server.reason})" for server in down[:4]),
            "Start it again; its work waits and goes on by itself.",
        )


def _disk(view: View) -> Iterator[AlertStatus]:
    host = view.fold.telemetry.host
    if host is None or host.disk_free_bytes is None:
        return
    least = view.limits.disk_free_min_gb * 1e9
    if host.disk_free_bytes < least:
        yield _alert(
            "disk_short",
            Severity.CRITICAL,
            f"{host.disk_free_bytes / 1e9:.1f} GB are free on the run's disk, limit "
            f"{view.limits.disk_free_min_gb:g} GB",
            "Make room. When it is full the run pauses, and goes on by itself when there is room.",
        )
