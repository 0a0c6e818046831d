"""The heartbeat: what only the daemon knows, said once a second."""

from __future__ import annotations

import os

from contracts.clock import Clock, boot_id
from contracts.records import Heartbeat, Stage
from daemon.condition import WAITING, Condition
from daemon.extract.captures import Captures
from daemon.generate.scheduler import Scheduler
from daemon.servers.pool import ServerPool
from daemon.servers.probe import OK


def heartbeat(
    clock: Clock, condition: Condition, scheduler: Scheduler, pool: ServerPool, captures: Captures | None = None
) -> Heartbeat:
    """Return the heartbeat of this moment."""
    generating = [queue for queue in scheduler.queues if queue.stage is Stage.GENERATE]
    extracting = [queue for queue in scheduler.queues if queue.stage is Stage.EXTRACT]
    return Heartbeat(
        at=clock.now(),
        mono=clock.mono(),
        boot_id=boot_id(),
        pid=os.getpid(),
        state=condition.state,
        reason=_reason(condition, scheduler, pool),
        blocked=blocked(condition, scheduler, pool),
        concurrency=scheduler.concurrency,
        in_flight={queue.name: queue.in_flight for queue in generating},
        waiting_retry={queue.name: queue.waiting_retry for queue in generating},
        oldest_request_s=scheduler.oldest_s,
        since_progress_s=scheduler.since_progress_s,
        extracting={queue.name: queue.in_flight for queue in extracting},
        taking=0 if captures is None else captures.taking,
        dump_used_bytes=None if captures is None else captures.used_bytes,
        dump_budget_bytes=None if captures is None else captures.budget_bytes,
        store_trouble=condition.store_trouble,
    )


def _reason(condition: Condition, scheduler: Scheduler, pool: ServerPool) -> str | None:
    """Say why nothing is sent, where that is so."""
    if condition.draining and condition.disk_trouble is not None:
        return f"{condition.disk_trouble}; the drain ends when that works, eagle3 stop ends now"
    held = condition.disk_trouble or condition.paused
    if held is not None:
        return held
    if condition.activity is not None:
        servers = _servers(pool)
        usable = any(slot.state == OK for slot in pool.slots)
        return condition.activity if usable or not servers else f"{condition.activity} ({servers})"
    return blocked(condition, scheduler, pool) or condition.disk_doubt


def blocked(condition: Condition, scheduler: Scheduler, pool: ServerPool) -> str | None:
    """Return why nothing can be sent though work is left; None when something can.

    None also where a person or the disk said no, and until every server has been tried.
    """
    if not condition.may_send:
        return None
    preparing = condition.activity is not None
    queues = scheduler.queues
    if not preparing and all(queue.exhausted for queue in queues):
        return None
    if condition.activity in (None, WAITING) and pool.all_tried and all(slot.state != OK for slot in pool.slots):
        return f"no server can be used: {_servers(pool)}"
    if preparing or scheduler.in_flight or not all(queue.halted or queue.exhausted for queue in queues):
        return None
    return "only stopped data sets are left"


def _servers(pool: ServerPool) -> str:
    return "; ".join(f"{slot.url} {slot.state}: {slot.reason}" for slot in pool.slots if slot.reason)
