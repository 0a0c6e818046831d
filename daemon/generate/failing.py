"""A failed attempt: what it was, what is recorded of it, where its sample goes."""

from __future__ import annotations

import asyncio
import random
import time

from contracts.clock import Clock
from contracts.records import Failure, FailureClass, NextStep, Severity, encode_line
from contracts.run_config import Generate
from daemon.events import EventLog
from daemon.generate.executor import Failed, Job
from daemon.generate.queue import DatasetQueue
from daemon.generate.retry import REFUSALS_IN_A_ROW, Decision, RetryRules, decide
from daemon.prompts.index import PromptEntry
from daemon.servers.info import ServerUnreachable
from daemon.servers.pool import ServerPool, ServerSlot
from daemon.writer import Writer


class FailureHandling:
    """Settles failed attempts: records each, and puts its sample where the retry rules say.

    Args:
        config: ``[generate]``, for the retry rules.
        pool: Tells whether a lost connection was a server's death.
        writer: Takes the records.
        events: Takes what a person should read.
        clock: Gives the times.
    """

    def __init__(self, config: Generate, pool: ServerPool, writer: Writer, events: EventLog, clock: Clock) -> None:
        self._rules = RetryRules(config.max_attempts, config.retry_base_s, config.retry_max_s)
        self._chance = random.Random()
        self._pool = pool
        self._writer = writer
        self._events = events
        self._clock = clock

    async def settle(self, slot: ServerSlot, queue: DatasetQueue, entry: PromptEntry, job: Job, failed: Failed) -> None:
        """Record one failed attempt and decide what becomes of its sample."""
        error, message, deaths = failed.error, failed.message, queue.deaths.get(entry.key, 0)
        if failed.timed_out:
            # Free the server's slot before ours is used again, so that never more are open there than we know of.
            await asyncio.to_thread(abort, slot, job.rid)
        if failed.connection_lost and await self._pool.died(slot, refused=failed.refused):
            if failed.refused:
                queue.put_back(entry)
                return
            deaths += 1
            error, message = FailureClass.SERVER_DOWN, f"in flight when {slot.url} died: {message}"
        if error is FailureClass.REJECTED:
            queue.refused_in_a_row += 1
            if queue.refused_in_a_row >= REFUSALS_IN_A_ROW:
                error = FailureClass.CONTRACT_DRIFT
                message = f"{queue.refused_in_a_row} samples in a row were refused, the last: {message}"
        decision = decide(
            error,
            job.attempt,
            self._rules,
            self._chance,
            status=failed.status,
            retry_after_s=failed.retry_after_s,
            deaths=deaths,
        )
        if error is FailureClass.SERVER_DOWN and decision.next is NextStep.QUARANTINED:
            error = FailureClass.POISON
        self._record(queue, entry, job, slot, failed, decision, error, message)
        self._place(queue, entry, job, decision, error, deaths)

    def _record(
        self,
        queue: DatasetQueue,
        entry: PromptEntry,
        job: Job,
        slot: ServerSlot,
        failed: Failed,
        decision: Decision,
        error: FailureClass,
        message: str,
    ) -> None:
        failure = Failure(
            sample_id=entry.sample_id,
            error=error,
            message=message,
            next=decision.next,
            at=self._clock.now(),
            attempt=job.attempt if decision.charged else job.attempt - 1,
            rid=job.rid,
            server=slot.url,
            http_status=failed.status,
            retry_in_s=None if decision.delay_s is None else round(decision.delay_s, 3),
            completion_tokens=failed.completion_tokens,
        )
        self._writer.append(queue.failures_path, encode_line(failure))

    def _place(
        self,
        queue: DatasetQueue,
        entry: PromptEntry,
        job: Job,
        decision: Decision,
        error: FailureClass,
        deaths: int,
    ) -> None:
        """Put the sample where its decision says."""
        if decision.charged:
            queue.attempts[entry.key] = job.attempt
        if decision.next is NextStep.QUARANTINED:
            queue.quarantine(entry)
        elif decision.next is NextStep.STOPPED:
            queue.put_back(entry)
            if not queue.halted:
                queue.halted = True
                self._events.emit(
                    Severity.CRITICAL, "dataset.halted", f"{queue.name} is stopped: {error}", dataset=queue.name
                )
        elif error is FailureClass.SERVER_DOWN:
            queue.deaths[entry.key] = deaths
            queue.suspect(entry)
        else:
            queue.retry_at(entry, time.monotonic() + (decision.delay_s or 0.0))


def abort(slot: ServerSlot, rid: str) -> None:
    """Ask a server to abort a request; a server that is not there has nothing to abort. Blocks: call it in a thread."""
    try:
        slot.control.abort(rid)
    except ServerUnreachable:
        return
