"""What passes between the HTTP side and whatever generates: jobs in, results out, load figures on demand.

Two backends speak this: `engine.Engine` (the tiny transformer in a thread) and `canned.CannedBackend` (seeded
answers without torch).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

FinishReason = dict[str, Any]


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

    output_ids: list[int]
    finish_reason: FinishReason | None
    started: float = 0.0
    prefilled: float = 0.0
    finished: float = 0.0
    ids_json: bytes | None = None
    text_json: bytes | None = None


@dataclass(slots=True)
class Job:
    """One prompt to answer. Callbacks run on the event loop's thread, `done` exactly once and last."""

    rid: str
    input_ids: list[int]
    sampling: Sampling
    done: Callable[[Result], None]
    progress: Callable[[Result], None] | None = None
    delay: float = 0.0
    received: float = field(default_factory=time.time)

    def token_limit(self, context_length: int) -> int:
        """The most tokens this job may generate: what it asked for, and never past the context."""
        room = context_length - len(self.input_ids) - 1
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

    def abort(self, rid: str | None) -> None:
        """End the job with this rid, or all of them for None; unknown rids are ignored."""

    def load(self) -> Load:
        """What is going on now."""


class Throughput:
    """Generated tokens per second over the last few seconds; 0 when idle, as SGLang's gauge."""

    def __init__(self, window: float = 3.0) -> None:
        self._window = window
        self._events: deque[tuple[float, int]] = deque()
        self._sum = 0

    def add(self, tokens: int, now: float) -> None:
        """Count `tokens` generated at `now` (seconds, monotonic)."""
        self._events.append((now, tokens))
        self._sum += tokens
        self._forget(now)

    def rate(self, now: float) -> float:
        """Tokens per second over the window that ends at `now`."""
        self._forget(now)
        return self._sum / self._window

    def _forget(self, now: float) -> None:
        while self._events and self._events[0][0] < now - self._window:
            self._sum -= self._events.popleft()[1]
