"""(fold, liveness, now) -> status: pure, the same for the command, the socket and the screen."""

from __future__ import annotations

import time
from collections.abc import Callable

from contracts.alerts import View, current_alerts
from contracts.disks import folder_on, full_first
from contracts.eta import DONE, Eta, Storing, Work, is_finished, is_stored, unknown
from contracts.fold.dataset import DatasetFold
from contracts.fold.places import KEPT
from contracts.fold.run import RunFold
from contracts.hidden_status import hidden_status, hidden_totals
from contracts.liveness import Liveness, current_heartbeat, heartbeat_age, judged_by_heartbeat
from contracts.progress import Progress, overall_progress, work_progress
from contracts.rates import tokens_per_s
from contracts.records import Heartbeat
from contracts.remaining import Remaining, remaining
from contracts.run_state import can_send, run_state, why_held
from contracts.status import (
    DONE_STAGES,
    DaemonStatus,
    DatasetStage,
    DatasetStatus,
    RunState,
    RunStatus,
    UnreadableLine,
)
from contracts.sums import all_known, known_sum, sum_of_known
from contracts.work import dataset_storings, dataset_work, extracts, generates
from contracts.worked import session_elapsed_s, session_tokens_per_s, session_worked_s


def build_status(
    fold: RunFold,
    liveness: Liveness,
    now: float,
    monotonic: float | None = None,
    when_done: Callable[[RunFold, dict[str, Work], dict[str, Storing], Heartbeat | None, float], Remaining] = remaining,
) -> RunStatus:
    """Build the status of a run.

    Args:
        fold: Brought up to date by the caller.
        liveness: Whether a daemon is there.
        now: The present, on the time scale of the records.
        monotonic: The machine's monotonic clock, to know the heartbeat's age; None: now.
        when_done: Says when what is done: `contracts.remaining.remaining`, or one that spares it.
    """
    monotonic = time.monotonic() if monotonic is None else monotonic
    if fold.config is not None and fold.events.session_stopped_at is None:
        stale_s = fold.config.alerts.heartbeat_stale_s
        liveness = judged_by_heartbeat(liveness, fold.telemetry.heartbeat, monotonic, now, stale_s)
    alive = bool(liveness.alive)
    heartbeat = current_heartbeat(fold.telemetry.heartbeat, liveness)
    age = None
    if heartbeat is not None:
        age = heartbeat_age(heartbeat, monotonic, now)
    works = {name: dataset_work(fold, dataset) for name, dataset in fold.datasets.items()}
    storings = dataset_storings(fold, works)
    times = when_done(fold, works, storings, heartbeat, now)
    worked = session_worked_s(fold, now, heartbeat is not None)
    datasets = [
        _dataset(fold, dataset, works[name], storings[name], times.datasets.get(name), heartbeat, now, worked)
        for name, dataset in fold.datasets.items()
    ]
    finished = fold.config is not None and all(dataset.stage in DONE_STAGES for dataset in datasets)
    view = View(fold, liveness, heartbeat, now, age, finished, storings)
    state, reason = run_state(view)
    totals = _totals(fold, datasets, worked)
    _set_eta(totals, _total_eta(datasets, times.total))
    if state in (RunState.STALLED, RunState.STOPPED, RunState.PAUSED) or not can_send(view):
        for status in (totals, *datasets):
            if status.eta_s != 0.0:
                _set_eta(status, unknown(why_held(view, state, reason)))
    if finished or state in (RunState.PAUSED, RunState.DRAINING) or not can_send(view):
        _stand_still(totals, datasets)
    gpu, server = view.gpu, view.server
    full = full_first(fold, view.host, now) if heartbeat else None
    whole = RunStatus(
        run=fold.config.run.name if fold.config else fold.run.path.resolve().name,
        path=str(fold.run.path),
        state=state,
        reason=reason,
        at=now,
        daemon=DaemonStatus(
            alive=liveness.alive,
            pid=liveness.pid,
            since=liveness.since,
            heartbeat_age_s=_rounded(age),
            gone_since=view.gone_since,
        ),
        concurrency=heartbeat.concurrency if heartbeat else fold.concurrency,
        elapsed_s=_rounded(session_elapsed_s(fold, now, alive)),
        totals=totals,
        datasets=datasets,
        gpus=gpu.gpus if gpu else None,
        gpu_state=gpu.reason or gpu.state if gpu else None,
        servers=server.servers if server else [],
        host=view.host,
        alerts=current_alerts(view),
        unreadable=_unreadable(fold),
        oldest_request_s=_rounded(heartbeat.oldest_request_s) if heartbeat else None,
        stages=list(fold.config.run.stages) if fold.config else [],
        dump_used_bytes=heartbeat.dump_used_bytes if heartbeat else None,
        dump_budget_bytes=heartbeat.dump_budget_bytes if heartbeat else None,
        taking=heartbeat.taking if heartbeat and extracts(fold) else None,
        store_trouble=heartbeat.store_trouble if heartbeat else None,
        disk_full_in_s=None if full is None else _rounded(full.in_s),
        disk_full_path=None if full is None else folder_on(full.disk, fold),
        stall_after_s=fold.config.alerts.stall_after_s if fold.config else None,
    )
    for status in datasets:
        _set_progress(status, work_progress(status, whole.stages))
    _set_progress(totals, overall_progress(whole))
    return whole


