"""Alerts on the run as a whole: its daemon, servers, disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts.alerts.view import View, make_alert
from contracts.disks import RUN, STORE, disk_words, disks_of, folder_on, see_what_fills
from contracts.rates import tokens_per_s
from contracts.records import DiskReading, GpuSample, HostSample, ServerSample, Severity
from contracts.status import AlertStatus
from contracts.wording import clock_time, counted, human_bytes, listed

RAMP_UP_S: Final = 300.0
"""So long after a start or a pause nothing is called slow."""


def unreadable_files(view: View) -> Iterator[AlertStatus]:
    """Yield an alert when events or the newest telemetry cannot be read; with or without a daemon."""
    places = view.fold.events.unreadable
    found, advice = [], []
    if places.count:
        found.append(f"{counted(places.count, 'line')} of events.jsonl, the first is line {places.first[0].line}")
        advice.append(
            f"Targets, concurrency or pauses that they held are lost: check them with eagle3 status {view.run}."
        )
    garbled = view.fold.telemetry.garbled()
    found += [
        f"the last {'line' if each.count == 1 else f'{each.count} lines'} of telemetry/{each.path.name} "
        f"(byte {each.offset}: {each.why})"
        for each in garbled
    ]
    if garbled:
        advice.append("What is shown of these readings is old. Another version, or the disk, may have written them.")
    if found:
        yield make_alert(
            "unreadable_lines", Severity.WARNING, f"fit no known shape: {'; '.join(found)}", " ".join(advice)
        )


def daemon_gone(view: View) -> Iterator[AlertStatus]:
    """Yield an alert when work is left and the daemon ended without saying so."""
    since = view.gone_since
    if since is not None and not view.finished:
        alert = make_alert(
            "daemon_gone",
            Severity.CRITICAL,
            f"the daemon is gone without a word; last heard of {clock_time(since, view.now)}",
            f"Killed, out of memory (dmesg), power? See daemon.log. Go on with: eagle3 start {view.run}; only what was "
            "in flight is repeated.",
        )
        alert.since = since
        yield alert


def _no_progress(view: View) -> Iterator[AlertStatus]:
    waited = stalled_for_s(view)
    if waited is not None:
        yield make_alert(
            "no_progress",
            Severity.CRITICAL,
            f"nothing has come back for {waited:.0f} s while "
            f"{counted(view.open_requests, 'request is', 'requests are')} open",
            "Look at the server's log. A hanging server must be restarted; nothing is lost by that.",
        )


def stalled_for_s(view: View) -> float | None:
    """Return for how long nothing came back while requests were open, when that is too long."""
    heartbeat = view.heartbeat
    if heartbeat is None or not view.open_requests:
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
    median = view.fold.median_speed(histories, view.now, events.session_started_at)
    speeds = [tokens_per_s(history, view.now, events.session_started_at, 120.0) for history in histories]
    if median is None:
        return
    speed = sum(each for each in speeds if each is not None)
    if speed * 100 < view.limits.slow_share_pct * median:
        yield make_alert(
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
        yield make_alert(
            "heartbeat_stale",
            Severity.CRITICAL,
            f"the daemon is there but has not said anything for {age:.0f} s",
            f"It hangs, or its disk does: see daemon.log, try eagle3 stop {view.run}. If that gets no answer: kill -9 "
            f"{view.liveness.pid or 'its pid'}, then eagle3 start {view.run}; only what is in flight is repeated.",
        )


def _telemetry_stale(view: View) -> Iterator[AlertStatus]:
    heartbeat, started = view.heartbeat, view.fold.events.session_started_at
    if heartbeat is None or view.fold.config is None:
        return
    samples: list[tuple[str, GpuSample | HostSample | ServerSample | None]]
    samples = [("host", view.host), ("servers", view.server)]
    if view.fold.config.telemetry.gpus:
        samples.append(("GPUs", view.gpu))
    missing, old = [], []
    for what, sample in samples:
        since = started if sample is None else sample.at
        age = 0.0 if since is None else heartbeat.at - since
        if age < view.limits.telemetry_stale_s:
            continue
        if sample is None:
            missing.append(what)
        else:
            old.append(f"{what} ({age:.0f} s)")
    said = [f"no readings of {listed(missing)} since the start"] if missing else []
    if old:
        said.append(f"the readings of {listed(old)} are old: what is shown of them is not the present")
    if said:
        advice = "The driver or server behind them hangs; see daemon.log."
        yield make_alert("telemetry_stale", Severity.WARNING, "; ".join(said), advice)


def _slow_requests(view: View) -> Iterator[AlertStatus]:
    heartbeat = view.heartbeat
    if heartbeat is None or stalled_for_s(view) is not None:
        return
    oldest, limit = heartbeat.oldest_request_s, view.limits.old_request_s
    if oldest is not None and oldest >= limit:
        yield make_alert(
            "slow_requests",
            Severity.WARNING,
            f"the oldest of {counted(view.open_requests, 'open request')} has waited for {oldest:.0f} s, "
            f"limit {limit:g} s",
            "Others are answered meanwhile. When its server no longer works on it, restart that server: it is sent "
            "again. Are answers that long, raise [alerts] old_request_s.",
        )


def _server_down(view: View) -> Iterator[AlertStatus]:
    found = _servers_in(view, "down", "does not answer", "do not answer")
    if found is not None:
        yield make_alert("server_down", *found, "Start it again; its work waits and goes on by itself.")


def _server_refused(view: View) -> Iterator[AlertStatus]:
    found = _servers_in(
        view, "refused", "answers, but not as agreed, and gets no work", "answer, but not as agreed, and get no work"
    )
    if found is not None:
        advice = f"Look at it with eagle3 check {view.run}. A server that comes right is used again by itself."
        yield make_alert("server_refused", *found, advice)


def _servers_in(view: View, state: str, one: str, many: str) -> tuple[Severity, str] | None:
    """Return how bad it is, and which servers are in a state, when any is; ``one`` and ``many`` say so of them."""
    sample = view.server
    servers = [] if sample is None else sample.servers
    those = [server for server in servers if server.state == state]
    if not those:
        return None
    named = "; ".join(f"{server.url} ({server.reason})" for server in those[:4])
    severity = Severity.CRITICAL if len(those) == len(servers) else Severity.WARNING
    who = "the server" if len(servers) == 1 else f"{len(those)} of {len(servers)} servers"
    return severity, f"{who} {one if len(those) == 1 else many}: {named}"


def _disk(view: View) -> Iterator[AlertStatus]:
    """Judge each disk that is meant to keep what is written there; dumps have a budget of their own."""
    host, least = view.host, view.limits.disk_free_min_gb * 1e9
    disks = [] if host is None else [disk for disk in disks_of(host) if RUN in disk.uses or STORE in disk.uses]
    short = [disk for disk in disks if disk.free_bytes is not None and disk.free_bytes < least]
    if not short:
        return
    said = [f"{_free(disk)} on {disk_words(disk)}" for disk in short]
    yield make_alert(
        "disk_short",
        Severity.CRITICAL,
        f"{'; '.join(said)}; limit {human_bytes(least)}",
        f"{see_what_fills(folder_on(disk, view.fold) for disk in short)} Make room: a full disk pauses the run, "
        "which goes on by itself when there is room.",
    )


def _free(disk: DiskReading) -> str:
    """Return how much is free, of how much where that is known."""
    whole = "" if disk.total_bytes is None else f" of {human_bytes(disk.total_bytes)}"
    return f"{human_bytes(disk.free_bytes)}{whole} free"


RUN_RULES: Final = (
    _no_progress,
    _slow,
    _heartbeat_stale,
    _telemetry_stale,
    _slow_requests,
    _server_down,
    _server_refused,
    _disk,
)
"""Each yields the alerts of its kind that hold for a run with a living daemon."""
