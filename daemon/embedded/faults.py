"""Faults on request: what a server may do to a client, with a probability each or one by one.

`Faults` is used by the command line (`--error-500 0.1`) and by tests in-process (`faults.force("reset")`). The
draws depend on the seed and on the order of the requests alone. What may be wrong with dumped hidden states is in
`dump_faults`.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar, get_args

FaultKind = Literal[
    "error_500", "error_503", "reset", "truncate", "html", "hang", "abort", "wrong_counts", "usage_shape", "flat_shape"
]
"""What can happen to one /generate request:

- error_500: 500, plain text; error_503: 503, the recorded body, with Retry-After when `retry_after` is set
- reset: the connection is closed without an answer; truncate: half of the body, then closed
- html: 200 with an HTML page; hang: no answer until the client leaves
- abort: 200 with partial output and finish_reason abort; wrong_counts: completion_tokens is not len(output_ids)
- usage_shape, flat_shape: other servers' shapes: OpenAI's `usage`, or `completion_tokens` at the top level
"""

PROBABILITIES = (
    "error_500", "error_503", "reset", "truncate", "html", "hang", "abort", "wrong_counts", "other_shape",
)  # fmt: skip
"""The switches that are probabilities; `other_shape` is drawn as one of the two shapes."""


Kind = TypeVar("Kind", bound=str)


class Switches(Generic[Kind]):
    """Kinds of fault that are forced one by one, or drawn with a probability each: the base of dataclasses of them.

    The attributes named by `shares` are the probabilities.
    """

    seed: int
    injected: Counter[str]

    def _set_up(self, shares: Sequence[str], kinds: Sequence[str], name: str) -> None:
        """Begin to draw.

        Raises:
            ValueError: the probabilities are none.
        """
        total = sum(getattr(self, share) for share in shares)
        if min(getattr(self, share) for share in shares) < 0 or total > 1:
            raise ValueError(f"fault probabilities must be 0 or more and sum to at most 1, not {total:g}")
        self._shares, self._kinds = tuple(shares), tuple(kinds)
        self._draw = random.Random(f"{name}/{self.seed}")
        self._forced: deque[Kind | None] = deque()

    def force(self, *kinds: Kind | None) -> None:
        """Decide the next requests, one kind each; None lets one pass untouched.

        Raises:
            ValueError: there is no such kind.
        """
        for kind in kinds:
            if kind is not None and kind not in self._kinds:
                raise ValueError(f"no fault {kind!r}; there are {', '.join(self._kinds)}")
        self._forced.extend(kinds)

    def next_kind(self) -> Kind | None:
        """What happens to the request that just came."""
        kind = self._forced.popleft() if self._forced else self._drawn()
        if kind is not None:
            self.injected[kind] += 1
        return kind

    def _drawn(self) -> Kind | None:
        at = self._draw.random()
        for name in self._shares:
            share: float = getattr(self, name)
            if at < share:
                return self._kind(name, first_half=at < share / 2)
            at -= share
        return None

    def _kind(self, name: str, *, first_half: bool) -> Kind:
        """The kind that a probability stands for; of two, the drawn number's half decides."""
        return name  # type: ignore[return-value]


@dataclass
class Faults(Switches[FaultKind]):
    """The switches; all may be changed while the server runs.

    Args:
        latency: seconds added to every answer.
        latency_spread: more seconds, drawn uniformly from 0 up to this.
        die_after: the process exits with 1 once it has given this many answers.
        hang_after: after this many answers /generate and the health checks answer no more.
        retry_after: seconds to put into Retry-After of injected 503s; None for no header, as the real server.
        seed: of the draws.
    """

    latency: float = 0.0
    latency_spread: float = 0.0
    error_500: float = 0.0
    error_503: float = 0.0
    reset: float = 0.0
    truncate: float = 0.0
    html: float = 0.0
    hang: float = 0.0
    abort: float = 0.0
    wrong_counts: float = 0.0
    other_shape: float = 0.0
    die_after: int | None = None
    hang_after: int | None = None
    retry_after: float | None = None
    seed: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    """How often each kind was injected."""

    def __post_init__(self) -> None:
        self._set_up(PROBABILITIES, get_args(FaultKind), "kinds")
        self._latency = random.Random(f"latency/{self.seed}")

    def next_delay(self) -> float:
        """Seconds by which the request's answer is late."""
        spread = self._latency.random() * self.latency_spread if self.latency_spread else 0.0
        return self.latency + spread

    def _kind(self, name: str, *, first_half: bool) -> FaultKind:
        if name == "other_shape":
            return "usage_shape" if first_half else "flat_shape"
        return name  # type: ignore[return-value]