def _set_progress(status: DatasetStatus, progress: Progress | None) -> None:
    if progress is not None:
        status.progress_pct = _rounded(100 * progress.done)
        status.given_up_pct = _rounded(100 * progress.given_up)


def _dataset(
    fold: RunFold,
    dataset: DatasetFold,
    work: Work,
    storing: Storing,
    eta: Eta | None,
    heartbeat: Heartbeat | None,
    now: float,
    worked: float | None,
) -> DatasetStatus:
    responses = dataset.responses
    done = len(responses.done)
    generated = _is_answered(dataset)
    tokens = responses.completion_tokens if generated and (responses.known or not done) else None
    since = fold.events.session_started_at if heartbeat is not None else None
    moving = heartbeat is not None or fold.config is None
    target = None if dataset.pretokenized else work.target_tokens
    lengths = responses.finish_reasons.get("length", 0)
    status = DatasetStatus(
        name=dataset.name,
        stage=None,
        prompts=dataset.usable_prompts,
        pretokenized=dataset.usable_pretokenized,
        refused=len(dataset.failures.refused_lines) + len(dataset.failures.refused_source_lines),
        done=done,
        failed=dataset.failed,
        quarantined=dataset.quarantined,
        in_flight=heartbeat.in_flight.get(dataset.name, 0) if heartbeat else None,
        waiting_retry=heartbeat.waiting_retry.get(dataset.name, 0) if heartbeat else None,
        unreadable=dataset.unreadable,
        unknown_counts=responses.unknown,
        duplicates=responses.duplicates,
        incomplete=len(responses.parts),
        prompt_tokens=responses.prompt_tokens if generated and (responses.known or not done) else None,
        completion_tokens=tokens,
        avg_completion_tokens=_rounded(responses.completion_tokens / responses.known) if responses.known else None,
        target_tokens=target,
        overrun_tokens=_overrun(tokens, target),
        tokens_per_s=_rounded(tokens_per_s(responses.history, now, since)) if moving and generated else None,
        tokens_per_s_run=_rounded(session_tokens_per_s(fold, [dataset], worked)) if generated else None,
        eta_s=None,
        length_pct=_rounded(100 * lengths / done) if done else None,
        truncated=lengths,
        finish_reasons=dict(sorted(responses.finish_reasons.items())),
        hidden=hidden_status(fold, dataset, storing, heartbeat, now),
    )
    status.stage = _stage(fold, dataset, work, storing, status)
    if status.stage is DatasetStage.HALTED and generated:
        # What came in its last minute is over, and nothing more is sent until a person says so.
        status.tokens_per_s = 0.0 if status.in_flight == 0 else status.tokens_per_s
    if status.stage in DONE_STAGES:
        eta = DONE
    _set_eta(status, eta or unknown("stopped until a person says so"))
    return status


def _is_answered(dataset: DatasetFold) -> bool:
    """Whether there are answers, or may be: elsewhere tokens and speed are none, rather than none yet."""
    return not dataset.pretokenized or len(dataset.responses.done) > 0


def _overrun(tokens: int | None, target: int | None) -> int | None:
    return None if tokens is None or target is None or tokens < target else tokens - target


