"""Speeds."""

from __future__ import annotations

import pytest

from contracts.fold.history import History
from contracts.rates import MedianSpeed, bytes_per_s, tokens_per_s

START = 1_800_000_003.4


def finished(*times: float, tokens: int = 50) -> History:
    history = History()
    for at in times:
        history.bucket(at).tokens += tokens
    return history


def test_nothing_can_be_said_in_the_first_five_seconds() -> None:
    history = finished(START + 1, START + 2, START + 3)
    assert tokens_per_s(history, START + 4.9, START) is None
    assert tokens_per_s(History(), START + 30, START) is None


def test_a_minute_without_a_single_answer_is_no_speed() -> None:
    assert tokens_per_s(History(), START + 60, START) == 0.0
    assert tokens_per_s(History(), START + 60, None) is None


def test_a_steady_stream() -> None:
    for seconds in (10, 59, 61, 333, 999):
        now, history = START + seconds, finished(*(START + 0.5 * number for number in range(2 * seconds + 1)))
        assert tokens_per_s(history, now, START) == pytest.approx(100, rel=0.1)
        assert tokens_per_s(history, now, START, 600.0) == pytest.approx(100, rel=0.1)


def test_what_was_done_before_the_start_is_no_speed() -> None:
    before = [START - 0.5 - 0.001 * number for number in range(900)]
    history = finished(*before, START + 10)
    assert tokens_per_s(history, START + 20, START) == pytest.approx(50 / 20, rel=0.06)


def test_a_stall_brings_it_to_zero() -> None:
    history = finished(*(START + number for number in range(100)))
    assert tokens_per_s(history, START + 100 + 61, START) == 0.0


def test_without_a_start_the_window_counts() -> None:
    history = finished(*(START + number for number in range(100)))
    assert tokens_per_s(history, START + 100, None) == pytest.approx(50, rel=0.05)


def test_the_median_is_of_the_minutes_in_which_something_came() -> None:
    begin = 1_800_000_000.0
    history = History()
    for minute, tokens in enumerate([600, 0, 60, 1200, 660, 630, 99_999]):
        if tokens:
            history.bucket(begin + 60 * minute + 30).tokens += tokens
    now = begin + 6 * 60 + 59
    assert MedianSpeed()([history], now, begin) == 630 / 60
    assert MedianSpeed()([history], now + 1, begin) == 645 / 60


def test_minutes_of_several_data_sets_are_added_up() -> None:
    begin = 1_800_000_000.0
    halves = [finished(*(begin + 60 * minute + second for minute in range(5)), tokens=30) for second in (5, 45)]
    assert MedianSpeed()(halves, begin + 300, begin) == 1.0


def test_too_few_minutes_are_no_median() -> None:
    begin = 1_800_000_000.0
    history = finished(*(begin + 60 * minute for minute in range(4)))
    assert MedianSpeed()([history], begin + 900, begin) is None
    assert MedianSpeed()([finished(*(begin + 60 * m for m in range(9)))], begin + 900, begin + 301) is None


def test_stored_bytes_have_a_speed_of_their_own() -> None:
    history = History()
    for second in range(100):
        bucket = history.bucket(START + second)
        bucket.tokens, bucket.bytes = 3, 2_000
    assert bytes_per_s(history, START + 100, START) == pytest.approx(2_000, rel=0.05)
    assert bytes_per_s(History(), START + 60, START) == 0.0


def test_the_median_is_kept_until_a_whole_minute_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, history, looks = 6_000_000.0, History(), []
    for minute in range(7):
        history.bucket(begin + 60 * minute + 1).tokens += 60 * (minute + 1)
    minutes = History.minutes
    monkeypatch.setattr(History, "minutes", lambda self, start: looks.append(start) or minutes(self, start))
    median = MedianSpeed()
    assert median([history], begin + 365, begin) == 3.5, "six whole minutes"
    history.bucket(begin + 362).tokens += 1_000
    assert median([history], begin + 370, begin) == 3.5
    assert len(looks) == 1, "the minute that is not over changes nothing"
    history.bucket(begin + 5).tokens += 600
    assert median([history], begin + 371, begin) == 4.5, "one that is over has grown"
    assert median([history], begin + 425, begin) == 5.0, "and a minute later"
    assert median([history], begin + 425, begin + 60) == 4.5, "a session that began later"
