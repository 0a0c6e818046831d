"""One daemon at work: the parts put together, from its first look at the files to its last checkpoint."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from contracts.clock import Clock, boot_id
from contracts.fold.events import STARTED, STOPPED
from contracts.fold.run import RunFold
from contracts.journal.append import Journal
from contracts.liveness import Liveness
from contracts.records import Heartbeat, Requeue, Severity
from contracts.report import build_status
from contracts.run_config import RunConfig
from contracts.run_dir import RunDir
from contracts.run_place import RunPlace
from contracts.sample_id import SampleId
from contracts.status import RunState, RunStatus
from contracts.version import version
from daemon.alert_watch import AlertWatch
from daemon.condition import JOURNALS, Condition
from daemon.course import Course, nothing_left
from daemon.events import EventLog
from daemon.extract.extraction import Extraction
from daemon.fingerprint import Fingerprint
from daemon.fold_keeper import FoldKeeper
from daemon.generate.scheduler import Scheduler
from daemon.heartbeats import heartbeat
from daemon.helpers import Helpers
from daemon.judging import Judging
from daemon.open_files import ConnectionLimit, reserved
from daemon.place_watch import PLACE_EVERY_S, PlaceWatch
from daemon.request_ids import RequestIds
from daemon.requeueing import Requeueing
from daemon.run_tag import keep_tag
from daemon.server_rules import ServerRules
from daemon.servers.info import proxy_note
from daemon.servers.pool import ServerPool
from daemon.servers.probe import Probe
from daemon.servers.slot import ServerSlot
from daemon.telemetry_setup import make_telemetry
from daemon.threads import in_thread
from daemon.waiting import Waiting
from daemon.wishes import Requeued, overrides
from daemon.writer import Writer

ALERTS_EVERY_S: Final = 1.0
CLOSE_WRITER_S: Final = 10.0


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
        self.lost = 0
        """Records that could not be written at the end."""
        self._stopping = asyncio.Event()
        self._place = RunPlace(run.path)
        open_journal = partial(Journal, place=self._place)
        self.writer = Writer(self._written, self._writing_trouble, open_journal, on_doubt=self._writing_doubt)
        self.events = EventLog(lambda line: self.writer.append(run.events, line), self.clock, list(fold.events.last))
        self._helpers = Helpers(self.events)
        self.condition = Condition(self.events)
        self._alerts = AlertWatch(self.events, self.clock)
        self._requeueing = Requeueing(fold, self.writer)
        self._rules = ServerRules(config, fingerprint, run.fingerprint, self.events)
        self._judging = Judging(config, self._objection)
        if config.extracts:
            keep_tag(run.path)
        self._rids = RequestIds(run.path, f"{int(self.clock.now() * 1000):x}")
        self.pool = ServerPool(
            config, self._server_changed, self._new_probe, self._judging.objection, self._judging.probed, self.wake
        )
        self._waiting = Waiting(self.writer, self.pool, self.condition)
        self.extraction: Extraction | None = None
        if config.extracts:
            self.extraction = Extraction(
                run,
                config,
                fold,
                self._rids,
                self.writer,
                self.events,
                self.clock,
                self.condition,
                self.pool.recheck,
                partial(self._waiting.until_written, even_draining=True),
            )
            self._judging.rows = self.extraction.objection
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
            self.condition,
        )
        self._keeper = FoldKeeper(fold, self.events, self.scheduler.refresh, self._place)
        self._place_watch = PlaceWatch(self._place, self.condition, self.wake, self.stop)
        self._course = Course(
            run,
            config,
            fold,
            self.clock,
            self.writer,
            self.events,
            self.condition,
            self.pool,
            self._rules,
            self._rids,
            self._waiting,
            self._keeper,
            self._requeueing,
            self.scheduler,
            self.extraction,
            self.status,
        )
        self._telemetry = make_telemetry(run, config, self.pool, self.heartbeat, self.clock, self._place)
        proxies = proxy_note([slot.url for slot in self.pool.slots])
        self._notes += [] if proxies is None else [proxies]

    @property
    def unusable(self) -> list[str]:
        """Why data sets cannot be used, in sentences."""
        return self._course.unusable

    async def run(self) -> bool:
        """Work until everything is done, or until told to end.

        Returns:
            Whether work is left.

        Raises:
            OSError: A journal, a store or the dump folder cannot be opened.
            StoreError: A store is not there any more.
        """
        self._open_journals()
        if self.extraction is not None:
            await self.extraction.open()
        self.writer.start()
        self.events.emit(
            Severity.INFO,
            STARTED,
            f"daemon {version()} started, pid {self.pid}",
            data={"pid": self.pid, "boot_id": boot_id()},
        )
        for note in self._notes:
            self.events.emit(Severity.WARNING, "daemon.note", note)
        for said in overrides(self.fold):
            self.events.emit(Severity.INFO, "config.overridden", said)
        await self.pool.open()
        start = self._helpers.start
        keeping = start(self._keeper.run())
        alerting = self._helpers.repeat(self._update_alerts, ALERTS_EVERY_S)
        watching = self._helpers.repeat(self._place_watch.look, PLACE_EVERY_S)
        helpers = [keeping, start(self._telemetry.run()), start(alerting), start(watching)]
        if self.extraction is not None:
            helpers.append(start(self.extraction.captures.watch()))
        work = asyncio.create_task(self._course.run())
        stopping = asyncio.create_task(self._until_stopped())
        try:
            # Without the fold nobody would notice that a target is reached: its end is the end, telemetry's is not.
            done, _ = await asyncio.wait({work, stopping, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if work in done and (fault := work.exception()) is not None:
                self._helpers.broke("the daemon ends: it broke", fault)
            for task in done:
                task.result()
        finally:
            await self._end([*helpers, work, stopping])
        return self._is_work_left() or self.lost > 0

    async def _until_stopped(self) -> None:
        await self._stopping.wait()

    def _open_journals(self) -> None:
        paths = [self.run_dir.events]
        for dataset in self.fold.datasets.values():
            paths += [dataset.folder.responses, dataset.folder.failures]
            if self.extraction is not None:
                paths.append(dataset.folder.hidden_states)
        for path in paths:
            repair = self.writer.open(path)
            if repair is not None:
                self._notes.append(str(repair))
        self._notes += self.fold.notes
        self.fold.notes.clear()

    def _update_alerts(self) -> None:
        self._alerts.update(self.status().alerts)

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        given_up = await self.scheduler.stop()
        await self.pool.close()
        await self._judging.settle()
        if self.extraction is not None:
            await self.extraction.stop(finished=nothing_left(self.status()))
        said = f"daemon ended; {given_up} open requests given up" if given_up else "daemon ended"
        if self._is_all_done():
            said = f"all that can be done is done; {said}"
        self.events.emit(Severity.INFO, STOPPED, said)
        self._place.ending = True
        self.lost = await in_thread(lambda: self.writer.close(CLOSE_WRITER_S), "journal-close")
        self.events.close()
        for index in self._course.indexes.values():
            index.close()
        await in_thread(lambda: self._telemetry.wait(1.0), "telemetry-wait")
        await self._keeper.poll()
        if not self.lost:
            await self._keeper.save()

    def _is_all_done(self) -> bool:
        """Whether the end is that of the work, not one that was asked for or forced."""
        queues = self.scheduler.queues
        asked = self.condition.draining or self._stopping.is_set()
        return bool(queues) and not asked and self.scheduler.is_over

    def _is_work_left(self) -> bool:
        status = build_status(self.fold, Liveness(False), self.clock.now())
        return status.state is not RunState.FINISHED

    def status(self) -> RunStatus:
        """Return the status, as everybody else builds it."""
        liveness = Liveness(True, self.pid, self.since)
        return build_status(self.fold, liveness, self.clock.now())

    @property
    def word(self) -> str:
        """The run's state; ``starting`` until it is known whether anything is left to do."""
        if not self._course.settled:
            return "starting"
        status = self.status()
        return RunState.FINISHED if nothing_left(status) else status.state

    def heartbeat(self) -> Heartbeat:
        """Return what only this process knows."""
        captures = None if self.extraction is None else self.extraction.captures
        return heartbeat(self.clock, self.condition, self.scheduler, self.pool, captures)

    def pause(self, reason: str) -> bool:
        """Send nothing new; False when it was so already."""
        return self.condition.pause(reason)

    def resume(self) -> bool:
        """Go on after a pause, or take back a drain; False when nothing held it."""
        held = self.condition.resume()
        self.scheduler.wake()
        return held

    def drain(self) -> None:
        """Let what is in flight finish, then end."""
        if self.condition.drain(self.scheduler.in_flight):
            self._waiting.wake()
            self.scheduler.wake()

    def stop(self) -> None:
        """End now. What is in flight is sent again at the next start."""
        self._stopping.set()

    def requeue(self, record: Requeue, dataset: str | None) -> Requeued:
        """Give samples another try and record that; return what that comes to."""
        done = self._requeueing.requeue(record, dataset, self.scheduler.queues)
        self.scheduler.wake()
        return done

    def has_failed(self, dataset: str | None, sample: SampleId) -> bool:
        """Whether a sample failed and has no answer yet: in one data set, with None in any."""
        return self._requeueing.knows(dataset, sample, self.scheduler.queues)

    def wake(self) -> None:
        """Look again at what can be sent."""
        self.scheduler.wake()

    def _written(self, _lines: int) -> None:
        """Let the scheduler see that the writer has caught up; called in the writing thread."""
        self._on_loop(self._written_on_loop)

    def _written_on_loop(self) -> None:
        self._waiting.wake()
        self.scheduler.wake()

    def _writing_trouble(self, trouble: str | None) -> None:
        """Pause while journals cannot be written; called in the writing thread."""
        self._on_loop(lambda: self._set_disk_trouble(trouble))

    def _writing_doubt(self, said: str) -> None:
        """Keep in view that the disk failed once; called in the syncing thread."""
        self._on_loop(lambda: self.condition.doubt_disk(said))

    def _on_loop(self, act: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # a disk that hung until after the end: there is no loop to tell any more
            self._loop.call_soon_threadsafe(act)

    def _set_disk_trouble(self, trouble: str | None) -> None:
        if self._place.ending:
            return  # what it would say of that could not be written any more
        self.condition.set_trouble(JOURNALS, trouble)
        self.scheduler.wake()

    def _new_probe(self) -> str:
        return self._rids.probe(captured=self.extraction is not None)

    def _objection(self, probe: Probe) -> str | None:
        # What is noted of the first server would go into another run's folder.
        return self._place.trouble() or self._rules.objection(probe)

    def _server_changed(self, slot: ServerSlot, before: str) -> None:
        self._rules.changed(slot, before)
        self._waiting.wake()
        self.scheduler.wake()
