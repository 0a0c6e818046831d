from __future__ import annotations

from typing import Any

import pytest

from contracts.status import DatasetStage, RunState
from eagle3_tui.widgets.progress import dataset_share, overall_share, stored_share
from tests.eagle3_tui.samples import dataset, finished, hidden, running


def share(*datasets: Any) -> float | None:
    return overall_share(running(datasets=list(datasets)))


def test_one_beyond_its_target_does_not_make_up_for_another() -> None:
    over = dataset("a", target_tokens=100, completion_tokens=300)
    none = dataset("b", target_tokens=100, completion_tokens=0)
    assert share(over, none) == 0.5


def test_pretokenized_data_sets_do_not_count() -> None:
    half = dataset("a", target_tokens=None, prompts=10, done=5)
    pre = dataset("b", DatasetStage.PRETOKENIZED, target_tokens=None, prompts=1_000, done=0)
    assert share(half, pre) == 0.5
    assert dataset_share(pre) is None


def test_a_finished_one_is_done_however_far_it_came() -> None:
    exhausted = dataset("a", DatasetStage.FINISHED, target_tokens=100, completion_tokens=60)
    other = dataset("b", target_tokens=100, completion_tokens=50)
    assert share(exhausted, other) == 0.75


def test_mixed_targets_weigh_by_prompts() -> None:
    with_target = dataset("a", target_tokens=100, completion_tokens=100, prompts=30)
    without = dataset("b", target_tokens=None, done=0, prompts=10)
    assert share(with_target, without) == 0.75


@pytest.mark.parametrize("over", [{"completion_tokens": None}, {"target_tokens": None, "prompts": None}])
def test_unknown_is_unknown(over: dict[str, Any]) -> None:
    assert share(dataset("a"), dataset("b", **over)) is None


def test_nothing_to_do_and_all_done() -> None:
    assert overall_share(running(datasets=[dataset("a", DatasetStage.PRETOKENIZED)])) is None
    assert overall_share(finished()) == 1.0
    assert finished().state is RunState.FINISHED


class TestWithAStore:
    def share(self, *datasets: Any, stages: list[str] | None = None) -> float | None:
        status = running(datasets=list(datasets), stages=["generate", "extract"] if stages is None else stages)
        return overall_share(status)

    def test_an_answer_is_half_of_the_work(self) -> None:
        one = dataset("a", target_tokens=None, prompts=10, done=4, hidden=hidden(to_store=4, stored=0))
        assert self.share(one) == pytest.approx(0.2)
        one.hidden = hidden(to_store=4, stored=4)
        assert self.share(one) == pytest.approx(0.4)

    def test_all_answers_and_half_of_the_store(self) -> None:
        over = {"target_tokens": 100, "completion_tokens": 120, "hidden": hidden(to_store=8, stored=3, skipped=1)}
        one = dataset("a", DatasetStage.EXTRACTING, **over)
        assert self.share(one) == pytest.approx(0.75)
        assert dataset_share(one) == pytest.approx(0.5)

    def test_where_nothing_is_to_be_answered_the_store_is_all(self) -> None:
        pre = dataset("a", DatasetStage.EXTRACTING, target_tokens=None, done=0, prompts=8, pretokenized=8)
        pre.hidden = hidden(to_store=8, stored=2)
        assert self.share(pre) == self.share(pre, stages=["extract"]) == 0.25
        given = dataset("b", DatasetStage.EXTRACTING, target_tokens=None, prompts=8)
        given.hidden = hidden(to_store=24, stored=12)
        assert self.share(pre, given, stages=["extract"]) == pytest.approx(14 / 32)

    def test_unknown_and_finished(self) -> None:
        waiting = dataset("a", DatasetStage.WAITING, target_tokens=None, hidden=hidden(to_store=None, stored=0))
        assert self.share(waiting, stages=["extract"]) is None
        assert stored_share(waiting) is None
        over = {"target_tokens": None, "hidden": hidden(to_store=8, stored=7, given_up=1)}
        assert dataset_share(dataset("b", DatasetStage.FINISHED, **over)) == 1.0
