from __future__ import annotations

import pytest

from contracts.details.rates import rate_steps
from contracts.fold.history import History
from tests.support.records import NOW


def history(*finished: tuple[float, int]) -> History:
    made = History()
    for at, tokens in finished:
        made.bucket(at).tokens += tokens
    return made


def test_an_empty_history_is_unknown() -> None:
    assert rate_steps(History(), NOW, 600.0, 4) == (None, None, None, None)


def test_tokens_a_second_in_equal_steps() -> None:
    made = history((NOW - 35, 100), (NOW - 15, 300), (NOW - 5, 200))
    assert rate_steps(made, NOW, 40.0, 4) == (10.0, 0.0, 30.0, 20.0)


def test_before_the_first_answer_it_is_unknown_not_zero() -> None:
    assert rate_steps(history((NOW - 15, 300)), NOW, 40.0, 4) == (None, None, 30.0, 0.0)


def test_all_of_it_begins_with_the_first_answer() -> None:
    steps = rate_steps(history((NOW - 3000, 60), (NOW - 10, 60)), NOW, None, 10)
    assert steps[0] is not None
    assert steps[-1] is not None
    assert sum(step or 0.0 for step in steps) * 300 == pytest.approx(120, rel=0.01)


def test_the_picture_stands_still_between_two_steps() -> None:
    made = history((NOW - 35, 100), (NOW - 15, 300))
    assert rate_steps(made, NOW + 1, 40.0, 4)[:3] == rate_steps(made, NOW + 9, 40.0, 4)[:3]
    long = history((NOW - 50_000, 100), (NOW - 15, 300))
    assert rate_steps(long, NOW + 1, None, 50)[:49] == rate_steps(long, NOW + 500, None, 50)[:49]


def test_the_newest_step_counts_as_long_as_it_is() -> None:
    assert rate_steps(history((NOW, 50)), NOW + 5, 40.0, 4)[-1] == 10.0


def test_what_is_older_than_the_span_does_not_count() -> None:
    assert rate_steps(history((NOW - 5000, 999), (NOW - 5, 10)), NOW, 20.0, 2) == (0.0, 1.0)
