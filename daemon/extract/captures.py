"""The captures of a session: how much of the dump folder they may take, from their first row to their place in a store.

A capture is open from the sending of its request until its index record is read back from the file, or until nobody
wants it any more; then its dump is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from contracts.clock import Clock
from contracts.records import CaptureCheck, Severity, StoredSample, encode_line
from contracts.run_config import AFTERWARDS, RunConfig
from contracts.wording import human_bytes
from daemon.capture.arrival import await_rows
from daemon.capture.budget import DumpBudget, LengthEstimate, dump_bytes
from daemon.capture.dump_folder import DumpFolder, look_at
from daemon.capture.fault import CaptureFault
from daemon.capture.leftovers import remove_dump
from daemon.capture.order import TakeOrder
from daemon.capture.removals import Removals
from daemon.capture.taker import check_not_cached
from daemon.condition import Condition
from daemon.events import EventLog
from daemon.extract.crowding import Crowding
from daemon.extract.rows_of_servers import RowsOfServers
from daemon.extract.stores import Store
from daemon.extract.storing import Storing
from daemon.request_ids import RequestIds, is_probe
from daemon.threads import in_thread
from daemon.writer import Writer

WATCH_S: Final = 0.5
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
        self._events = events
        self._condition = condition
        self._budget: DumpBudget | None = None
        self._capacity = 0
        """Bytes that dumps could take if nobody else had files in the folder."""
        self._open: set[str] = set()
        self._removals = Removals(self.folder, self._removed)
        self._late: set[str] = set()
        """Requests whose dumps nobody wants, as far as they were seen."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._storing = Storing(self.folder, rows, clock, condition)
        self._crowding = Crowding(self.folder, events)
        self.tidies = False
        """Whether dumps of no open capture are removed: not before those of earlier sessions are adopted."""
        self.on_room: Callable[[], None] = _nobody
        """Called when there may be room again for captures that had none."""

    def open_folder(self) -> None:
        """Make the dump folder and see how much of it is ours.

        Raises:
            OSError: It cannot be made or looked at.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = self._look()
        for left in found.left:
            if is_probe(left.rid):  # of an end in the middle of one; a session with nothing to do looks no further
                remove_dump(self.folder, left.rid)
        self._budget, self._capacity = DumpBudget(found.budget_bytes), found.capacity_bytes

    def _look(self) -> DumpFolder:
        return look_at(self.folder, self._rids.tag, self._config.extract.dump_budget_gb)

    @property
    def taking(self) -> int:
        """Captures that are being awaited, checked or stored."""
        return len(self._tasks)

    @property
    def budget_bytes(self) -> int | None:
        """Most that dumps may take now; None before the folder was opened."""
        return None if self._budget is None else self._budget.limit_bytes

    @property
    def used_bytes(self) -> int | None:
        """What dumps take or may come to take."""
        return None if self._budget is None else self._budget.used

    def too_large(self, tokens: int) -> CaptureFault | None:
        """Return why a sample cannot be captured at all, whoever else has files in the folder; None when it can."""
        needed = self._bytes(tokens)
        if needed is None or self._budget is None or needed <= self._capacity:
            return None
        return CaptureFault(
            CaptureCheck.TOO_LARGE,
            f"{tokens} rows need {human_bytes(needed)} in {self.folder}, of which dumps may take "
            f"{human_bytes(self._capacity)} at most: a larger [extract] dump_budget_gb or folder (docker: --shm-size), "
            f"or a smaller max_tokens would help",
            tokens,
        )

    def has_room(self, tokens: int) -> bool:
        """Whether so many rows could be captured now."""
        needed = self._bytes(tokens)
        return needed is not None and self._budget is not None and self._budget.has_room(needed)

    def is_crowded_out(self, tokens: int) -> bool:
        """Whether others' files leave no room for so many rows, whatever captures are open; that is said once."""
        needed, limit = self._bytes(tokens), self.budget_bytes
        if needed is None or limit is None or needed <= limit:
            return False
        self._crowding.put_off(needed, limit)
        return True

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
        if not self._budget.try_reserve(rid, needed, None if at_least is None else self._bytes(at_least)):
            return None
        self._open.add(rid)
        return rid

    def adopt(self, rid: str) -> None:
        """Open a capture whose dump an earlier session left; `take` says how much it takes."""
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
        if self._budget is not None and needed is not None and self.is_open(order.rid):
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
            record = await self._storing.store(order, store)
        except CaptureFault as fault:
            if fault.check is CaptureCheck.NO_ROOM and order.capture == AFTERWARDS:
                self._crowding.passed_in_vain(self._bytes(order.rows) or 0)
            self.close(order.rid)
            settle(fault)
            return
        self._crowding.captured()
        self._writer.append(store.index_path, encode_line(record))
        settle(record)

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
        """End a capture: its rows are stored, or nobody wants them. Its room is free once its dump is removed."""
        if rid in self._open:
            self._open.discard(rid)
            self._removals.add(rid)

    def _removed(self, rid: str, why: Exception | None) -> None:
        """The dump of a closed capture is gone; where it cannot be removed, `watch` goes on trying."""
        if self._budget is not None:
            self._budget.release(rid)
        if why is not None:
            self._late.add(rid)
            self._condition.set_trouble("dumps", f"{self.folder}: cannot be tidied: {_words(why)}")
        self.on_room()

    async def watch(self) -> None:
        """Keep the folder within its budget, until cancelled: the youngest captures are given up first.

        The budget goes by what is free: others' files come and go. What comes when nobody wants it any more is removed:
        rows that were late, and those of a request that the server began only after it was given up.
        """
        while True:
            await asyncio.sleep(WATCH_S)
            if self._budget is None:
                continue
            try:
                found = await in_thread(self._look, "dump-measure")
                await self._tidy(found)
            except OSError as error:
                self._condition.set_trouble("dumps", f"{self.folder}: cannot be kept in order: {_words(error)}")
                continue
            self._condition.set_trouble("dumps", self._crowding.trouble(found))
            self._budget.limit_bytes, self._capacity = found.budget_bytes, found.capacity_bytes
            for rid in self._budget.over({each.rid: each.rows_bytes for each in found.left}):
                self.close(rid)

    async def _tidy(self, found: DumpFolder) -> None:
        """Remove what nobody wants any more.

        Raises:
            OSError: It cannot be removed.
        """
        rids = {each.rid for each in found.left if not is_probe(each.rid)}
        unwanted = {rid for rid in rids - self._open if rid not in self._removals}
        # Seen twice: none that was about to be removed, or opened, just now.
        late = sorted(unwanted & self._late) if self.tidies else []
        self._late |= unwanted
        for rid in late:
            await in_thread(partial(remove_dump, self.folder, rid), "dump-remove")
        self._late = unwanted

    async def stop(self, wait_s: float) -> None:
        """Let what is being stored finish, for a while; what is left is adopted or made again at the next start.

        Where a store cannot be written, nothing is waited for.
        """
        loop = asyncio.get_running_loop()
        give_up_at, stuck = loop.time() + wait_s, loop.create_task(self._storing.stuck.wait())
        while self._tasks and not stuck.done() and (left_s := give_up_at - loop.time()) > 0:
            await asyncio.wait({*self._tasks, stuck}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        stuck.cancel()
        self._storing.stuck.end()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._removals.end(wait_s)

    def _bytes(self, tokens: int) -> int | None:
        form = self._rows.form
        return None if form is None else dump_bytes(tokens, form.row_bytes)


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _nobody() -> None:
    """Nobody waits for room yet."""
