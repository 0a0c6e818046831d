"""Alerts on the store and the dump folder of a run with a living daemon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts.alerts.run import stalled_for_s
from contracts.alerts.view import View, make_alert
from contracts.disks import STORE, disk_words, folder_on, full_disks, see_what_fills
from contracts.eta import Storing, bytes_to_store, is_stored
from contracts.fold.dataset import DatasetFold
from contracts.fold.history import History
from contracts.records import Severity
from contracts.status import AlertStatus
from contracts.wording import counted, human_bytes
from contracts.work import extracts

FULL_PCT: Final = 90.0
"""From this share of its budget on the dump folder is nearly full."""
FULL_FOR_S: Final = 120.0
"""That it is so is worth a word only when nothing was stored for so long: full and flowing is full use."""
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0


def _store_trouble(view: View) -> Iterator[AlertStatus]:
    trouble = None if view.heartbeat is None else view.heartbeat.store_trouble
    if trouble is None or view.heartbeat is None:
        return
    goes_on = "it goes on by itself."
    if view.heartbeat.state == "draining":
        goes_on = (
            f"the drain ends once they are stored. `eagle3 stop {view.run}` ends now and leaves them to the next start."
        )
    yield make_alert(
        "store_trouble",
        Severity.CRITICAL,
        f"nothing can be stored: {trouble}",
        f"Make room, or repair the disk. Captured samples wait in the dump folder; {goes_on}",
    )


def _dump_full(view: View) -> Iterator[AlertStatus]:
    heartbeat = view.heartbeat
    if heartbeat is None or heartbeat.dump_used_bytes is None or not heartbeat.dump_budget_bytes:
        return
    used, budget = heartbeat.dump_used_bytes, heartbeat.dump_budget_bytes
    if used * 100 < FULL_PCT * budget or heartbeat.store_trouble is not None:
        return
    idle = _stuck_for_s(view, FULL_FOR_S)
    if idle is not None:
        yield make_alert(
            "dump_budget",
            Severity.WARNING,
            f"the dump folder holds {human_bytes(used)} of {human_bytes(budget)}, and nothing of it was stored for "
            f"{idle:.0f} s",
            "See daemon.log: answers that do not end hold their rows, or the store is slow. More room: [extract] "
            "dump_budget_gb.",
        )


def _store_disk(view: View) -> Iterator[AlertStatus]:
    """Compare what is still to be stored with what is free; that nobody knows it says nothing."""
    if not extracts(view.fold) or view.finished:
        return
    full = next((each for each in full_disks(view.fold, view.host, view.now) if STORE in each.disk.uses), None)
    if full is None or full.disk.free_bytes is None:
        return
    left = [bytes_to_store(storing) for storing in view.storings.values()]
    known = sum(each for each in left if each is not None)
    if known <= full.disk.free_bytes:
        return
    least = "at least " if any(each is None for each in left) else ""
    yield make_alert(
        "store_disk",
        Severity.CRITICAL if full.in_s < HOUR_S else Severity.WARNING,
        f"{disk_words(full.disk)}, is full in {_span(full.in_s)}, before the run is done: {least}{human_bytes(known)} "
        f"are still to be stored, {human_bytes(full.disk.free_bytes)} are free",
        f"{see_what_fills([folder_on(full.disk, view.fold)])} Make room, or move the store to a larger disk. "
        "When it is full the run pauses, and goes on when there is room.",
    )


def _no_extract_progress(view: View) -> Iterator[AlertStatus]:
    waited, heartbeat = extraction_stalled_for_s(view), view.heartbeat
    if waited is not None and heartbeat is not None:
        passes = sum(heartbeat.extracting.values())
        yield make_alert(
            "no_extract_progress",
            Severity.CRITICAL,
            f"no hidden states were stored for {waited:.0f} s while "
            f"{counted(passes, 'prefill pass is', 'prefill passes are')} open and "
            f"{counted(heartbeat.taking, 'capture waits', 'captures wait')}",
            "Look at the server's log and daemon.log: does the server answer, do dumps appear in the dump folder, can "
            "the store be written?",
        )


def extraction_stalled_for_s(view: View) -> float | None:
    """Return for how long nothing was stored and nothing failed while passes were open or captures waited, when that
    is too long."""
    heartbeat = view.heartbeat
    if heartbeat is None or heartbeat.store_trouble is not None or stalled_for_s(view) is not None:
        return None
    if not heartbeat.taking and not sum(heartbeat.extracting.values()):
        return None
    return _stuck_for_s(view, view.limits.stall_after_s)


def _stuck_for_s(view: View, least_s: float) -> float | None:
    """Return for how long nothing was stored and no check failed though there was something to store, when that is
    ``least_s`` or more."""
    events, datasets = view.fold.events, list(view.fold.datasets.values())
    began = [at for at in (events.session_started_at, events.resumed_at) if at is not None]
    if not began:
        return None
    histories = [history for each in datasets for history in (each.hidden.history, each.failures.extract_history)]
    last = _newest(began, histories)
    if view.now - last < least_s:
        return None
    storings = list(view.storings.values())
    if all(is_stored(storing) for storing in storings):
        return None
    if last == max(began) or not _waited_at(datasets, storings, last):
        # What is to be stored came later, with an answer; or passes begin when the answers are done.
        last = _newest([last], [dataset.responses.history for dataset in datasets])
    return view.now - last if view.now - last >= least_s else None


def _newest(times: list[float], histories: list[History]) -> float:
    """Return the latest of some times and of what happened in some histories."""
    return max([*times, *(history.newest for history in histories if history.newest is not None)])


def _waited_at(datasets: list[DatasetFold], storings: list[Storing], at: float) -> bool:
    """Whether something was there to be stored at a time: more than what was answered since."""
    return any(
        (storing.to_store or 0) - storing.settled > dataset.responses.history.since(at).responses
        for dataset, storing in zip(datasets, storings, strict=True)
    )


def _span(seconds: float) -> str:
    if seconds < MINUTE_S:
        return "less than a minute"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < HOUR_S else f"{seconds / HOUR_S:.1f} h"


STORE_RULES: Final = (_store_trouble, _dump_full, _store_disk, _no_extract_progress)
"""Each yields the alerts of its kind that hold for a run with a living daemon."""
