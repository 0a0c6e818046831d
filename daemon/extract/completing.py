"""The end of a store: its rows numbered without gaps, and the files beside the tensors that its trainer reads."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec

from contracts.clock import Clock
from contracts.records import DroppedSample, Severity, StoredSample, encode_line
from contracts.run_config import RunConfig
from daemon.events import EventLog
from daemon.extract.stores import Store
from daemon.store.dataset_files import MissingPackageError, write_dataset_files
from daemon.store.index import read_index
from daemon.store.layout import StoreError
from daemon.store.norms import NormWeight
from daemon.store.repair import remove_strays
from daemon.store.speculators_ import SpeculatorsLayout, closing_moves
from daemon.threads import in_thread
from daemon.writer import Writer

COMPLETED: Final = "store.completed"
_LOG: Final = logging.getLogger(__name__)


class Completing:
    """Completes stores.

    Args:
        config: The run's configuration.
        writer: Takes the records of samples that got another number.
        events: Takes what a person should read.
        clock: Gives the times.
        until_written: Returns when all records that were handed over are in their files.
    """

    def __init__(
        self,
        config: RunConfig,
        writer: Writer,
        events: EventLog,
        clock: Clock,
        until_written: Callable[[], Awaitable[None]],
    ) -> None:
        self._config = config
        self._writer = writer
        self._events = events
        self._clock = clock
        self._until_written = until_written

    async def complete(self, store: Store, dataset: str, norm: NormWeight | None, vocab_size: int | None) -> None:
        """Write what belongs beside the tensors of a data set, anew each time; a failure is said, nothing else lost."""
        try:
            records = await in_thread(partial(self._close_gaps, store), "store-renumber")
            await self._until_written()
            said = await in_thread(partial(self._write_files, store, records, norm, vocab_size), "store-complete")
        except (OSError, StoreError, MissingPackageError) as error:
            self._events.emit(
                Severity.CRITICAL,
                "store.incomplete",
                f"{store.folder}: the files that belong beside the samples could not be written: {error}. Start the "
                f"daemon again once that is mended: the samples are all there",
                dataset=dataset,
            )
            return
        _LOG.info("%s: %s", dataset, "; ".join(said))
        self._events.emit(
            Severity.INFO,
            COMPLETED,
            f"{dataset}: {len(records)} samples are complete in {store.folder}, with what their trainer reads beside "
            f"them",
            dataset=dataset,
        )

    def _close_gaps(self, store: Store) -> list[StoredSample]:
        """Number the samples of a store from 0, where its trainer needs that; return their records by number."""
        records = list(read_index(store.index_path).records.values())
        if isinstance(store.layout, SpeculatorsLayout):
            moves = {record.row: row for record, row in closing_moves(records)}
            records = [
                self._moved(store, store.layout, record, moves[record.row]) if record.row in moves else record
                for record in records
            ]
        return sorted(records, key=lambda record: record.row)

    def _moved(self, store: Store, layout: SpeculatorsLayout, record: StoredSample, row: int) -> StoredSample:
        """Give a sample the number of a gap; its file stays under the old name too, until the index is on the disk."""
        placed, at = layout.renumber(record, row), self._clock.now()
        moved = msgspec.structs.replace(
            record, row=row, at=at, file=placed.file, offset=placed.offset, bytes=placed.bytes, checksum=placed.checksum
        )
        dropped = DroppedSample(sample_id=record.sample_id, why=f"renumbered from {record.row} to {row}", at=at)
        self._writer.append(store.index_path, encode_line(dropped) + encode_line(moved))
        return moved

    def _write_files(
        self, store: Store, records: list[StoredSample], norm: NormWeight | None, vocab_size: int | None
    ) -> list[str]:
        with store.index_path.open("rb+") as index:
            os.fsync(index.fileno())  # until then a power cut needs the files under their old names
        remove_strays(store.layout.strays(records))
        return write_dataset_files(
            store.layout,
            store.folder,
            records,
            draft_vocab_size=self._config.extract.draft_vocab_size,
            vocab_size=vocab_size,
            norm=norm,
        )
