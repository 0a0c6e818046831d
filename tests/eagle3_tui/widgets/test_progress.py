from __future__ import annotations

from typing import Any

import pytest

from contracts.status import DatasetStage, RunState
from eagle3_tui.widgets.progress import dataset_share, overall_share
from tests.eagle3_tui.samples import dataset, finished, running


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
