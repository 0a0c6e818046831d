"""How far the work is and when it is done, in words: ``97 % + 3 % given up``, ``ETA 4h 12m (80 %: ...)``."""

from __future__ import annotations

from contracts.progress import Progress, overall_progress
from contracts.status import DatasetStatus, RunState, RunStatus
from eagle3_tui.store_text import given_up
from eagle3_tui.text import UNKNOWN, human_duration, human_percent
from eagle3_tui.widgets.bars import whole_percent

_SMALLEST = 0.01


def share_text(progress: Progress) -> str:
    """Return the done share alone: ``97 %``."""
    return whole_percent(progress.done)


def lost_text(progress: Progress, data: DatasetStatus) -> str:
    """Return what will not come, ``3 % given up``; empty where all will.

    Args:
        progress: Of the data set, or of all of them.
        data: Whose it is: where no sample of it is given up, prompts were too few for its target.
    """
    if progress.given_up <= 0:
        return ""
    if progress.done + progress.given_up > 1 - 1e-9:
        share = 1.0 - int(progress.done * 100 + 1e-9) / 100  # the two add up to 100 %
    else:
        share = progress.given_up
    percent = "<1 %" if min(share, progress.given_up) < _SMALLEST else whole_percent(share)
    left_out = 0 if data.hidden is None else data.hidden.skipped
    return f"{percent} {'given up' if given_up(data) + data.refused + left_out else 'short of the target'}"


def progress_text(progress: Progress, data: DatasetStatus) -> str:
    """Return both shares: ``97 % + 3 % given up``."""
    lost = lost_text(progress, data)
    return share_text(progress) + (f" + {lost}" if lost else "")


def left_parts(status: RunStatus) -> list[str]:
    """Return how far it is, when it is done and how sure that is; why nobody can say, where anybody could."""
    totals, parts = status.totals, []
    progress = overall_progress(status)
    if progress is not None:
        parts.append(f"progress {progress_text(progress, totals)}")
    if totals.eta_s is not None:
        eta = "ETA done" if status.state is RunState.FINISHED else f"ETA {human_duration(totals.eta_s)}"
        if totals.eta_s and totals.eta_low_s is not None and totals.eta_high_s is not None:
            eta += f" (80 %: {human_duration(totals.eta_low_s)} to {human_duration(totals.eta_high_s)})"
        parts.append(eta)
    elif totals.eta_why is not None and status.state is not RunState.WATCHING:
        parts.append(f"ETA unknown: {_why(totals.eta_why, status.reason)}")
    elif status.state is not RunState.WATCHING:  # nobody knows how much other tools have to do
        parts.append(f"ETA {UNKNOWN}")
    if totals.length_pct is not None:
        parts.append(f"ended by length {human_percent(totals.length_pct)}")
    return parts


def _why(why: str, reason: str | None) -> str:
    """Return why there is no time, without what the reason of the state says above: ``paused``."""
    if reason is None:
        return why
    return reason.partition(":")[0] if why == reason else why.removesuffix(f": {reason}")
