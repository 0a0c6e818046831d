"""What a run as a whole is doing, and why; whether it can send anything."""

from __future__ import annotations

from typing import Final

from contracts.alerts import View, extraction_stalled_for_s, stalled_for_s
from contracts.remaining import NO_DAEMON
from contracts.status import RunState
from contracts.wording import clock_time, counted
from contracts.work import dataset_work

TARGET_REACHED: Final = "target reached"
_NAMED: Final = 3
"""So many data sets are named in a reason."""
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
        return RunState.FINISHED, heartbeat.reason or _by_target(view)
    if heartbeat.blocked is not None and not in_hand:
        started = view.started_at
        ramping = started is not None and view.now - started < STARTING_S
        return RunState.RUNNING if ramping else RunState.STALLED, heartbeat.blocked
    return RunState.RUNNING, heartbeat.reason


def why_held(view: View, state: RunState, reason: str | None) -> str:
    """Return why nothing comes of a run that is in this state for this reason, or cannot send."""
    if state is RunState.STOPPED:
        return NO_DAEMON
    if state in (RunState.STALLED, RunState.PAUSED):
        return state.value if reason is None else f"{state.value}: {reason}"
    if view.fold.config is None:
        return reason or state.value
    if view.heartbeat is None:
        return "the daemon is starting"
    return view.heartbeat.blocked or "no server can be used"


def can_send(view: View) -> bool:
    """Whether the living daemon can send at all, as far as its heartbeat and the newest readings tell."""
    heartbeat, sample = view.heartbeat, view.server
    if heartbeat is None or heartbeat.blocked is not None:
        return False
    if sample is None or not sample.servers or heartbeat.at - sample.at >= view.limits.telemetry_stale_s:
        return True  # of the servers nothing is known
    return any(server.state == "ok" for server in sample.servers)


def _without_daemon(view: View) -> tuple[RunState, str | None]:
    if view.finished:
        return RunState.FINISHED, _by_target(view)
    if view.liveness.alive is None:
        return RunState.STOPPED, "cannot tell whether a daemon runs: daemon.lock may not be read"
    if view.gone_since is not None:
        since = clock_time(view.gone_since, view.now)
        return RunState.STOPPED, f"no word since {since}, the daemon is gone; go on with: eagle3 start {view.run}"
    return RunState.STOPPED, f"no daemon is running, and work is left; go on with: eagle3 start {view.run}"


def _by_target(view: View) -> str | None:
    """Say of a finished run that token targets ended it, where prompts are left for which no answer is wanted."""
    works = {name: dataset_work(view.fold, dataset) for name, dataset in view.fold.datasets.items()}
    ended = [
        name
        for name, work in works.items()
        if work.target_tokens is not None
        and (work.completion_tokens or 0) >= work.target_tokens
        and work.settled < (work.prompts or 0)
    ]
    if not ended:
        return None
    if len(works) == 1:
        return TARGET_REACHED
    named = ", ".join(ended[:_NAMED]) + (f" and {len(ended) - _NAMED} more" if len(ended) > _NAMED else "")
    return f"{TARGET_REACHED} ({named})"
