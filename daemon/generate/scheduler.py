"""Keeps the servers busy: fixed concurrency, fair over data sets, nothing sent whose response is in the files."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import Callable
from typing import Final

import msgspec

from contracts.clock import Clock
from contracts.fold.run import RunFold
from contracts.records import Response, encode_line
from contracts.run_config import RunConfig
from daemon.condition import Condition
from daemon.events import EventLog
from daemon.generate.attempt import Attempt
from daemon.generate.executor import Job, execute
from daemon.generate.failing import FailureHandling
from daemon.generate.queue import DatasetQueue
from daemon.prompts.refusals import PromptError
from daemon.servers.pool import ServerPool
from daemon.servers.probe import OK, RID_PREFIX
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
        generate = config.generate
        self._config = generate
        self._fold = fold
        self._pool = pool
        self._writer = writer
        self._events = events
        self._clock = clock
        self._most_open = most_open
        self._condition = condition
        self._failures = FailureHandling(generate, pool, writer, events, clock)
        self._sampling = config.sampling
        self._parameters: dict[int | None, bytes] = {}
        self._session = f"{int(clock.now() * 1000):x}"
        self._numbers = itertools.count()
        self._wake = asyncio.Event()
        self._open: dict[asyncio.Task[None], Attempt] = {}
        self._silent_since: float | None = None
        """Since when attempts have been open without an answer of any kind."""
        self.queues: list[DatasetQueue] = []

    @property
    def in_flight(self) -> int:
        """Open attempts."""
        return len(self._open)

    @property
    def concurrency(self) -> int:
        """How many attempts may be open: what was asked for, within the limit of open files."""
        return self._most_open(self._fold.concurrency or self._config.concurrency)

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
        now, concurrency = time.monotonic(), self.concurrency
        # An answer that is not yet in its file is still in flight: a killed daemon sends it again.
        while len(self._open) + self._writer.unwritten < concurrency:
            slot = self._pool.pick()
            if slot is None:
                self._forget_silence()
                return
            suspects = slot.trial is None or now - slot.trial_since >= TRIAL_S
            queue = self._next_queue(now, suspects)
            entry = None if queue is None else queue.take(suspects)
            if queue is None or entry is None:
                return
            attempt = Attempt(
                slot, queue, entry, self._rid(queue.name, entry.key), number=queue.sent, life=slot.life, started=now
            )
            if queue.is_suspect(entry):
                slot.trial, slot.trial_since = attempt, now
            self._start(attempt)

    def _next_queue(self, now: float, suspects: bool) -> DatasetQueue | None:
        """Return the data set that has the fewest slots for what it still needs."""
        ready = [queue for queue in self.queues if queue.has_ready(now, suspects)]
        return min(ready, key=lambda queue: (queue.in_flight + 1) / queue.weight, default=None)

    def _start(self, attempt: Attempt) -> None:
        attempt.slot.outstanding += 1
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
            job = self._job(attempt)
        except PromptError as error:
            self._failures.halt(attempt, str(error))
            return
        outcome = await execute(
            job, attempt.slot.client, self._clock, self._config.request_timeout_s, self._config.think_end_token
        )
        if isinstance(outcome, Response):
            self._silent_since = time.monotonic()
            self._accept(attempt, outcome)
            return
        attempt.silent = outcome.timed_out
        if not (outcome.timed_out or outcome.connection_lost):
            self._silent_since = time.monotonic()
        await self._failures.settle(attempt, outcome)

    def _accept(self, attempt: Attempt, response: Response) -> None:
        queue = attempt.queue
        self._writer.append(queue.responses_path, encode_line(response))
        attempt.slot.failed_in_a_row = 0
        queue.answered(attempt.entry, response.completion_tokens)

    def _job(self, attempt: Attempt) -> Job:
        queue, entry = attempt.queue, attempt.entry
        return Job(
            dataset=queue.name,
            sample_id=entry.sample_id,
            rid=attempt.rid,
            input_ids=queue.index.read_ids(entry),
            prompt_tokens=entry.n_tokens,
            sampling_params=self._sampling_params(entry.max_new_tokens),
            attempt=queue.trouble_of(entry).attempts + 1,
        )

    def _sampling_params(self, max_new_tokens: int | None) -> bytes:
        text = self._parameters.get(max_new_tokens)
        if text is None:
            own = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
            text = self._parameters[max_new_tokens] = msgspec.json.encode({**self._sampling, **own})
        return text

    def _rid(self, dataset: str, key: bytes) -> str:
        """Return a request id that is ours, names the sample, and is used once."""
        sample = hashlib.blake2b(dataset.encode() + b"\0" + key, digest_size=8).hexdigest()
        return f"{RID_PREFIX}{sample}.{self._session}.{next(self._numbers):x}"
