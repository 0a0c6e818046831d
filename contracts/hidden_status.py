"""(fold, heartbeat, now) -> the hidden states' part of the status. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from contracts.eta import Storing
from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.rates import bytes_per_s
from contracts.records import Heartbeat
from contracts.status import HiddenStatus
from contracts.work import extracts


def hidden_status(
    fold: RunFold, dataset: DatasetFold, storing: Storing, heartbeat: Heartbeat | None, now: float
) -> HiddenStatus | None:
    """Return what is stored of a data set; None where the run does not extract and nothing is."""
    hidden = dataset.hidden
    if not extracts(fold) and not hidden.stored:
        return None
    tally = dataset.extract_tally
    speed = None
    if heartbeat is not None:
        speed = bytes_per_s(hidden.history, now, fold.events.session_started_at)
    return HiddenStatus(
        to_store=storing.to_store,
        stored=dataset.stored,
        tokens=hidden.tokens,
        bytes=hidden.stored_bytes,
        mb_per_s=None if speed is None else round(speed / 1e6, 3),
        failed=tally.failed,
        given_up=tally.given_up,
        skipped=tally.skipped,
        truncated=hidden.truncated,
        in_work=heartbeat.extracting.get(dataset.name, 0) if heartbeat else None,
        checks=dict(sorted(dataset.failures.checks.items())),
    )


def hidden_totals(parts: Iterable[HiddenStatus | None]) -> HiddenStatus | None:
    """Add up the data sets that have a part; a sum of which something is unknown is unknown, but for speeds."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    checks: dict[str, int] = {}
    for part in known:
        for kind, count in part.checks.items():
            checks[kind] = checks.get(kind, 0) + count
    to_store = [part.to_store for part in known if part.to_store is not None]
    in_work = [part.in_work for part in known if part.in_work is not None]
    speeds = [part.mb_per_s for part in known if part.mb_per_s is not None]
    return HiddenStatus(
        to_store=sum(to_store) if len(to_store) == len(known) else None,
        stored=sum(part.stored for part in known),
        tokens=sum(part.tokens for part in known),
        bytes=sum(part.bytes for part in known),
        mb_per_s=round(sum(speeds), 3) if speeds else None,
        failed=sum(part.failed for part in known),
        given_up=sum(part.given_up for part in known),
        skipped=sum(part.skipped for part in known),
        truncated=sum(part.truncated for part in known),
        in_work=sum(in_work) if len(in_work) == len(known) else None,
        checks=dict(sorted(checks.items())),
    )
