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
from contracts.records import Requeue, Response, Severity, encode_line
from contracts.run_config import RunConfig
from daemon.events import EventLog
from daemon.generate.executor import Failed, Job, execute
from daemon.generate.failing import FailureHandling, abort
from daemon.generate.queue import DatasetQueue
from daemon.prompts.index import PromptEntry
from daemon.servers.pool import ServerPool, ServerSlot
from daemon.servers.probe import RID_PREFIX
from daemon.writer import Writer

POLL_S: Final = 0.1
"""How often the fold is brought up to date with what was written."""
_IDLE_S: Final = 1.0


class Scheduler:
    """Sends samples until every queue is exhausted, or it is told to stop.

    Args:
        config: The run.
        fold: Its fold; polled here.
        pool: The servers.
        writer: Takes the records.
        events: Takes what a person should read.
        clock: Gives the times.
        on_writing_allowed: Asked before each dispatch: False while the disk is full.
    """

    def __init__(
        self,
        config: RunConfig,
        fold: RunFold,
        pool: ServerPool,
        writer: Writer,
        events: EventLog,
        clock: Clock,
        most_open: int,
        on_writing_allowed: Callable[[], bool],
    ) -> None:
        generate = config.generate
        self._config = generate
        self._fold = fold
        self._pool = pool
        self._writer = writer
        self._events = events
        self._clock = clock
        self._most_open = most_open
        self._writing_allowed = on_writing_allowed
        self._failures = FailureHandling(generate, pool, writer, events, clock)
        self._sampling = config.sampling
        self._parameters: dict[int | None, bytes] = {}
        self._session = f"{int(clock.now() * 1000):x}"
        self._numbers = itertools.count()
        self._wake = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], float] = {}
        self._last_progress = time.monotonic()
        self.queues: list[DatasetQueue] = []
        self.paused: str | None = None
        """Why nothing is sent, when a person or the disk said so."""
        self.draining = False

    @property
    def in_flight(self) -> int:
        """Open attempts."""
        return len(self._tasks)

    @property
    def concurrency(self) -> int:
        """How many attempts may be open: what was asked for, within the limit of open files."""
        asked = self._fold.concurrency or self._config.concurrency
        return min(asked, self._most_open)

    @property
    def oldest_s(self) -> float | None:
        """Age of the oldest open attempt."""
        return time.monotonic() - min(self._tasks.values()) if self._tasks else None

    @property
    def since_progress_s(self) -> float | None:
        """Seconds since anything came back, while attempts are open."""
        if not self._tasks:
            return None
        return time.monotonic() - max(self._last_progress, min(self._tasks.values()))

    def wake(self) -> None:
        """Look again at what can be sent: something changed."""
        self._wake.set()

    async def run(self) -> None:
        """Send until nothing is left (returns), or until cancelled."""
        poller = asyncio.create_task(self._poll())
        try:
            while True:
                self._wake.clear()
                self._dispatch()
                if self._is_over():
                    return
                try:
                    async with asyncio.timeout(self._wait_s()):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            poller.cancel()
            await asyncio.gather(poller, return_exceptions=True)

    async def stop(self) -> int:
        """Abandon what is open and ask the servers to abort it; return how many attempts that were."""
        open_rids = [(slot, rid) for slot in self._pool.slots for rid in slot.open_rids]
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Closing the connection aborts too, but only after some seconds: ask, and wait no longer than that.
        aborts = [asyncio.to_thread(abort, slot, rid) for slot, rid in open_rids if slot.state == "ok"]
        try:
            async with asyncio.timeout(2.0):
                await asyncio.gather(*aborts)
        except TimeoutError:
            pass
        return len(tasks)

    def requeue(self, record: Requeue, dataset: str | None) -> int:
        """Give samples another try and record that; return how many are sent again."""
        count = 0
        for queue in self.queues:
            if dataset in (None, queue.name):
                count += queue.requeue(record)
                self._writer.append(queue.failures_path, encode_line(record))
        self.wake()
        return count

    def _is_over(self) -> bool:
        if self._tasks:
            return False
        if self.draining:
            return True
        # A response that is not yet in its file is not yet done; a halted data set waits for a person.
        return self._writer.unwritten == 0 and all(queue.exhausted and not queue.halted for queue in self.queues)

    def _wait_s(self) -> float:
        due = [due for queue in self.queues if (due := queue.next_due()) is not None]
        return max(min([_IDLE_S, *(each - time.monotonic() for each in due)]), 0.005)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if self._fold.poll():
                for queue in self.queues:
                    queue.refresh()
                self._wake.set()

    def _dispatch(self) -> None:
        """Fill the free slots."""
        if self.draining or self.paused is not None or not self._writing_allowed():
            return
        now, concurrency = time.monotonic(), self.concurrency
        # An answer that is not yet in its file is still in flight: a killed daemon sends it again.
        while len(self._tasks) + self._writer.unwritten < concurrency:
            slot = self._pool.pick()
            queue = self._next_queue(now)
            if slot is None or queue is None:
                return
            entry = queue.take(now)
            if entry is None:
                return
            self._start(slot, queue, entry, now)

    def _next_queue(self, now: float) -> DatasetQueue | None:
        """Return the data set that has the fewest slots for what it still needs."""
        ready = [queue for queue in self.queues if queue.has_ready(now)]
        return min(ready, key=lambda queue: (queue.in_flight + 1) / max(queue.weight, 1e-9), default=None)

    def _start(self, slot: ServerSlot, queue: DatasetQueue, entry: PromptEntry, now: float) -> None:
        slot.outstanding += 1
        task = asyncio.get_running_loop().create_task(self._attempt(slot, queue, entry))
        self._tasks[task] = now
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._wake.set()
        if not task.cancelled() and task.exception() is not None:
            self._events.emit(Severity.CRITICAL, "daemon.fault", f"a sample's attempt broke: {task.exception()!r}")

    async def _attempt(self, slot: ServerSlot, queue: DatasetQueue, entry: PromptEntry) -> None:
        """Run one attempt from start to record."""
        suspect = queue.is_suspect(entry)
        rid = self._rid(queue.name, entry.key)
        slot.open_rids.add(rid)
        try:
            job = self._job(queue, entry, rid)
            outcome = await execute(job, slot.client, self._clock, self._config.request_timeout_s, self._think_end)
            if not (isinstance(outcome, Failed) and outcome.connection_lost):
                self._last_progress = time.monotonic()
            if isinstance(outcome, Response):
                self._accept(queue, entry, outcome)
            else:
                await self._failures.settle(slot, queue, entry, job, outcome)
        finally:
            slot.open_rids.discard(rid)
            slot.outstanding -= 1
            queue.landed(entry, suspect)

    def _accept(self, queue: DatasetQueue, entry: PromptEntry, response: Response) -> None:
        self._writer.append(queue.responses_path, encode_line(response))
        queue.refused_in_a_row = 0
        queue.attempts.pop(entry.key, None)
        queue.deaths.pop(entry.key, None)

    def _job(self, queue: DatasetQueue, entry: PromptEntry, rid: str) -> Job:
        return Job(
            dataset=queue.name,
            sample_id=entry.sample_id,
            rid=rid,
            input_ids=queue.index.read_ids(entry),
            prompt_tokens=entry.n_tokens,
            sampling_params=self._sampling_params(entry.max_new_tokens),
            attempt=queue.attempts.get(entry.key, 0) + 1,
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
        return f"{RID_PREFIX}{sample}.{self._session}{next(self._numbers):x}"

    @property
    def _think_end(self) -> int | None:
        return self._config.think_end_token
