"""A failed attempt: what it was, what is recorded of it, where its sample goes."""

from __future__ import annotations

import logging
import random
import time
from typing import Final

from contracts.clock import Clock
from contracts.fold.events import EXTRACT_HALTED, HALTED
from contracts.records import Failure, FailureClass, NextStep, Severity, Stage, encode_line
from contracts.run_config import Generate
from daemon.events import EventLog
from daemon.generate.attempt import Attempt
from daemon.generate.executor import Failed
from daemon.generate.retry import REFUSALS_IN_A_ROW, Decision, RetryRules, decide
from daemon.generate.work_queue import Trouble
from daemon.servers.pool import SICK_AFTER, ServerPool
from daemon.writer import Writer

_LOG: Final = logging.getLogger("eagle3")


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

    async def settle(self, attempt: Attempt, failed: Failed) -> None:
        """Record one failed attempt and decide what becomes of its sample."""
        slot, queue, entry = attempt.slot, attempt.queue, attempt.entry
        error, message = failed.error, failed.message
        blameless = failed.busy or failed.refused
        if failed.timed_out:
            # Free the server's slot before ours is used again, so that never more are open there than we know of.
            await slot.client.abort(attempt.rid)
        if failed.connection_lost and await self._pool.died(slot, attempt.life, refused=failed.refused):
            if failed.refused:
                queue.put_back(entry)
                return
            error, message = FailureClass.SERVER_DOWN, f"in flight when {slot.url} died: {message}"
        elif error is FailureClass.TRANSIENT and not blameless and await self._is_sick(attempt):
            blameless, message = True, f"{message}; {slot.url} fails at everything: {slot.reason}"
        elif error is FailureClass.REJECTED:
            slot.failed_in_a_row = 0
            error, message = self._refused(attempt, message)
        self._conclude(attempt, failed, error, message, blameless)

    def broke(self, attempt: Attempt, fault: BaseException) -> None:
        """Settle an attempt that a fault of our own ended: its sample is given up, the run goes on."""
        _LOG.error("an attempt at sample %s broke", attempt.entry.sample_id, exc_info=fault)
        text = f"eagle3 itself failed on it ({fault!r}); the details are in daemon.log"
        self._events.emit(
            Severity.CRITICAL, "daemon.fault", f"{attempt.queue.name}: {text}", dataset=attempt.queue.name
        )
        error, message = self._refused(attempt, text)
        self._conclude(attempt, Failed(error, message), error, message, False)

    def halt(self, attempt: Attempt, why: str) -> None:
        """Stop a data set because of something that no other sample of it would escape."""
        error = FailureClass.CONTRACT_DRIFT
        self._conclude(attempt, Failed(error, why), error, why, False)

    async def _is_sick(self, attempt: Attempt) -> bool:
        """Whether the failure is one of many at a server that fails at everything, so that no sample is to blame."""
        slot = attempt.slot
        if slot.life != attempt.life:
            return False
        slot.failed_in_a_row += 1
        return slot.failed_in_a_row >= SICK_AFTER and await self._pool.is_sick(slot)

    def _refused(self, attempt: Attempt, message: str) -> tuple[FailureClass, str]:
        """Tell a sample that is refused from a data set of which everything is."""
        in_a_row = attempt.queue.refused(attempt.number)
        if in_a_row < REFUSALS_IN_A_ROW:
            return FailureClass.REJECTED, message
        return FailureClass.CONTRACT_DRIFT, f"{in_a_row} samples in a row were refused, the last: {message}"

    def _conclude(self, attempt: Attempt, failed: Failed, error: FailureClass, message: str, blameless: bool) -> None:
        queue, entry = attempt.queue, attempt.entry
        trouble = queue.trouble.setdefault(entry.key, Trouble())
        trouble.deaths += error is FailureClass.SERVER_DOWN
        decision = decide(
            error,
            trouble.attempts + 1,
            self._rules,
            self._chance,
            blameless=blameless,
            waits=trouble.waits,
            retry_after_s=failed.retry_after_s,
            deaths=trouble.deaths,
            on_trial=attempt.on_trial,
        )
        if error is FailureClass.SERVER_DOWN and decision.next is NextStep.QUARANTINED:
            error = FailureClass.POISON
        trouble.attempts += decision.charged
        trouble.waits += blameless and decision.next is NextStep.RETRY
        self._record(attempt, failed, decision, error, message, trouble)
        if decision.next is NextStep.QUARANTINED:
            queue.quarantine(entry, error)
        elif decision.next is NextStep.STOPPED:
            self._stop(attempt, message)
        elif error is FailureClass.SERVER_DOWN:
            queue.suspect(entry)
        else:
            queue.retry_at(entry, time.monotonic() + (decision.delay_s or 0.0), error)

    def _record(
        self,
        attempt: Attempt,
        failed: Failed,
        decision: Decision,
        error: FailureClass,
        message: str,
        trouble: Trouble,
    ) -> None:
        failure = Failure(
            sample_id=attempt.entry.sample_id,
            error=error,
            message=message,
            next=decision.next,
            at=self._clock.now(),
            attempt=trouble.attempts,
            rid=attempt.rid,
            server=attempt.slot.url,
            http_status=failed.status,
            retry_in_s=None if decision.delay_s is None else round(decision.delay_s, 3),
            completion_tokens=failed.completion_tokens,
            stage=attempt.queue.stage,
        )
        self._writer.append(attempt.queue.failures_path, encode_line(failure))

    def _stop(self, attempt: Attempt, message: str) -> None:
        queue = attempt.queue
        queue.put_back(attempt.entry)
        if not queue.halted:
            queue.halted = True
            if queue.stage is Stage.GENERATE:
                kind, said = HALTED, f"{queue.name} is stopped: {message}"
            else:
                kind, said = EXTRACT_HALTED, f"{queue.name}: hidden states are no longer taken: {message}"
            self._events.emit(Severity.CRITICAL, kind, said, dataset=queue.name)
