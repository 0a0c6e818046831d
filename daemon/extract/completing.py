"""The end of the stores: their rows numbered without gaps, and the files beside the tensors that a trainer reads."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from contracts.clock import Clock
from contracts.fold.hidden import HiddenFold
from contracts.records import DroppedSample, Severity, StoredSample, encode_line
from contracts.run_config import Extract, RunConfig
from contracts.run_dir import RunDir
from contracts.wording import counted
from daemon.events import EventLog
from daemon.extract.stores import Store
from daemon.store.dataset_files import (
    MissingPackageError,
    count_tokens,
    files_beside,
    makes_maps,
    read_description,
    write_dataset_files,
    write_run_maps,
)
from daemon.store.index import read_index
from daemon.store.layout import StoreError
from daemon.store.layouts import Renumbering
from daemon.store.norms import NormWeight
from daemon.store.speculators_ import closing_moves
from daemon.store.unrecorded import given_up_files, remove_files
from daemon.store.vocabulary import TokenCounts
from daemon.threads import in_thread
from daemon.writer import Writer

COMPLETED: Final = "store.completed"
INCOMPLETE: Final = "store.incomplete"
_LOG: Final = logging.getLogger(__name__)


def is_described(folder: Path, hidden: HiddenFold, extract: Extract) -> bool:
    """Whether the files beside a store's tensors were written for just what is in it, and for what run.toml asks.

    Args:
        folder: Of the store.
        hidden: Fold of its index.
        extract: ``[extract]`` of run.toml.
    """
    described = read_description(folder)
    if described is None:
        return not hidden.stored
    maps = extract.draft_vocab_size if makes_maps(extract.layout) else None
    there = (len(hidden.stored), hidden.tokens, hidden.stored_bytes, maps)
    written_for = (described.samples, described.tokens, described.bytes, described.draft_vocab_size)
    return written_for == there and described.files == files_beside(folder)


class Completing:
    """Completes the stores of a run, all together: a trainer reads them as one, so they have one vocabulary.

    Args:
        run: The run directory.
        config: Its run.toml.
        writer: Takes the records of samples that got another number.
        events: Takes what a person should read.
        clock: Gives the times.
        until_written: Returns when all records that were handed over are in their files.
    """

    def __init__(
        self,
        run: RunDir,
        config: RunConfig,
        writer: Writer,
        events: EventLog,
        clock: Clock,
        until_written: Callable[[], Awaitable[None]],
    ) -> None:
        self._run = run
        self._config = config
        self._writer = writer
        self._events = events
        self._clock = clock
        self._until_written = until_written

    async def complete(self, stores: Mapping[str, Store], norm: NormWeight | None, vocab_size: int | None) -> None:
        """Write what belongs beside the tensors, anew each time; a failure is said, nothing else lost.

        Args:
            stores: By data set.
            norm: The model's final norm; None: not known.
            vocab_size: Of the model; None: not known.
        """
        name = ""
        try:
            records: dict[str, list[StoredSample]] = {}
            for name, store in stores.items():
                records[name] = await in_thread(partial(self._close_gaps, store), "store-renumber")
                # A person may ask for retries meanwhile.
                store.numbers.take_over([*(record.row for record in records[name]), *store.reserved])
            await self._until_written()
            counts = TokenCounts()
            for name, store in stores.items():
                await in_thread(partial(self._tidy, store, records[name], counts), "store-count")
            name = "the run"
            said = await in_thread(partial(self._write_maps, counts, vocab_size), "store-maps")
            for name, store in stores.items():  # last what says that all of it is there
                work = partial(self._write_files, store, records[name], counts, norm, vocab_size)
                said += [f"{name}: {one}" for one in await in_thread(work, "store-complete")]
        except (OSError, StoreError, MissingPackageError) as error:
            self._events.emit(
                Severity.CRITICAL,
                INCOMPLETE,
                f"{name}: the files that belong beside the samples could not be written: {error}. Start the daemon "
                f"again once that is mended: the samples are all there",
                dataset=name if name in stores else None,
            )
            return
        for one in said:
            _LOG.info("%s", one)
        for name, store in stores.items():
            self._events.emit(
                Severity.INFO,
                COMPLETED,
                f"{name}: {counted(len(records[name]), 'sample is', 'samples are')} complete in {store.folder}, with "
                f"what their trainer reads beside them",
                dataset=name,
            )

    def _close_gaps(self, store: Store) -> list[StoredSample]:
        """Number the samples of a store from 0, where its trainer needs that; return their records by number."""
        records = list(read_index(store.index_path).records.values())
        if isinstance(store.layout, Renumbering):
            moves = {record.row: row for record, row in closing_moves(records)}
            self._check_free(store, set(moves.values()))
            records = [
                self._moved(store, store.layout, record, moves[record.row]) if record.row in moves else record
                for record in records
            ]
        return sorted(records, key=lambda record: record.row)

    def _check_free(self, store: Store, rows: set[int]) -> None:
        """See that no file without a record would be written over.

        Raises:
            StoreError: One would be.
        """
        in_the_way = sorted(rows.intersection(store.reserved))
        if in_the_way:
            raise StoreError(
                f"the index does not know the file of number {in_the_way[0]} in {store.folder}, and it is in the way: "
                f"eagle3 verify {self._run.path} --repair looks what it is"
            )

    def _moved(self, store: Store, layout: Renumbering, record: StoredSample, row: int) -> StoredSample:
        """Give a sample the number of a gap; its file stays under the old name too, until the index is on the disk."""
        placed, at = layout.renumber(record, row), self._clock.now()
        moved = msgspec.structs.replace(
            record, row=row, at=at, file=placed.file, offset=placed.offset, bytes=placed.bytes, checksum=placed.checksum
        )
        dropped = DroppedSample(sample_id=record.sample_id, why=f"renumbered from {record.row} to {row}", at=at)
        self._writer.append(store.index_path, encode_line(dropped) + encode_line(moved))
        return moved

    def _tidy(self, store: Store, records: list[StoredSample], counts: TokenCounts) -> None:
        """Remove files that samples had before they were renumbered, and count the tokens that are learned from."""
        with store.index_path.open("rb+") as index:
            os.fsync(index.fileno())  # until then a power cut needs the files under their old names
        remove_files(given_up_files(store.layout, store.folder, read_index(store.index_path)))
        count_tokens(store.layout, records, counts, self._config.extract.draft_vocab_size)

    def _write_files(
        self,
        store: Store,
        records: list[StoredSample],
        counts: TokenCounts,
        norm: NormWeight | None,
        vocab_size: int | None,
    ) -> list[str]:
        _see(store.folder if records else self._run.stores)
        return write_dataset_files(
            store.layout,
            store.folder,
            records,
            draft_vocab_size=self._config.extract.draft_vocab_size,
            vocab_size=vocab_size,
            norm=norm,
            counts=counts,
        )

    def _write_maps(self, counts: TokenCounts, vocab_size: int | None) -> list[str]:
        extract = self._config.extract
        if extract.draft_vocab_size is None or vocab_size is None:
            return []
        _see(self._run.stores)
        return write_run_maps(extract.layout, self._run.stores, counts, extract.draft_vocab_size, vocab_size)


def _see(folder: Path) -> None:
    """See that what is written beside samples is not all there is: stores may have been moved away.

    Raises:
        OSError: The folder is gone.
    """
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "was moved or deleted: put it back", str(folder))
