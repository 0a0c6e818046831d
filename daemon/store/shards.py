"""Small samples, one after another in a few large files: ``shard-<n>.e3s``.

A shard has no table of its own: the index says where each sample is, and what lies between or behind the indexed
samples means nothing. Each sample is a complete safetensors document that begins at a multiple of 64 bytes.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Final

import xxhash

from contracts.journal.durable import sync_folder
from contracts.records import StoredSample
from contracts.wording import counted
from daemon.store.layout import Placed
from daemon.store.writing import checksum_text

SHARD_BYTES: Final = 1 << 30
"""A shard that would grow beyond it is followed by the next."""
ALIGNMENT: Final = 64
_NAME: Final = re.compile(r"shard-(\d+)\.e3s")


class Shards:
    """The shards of one store. Several threads may append."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._number: int | None = None
        """Of the shard that is appended to; None: not looked up yet."""
        self._end = 0
        """Behind the last sample of it."""

    def append(self, document: memoryview) -> Placed:
        """Append a whole document; when this returns, it is on the disk.

        Raises:
            OSError: It cannot be written; nothing of it is left.
        """
        with self._lock:
            path, offset = self._next_place(document.nbytes)
            # Only at its start: a shard that was moved away would begin again with a hole, as long as it should be.
            made = 0 if offset else os.O_CREAT
            descriptor = os.open(path, os.O_WRONLY | made | os.O_CLOEXEC, 0o666)
            try:
                # One sync at a time costs no more than several: they all wait for the same disk.
                self._write(path, descriptor, document, offset)
            finally:
                os.close(descriptor)
            self._end = offset + document.nbytes
        checksum = checksum_text(xxhash.xxh3_128_hexdigest(document))
        return Placed(file=path.name, offset=offset, bytes=document.nbytes, checksum=checksum)

    def cut_back(self, records: list[StoredSample]) -> list[str]:
        """Cut off what lies behind the last indexed sample of each shard; a sentence for each.

        Shards without an indexed sample are strays, and left alone here.

        Raises:
            OSError: A shard cannot be cut.
        """
        ends: dict[str, int] = {}
        for record in records:
            if is_shard(record.file):
                ends[record.file] = max(ends.get(record.file, 0), record.offset + record.bytes)
        said = []
        with self._lock:
            self._number = None
            for name, end in sorted(ends.items()):
                path = self._folder / name
                if not path.is_file():
                    continue  # its samples are missing: loading them says so
                size = path.stat().st_size
                if size > end:
                    _truncate(path, end)
                    said.append(f"{path}: cut {counted(size - end, 'byte')} behind the last indexed sample, at {end:,}")
        return said

    def _next_place(self, length: int) -> tuple[Path, int]:
        """Return where a document of this length goes; under the lock."""
        if self._number is None:
            self._number, self._end = self._newest()
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        if offset and offset + length > SHARD_BYTES:
            self._number, self._end, offset = self._number + 1, 0, 0
        return self._folder / f"shard-{self._number}.e3s", offset

    def _newest(self) -> tuple[int, int]:
        """Return number and size of the newest shard on the disk.

        What a crash left behind its last indexed sample is not written over unless `cut_back` removed it before: this
        class does not know the index.
        """
        numbers = [int(found[1]) for name in os.listdir(self._folder) if (found := _NAME.fullmatch(name))]  # noqa: PTH208
        if not numbers:
            return 0, 0
        newest = max(numbers)
        return newest, (self._folder / f"shard-{newest}.e3s").stat().st_size

    def _write(self, path: Path, descriptor: int, document: memoryview, offset: int) -> None:
        try:
            left = document
            place = offset
            while left:
                count = os.pwrite(descriptor, left, place)
                left, place = left[count:], place + count
            os.fdatasync(descriptor)
            if offset == 0:
                sync_folder(path.parent)
        except OSError:
            if offset:
                os.ftruncate(descriptor, self._end)
            else:
                path.unlink(missing_ok=True)
            raise


def is_shard(name: str) -> bool:
    """Whether a file name is a shard's."""
    return _NAME.fullmatch(name) is not None


def _truncate(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
