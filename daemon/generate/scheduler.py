"""Keeps the servers busy: fixed concurrency for each stage, fair over data sets, nothing sent that is in the files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from contracts.clock import Clock
from contracts.fold.run import RunFold
from contracts.records import Response, Stage
from contracts.run_config import RunConfig
from daemon.condition import Condition
from daemon.events import EventLog
from daemon.generate.attempt import Attempt
from daemon.generate.executor import execute
from daemon.generate.failing import FailureHandling
from daemon.generate.work_queue import WorkQueue
from daemon.prompts.refusals import PromptError
from daemon.servers.pool import ServerPool
from daemon.servers.probe import OK
from daemon.writer import Writer

TRIAL_S: Final = 10.0
"""Samples that were in flight when a server died are sent again one by one: for so long, or until its answer, each is
the only such sample at its server. What kills a server kills it early, and then there is one sample to blame."""
STOP_S: Final = 2.0
"""How long a stop waits for the servers to take the news."""
_IDLE_S: Final = 1.0


class Scheduler:
    """Sends samples until every queue is exhausted, or it is told to stop.

    Args:
        config: The run.
        fold: Its fold, kept up to date by others (see `refresh`).
        pool: The servers.
        writer: Takes the records.
        events: Takes what a person should read.
        clock: Gives the times.
        most_open: Asked for how many attempts may be open, given how many are wanted.
        condition: Says whether anything may be sent.
    """

    def __init__(
        self,
        config: RunConfig,
        fold: RunFold,
        pool: ServerPool,
        writer: Writer,
        events: EventLog,
        clock: Clock,
        most_open: Callable[[int], int],
        condition: Condition,
    ) -> None:
        self._config = config
        self._fold = fold
        self._pool = pool
        self._writer = writer
        self._events = events
        self._clock = clock
        self._most_open = most_open
        self._condition = condition
        self._failures = FailureHandling(config.generate, pool, writer, events, clock)
        self._wake = asyncio.Event()
        self._open: dict[asyncio.Task[None], Attempt] = {}
        self._silent_since: float | None = None
        """Since when attempts have been open without an answer of any kind."""
        self.queues: list[WorkQueue[Any]] = []

    @property
    def in_flight(self) -> int:
        """Open attempts."""
        return len(self._open)

    @property
    def concurrency(self) -> int:
        """How many attempts may be open: what was asked for, within the limit of open files.

        Of those that make answers; in a run that only extracts, of prefill passes.
        """
        own = self._config.generate if self._config.generates else self._config.extract
        asked = self._fold.concurrency if self._fold.events.concurrency is not None else own.concurrency
        return self._most_open(asked or own.concurrency)

    def _room(self, stage: Stage) -> int:
        """Return how many more attempts of a stage may be opened."""
        open_attempts = sum(attempt.queue.stage is stage for attempt in self._open.values())
        if stage is Stage.GENERATE or not self._config.generates:
            # An answer that is not yet in its file is still in flight: a killed daemon sends it again.
            return self.concurrency - open_attempts - self._writer.unwritten
        return self._most_open(self._config.extract.concurrency) - open_attempts

    @property
    def oldest_s(self) -> float | None:
        """Age of the oldest open attempt."""
        return time.monotonic() - min(attempt.started for attempt in self._open.values()) if self._open else None

    @property
    def since_progress_s(self) -> float | None:
        """Seconds since any server said anything, while attempts are open. A timeout of ours is no progress."""
        if not self._open or self._silent_since is None:
            return None
        return time.monotonic() - self._silent_since

    def wake(self) -> None:
        """Look again at what can be sent: something changed."""
        self._wake.set()

    def refresh(self) -> None:
        """Take counts and targets anew: the fold has changed."""
        for queue in self.queues:
            queue.refresh()
        self.wake()

    async def run(self) -> None:
        """Send until it `is_over` (returns), or until cancelled."""
        while True:
            self._wake.clear()
            self._dispatch()
            if self.is_over:
                return
            try:
                async with asyncio.timeout(self._wait_s()):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def stop(self) -> int:
        """Abandon what is open and ask the servers to abort it; return how many attempts that were."""
        tasks, attempts = list(self._open), list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Closing the connection aborts too, but only after some seconds: ask, and wait no longer than that.
        aborts = [attempt.slot.client.abort(attempt.rid) for attempt in attempts if attempt.slot.state == OK]
        try:
            async with asyncio.timeout(STOP_S):
                await asyncio.gather(*aborts)
        except TimeoutError:
            pass
        return len(tasks)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be sent or written, as far as the fold had come at the last `refresh`."""
        if self._open:
            return False
        if self._writer.unwritten:
            return False  # what is not yet in its file is not yet done
        if any(queue.busy for queue in self.queues):
            return False
        return self._condition.draining or all(queue.exhausted and not queue.halted for queue in self.queues)

    def _wait_s(self) -> float:
        """Return the time to the next retry. One that is due and was not sent waits for something that wakes us."""
        now = time.monotonic()
        due = [due for queue in self.queues if (due := queue.next_due()) is not None and due > now]
        return max(min([_IDLE_S, *(each - now for each in due)]), 0.005)

    def _dispatch(self) -> None:
        """Fill the free slots."""
        if not self._condition.may_send:
            self._forget_silence()
            return
        for stage in Stage:
            self._fill(stage)

    def _fill(self, stage: Stage) -> None:
        queues = [queue for queue in self.queues if queue.stage is stage]
        if not queues:
            return
        now, room = time.monotonic(), self._room(stage)
        if not any(queue.has_ready(now, suspects=True) for queue in queues):
            return  # else servers that are idle would be probed for nothing
        while room > 0:
            slot = self._pool.pick()
            if slot is None:
                self._forget_silence()
                return
            suspects = slot.trial is None or now - slot.trial_since >= TRIAL_S
            queue = self._next_queue(queues, now, suspects)
            entry = None if queue is None else queue.take(suspects)
            if queue is None or entry is None:
                return
            attempt = Attempt(slot, queue, entry, queue.rid(entry), number=queue.sent, life=slot.life, started=now)
            if queue.is_suspect(entry):
                slot.trial, slot.trial_since = attempt, now
            self._start(attempt)
            room -= 1

    def _next_queue(self, queues: list[WorkQueue[Any]], now: float, suspects: bool) -> WorkQueue[Any] | None:
        """Return the data set that has the fewest slots for what it still needs."""
        ready = [queue for queue in queues if queue.has_ready(now, suspects)]
        return min(ready, key=lambda queue: (queue.in_flight + 1) / queue.weight, default=None)

    def _start(self, attempt: Attempt) -> None:
        attempt.slot.opened(attempt.started)
        if self._silent_since is None:
            self._silent_since = attempt.started
        task = asyncio.get_running_loop().create_task(self._run(attempt))
        self._open[task] = attempt
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        attempt = self._open.pop(task)
        slot = attempt.slot
        slot.outstanding -= 1
        if attempt.on_trial:
            slot.trial = None
        attempt.queue.landed()
        if not attempt.fruitful:
            attempt.queue.fruitless(attempt)
        if not attempt.silent:
            self._forget_silence()
        self._wake.set()
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self._failures.broke(attempt, fault)

    def _forget_silence(self) -> None:
        """Nothing is open, and that is accounted for: what is sent next is not late yet."""
        if not self._open:
            self._silent_since = None

    async def _run(self, attempt: Attempt) -> None:
        """Run one attempt from start to record."""
        try:
            job = attempt.queue.job(attempt)
        except PromptError as error:
            self._failures.halt(attempt, str(error))
            return
        if job is None:
            return
        generate = self._config.generate
        outcome = await execute(
            job, attempt.slot.client, self._clock, generate.request_timeout_s, generate.think_end_token
        )
        if isinstance(outcome, Response):
            self._silent_since = now = time.monotonic()
            attempt.slot.answered(now)
            attempt.fruitful = True
            attempt.queue.accept(attempt, outcome)
            return
        attempt.silent = outcome.timed_out
        if not (outcome.timed_out or outcome.connection_lost):
            self._silent_since = time.monotonic()
        await self._failures.settle(attempt, outcome)
