"""What a session does, one thing after the other: prompts, servers, queues, requests, and the stores' completion."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from contracts.clock import Clock
from contracts.fold.run import RunFold
from contracts.run_config import RunConfig
from contracts.run_dir import RunDir
from contracts.status import DONE_STAGES, RunStatus
from daemon.condition import WAITING, Condition
from daemon.events import EventLog
from daemon.extract.extraction import Extraction
from daemon.extract.queue import ExtractQueue
from daemon.fold_keeper import FoldKeeper
from daemon.generate.queue import DatasetQueue
from daemon.generate.scheduler import Scheduler
from daemon.generate.work_queue import WorkQueue
from daemon.preparation import Preparation, limits_of
from daemon.prompts.index import PromptIndex, PromptLimits
from daemon.request_ids import RequestIds
from daemon.requeueing import Requeueing
from daemon.server_rules import ServerRules, needs_of
from daemon.servers.pool import ServerPool
from daemon.threads import in_thread
from daemon.waiting import Waiting
from daemon.writer import Writer


class Course:
    """The work of one session.

    Args:
        run: The run directory.
        config: Its run.toml.
        fold: Its fold.
        clock: Gives the times.
        writer: Takes the records.
        events: Takes what a person should read.
        condition: Told what is done just now; says whether it drains.
        pool: The servers.
        rules: Told what prompts need of them.
        rids: Names the requests.
        waiting: Waits for servers and files.
        keeper: Brings the fold up to date.
        requeueing: Holds what a person asked for before there were queues.
        scheduler: Sends.
        extraction: The extract stage; None: the run has none.
        status: Gives the run's status.
    """

    def __init__(
        self,
        run: RunDir,
        config: RunConfig,
        fold: RunFold,
        clock: Clock,
        writer: Writer,
        events: EventLog,
        condition: Condition,
        pool: ServerPool,
        rules: ServerRules,
        rids: RequestIds,
        waiting: Waiting,
        keeper: FoldKeeper,
        requeueing: Requeueing,
        scheduler: Scheduler,
        extraction: Extraction | None,
        status: Callable[[], RunStatus],
    ) -> None:
        self._run = run
        self._config = config
        self._fold = fold
        self._clock = clock
        self._writer = writer
        self._events = events
        self._condition = condition
        self._pool = pool
        self._rules = rules
        self._rids = rids
        self._waiting = waiting
        self._keeper = keeper
        self._requeueing = requeueing
        self._scheduler = scheduler
        self._extraction = extraction
        self._status = status
        self.settled = False
        """Whether it is known if anything is left to do."""
        self.unusable: list[str] = []
        """Why data sets cannot be used, in sentences."""
        self.indexes: dict[str, PromptIndex] = {}
        """Of the prompts, by data set."""

    async def run(self) -> None:
        """Go through it; returns when nothing is left to be done, or nothing more is to be sent."""
        self._condition.activity = "importing prompts"
        preparation = Preparation(self._run, self._config, self._fold, self._events, self._clock, self._writer)
        self.unusable = preparation.failed
        await preparation.import_prompts()
        if await self._is_all_made():
            # So say the counts; the names decide: prompts that were exchanged for others are not answered.
            await preparation.compare_responses()
            await self._waiting.until_written()
            await self._keeper.poll()
            if await self._is_all_made():
                self.settled = True
                return
        if preparation.is_in_vain:
            return  # no server could change that, and whoever started us learns of it
        self.settled = True
        self._condition.activity = WAITING
        await self._waiting.until_servers()
        if self._condition.draining:
            return
        self._condition.activity = "checking the prompts"
        limits = limits_of(self._config, self._pool.probes)
        self.indexes = await preparation.read_prompts(limits)
        # Prompts by the hundred thousand live as long as we do: the collector need not look at them every few seconds.
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        await self._waiting.until_written()
        await self._keeper.poll()  # what was found missing when the stores were opened is to be made again
        queues = await self._make_queues(limits)
        self._requeueing.apply_early(queues)
        self._rules.needs = needs_of(self.indexes.values() if self._config.generates else [], limits)
        self._scheduler.queues += queues
        await self._waiting.until_written()  # what is refused is on the disk before anything is sent
        gc.freeze()  # and what was made of them
        if self._extraction is not None and (why := self._extraction.no_room(self.indexes)) is not None:
            self._condition.pause(why)
        self._condition.activity = None
        await self._send()
        # A drain that let the last samples finish ends the work too.
        while self._extraction is not None and nothing_left(self._status()):
            self._condition.activity = "completing the stores"
            await self._extraction.complete()
            self._condition.activity = None
            await self._catch_up()
            if self._condition.draining or all(queue.exhausted for queue in self._scheduler.queues):
                return
            await self._send()  # what a person asked for meanwhile

    async def _send(self) -> None:
        """Send all there is."""
        while not self._scheduler.is_over:
            await self._scheduler.run()
            await self._catch_up()

    async def _catch_up(self) -> None:
        """See what is in the files by now: a target that was raised a moment ago may not have been read."""
        await self._keeper.poll()
        self._scheduler.refresh()

    async def _is_all_made(self) -> bool:
        """Whether neither samples nor what belongs beside those that are stored is left to be made."""
        done = nothing_left(self._status())
        if not done or self._extraction is None:
            return done
        if self._extraction.may_store_more():
            return False
        return await in_thread(self._extraction.is_complete, "store-look")

    async def _make_queues(self, limits: PromptLimits) -> list[WorkQueue[Any]]:
        """Return a queue for each data set and stage."""
        queues: list[WorkQueue[Any]] = []
        extracting: dict[str, ExtractQueue] = {}
        if self._extraction is not None:
            extracting = await self._extraction.make_queues(self.indexes, limits, self._scheduler.wake)
            queues += extracting.values()
        if self._config.generates:
            for name, index in self.indexes.items():
                dataset = self._fold.datasets[name]
                following = extracting[name].answers if name in extracting else None
                queues.append(DatasetQueue(self._fold, dataset, index, self._writer, self._rids, following))
        return queues


def nothing_left(status: RunStatus) -> bool:
    """Whether the files alone show that all is done: no server is needed to say so."""
    return all(dataset.stage in DONE_STAGES and dataset.prompts for dataset in status.datasets)
