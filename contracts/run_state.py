"""What a run as a whole is doing, and why; whether it can send anything."""

from __future__ import annotations

from typing import Final

from contracts.alerts import View, extraction_stalled_for_s, stalled_for_s
from contracts.status import RunState
from contracts.wording import counted

STARTING_S: Final = 60.0
"""So long after a daemon's start nothing that cannot be sent is called stalled: its servers may be starting too."""


def run_state(view: View) -> tuple[RunState, str | None]:
    """Return the state, and why it is in it where there is more to say."""
    if view.fold.config is None:
        return RunState.WATCHING, "a folder of other tools, read only"
    if not view.liveness.alive:
        return _without_daemon(view)
    heartbeat = view.heartbeat
    if view.heartbeat_age_s is not None and view.heartbeat_age_s >= view.limits.heartbeat_stale_s:
        return RunState.STALLED, f"no heartbeat of the daemon for {view.heartbeat_age_s:.0f} s"
    if heartbeat is None:
        return RunState.RUNNING, "starting"
    waited = stalled_for_s(view)
    if waited is not None:
        draining = "draining: " if heartbeat.state == "draining" else ""
        return RunState.STALLED, f"{draining}nothing for {waited:.0f} s, {counted(view.open_requests, 'request')} open"
    waited = extraction_stalled_for_s(view)
    if waited is not None and not sum(heartbeat.in_flight.values()):
        return (
            RunState.STALLED,
            f"no hidden states stored for {waited:.0f} s, {counted(view.open_requests, 'pass', 'passes')} open",
        )
    in_hand = view.open_requests + heartbeat.taking
    if heartbeat.state == "paused":
        return RunState.PAUSED, heartbeat.reason
    if heartbeat.state == "draining":
        return RunState.DRAINING, heartbeat.reason
    if view.finished and not in_hand:
        return RunState.FINISHED, heartbeat.reason
    if heartbeat.blocked is not None and not in_hand:
        started = _started_at(view)
        ramping = started is not None and view.now - started < STARTING_S
        return RunState.RUNNING if ramping else RunState.STALLED, heartbeat.blocked
    return RunState.RUNNING, heartbeat.reason


def can_send(view: View) -> bool:
    """Whether the living daemon can send at all, as far as its heartbeat and the newest readings tell."""
    heartbeat, sample = view.heartbeat, view.fold.telemetry.server
    if heartbeat is None or heartbeat.blocked is not None:
        return False
    if sample is None or not sample.servers or heartbeat.at - sample.at >= view.limits.telemetry_stale_s:
        return True  # of the servers nothing is known
    started = _started_at(view)
    if started is not None and sample.at < started:
        return True  # the readings are of a daemon before this one
    return any(server.state == "ok" for server in sample.servers)


def _without_daemon(view: View) -> tuple[RunState, str | None]:
    if view.finished:
        return RunState.FINISHED, None
    if view.liveness.alive is None:
        return RunState.STOPPED, "cannot tell whether a daemon runs: daemon.lock may not be read"
    return RunState.STOPPED, f"no daemon is running, and work is left; go on with: eagle3 start {view.fold.run.path}"


def _started_at(view: View) -> float | None:
    """Return when the living daemon started; its lock is older than its first event."""
    return view.liveness.since if view.liveness.since is not None else view.fold.events.session_started_at