def _stage(fold: RunFold, dataset: DatasetFold, work: Work, storing: Storing, status: DatasetStatus) -> DatasetStage:
    failures, extracting = dataset.failures, extracts(fold)
    if dataset.pretokenized and not extracting:
        return DatasetStage.PRETOKENIZED
    if fold.config is None:
        return DatasetStage.WATCHING
    if (failures.halted is not None and generates(fold)) or (failures.extract_halted is not None and extracting):
        return DatasetStage.HALTED
    if is_finished(work):
        if not extracting or is_stored(storing):
            return DatasetStage.FINISHED
        return DatasetStage.WAITING if storing.to_store is None else DatasetStage.EXTRACTING
    busy = status.in_flight or (status.hidden is not None and status.hidden.in_work)
    return DatasetStage.RUNNING if busy else DatasetStage.WAITING


def _totals(fold: RunFold, datasets: list[DatasetStatus], worked: float | None) -> DatasetStatus:
    """Add the data sets up: tokens and speeds as far as they are known, everything else only when all of it is."""
    known = sum(dataset.responses.known for dataset in fold.datasets.values())
    generated = [status for status in datasets if not fold.datasets[status.name].pretokenized]
    answered = [status for status in datasets if _is_answered(fold.datasets[status.name])]
    tokens = known_sum([status.completion_tokens for status in answered])
    done = sum(status.done for status in datasets)
    lengths = sum(status.truncated for status in datasets)
    reasons: dict[str, int] = {}
    for status in datasets:
        for reason, count in status.finish_reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    targets = [status.target_tokens for status in generated]
    return DatasetStatus(
        name="total",
        stage=None,
        prompts=all_known([status.prompts for status in datasets]),
        pretokenized=all_known([status.pretokenized for status in datasets]),
        refused=sum(status.refused for status in datasets),
        done=done,
        failed=sum(status.failed for status in datasets),
        quarantined=sum(status.quarantined for status in datasets),
        in_flight=all_known([status.in_flight for status in datasets]),
        waiting_retry=all_known([status.waiting_retry for status in datasets]),
        unreadable=sum(status.unreadable for status in datasets)
        + fold.events.unreadable.count
        + sum(each.count for each in fold.telemetry.garbled()),
        unknown_counts=sum(status.unknown_counts for status in datasets),
        duplicates=sum(status.duplicates for status in datasets),
        incomplete=sum(status.incomplete for status in datasets),
        prompt_tokens=known_sum([status.prompt_tokens for status in answered]),
        completion_tokens=tokens,
        avg_completion_tokens=_rounded(tokens / known) if tokens is not None and known else None,
        target_tokens=all_known(targets) if targets else None,
        overrun_tokens=sum_of_known([status.overrun_tokens for status in generated]),
        tokens_per_s=_rounded(known_sum([status.tokens_per_s for status in generated])),
        tokens_per_s_run=_rounded(
            session_tokens_per_s(fold, [fold.datasets[status.name] for status in answered], worked)
        ),
        eta_s=None,
        length_pct=_rounded(100 * lengths / done) if done else None,
        truncated=lengths,
        finish_reasons=dict(sorted(reasons.items())),
        hidden=hidden_totals(status.hidden for status in datasets),
    )


def _total_eta(datasets: list[DatasetStatus], eta: Eta) -> Eta:
    """Return when the run is done, without the data sets that are stopped; not 0 while those are there."""
    if datasets and all(status.eta_s == 0.0 for status in datasets):
        return DONE
    if eta.point == 0.0:
        return unknown("what is left is stopped until a person says so")
    return eta


def _set_eta(status: DatasetStatus, eta: Eta) -> None:
    status.eta_s, status.eta_low_s, status.eta_high_s = _rounded(eta.point), _rounded(eta.low), _rounded(eta.high)
    status.eta_why = eta.why


def _stand_still(totals: DatasetStatus, datasets: list[DatasetStatus]) -> None:
    """Where nothing is open and nothing is sent the pace is 0 now; what came in the last minute is over."""
    if totals.in_flight == 0:
        for status in (totals, *datasets):
            status.tokens_per_s = None if status.tokens_per_s is None else 0.0


def _unreadable(fold: RunFold) -> list[UnreadableLine]:
    found = [
        UnreadableLine(file=str(dataset.folder.path / file), offset=place.offset, line=place.line, why=place.why)
        for dataset in fold.datasets.values()
        for file, places in dataset.unreadable_places()
        for place in places.first
    ]
    found += [
        UnreadableLine(file=str(fold.run.events), offset=place.offset, line=place.line, why=place.why)
        for place in fold.events.unreadable.first
    ]
    found += [
        UnreadableLine(file=str(each.path), offset=each.offset, line=None, why=each.why)
        for each in fold.telemetry.garbled()
    ]
    return found[:KEPT]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
