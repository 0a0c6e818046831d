"""What happens after a failed attempt: each class of failure has its own rule. Pure; chance is passed in."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from contracts.records import FailureClass, NextStep

POISON_DEATHS: Final = 2
"""In flight at this many server deaths, the last time as the one suspect on trial: not sent again by itself."""

MOST_DEATHS: Final = 4
"""In flight at this many server deaths, whoever else was: not sent again by itself either."""

BUSY_STATUS: Final = frozenset({429, 503})
"""The server's queue is full or it is restarting: waiting helps, and the sample is not to blame."""

SYSTEMATIC_STATUS: Final = frozenset({401, 403, 404, 405, 415})
"""A refusal that says nothing of the sample: every other one would be refused too."""

PASSING_STATUS: Final = frozenset({408, 425, 429})
"""4xx that ask for another try."""

REFUSALS_IN_A_ROW: Final = 20
"""So many samples of a data set, sent one after the other, all refused: the fault is not in the samples."""

_MOST_DOUBLINGS: Final = 60


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
    blameless: bool = False,
    waits: int = 0,
    retry_after_s: float | None = None,
    deaths: int = 0,
    on_trial: bool = False,
) -> Decision:
    """Decide what follows a failure.

    Args:
        error: Its class.
        attempt: Charged attempts, this one included.
        rules: Limits.
        chance: For jitter.
        blameless: The sample has no part in it (a full queue, a server that fails everything): no attempt is charged.
        waits: Blameless attempts of this sample before this one: they lengthen the pause as charged ones do.
        retry_after_s: The server's own wish, in seconds.
        deaths: Server deaths during which the sample was in flight, this one included.
        on_trial: It was the one suspect that the dead server was being tried with.
    """
    if error is FailureClass.INVALID_INPUT:
        return Decision(NextStep.REFUSED, charged=False)
    if error is FailureClass.CONTRACT_DRIFT:
        return Decision(NextStep.STOPPED, charged=False)
    if error in (FailureClass.REJECTED, FailureClass.POISON):
        return Decision(NextStep.QUARANTINED)
    if error is FailureClass.SERVER_DOWN:
        if deaths >= MOST_DEATHS or (on_trial and deaths >= POISON_DEATHS):
            return Decision(NextStep.QUARANTINED, charged=False)
        return Decision(NextStep.RETRY, delay_s=0.0, charged=False)
    if not blameless and attempt >= rules.max_attempts:
        return Decision(NextStep.QUARANTINED)
    return Decision(NextStep.RETRY, _delay(attempt + waits, rules, chance, retry_after_s), not blameless)


def _delay(tries: int, rules: RetryRules, chance: random.Random, retry_after_s: float | None) -> float:
    """Double from the base to the limit, the upper half of it by chance; never sooner than the server asks."""
    doublings = min(max(tries, 1) - 1, _MOST_DOUBLINGS)
    ceiling = min(rules.base_s * 2.0**doublings, rules.max_s)
    delay = ceiling / 2 + chance.random() * ceiling / 2
    if retry_after_s is not None:
        delay = max(delay, min(retry_after_s, rules.max_s))
    return delay
