from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contracts.details.lengths import length_steps, narrowed, quantile
from contracts.fold.lengths import Lengths


def counted(lengths: list[int]) -> Lengths:
    made = Lengths()
    made.add(lengths)
    return made


def test_nothing_counted_is_no_histogram() -> None:
    assert length_steps(Lengths()) is None


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=200), st.integers(1, 40))
def test_every_answer_is_in_the_step_that_holds_its_length(lengths: list[int], most: int) -> None:
    steps = length_steps(counted(lengths))
    assert steps is not None
    for drawn in (steps, narrowed(steps, most)):
        assert drawn.total == len(lengths)
        assert len(drawn.edges) == len(drawn.counts) + 1
        assert list(drawn.edges) == sorted(set(drawn.edges))
        for index, count in enumerate(drawn.counts):
            assert count == sum(drawn.edges[index] <= length < drawn.edges[index + 1] for length in lengths)
    assert len(narrowed(steps, most).counts) <= most


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_is_exact_to_an_eighth(lengths: list[int], share: float) -> None:
    steps = length_steps(counted(lengths))
    assert steps is not None
    ordered = sorted(lengths)
    true = ordered[max(-(-share * len(ordered) // 1), 1).__int__() - 1]
    assert abs(quantile(steps, share) - true) <= true / 8 + 1
