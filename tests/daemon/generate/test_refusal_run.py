"""Counting refusals in the order of sending."""

from hypothesis import given
from hypothesis import strategies as st

from daemon.generate.refusal_run import RefusalRun


@given(st.permutations(list(range(1, 31))))
def test_all_refused_make_one_run_whatever_order_they_come_in(order: list[int]) -> None:
    run = RefusalRun()
    lengths = [run.add(number) for number in order]
    assert lengths[-1] == 30


@given(st.sets(st.integers(1, 60)), st.randoms())
def test_a_run_is_as_long_as_its_neighbours_say(numbers: set[int], chance: object) -> None:
    run, seen = RefusalRun(), set[int]()
    order = sorted(numbers)
    chance.shuffle(order)  # type: ignore[attr-defined]
    for number in order:
        seen.add(number)
        first = last = number
        while first - 1 in seen:
            first -= 1
        while last + 1 in seen:
            last += 1
        assert run.add(number) == last - first + 1
