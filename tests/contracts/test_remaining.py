"""Forecasts that are told anew only now and then, and what all data sets have in common."""

from __future__ import annotations

from pathlib import Path

from contracts.fold.run import RunFold
from contracts.records import Heartbeat
from contracts.remaining import FORECAST_S, Remaining, SteadyRemaining, remaining
from contracts.work import dataset_storing, dataset_storings, dataset_work
from tests.support.records import NOW, event, failure, folded, heartbeat, make_run, response, write

NAMES = ("a", "b", "c")


def at_work(folder: Path) -> RunFold:
    """Three data sets with some answers, and work left."""
    run = make_run(folder, datasets=NAMES, prompts=1000)
    for place, name in enumerate(NAMES):
        answers = [
            response(f"{name}-{each}", 40 + each % 7, started_at=NOW + each, finished_at=NOW + each + 9)
            for each in range(60 + 20 * place)
        ]
        write(run.dataset(name).responses, answers)
    write(run.events, [event("daemon.started", NOW)])
    write(run.telemetry_file("daemon"), [heartbeat(NOW + 100, in_flight=dict.fromkeys(NAMES, 4), concurrency=12)])
    return folded(run)


def told(steady: SteadyRemaining, fold: RunFold, now: float) -> Remaining:
    return steady(fold, *about(fold), now)


def plain(fold: RunFold, now: float) -> Remaining:
    return remaining(fold, *about(fold), now)


def about(fold: RunFold) -> tuple[dict, dict, Heartbeat | None]:  # type: ignore[type-arg]
    works = {name: dataset_work(fold, dataset) for name, dataset in fold.datasets.items()}
    return works, dataset_storings(fold), fold.telemetry.heartbeat


def test_it_is_told_anew_when_it_has_grown_old(tmp_path: Path) -> None:
    fold, steady = at_work(tmp_path), SteadyRemaining()
    first = told(steady, fold, NOW + 100)
    assert first == plain(fold, NOW + 100)
    assert first.total.point
    assert told(steady, fold, NOW + 100 + FORECAST_S - 0.1) is first
    later = told(steady, fold, NOW + 100 + FORECAST_S)
    assert later == plain(fold, NOW + 100 + FORECAST_S) != first
    assert told(steady, fold, NOW + 50) == plain(fold, NOW + 50), "a clock that was set back"


def test_what_a_person_does_is_heeded_at_once(tmp_path: Path) -> None:
    fold, steady = at_work(tmp_path), SteadyRemaining()
    first = told(steady, fold, NOW + 100)
    write(
        fold.run.events, [event("daemon.started", NOW), event("control.set", NOW + 100, data={"targets": {"a": 9000}})]
    )
    fold.poll()
    assert told(steady, fold, NOW + 100.5) == plain(fold, NOW + 100.5) != first


def test_a_data_set_that_is_done_is_so_at_once(tmp_path: Path) -> None:
    fold, steady = at_work(tmp_path), SteadyRemaining()
    told(steady, fold, NOW + 100)
    path = fold.run.dataset("a").responses
    write(path, [response(f"a-{each}", 40, started_at=NOW + each, finished_at=NOW + each + 9) for each in range(1000)])
    fold.poll()
    assert told(steady, fold, NOW + 100.5) == plain(fold, NOW + 100.5)
    assert told(steady, fold, NOW + 100.5).datasets["a"].point == 0.0


def test_all_data_sets_together_are_as_each_alone(tmp_path: Path) -> None:
    fold = at_work(tmp_path)
    assert dataset_storings(fold) == {name: dataset_storing(fold, data) for name, data in fold.datasets.items()}


def test_counts_that_were_asked_for_follow_the_files(tmp_path: Path) -> None:
    run = make_run(tmp_path, prompts=10)
    fold = folded(run)
    dataset = fold.datasets["d"]
    assert (dataset.usable_prompts, dataset.prompts_to_answer, dataset.failed, dataset.quarantined) == (10, 10, 0, 0)
    write(run.dataset("d").failures, [failure("d-1"), failure("d-2", next="quarantined", attempt=3)])
    fold.poll()
    assert (dataset.failed, dataset.quarantined) == (2, 1)
    write(run.dataset("d").responses, [response("d-1"), response("d-2")])
    fold.poll()
    assert (dataset.failed, dataset.quarantined) == (0, 0)
