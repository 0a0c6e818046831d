"""The captures of a session: how much of the dump folder they may take, from their first row to their place in a store.

A capture is open from the sending of its request until its index record is read back from the file, or until nobody
wants it any more; then its dump is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from contracts.clock import Clock
from contracts.records import CaptureCheck, Severity, StoredSample, encode_line
from contracts.run_config import RunConfig
from daemon.capture.arrival import await_rows
from daemon.capture.budget import DumpBudget, LengthEstimate, dump_bytes, free_budget, measure
from daemon.capture.fault import CaptureFault
from daemon.capture.leftovers import leftovers, remove_dump
from daemon.capture.order import TakeOrder
from daemon.capture.taker import check_not_cached, take
from daemon.condition import Condition
from daemon.events import EventLog
from daemon.extract.rows_of_servers import RowsOfServers
from daemon.extract.stores import Store
from daemon.request_ids import RequestIds, is_probe
from daemon.threads import in_thread
from daemon.writer import Writer

STORING: Final = 2
"""Samples that are checked and stored at a time: a disk is not faster with more."""
WATCH_S: Final = 0.5
ROOM_RETRY_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class Captures:
    """All captures of a run's session.

    Args:
        config: The run's configuration.
        rows: What rows are.
        rids: Names the requests.
        writer: Takes the index records.
        clock: Gives the times.
        events: Takes what a person should read.
        condition: Told when a store cannot be written.
        lengths: Says how long answers are to be expected.
    """

    def __init__(
        self,
        config: RunConfig,
        rows: RowsOfServers,
        rids: RequestIds,
        writer: Writer,
        clock: Clock,
        events: EventLog,
        condition: Condition,
        lengths: LengthEstimate,
    ) -> None:
        self.folder = rows.folder
        self._rows = rows
        self.lengths = lengths
        self._config = config
        self._rids = rids
        self._writer = writer
        self._clock = clock
        self._events = events
        self._condition = condition
        self._budget: DumpBudget | None = None
        self._open: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._storing = asyncio.Semaphore(STORING)
        self._stuck = asyncio.Event()
        """The last sample could not be written into its store."""
        self.tidies = False
        """Whether dumps of no open capture are removed: not before those of earlier sessions are adopted."""

    def open_folder(self) -> None:
        """Make the dump folder and see how much of it is ours.

        Raises:
            OSError: It cannot be made or looked at.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in leftovers(self.folder, self._rids.tag):
            if is_probe(left.rid):  # of an end in the middle of one; a session with nothing to do looks no further
                remove_dump(self.folder, left.rid)
        own = sum(measure(self.folder, self._rids.tag).values())
        self._budget = DumpBudget(free_budget(self.folder, self._config.extract.dump_budget_gb, own))

    @property
    def taking(self) -> int:
        """Captures that are being awaited, checked or stored."""
        return len(self._tasks)

    @property
    def budget_bytes(self) -> int | None:
        """Most that dumps may take; None before the folder was opened."""
        return None if self._budget is None else self._budget.limit_bytes

    @property
    def used_bytes(self) -> int | None:
        """What dumps take or may come to take."""
        return None if self._budget is None else self._budget.used

    def too_large(self, tokens: int) -> CaptureFault | None:
        """Return why a sample cannot be captured at all, however empty the folder is; None when it can."""
        needed, limit = self._bytes(tokens), self.budget_bytes
        if needed is None or limit is None or needed <= limit:
            return None
        return CaptureFault(
            CaptureCheck.TOO_LARGE,
            f"{tokens} rows need {needed / 1e6:,.1f} MB in {self.folder}, whose budget is {limit / 1e6:,.1f} MB: a "
            f"larger [extract] dump_budget_gb or folder, or a smaller max_tokens would help",
        )

    def has_room(self, tokens: int) -> bool:
        """Whether so many rows could be captured now."""
        needed, budget = self._bytes(tokens), self._budget
        return needed is not None and budget is not None and budget.used + needed <= budget.limit_bytes

    def begin(self, dataset: str, key: bytes, tokens: int, at_least: int | None = None) -> str | None:
        """Open a capture.

        Args:
            dataset: Of the sample.
            key: Of the sample.
            tokens: Rows that will come, or so many as are to be expected.
            at_least: Rows that will come for certain, while its answer is generated; None: ``tokens`` is certain.

        Returns:
            The id for its request; None: there is no room, or no server has told yet what rows are.
        """
        needed = self._bytes(tokens)
        if needed is None or self._budget is None:
            return None
        rid = self._rids.captured(dataset, key)
        try:
            if not self._budget.try_reserve(rid, needed, None if at_least is None else self._bytes(at_least)):
                return None
        except CaptureFault:
            return None  # larger than everything: refused as such when its answer is there
        self._open.add(rid)
        return rid

    def adopt(self, rid: str, tokens: int) -> None:
        """Open a capture whose dump an earlier session left; it takes what it takes."""
        needed = self._bytes(tokens)
        if self._budget is not None and needed is not None:
            with suppress(CaptureFault):
                self._budget.try_reserve(rid, needed)
        self._open.add(rid)

    def is_open(self, rid: str) -> bool:
        """Whether the rows of a request are still wanted."""
        return rid in self._open

    def take(self, order: TakeOrder, store: Store, settle: Callable[[StoredSample | CaptureFault], None]) -> None:
        """Await, check and store the rows of an answered request; tell what came of it."""
        try:
            needed = self._bytes(order.rows)
        except CaptureFault as fault:  # the order itself cannot be read
            self.close(order.rid)
            settle(fault)
            return
        if self._budget is not None and needed is not None:
            self._budget.settle(order.rid, needed)
        task = asyncio.get_running_loop().create_task(self._take(order, store, settle))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, order, settle))

    async def _take(
        self, order: TakeOrder, store: Store, settle: Callable[[StoredSample | CaptureFault], None]
    ) -> None:
        try:
            check_not_cached(order)  # of such rows the first never come: they would be waited for in vain
            await await_rows(self.folder, order.rid, order.rows, self._config.extract.dump_wait_s)
            record = await self._store(order, store)
        except CaptureFault as fault:
            self.close(order.rid)
            settle(fault)
            return
        self._writer.append(store.index_path, encode_line(record))
        settle(record)

    async def _store(self, order: TakeOrder, store: Store) -> StoredSample:
        """Check and store. A disk that is full or broken is tried again until it works: the dump stays meanwhile."""
        form, model = self._rows.form, self._rows.model
        if form is None:
            raise CaptureFault(CaptureCheck.MISSING, "no server has told what its rows are")
        work = partial(take, order, self.folder, store.layout, form, model, store.numbers, self._clock)
        source = f"store {store.folder.name}"
        async with self._storing:
            while True:
                try:
                    record = await in_thread(work, "store")
                except OSError as error:
                    where = error.filename or store.folder
                    self._stuck.set()
                    self._condition.set_trouble(source, f"{where}: hidden states cannot be stored: {_words(error)}")
                    await asyncio.sleep(ROOM_RETRY_S)
                    continue
                self._stuck.clear()
                self._condition.set_trouble(source, None)
                return record

    def _ended(
        self, order: TakeOrder, settle: Callable[[StoredSample | CaptureFault], None], task: asyncio.Task[None]
    ) -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is None:
            return
        _LOG.error("taking the hidden states of sample %s broke", order.sample_id, exc_info=fault)
        said = f"eagle3 itself failed on it ({fault!r}); the details are in daemon.log"
        self._events.emit(Severity.CRITICAL, "daemon.fault", f"{order.dataset}: {said}", dataset=order.dataset)
        self.close(order.rid)
        settle(CaptureFault(CaptureCheck.MISSING, said))  # else it would be waited for without end

    def close(self, rid: str) -> None:
        """End a capture: its rows are stored, or nobody wants them."""
        if rid not in self._open:
            return
        self._open.discard(rid)
        if self._budget is not None:
            self._budget.release(rid)
        try:
            remove_dump(self.folder, rid)
        except OSError as error:
            self._condition.set_trouble("dumps", f"{self.folder}: cannot be tidied: {_words(error)}")

    async def watch(self) -> None:
        """Keep the folder within its budget, until cancelled: the youngest captures are given up first.

        What comes when nobody wants it any more is removed: rows that were late, and those of a request that the server
        began only after it was given up.
        """
        late: set[str] = set()
        while True:
            await asyncio.sleep(WATCH_S)
            if self._budget is None:
                continue
            try:
                found = await in_thread(partial(leftovers, self.folder, self._rids.tag), "dump-measure")
                unwanted = {each.rid for each in found if each.rid not in self._open and not is_probe(each.rid)}
                # Seen twice: none that was about to be removed, or opened, just now.
                for rid in unwanted & late if self.tidies else ():
                    remove_dump(self.folder, rid)
            except OSError as error:
                self._condition.set_trouble("dumps", f"{self.folder}: cannot be kept in order: {_words(error)}")
                continue
            late = unwanted
            self._condition.set_trouble("dumps", None)
            for rid in self._budget.over({each.rid: each.rows_bytes for each in found}):
                self.close(rid)

    async def stop(self, wait_s: float) -> None:
        """Let what is being stored finish, for a while; what is left is adopted or made again at the next start.

        Where a store cannot be written, nothing is waited for.
        """
        loop = asyncio.get_running_loop()
        give_up_at, stuck = loop.time() + wait_s, loop.create_task(self._stuck.wait())
        while self._tasks and not stuck.done() and (left_s := give_up_at - loop.time()) > 0:
            await asyncio.wait({*self._tasks, stuck}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        stuck.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _bytes(self, tokens: int) -> int | None:
        form = self._rows.form
        return None if form is None else dump_bytes(tokens, form.row_bytes)


def _words(error: OSError) -> str:
    return error.strerror or str(error)
