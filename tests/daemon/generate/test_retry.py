"""The retry rule of each class of failure."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.records import FailureClass, NextStep
from daemon.generate.retry import BUSY_STATUS, MOST_DEATHS, RetryRules, classify_status, decide

RULES = RetryRules(max_attempts=3, base_s=1.0, max_s=60.0)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, FailureClass.REJECTED),
        (413, FailureClass.REJECTED),
        (422, FailureClass.REJECTED),
        (401, FailureClass.CONTRACT_DRIFT),
        (403, FailureClass.CONTRACT_DRIFT),
        (404, FailureClass.CONTRACT_DRIFT),
        (405, FailureClass.CONTRACT_DRIFT),
        (204, FailureClass.CONTRACT_DRIFT),
        (307, FailureClass.CONTRACT_DRIFT),
        (408, FailureClass.TRANSIENT),
        (429, FailureClass.TRANSIENT),
        (500, FailureClass.TRANSIENT),
        (502, FailureClass.TRANSIENT),
        (503, FailureClass.TRANSIENT),
    ],
)
def test_class_of_a_status(status: int, error: FailureClass) -> None:
    assert classify_status(status) is error


@pytest.mark.parametrize(
    ("error", "step", "charged"),
    [
        (FailureClass.INVALID_INPUT, NextStep.REFUSED, False),
        (FailureClass.REJECTED, NextStep.QUARANTINED, True),
        (FailureClass.CONTRACT_DRIFT, NextStep.STOPPED, False),
        (FailureClass.POISON, NextStep.QUARANTINED, True),
        (FailureClass.SERVER_DOWN, NextStep.RETRY, False),
        (FailureClass.TRANSIENT, NextStep.RETRY, True),
    ],
)
def test_first_failure(error: FailureClass, step: NextStep, charged: bool) -> None:
    decision = decide(error, 1, RULES, random.Random(1))
    assert (decision.next, decision.charged) == (step, charged)
    assert (decision.delay_s is not None) == (step is NextStep.RETRY)


def test_the_last_attempt_is_the_last_unless_the_sample_has_no_part_in_it() -> None:
    assert decide(FailureClass.TRANSIENT, 2, RULES, random.Random()).next is NextStep.RETRY
    assert decide(FailureClass.TRANSIENT, 3, RULES, random.Random()).next is NextStep.QUARANTINED
    blameless = decide(FailureClass.TRANSIENT, 3, RULES, random.Random(), blameless=True, waits=1000)
    assert (blameless.next, blameless.charged) == (NextStep.RETRY, False)
    assert {429, 503} == BUSY_STATUS


@pytest.mark.parametrize(
    ("deaths", "on_trial", "step"),
    [
        (1, False, NextStep.RETRY),
        (1, True, NextStep.RETRY),
        (2, False, NextStep.RETRY),
        (2, True, NextStep.QUARANTINED),
        (MOST_DEATHS, False, NextStep.QUARANTINED),
    ],
)
def test_deaths_of_servers(deaths: int, on_trial: bool, step: NextStep) -> None:
    decision = decide(FailureClass.SERVER_DOWN, 9, RULES, random.Random(), deaths=deaths, on_trial=on_trial)
    assert (decision.next, decision.charged) == (step, False)


@given(
    attempt=st.integers(1, 2),
    waits=st.integers(0, 10**6),
    seed=st.integers(),
    after=st.none() | st.floats(0, 1e9),
)
def test_pauses_double_within_their_bounds(attempt: int, waits: int, seed: int, after: float | None) -> None:
    decision = decide(
        FailureClass.TRANSIENT, attempt, RULES, random.Random(seed), blameless=True, waits=waits, retry_after_s=after
    )
    assert decision.delay_s is not None
    ceiling = min(2.0 ** min(attempt + waits - 1, 10), 60.0)
    asked = min(after or 0.0, 60.0)
    assert max(ceiling / 2, asked) <= decision.delay_s <= max(ceiling, asked)


def test_pauses_are_spread_by_chance() -> None:
    chance = random.Random(4)
    delays = {decide(FailureClass.TRANSIENT, 1, RULES, chance).delay_s for _ in range(50)}
    assert len(delays) == 50
