"""Time limits for thousands of waits that last minutes: one sweep for all, instead of a timer for each."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final, TypeAlias

Task: TypeAlias = "asyncio.Task[Any]"

SWEEP_S: Final = 0.25
"""How late a limit may be noticed."""


class DeadlineError(Exception):
    """The time was up."""


class Limit:
    """One wait; made by `Deadlines.within`."""

    __slots__ = ("_due", "_due_at", "_expired", "_task")

    def __init__(self, due: dict[Task, float], expired: set[Task], task: Task, due_at: float) -> None:
        self._due = due
        self._expired = expired
        self._task = task
        self._due_at = due_at

    def __enter__(self) -> None:
        self._due[self._task] = self._due_at

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._task
        del self._due[task]
        if task in self._expired:
            self._expired.discard(task)
            # Cancelled by somebody else too: then that goes first.
            if kind is asyncio.CancelledError and task.uncancel() <= 0:
                raise DeadlineError from None


class Deadlines:
    """Cancels what runs over its time. Used on one event loop, between `start` and `stop`."""

    def __init__(self) -> None:
        self._due: dict[Task, float] = {}
        self._expired: set[Task] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to sweep."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SWEEP_S, self._sweep, loop)

    def stop(self) -> None:
        """Sweep no more; what waits then waits without a limit."""
        if self._timer is not None:
            self._timer.cancel()

    def within(self, seconds: float) -> Limit:
        """Return a context that limits what the current task does in it; it raises `DeadlineError` when time is up."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task")
        return Limit(self._due, self._expired, task, asyncio.get_running_loop().time() + seconds)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task, due in self._due.items():
            if due <= now and task not in self._expired:
                self._expired.add(task)
                task.cancel()
        self._timer = loop.call_later(SWEEP_S, self._sweep, loop)
