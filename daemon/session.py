"""One daemon at work: the parts put together, from its first look at the files to its last checkpoint."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from contracts.clock import Clock, boot_id
from contracts.fold.dataset import DatasetFold
from contracts.fold.events import PAUSED, RESUMED, STARTED, STOPPED
from contracts.fold.run import RunFold
from contracts.liveness import Liveness
from contracts.records import FailureClass, Heartbeat, NextStep, Requeue, Severity, encode_line
from contracts.report import build_status
from contracts.run_config import RunConfig
from contracts.run_dir import RunDir
from contracts.sample_id import sample_key
from contracts.status import DatasetStage, RunState, RunStatus
from contracts.version import version
from daemon.alert_watch import AlertWatch
from daemon.events import EventLog
from daemon.fingerprint import Fingerprint
from daemon.fold_keeper import FoldKeeper
from daemon.generate.scheduler import Scheduler
from daemon.open_files import ConnectionLimit, reserved
from daemon.preparation import Preparation, limits_of
from daemon.server_rules import ServerRules, needs_of
from daemon.servers.info import proxy_note
from daemon.servers.pool import ServerPool, ServerSlot
from daemon.servers.probe import OK
from daemon.telemetry.gpu import GpuCollector
from daemon.telemetry.host import HostCollector
from daemon.telemetry.loop import Telemetry
from daemon.telemetry.rotation import RotatingAppender
from daemon.telemetry.server import ServerCollector
from daemon.threads import in_thread
from daemon.writer import Writer

ALERTS_EVERY_S: Final = 1.0
CLOSE_WRITER_S: Final = 10.0
FIRST_PROBES_S: Final = 10.0
"""How long the first usable server waits for the others to tell what they take."""
_LOG: Final = logging.getLogger("eagle3")


class Session:
    """A daemon's work on one run; `run` returns when it is over.

    Args:
        run: The run directory; its lock is held.
        config: Its run.toml.
        fold: Brought up to date.
        fingerprint: What the run's data depends on.
        notes: Sentences from the start that belong into the events.
    """

    def __init__(
        self, run: RunDir, config: RunConfig, fold: RunFold, fingerprint: Fingerprint, notes: list[str]
    ) -> None:
        self.run_dir = run
        self.config = config
        self.fold = fold
        self.clock = Clock()
        self.pid = os.getpid()
        self.since = self.clock.now()
        self._notes = notes
        self._loop = asyncio.get_running_loop()
        self._disk_trouble: str | None = None
        self._activity: str | None = "starting"
        self._early: list[tuple[Requeue, str | None]] = []
        self.unusable: list[str] = []
        """Why data sets cannot be used, in sentences."""
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self.writer = Writer(self._written, self._writing_trouble)
        self.events = EventLog(lambda line: self.writer.append(run.events, line), self.clock, list(fold.events.last))
        self._alerts = AlertWatch(self.events, self.clock)
        self._rules = ServerRules(config, fingerprint, run.fingerprint, self.events)
        self.pool = ServerPool(config, self._server_changed, self._rules.objection)
        limit = ConnectionLimit(
            reserved(len(config.datasets), len(config.servers)),
            lambda said: self.events.emit(Severity.WARNING, "daemon.note", said),
        )
        self.scheduler = Scheduler(
            config,
            fold,
            self.pool,
            self.writer,
            self.events,
            self.clock,
            limit.fit,
            lambda: self._disk_trouble is None,
        )
        self._keeper = FoldKeeper(fold, self.events, self.scheduler.refresh)
        self._telemetry = self._make_telemetry()

    async def run(self) -> bool:
        """Work until everything is done, or until told to end.

        Returns:
            Whether work is left.

        Raises:
            OSError: A journal cannot be opened.
        """
        self._open_journals()
        self.writer.start()
        self.events.emit(
            Severity.INFO,
            STARTED,
            f"daemon {version()} started, pid {self.pid}",
            data={"pid": self.pid, "boot_id": boot_id()},
        )
        for note in self._notes:
            self.events.emit(Severity.WARNING, "daemon.note", note)
        await self.pool.open()
        keeping = self._helper(self._keeper.run())
        helpers = [keeping, self._helper(self._telemetry.run()), self._helper(self._watch_alerts())]
        work = asyncio.create_task(self._work())
        stopping = asyncio.create_task(self._until_stopped())
        try:
            # Without the fold nobody would notice that a target is reached: its end is the end, telemetry's is not.
            done, _ = await asyncio.wait({work, stopping, keeping}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._end([*helpers, work, stopping])
        return self._is_work_left()

    def _helper(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start something that runs beside the work; should it break, that is said."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._helper_ended)
        return task

    def _helper_ended(self, task: asyncio.Task[None]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            _LOG.error("a part of the daemon broke", exc_info=fault)
            self.events.emit(
                Severity.CRITICAL, "daemon.fault", f"a part of the daemon broke: {fault!r}; see daemon.log"
            )

    async def _until_stopped(self) -> None:
        await self._stopping.wait()

    async def _work(self) -> None:
        self._activity = "importing prompts"
        preparation = Preparation(self.run_dir, self.config, self.fold, self.events, self.clock, self.writer)
        self.unusable = preparation.failed
        await preparation.import_prompts()
        if await self._nothing_left():
            return
        self._activity = "waiting for a server"
        await self._until_servers()
        if self.scheduler.draining:
            return
        self._activity = "checking the prompts"
        limits = limits_of(self.config, self.pool.probes)
        queues = await preparation.make_queues(limits)
        for record, dataset in self._early:
            for queue in queues:
                if dataset in (None, queue.name):
                    queue.requeue(record)
        self._rules.needs = needs_of(queues, limits)
        self.scheduler.queues += queues
        while self.writer.unwritten and not self.scheduler.draining:
            # What is refused is on the disk before anything is sent.
            self._changed.clear()
            await self._changed.wait()
        # Prompts by the hundred thousand live as long as we do: the collector need not look at them every few seconds.
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        self._activity = None
        while not self.scheduler.is_over:
            await self.scheduler.run()
            # A target that was raised a moment ago is in its file by now, and may not have been read.
            await self._keeper.poll()
            self.scheduler.refresh()

    async def _until_servers(self) -> None:
        """Wait for a usable server, and then a little for the others: prompts must fit them all."""
        patience_ends: float | None = None
        while not self.scheduler.draining:
            if self.pool.probes:
                now = self._loop.time()
                patience_ends = now + FIRST_PROBES_S if patience_ends is None else patience_ends
                if self.pool.all_tried or now >= patience_ends:
                    return
            self._changed.clear()
            try:
                async with asyncio.timeout_at(patience_ends):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _nothing_left(self) -> bool:
        """Whether the files alone show that all is done: no server is needed to say so."""
        status = self.status()
        finished = [DatasetStage.FINISHED, DatasetStage.PRETOKENIZED]
        return all(dataset.stage in finished and dataset.prompts for dataset in status.datasets)

    def _open_journals(self) -> None:
        paths = [self.run_dir.events]
        for dataset in self.fold.datasets.values():
            paths += [dataset.folder.responses, dataset.folder.failures]
        for path in paths:
            repair = self.writer.open(path)
            if repair is not None:
                self._notes.append(str(repair))
        self._notes += self.fold.notes
        self.fold.notes.clear()

    async def _watch_alerts(self) -> None:
        while True:
            await asyncio.sleep(ALERTS_EVERY_S)
            self._alerts.update(self.status().alerts)

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        given_up = await self.scheduler.stop()
        await self.pool.close()
        said = f"daemon ended; {given_up} open requests given up" if given_up else "daemon ended"
        self.events.emit(Severity.INFO, STOPPED, said)
        lost = await in_thread(lambda: self.writer.close(CLOSE_WRITER_S), "journal-close")
        for queue in self.scheduler.queues:
            queue.index.close()
        await in_thread(lambda: self._telemetry.wait(1.0), "telemetry-wait")
        await self._keeper.poll()
        if lost:
            _LOG.error("%d records could not be written; their samples are sent again at the next start", lost)
        else:
            self._keeper.save()

    def _is_work_left(self) -> bool:
        status = build_status(self.fold, Liveness(False), self.clock.now())
        return status.state is not RunState.FINISHED

    def status(self) -> RunStatus:
        """Return the status, as everybody else builds it."""
        liveness = Liveness(True, self.pid, self.since)
        return build_status(self.fold, liveness, self.clock.now())

    def heartbeat(self) -> Heartbeat:
        """Return what only this process knows."""
        scheduler = self.scheduler
        return Heartbeat(
            at=self.clock.now(),
            mono=self.clock.mono(),
            boot_id=boot_id(),
            pid=self.pid,
            state=self._state(),
            reason=self._reason(),
            concurrency=scheduler.concurrency,
            in_flight={queue.name: queue.in_flight for queue in scheduler.queues},
            waiting_retry={queue.name: queue.waiting_retry for queue in scheduler.queues},
            oldest_request_s=scheduler.oldest_s,
            since_progress_s=scheduler.since_progress_s,
        )

    def _state(self) -> str:
        if self.scheduler.draining:
            return "draining"
        return "paused" if self.scheduler.paused is not None or self._disk_trouble is not None else "running"

    def _reason(self) -> str | None:
        if self._disk_trouble is not None:
            return self._disk_trouble
        if self.scheduler.paused is not None:
            return self.scheduler.paused
        if self._activity is not None:
            down = [f"{slot.url} {slot.state}: {slot.reason}" for slot in self.pool.slots if slot.reason]
            waiting = self._activity == "waiting for a server" and down
            return f"{self._activity} ({'; '.join(down)})" if waiting else self._activity
        if not any(slot.state == OK for slot in self.pool.slots):
            return "no server can be used: " + "; ".join(f"{slot.url} {slot.reason}" for slot in self.pool.slots)
        queues = self.scheduler.queues
        if queues and all(queue.halted or queue.exhausted for queue in queues) and not self.scheduler.in_flight:
            return "only stopped data sets are left"
        return None

    def pause(self, reason: str) -> bool:
        """Send nothing new."""
        if self.scheduler.paused is not None:
            return False
        self.scheduler.paused = reason
        self.events.emit(Severity.INFO, PAUSED, f"paused: {reason}")
        return True

    def resume(self) -> bool:
        """Go on after a pause, or take back a drain."""
        held = self.scheduler.paused is not None or self.scheduler.draining
        if held:
            self.scheduler.paused, self.scheduler.draining = None, False
            if self._disk_trouble is None:
                self.events.emit(Severity.INFO, RESUMED, "resumed")
            else:
                self.events.emit(Severity.INFO, "run.waiting", f"resumed, but it still waits: {self._disk_trouble}")
            self.scheduler.wake()
        return held

    def drain(self) -> None:
        """Let what is in flight finish, then end."""
        if not self.scheduler.draining:
            self.scheduler.draining = True
            self._changed.set()
            self.events.emit(Severity.INFO, "run.draining", f"draining: {self.scheduler.in_flight} requests are open")
            self.scheduler.wake()

    def stop(self) -> None:
        """End now. What is in flight is sent again at the next start."""
        self._stopping.set()

    def requeue(self, record: Requeue, dataset: str | None) -> int:
        """Give samples another try and record that; return how many are sent again.

        Refused lines are no matter of trying again: they are checked anew at each start.
        """
        if record.error is FailureClass.INVALID_INPUT:
            return 0
        queues = {queue.name: queue for queue in self.scheduler.queues}
        count = 0
        for name, fold in self.fold.datasets.items():
            if dataset in (None, name):
                self.writer.append(fold.folder.failures, encode_line(record))
                count += queues[name].requeue(record) if name in queues else _given_up(fold, record)
        if not queues:
            self._early.append((record, dataset))
        self.scheduler.wake()
        return count

    def wake(self) -> None:
        """Look again at what can be sent."""
        self.scheduler.wake()

    def _written(self, _lines: int) -> None:
        """Let the scheduler see that the writer has caught up; called in the writing thread."""
        self._on_loop(self._written_on_loop)

    def _written_on_loop(self) -> None:
        self._changed.set()
        self.scheduler.wake()

    def _writing_trouble(self, trouble: str | None) -> None:
        """Pause while journals cannot be written; called in the writing thread."""
        self._on_loop(lambda: self._set_disk_trouble(trouble))

    def _on_loop(self, act: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # a disk that hung until after the end: there is no loop to tell any more
            self._loop.call_soon_threadsafe(act)

    def _set_disk_trouble(self, trouble: str | None) -> None:
        before, self._disk_trouble = self._disk_trouble, trouble
        if trouble is not None and before is None:
            self.events.emit(Severity.CRITICAL, PAUSED, f"paused: {trouble}")
        elif trouble is None and before is not None:
            if self.scheduler.paused is None:
                self.events.emit(Severity.INFO, RESUMED, "resumed: the journals can be written again")
            else:
                said = f"the journals can be written again; still paused: {self.scheduler.paused}"
                self.events.emit(Severity.INFO, "run.waiting", said)
            self.scheduler.wake()

    def _server_changed(self, slot: ServerSlot, before: str) -> None:
        self._rules.changed(slot, before)
        self._changed.set()
        self.scheduler.wake()

    def _make_telemetry(self) -> Telemetry:
        settings = self.config.telemetry
        note = proxy_note([slot.url for slot in self.pool.slots])
        if note:
            self._notes.append(note)
        appenders = {
            kind: RotatingAppender(self.run_dir.telemetry_file(kind), settings.rotate_mb * 1_000_000)
            for kind in ("gpu", "host", "server", "daemon")
        }
        return Telemetry(
            gpu=GpuCollector() if settings.gpus else None,
            host=HostCollector(self.run_dir.path),
            server=ServerCollector([slot.control for slot in self.pool.slots], self.pool.outstanding),
            heartbeat=self.heartbeat,
            appenders=appenders,
            clock=self.clock,
            interval_s=settings.interval_s,
        )


def _given_up(dataset: DatasetFold, record: Requeue) -> int:
    """Return how many given-up samples a requeue concerns, as the files say: there is no queue yet."""
    wanted = None if record.sample_id is None else sample_key(record.sample_id)
    return sum(
        failure.next is NextStep.QUARANTINED and record.error in (None, failure.error) and wanted in (None, key)
        for key, failure in dataset.open_failures()
    )
