"""What passes between the HTTP side and whatever generates: jobs in, results out, load figures on demand.

Two backends speak this: `engine.Engine` (the tiny transformer in a thread) and `canned.CannedBackend` (seeded
answers without torch).
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

FinishReason = dict[str, Any]
Ids: TypeAlias = "list[int] | array[int]"
"""Output ids; an array where they come from a pool, because slicing one is a copy of bytes."""


def aborted() -> FinishReason:
    """The finish reason of a request that `/abort_request` or a dropped client ended."""
    return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


@dataclass(slots=True, frozen=True)
class Sampling:
    """Validated sampling parameters of one request; names and defaults are SGLang's."""

    max_new_tokens: int | None = 128
    min_new_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    no_stop_trim: bool = False
    skip_special_tokens: bool = True
    sampling_seed: int | None = None
    n: int = 1


@dataclass(slots=True)
class Result:
    """One answer, whole or (streaming) so far; `finish_reason` is None until the end.

    Times are `time.time()` seconds. `ids_json` and `text_json` are set when the backend has them rendered
    already: the JSON list and JSON string, ready to be put into a body.
    """

    output_ids: Ids
    finish_reason: FinishReason | None
    started: float = 0.0
    prefilled: float = 0.0
    finished: float = 0.0
    ids_json: bytes | None = None
    text_json: bytes | None = None
    cached_tokens: int = 0
    retractions: int = 0


@dataclass(slots=True, eq=False)
class Job:
    """One prompt to answer. Callbacks run on the event loop's thread, `done` exactly once and last."""

    rid: str
    input_ids: list[int]
    sampling: Sampling
    done: Callable[[Result], None]
    progress: Callable[[Result], None] | None = None
    delay: float = 0.0
    cache_key: str = ""
    """Prompts share a cached prefix only with those of the same key."""
    received: float = field(default_factory=time.time)

    def matches(self, target: Job | str | None) -> bool:
        """Whether an abort of `target` (a job, a whole rid, None for all) means this job."""
        return target is None or target is self or target == self.rid

    def token_limit(self, context_length: int) -> int:
        """The most tokens this job may generate: what it asked for, but SGLang ends two before the context is full."""
        room = context_length - len(self.input_ids) - 2
        wanted = self.sampling.max_new_tokens
        return max(0, room if wanted is None else min(wanted, room))


@dataclass(slots=True)
class Load:
    """Counts at one moment; tokens are prompt and answer tokens that the running jobs hold."""

    running: int = 0
    waiting: int = 0
    used_tokens: int = 0
    gen_throughput: float = 0.0
    steps: int = 0
    prefilled_tokens: int = 0


class Backend(Protocol):
    """What the HTTP side needs of a generator; all methods are called on the event loop's thread."""

    def start(self) -> None:
        """Be ready: load, warm up, start the thread. Called inside the running loop."""

    def stop(self) -> None:
        """Release everything; jobs still held get no answer."""

    def submit(self, job: Job) -> None:
        """Take a job; its callbacks follow later."""

    def abort(self, target: Job | str | None) -> None:
        """End this very job, the one with this rid, or all of them for None; unknown ones are ignored."""

    def load(self) -> Load:
        """What is going on now."""

    def flush(self) -> None:
        """Forget the cached prefixes, where any are kept."""


class Throughput:
    """Generated tokens per second over the last few seconds; 0 when idle, as SGLang's gauge.

    The scheduler thread adds, the event loop's thread asks; that no lock is needed follows from `rate` only reading.
    """

    def __init__(self, window: float = 3.0, grain: float = 0.1) -> None:
        self._window, self._grain = window, grain
        self._counts: deque[tuple[float, int]] = deque(maxlen=int(window / grain) + 2)

    def add(self, tokens: int, now: float) -> None:
        """Count `tokens` generated at `now` (seconds, monotonic)."""
        if self._counts and now - self._counts[-1][0] < self._grain:
            began, counted = self._counts[-1]
            self._counts[-1] = (began, counted + tokens)
        else:
            self._counts.append((now, tokens))

    def rate(self, now: float) -> float:
        """Tokens per second over the window that ends at `now`."""
        return sum(tokens for began, tokens in self._counts.copy() if began >= now - self._window) / self._window
