"""Rows that have come into their store: checked, written, and tried again while the disk does not take them."""

from __future__ import annotations

import asyncio
import errno
from functools import partial
from pathlib import Path
from typing import Final

from contracts.clock import Clock
from contracts.records import CaptureCheck, StoredSample
from contracts.run_place import RunAwayError
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.capture.taker import take
from daemon.condition import Condition
from daemon.extract.rows_of_servers import RowsOfServers
from daemon.extract.stores import Store
from daemon.extract.stuck import StuckSamples
from daemon.threads import in_thread

AT_A_TIME: Final = 2
"""Samples that are checked and stored: a disk is not faster with more."""
ROOM_RETRY_S: Final = 1.0


class Storing:
    """Stores the samples of a session.

    Args:
        folder: The dump folder.
        rows: What rows are.
        clock: Gives the times.
        condition: Told when a store cannot be written.
    """

    def __init__(self, folder: Path, rows: RowsOfServers, clock: Clock, condition: Condition) -> None:
        self._folder = folder
        self._rows = rows
        self._clock = clock
        self._condition = condition
        self._free = asyncio.Semaphore(AT_A_TIME)
        self.stuck = StuckSamples(condition)

    async def store(self, order: TakeOrder, store: Store) -> StoredSample:
        """Check and store. A disk that is full or broken is tried again until it works: the dump stays meanwhile.

        Raises:
            CaptureFault: The dump does not hold the sample.
        """
        form, model = self._rows.form, self._rows.model
        if form is None:
            raise CaptureFault(CaptureCheck.MISSING, "no server has told what its rows are")
        work = partial(take, order, self._folder, store.layout, form, model, store.numbers, self._clock)
        source = f"store {store.folder.name}"
        async with self._free:
            try:
                while True:
                    try:
                        if (away := self._condition.away) is not None:
                            raise RunAwayError(errno.ENOENT, away)  # another run's store may be at that path
                        return await in_thread(work, "store")
                    except OSError as error:
                        where, why = error.filename or store.folder, error.strerror or error
                        self.stuck.add(source, order.rid, f"{where}: hidden states cannot be stored: {why}")
                        await asyncio.sleep(ROOM_RETRY_S)
            finally:
                self.stuck.discard(source, order.rid)
