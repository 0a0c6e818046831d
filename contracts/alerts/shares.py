"""Alerts on the shares of recent outcomes: answers cut, failed, aborted, never done thinking; captures failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from contracts.alerts.view import View, make_alert
from contracts.fold.dataset import DatasetFold
from contracts.fold.history import Bucket
from contracts.records import Severity
from contracts.status import AlertStatus

RECENT_S: Final = 900.0
"""Shares are judged over this long."""

TOGETHER: Final = 3
"""So many data sets with the same trouble have one cause, and are one alert."""

_NAMED: Final = 12
"""So many data sets are named in one alert."""

_RUN: Final = "{run}"
"""In advice: the run."""

_SHARES: Final = (
    ("length_share", "lengths", "length_share_pct", "answers", "ended by length",
     "Raise [sampling] max_new_tokens, or accept cut answers and raise [alerts] length_share_pct."),
    ("failure_share", "failures", "failure_share_pct", "attempts", "failed",
     "See why: eagle3 events {run}, and failures.jsonl of the data set."),
    ("abort_share", "aborts", "abort_share_pct", "attempts", "were aborted by the server",
     "See the server's log: it may be out of KV memory, or somebody aborts requests."),
    ("think_end_missing", "think_missing", "think_end_missing_pct", "answers", "never closed their thinking part",
     "Raise [sampling] max_new_tokens, or check think_end_token."),
    ("capture_failures", "failures", "capture_failure_pct", "captures", "failed a check",
     "See why: failures.jsonl of the data set. Such samples are captured anew; one that keeps failing is given up."),
    ("dump_budget", "no_room", "no_room_pct", "captures", "were given up for want of room in the dump folder",
     "Each needs a second pass. Give it more room ([extract] dump_budget_gb, dump_dir) or lower the concurrency."),
)  # fmt: skip
"""Code, what of a `Bucket` is counted, its limit in ``[alerts]``, of what it is a share, words, advice with `_RUN`."""


@dataclass(frozen=True)
class _Share:
    """What is too much of a data set's recent outcomes."""

    name: str
    count: int
    of: int

    @property
    def pct(self) -> float:
        return 100 * self.count / self.of


def share_alerts(view: View) -> Iterator[AlertStatus]:
    """Yield the alerts of all data sets: one for each, or one for all when many have the same."""
    answers = {name: _recent(view, dataset) for name, dataset in view.fold.datasets.items()}
    captures = {name: _recent_captures(view, dataset) for name, dataset in view.fold.datasets.items()}
    for code, counted, limit_key, things, words, said in _SHARES:
        advice = said.replace(_RUN, view.run)
        limit: float = getattr(view.limits, limit_key)
        shares = []
        for name, bucket in (captures if things == "captures" else answers).items():
            count: int = getattr(bucket, counted)
            if not count:
                continue
            others = 0 if things == "answers" else bucket.failures + bucket.no_room
            share = _Share(name, count, bucket.responses + others)
            aborts_say_it = code == "failure_share" and _aborts_explain(view, bucket)
            if _is_too_much(view, share.count, share.of, limit) and not aborts_say_it:
                shares.append(share)
        if len(shares) >= TOGETHER:
            message = f"{len(shares)} data sets: {_named(shares)} of recent {things} {words}, limit {limit:g} %"
            yield make_alert(code, Severity.WARNING, message, advice)
            continue
        for share in shares:
            dataset = view.fold.datasets[share.name]
            message = f"{share.count} of {share.of} recent {things} ({share.pct:.1f} %) {words}, limit {limit:g} %"
            message += _kinds(dataset) if code == "capture_failures" else ""
            yield make_alert(code, Severity.WARNING, message, advice, dataset)


def _recent(view: View, dataset: DatasetFold) -> Bucket:
    """Return the recent outcomes; in files without time stamps, all of them."""
    responses, failures = dataset.responses, dataset.failures
    if responses.history.is_empty and failures.history.is_empty:
        return Bucket(
            responses=len(responses.done),
            lengths=responses.finish_reasons.get("length", 0),
            think_missing=responses.think_missing,
            failures=len(responses.failures),
        )
    recent = responses.history.since(view.now - RECENT_S)
    recent.add(failures.history.since(view.now - RECENT_S))
    return recent


def _recent_captures(view: View, dataset: DatasetFold) -> Bucket:
    """Return what became of recent captures: stored, failed, given up for want of room."""
    recent = dataset.hidden.history.since(view.now - RECENT_S)
    recent.add(dataset.failures.extract_history.since(view.now - RECENT_S))
    return recent


def _kinds(dataset: DatasetFold) -> str:
    """Name the failed checks of a data set, the most frequent first."""
    checks = sorted(dataset.failures.checks.items(), key=lambda entry: (-entry[1], entry[0]))
    return "; so far: " + ", ".join(f"{kind} {count:,}" for kind, count in checks)


def _is_too_much(view: View, count: int, of: int, limit: float) -> bool:
    return of >= view.limits.min_samples and count * 100 > limit * of


def _aborts_explain(view: View, bucket: Bucket) -> bool:
    """Whether aborts alone make the failures too many: then they are the one thing to say."""
    of = bucket.responses + bucket.failures
    others = bucket.failures - bucket.aborts
    return _is_too_much(view, bucket.aborts, of, view.limits.abort_share_pct) and not _is_too_much(
        view, others, of, view.limits.failure_share_pct
    )


def _named(shares: list[_Share]) -> str:
    """Name the data sets with their shares, in the order of the run."""
    named = ", ".join(f"{share.name} {share.pct:.0f} %" for share in shares[:_NAMED])
    more = len(shares) - _NAMED
    return f"{named} and {more} more" if more > 0 else named
