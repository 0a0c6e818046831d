"""What is done, and what will never be: told apart, and never more than all together."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.progress import Progress, dataset_progress, overall_progress, stored_progress
from contracts.status import DatasetStage, RunState
from tests.eagle3_tui.samples import dataset, finished, hidden, running


def progress_of(*datasets: Any, **over: Any) -> Progress:
    found = overall_progress(running(datasets=list(datasets), **over))
    assert found is not None
    return found


def share(*datasets: Any, **over: Any) -> float:
    return progress_of(*datasets, **over).done


def test_one_beyond_its_target_does_not_make_up_for_another() -> None:
    over = dataset("a", target_tokens=100, completion_tokens=300)
    none = dataset("b", target_tokens=100, completion_tokens=0)
    assert share(over, none) == 0.5


def test_pretokenized_data_sets_do_not_count() -> None:
    half = dataset("a", target_tokens=None, prompts=10, done=5)
    pre = dataset("b", DatasetStage.PRETOKENIZED, target_tokens=None, prompts=1_000, done=0)
    assert share(half, pre) == 0.5
    assert dataset_progress(pre) is None


def test_what_a_finished_one_is_short_of_is_given_up() -> None:
    exhausted = dataset("a", DatasetStage.FINISHED, target_tokens=100, completion_tokens=60)
    other = dataset("b", target_tokens=100, completion_tokens=50)
    assert progress_of(exhausted, other) == Progress(pytest.approx(0.55), pytest.approx(0.2))


def test_other_prompts_make_up_for_those_that_are_given_up_before_a_target() -> None:
    one = dataset("a", target_tokens=100, completion_tokens=50, quarantined=3, refused=2)
    assert dataset_progress(one) == Progress(0.5, 0.0)
    one.stage, one.completion_tokens = DatasetStage.FINISHED, 104
    assert dataset_progress(one) == Progress(1.0, 0.0)


def test_samples_given_up_or_refused_are_not_done() -> None:
    one = dataset("a", target_tokens=None, prompts=98, done=40, quarantined=1, refused=2)
    assert dataset_progress(one) == Progress(0.4, pytest.approx(0.03))
    one.done, one.stage = 97, DatasetStage.FINISHED
    assert dataset_progress(one) == progress_of(one) == Progress(0.97, pytest.approx(0.03))


def test_mixed_targets_weigh_by_prompts() -> None:
    with_target = dataset("a", target_tokens=100, completion_tokens=100, prompts=30)
    without = dataset("b", target_tokens=None, done=0, prompts=10)
    assert share(with_target, without) == 0.75


@pytest.mark.parametrize("over", [{"completion_tokens": None}, {"target_tokens": None, "prompts": None}])
def test_unknown_is_unknown(over: dict[str, Any]) -> None:
    assert overall_progress(running(datasets=[dataset("a"), dataset("b", **over)])) is None


def test_nothing_to_do_and_all_done() -> None:
    assert overall_progress(running(datasets=[dataset("a", DatasetStage.PRETOKENIZED)])) is None
    nothing = finished()
    nothing.datasets = [dataset("a", DatasetStage.PRETOKENIZED)]
    assert overall_progress(nothing) == Progress(1.0)
    assert finished().state is RunState.FINISHED


class TestWithAStore:
    BOTH = ("generate", "extract")

    def share(self, *datasets: Any, stages: tuple[str, ...] = BOTH) -> float:
        return share(*datasets, stages=list(stages))

    def test_an_answer_is_half_of_the_work(self) -> None:
        one = dataset("a", target_tokens=None, prompts=10, done=4, hidden=hidden(to_store=4, stored=0))
        assert self.share(one) == pytest.approx(0.2)
        one.hidden = hidden(to_store=4, stored=4)
        assert self.share(one) == pytest.approx(0.4)

    def test_all_answers_and_half_of_the_store(self) -> None:
        over = {"target_tokens": 100, "completion_tokens": 120, "hidden": hidden(to_store=8, stored=3, skipped=1)}
        one = dataset("a", DatasetStage.EXTRACTING, **over)
        assert progress_of(one, stages=list(self.BOTH)) == Progress(pytest.approx(0.625), pytest.approx(0.125))
        assert dataset_progress(one) == Progress(3 / 8, 1 / 8)

    def test_where_nothing_is_to_be_answered_the_store_is_all(self) -> None:
        pre = dataset("a", DatasetStage.EXTRACTING, target_tokens=None, done=0, prompts=8, pretokenized=8)
        pre.hidden = hidden(to_store=8, stored=2)
        assert self.share(pre) == self.share(pre, stages=("extract",)) == 0.25
        given = dataset("b", DatasetStage.EXTRACTING, target_tokens=None, prompts=8)
        given.hidden = hidden(to_store=24, stored=12)
        assert self.share(pre, given, stages=("extract",)) == pytest.approx(14 / 32)

    def test_unknown(self) -> None:
        waiting = dataset("a", DatasetStage.WAITING, target_tokens=None, hidden=hidden(to_store=None, stored=0))
        assert overall_progress(running(datasets=[waiting], stages=["extract"])) is None
        assert stored_progress(waiting) is None

    def test_what_is_not_stored_of_a_finished_one_is_given_up(self) -> None:
        # 90 of 100 prompts answered, 6 given up and 4 refused; of their states 1 is given up and 2 left out
        over = {"target_tokens": None, "prompts": 96, "done": 90, "quarantined": 6, "refused": 4}
        over["hidden"] = hidden(to_store=90, stored=87, given_up=1, skipped=2)
        one = dataset("b", DatasetStage.FINISHED, **over)
        expected = Progress(pytest.approx(0.87), pytest.approx(0.13))
        assert dataset_progress(one) == progress_of(one, stages=list(self.BOTH)) == expected
        one.stage = DatasetStage.EXTRACTING
        assert progress_of(one, stages=list(self.BOTH)) == expected
