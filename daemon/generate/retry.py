"""What happens after a failed attempt: each class of failure has its own rule. Pure; chance is passed in."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from contracts.records import FailureClass, NextStep

POISON_DEATHS: Final = 2
"""In flight at this many server deaths: not sent again by itself."""

BUSY_STATUS: Final = 503
"""The server's queue is full or it is restarting: waiting helps, and the sample is not to blame."""

SYSTEMATIC_STATUS: Final = frozenset({401, 403, 404, 405, 415})
"""A refusal that says nothing of the sample: every other one would be refused too."""

PASSING_STATUS: Final = frozenset({408, 425, 429})
"""4xx that ask for another try."""

REFUSALS_IN_A_ROW: Final = 20
"""So many samples of a data set refused with no answer in between: the fault is not in the samples."""


@dataclass(frozen=True)
class RetryRules:
    """The numbers of ``[generate]`` that retries go by."""

    max_attempts: int
    base_s: float
    max_s: float


@dataclass(frozen=True)
class Decision:
    """What to do with the sample."""

    next: NextStep
    delay_s: float | None = None
    charged: bool = True
    """Whether this attempt counts against ``max_attempts``."""


def classify_status(status: int) -> FailureClass:
    """Return the class of an HTTP status that is not 200."""
    if status in SYSTEMATIC_STATUS or 200 <= status < 400:
        return FailureClass.CONTRACT_DRIFT
    if 400 <= status < 500 and status not in PASSING_STATUS:
        return FailureClass.REJECTED
    return FailureClass.TRANSIENT


def decide(
    error: FailureClass,
    attempt: int,
    rules: RetryRules,
    chance: random.Random,
    *,
    status: int | None = None,
    retry_after_s: float | None = None,
    deaths: int = 0,
) -> Decision:
    """Decide what follows a failure.

    Args:
        error: Its class.
        attempt: Charged attempts, this one included.
        rules: Limits.
        chance: For jitter.
        status: HTTP status, where there was one.
        retry_after_s: The server's own wish, in seconds.
        deaths: Server deaths during which the sample was in flight, this one included.
    """
    if error is FailureClass.INVALID_INPUT:
        return Decision(NextStep.REFUSED, charged=False)
    if error is FailureClass.CONTRACT_DRIFT:
        return Decision(NextStep.STOPPED, charged=False)
    if error in (FailureClass.REJECTED, FailureClass.POISON):
        return Decision(NextStep.QUARANTINED)
    if error is FailureClass.SERVER_DOWN:
        if deaths >= POISON_DEATHS:
            return Decision(NextStep.QUARANTINED, charged=False)
        return Decision(NextStep.RETRY, delay_s=0.0, charged=False)
    charged = status != BUSY_STATUS
    if charged and attempt >= rules.max_attempts:
        return Decision(NextStep.QUARANTINED)
    return Decision(NextStep.RETRY, _delay(attempt, rules, chance, retry_after_s), charged)


def _delay(attempt: int, rules: RetryRules, chance: random.Random, retry_after_s: float | None) -> float:
    """Double from the base to the limit, the upper half of it by chance; never sooner than the server asks."""
    ceiling = min(rules.base_s * 2.0 ** (max(attempt, 1) - 1), rules.max_s)
    delay = ceiling / 2 + chance.random() * ceiling / 2
    if retry_after_s is not None:
        delay = max(delay, min(retry_after_s, rules.max_s))
    return delay
