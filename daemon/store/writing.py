"""Bytes on their way to the disk: written, hashed and counted in one pass; the final name comes when they are safe."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import xxhash

from contracts.journal.durable import sync_folder
from daemon.store.layout import StoreError
from daemon.store.sample import BLOCK_BYTES, Sample

PART: Final = ".part"
"""Ends the temporary names, which begin with a dot: no trainer's reader takes such a file for a sample."""


_SEND_BYTES: Final = 16 << 20
"""Every so many bytes the kernel is asked to begin with the disk: the sync at the end waits a quarter less."""


class Output:
    """A new file that is being written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._digest = xxhash.xxh3_128()
        self._sent = 0
        self.count = 0
        """Bytes written."""

    def write(self, data: bytes | memoryview) -> int:
        """Write all of it, straight from the caller's memory.

        Raises:
            OSError: It cannot be written; part of it may have been.
        """
        view = memoryview(data)
        length = view.nbytes
        if not length:
            return 0
        view = view.cast("B")
        self._digest.update(view)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self.count += length
        if self.count - self._sent >= _SEND_BYTES:
            with contextlib.suppress(OSError):  # it is advice, and says too that nobody reads these pages soon
                os.posix_fadvise(self._descriptor, self._sent, self.count - self._sent, os.POSIX_FADV_DONTNEED)
            self._sent = self.count
        return length

    def flush(self) -> None:
        """Do nothing: there is no buffer (zipfile asks for it)."""

    def checksum(self) -> str:
        """Return ``xxh3_128:<hex>`` of all that was written."""
        return checksum_text(self._digest.hexdigest())


def checksum_text(digest: str) -> str:
    """Return a digest as index records state it."""
    return f"xxh3_128:{digest}"


def checksum_of(path: Path, offset: int, length: int) -> str:
    """Compute the checksum of ``length`` bytes of a file, from ``offset`` on, in flat memory.

    Raises:
        StoreError: The file ends before.
        OSError: It cannot be read.
    """
    digest = xxhash.xxh3_128()
    block = memoryview(bytearray(BLOCK_BYTES))
    with path.open("rb", buffering=0) as stream:
        stream.seek(offset)
        left = length
        while left:
            count = stream.readinto(block[: min(left, BLOCK_BYTES)])
            if not count:
                raise StoreError(f"{path} ends {left:,} bytes too early: it should have {offset + length:,}")
            digest.update(block[:count])
            left -= count
    return checksum_text(digest.hexdigest())


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Output]:
    """Write a file whole or not at all; when the block has ended, it is on the disk under its final name.

    It is written as ``.<name>.part`` beside it, synced, renamed, and the folder synced. Whatever the block raises, the
    temporary is removed and what was there before still is.

    Raises:
        OSError: It cannot be written.
    """
    beside = path.with_name(f".{path.name}{PART}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        try:
            yield Output(descriptor)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        beside.rename(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


class Folders:
    """The folders of one store, made when first needed so that their names last too.

    The store's own is made once: should it be gone later, it was moved, and a second one in its place would be half a
    store.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._ready: set[Path] = set()
        self._was_there = root.is_dir()

    def ready(self, folder: Path) -> Path:
        """Make a folder (the store's own, or one below it) and return it.

        Raises:
            OSError: It cannot be made, or the store is gone.
        """
        with self._lock:
            if self._was_there and not self._root.is_dir():
                raise FileNotFoundError(
                    errno.ENOENT, "the folder of the store was moved or deleted: put it back", str(self._root)
                )
            if folder not in self._ready:
                chain = [folder, *folder.parents]
                # Names down from the store's own are synced even if they are there: a process that made them may have
                # been killed before it had synced them.
                to_sync = {path for path in chain if not path.exists()} | set(chain[: chain.index(self._root) + 1])
                folder.mkdir(parents=True, exist_ok=True)
                for path in to_sync:
                    sync_folder(path.parent)
                self._ready.add(folder)
                self._was_there = True
        return folder


def rows_of(sample: Sample) -> Iterator[memoryview]:
    """Return the blocks of a sample's rows, seen to be as many as its form and its tokens say.

    Raises:
        StoreError: Ids, mask and rows are not of one length; while they are read: the rows have more or fewer bytes
            than they should.
    """
    tokens = sample.rows.tokens
    if not len(sample.ids) == len(sample.loss_mask) == tokens:
        raise StoreError(
            f"sample {sample.sample_id!r} has {len(sample.ids)} token ids, {len(sample.loss_mask)} values of the "
            f"loss mask and {tokens} rows: it is not stored"
        )
    return _counted(sample, tokens * sample.form.row_bytes)


def _counted(sample: Sample, expected: int) -> Iterator[memoryview]:
    seen = 0
    for block in sample.rows.blocks():
        seen += block.nbytes
        if seen > expected:
            break
        yield block
    if seen != expected:
        many = "more than" if seen > expected else f"{seen:,} of"
        raise StoreError(f"the rows of sample {sample.sample_id!r} have {many} {expected:,} bytes: it is not stored")
