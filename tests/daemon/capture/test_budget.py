from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.fold.lengths import Lengths
from daemon.capture.budget import DumpBudget, LengthEstimate, dump_bytes
from daemon.store.sample import RowForm
from tests.daemon.capture.dumps import FORM, make_header, make_rid, make_rows, write_dump

MB = 1_000_000


def test_reservations_stay_within_the_limit() -> None:
    budget = DumpBudget(10 * MB)
    assert budget.try_reserve("a", 6 * MB)
    assert not budget.try_reserve("b", 5 * MB)
    assert budget.try_reserve("b", 4 * MB)
    assert budget.used == 10 * MB
    budget.release("a")
    budget.release("a")
    budget.release("never")
    assert budget.used == 4 * MB
    with pytest.raises(ValueError, match="has a reservation already"):
        budget.try_reserve("b", 1)


def test_a_sample_larger_than_the_whole_limit_has_no_room() -> None:
    budget = DumpBudget(51 * MB)
    assert not budget.try_reserve("a", 235 * MB) and not budget.has_room(235 * MB)
    assert not budget.try_reserve("a", 300 * MB, at_least=52 * MB)
    assert budget.used == 0
    budget.limit_bytes = 235 * MB  # others' files are gone
    assert budget.try_reserve("a", 235 * MB) and not budget.has_room(1)


def test_what_an_earlier_session_left_counts_though_there_is_no_room() -> None:
    budget = DumpBudget(10 * MB)
    budget.settle("left", 12 * MB)
    assert budget.used == 12 * MB and not budget.has_room(0)
    budget.settle("left", 12 * MB)
    budget.release("left")
    assert budget.used == 0


def test_a_guess_beyond_the_limit_waits_for_all_of_it() -> None:
    """A small folder works, slower: one answer of unknown length at a time."""
    budget = DumpBudget(51 * MB)
    assert budget.try_reserve("a", 268 * MB, at_least=1 * MB)
    assert budget.used == 51 * MB
    assert not budget.try_reserve("b", 268 * MB, at_least=1 * MB)
    budget.settle("a", 2 * MB)
    assert budget.used == 2 * MB
    assert not budget.try_reserve("b", 268 * MB, at_least=1 * MB)
    budget.release("a")
    assert budget.try_reserve("b", 268 * MB, at_least=1 * MB)


def test_the_youngest_that_are_being_generated_are_given_up() -> None:
    budget = DumpBudget(100)
    for rid in ("old", "young", "fresh"):
        assert budget.try_reserve(rid, 20, at_least=1)
    assert budget.try_reserve("prefill", 20)
    assert budget.try_reserve("answered", 20, at_least=1)
    budget.settle("answered", 20)
    within = {"old": 30, "young": 30, "fresh": 0, "prefill": 20, "answered": 20}
    assert budget.over(within) == []
    assert budget.used == 120  # two have outgrown what was reserved for them
    assert budget.over({**within, "young": 31}) == ["young"]
    assert budget.over({**within, "young": 31, "stray": 40}) == ["young", "old"]


def test_nothing_can_be_given_up_twice() -> None:
    budget = DumpBudget(10)
    assert budget.try_reserve("a", 10, at_least=1)
    assert budget.over({"a": 15}) == ["a"]
    budget.release("a")
    assert budget.over({"a": 15}) == []


@given(
    limit=st.integers(1, 100),
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60), st.booleans(), st.booleans()), max_size=60),
)
def test_what_is_reserved_is_the_sum_and_within_the_limit(limit: int, steps: list[tuple[int, int, bool, bool]]) -> None:
    budget, held = DumpBudget(limit), dict[str, int]()
    for number, size, reserve, guess in steps:
        rid = str(number)
        if not reserve or rid in held:
            budget.release(rid)
            held.pop(rid, None)
            continue
        if budget.try_reserve(rid, size, at_least=1 if guess else None):
            assert guess or size <= limit
            held[rid] = min(size, limit)
        assert budget.used == sum(held.values()) <= limit


def test_before_any_answer_the_longest_is_expected() -> None:
    lengths = LengthEstimate(4096)
    assert lengths.tokens == 4096
    lengths.add(100)
    assert lengths.tokens == 100
    lengths.add(300)
    assert lengths.tokens == 200 + 2 * 100
    assert (lengths.count, lengths.mean) == (2, 200.0)


@given(st.lists(st.lists(st.integers(0, 100_000), max_size=30), max_size=3), st.lists(st.integers(0, 100_000)))
def test_what_earlier_sessions_saw_counts(before: list[list[int]], now: list[int]) -> None:
    """After a start, too, room is reserved for answers as they are, and not for the longest that there can be."""
    folds = [Lengths() for _ in before]
    for fold, seen in zip(folds, before, strict=True):
        fold.add(seen)
    lengths, alike = LengthEstimate(50_000, folds), LengthEstimate(50_000)
    for tokens in now:
        lengths.add(tokens)
    for tokens in [each for seen in before for each in seen] + now:
        alike.add(tokens)
    assert lengths.count == alike.count
    assert lengths.tokens == pytest.approx(alike.tokens, rel=1 / 8, abs=1.001)


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=50))
def test_expected_is_the_mean_and_two_deviations(seen: list[int]) -> None:
    lengths = LengthEstimate(50_000)
    for tokens in seen:
        lengths.add(tokens)
    expected = statistics.fmean(seen) + 2 * statistics.pstdev(seen)
    assert min(expected, 50_000) - 1e-3 <= lengths.tokens <= expected + 1.001


@pytest.mark.parametrize(("rows", "hidden_size"), [(1, 8), (7, 8), (600, 8), (37, 1 << 12)])
def test_what_a_dump_takes_is_known_beforehand(tmp_path: Path, rows: int, hidden_size: int) -> None:
    form = RowForm(FORM.layers, hidden_size, FORM.dtype, FORM.norm)
    ids = list(range(rows))
    path = write_dump(tmp_path, make_rid(1), ids, make_rows(ids, form), header=make_header(make_rid(1), form))
    assert rows * form.row_bytes <= path.stat().st_blocks * 512 <= dump_bytes(rows, form.row_bytes)
