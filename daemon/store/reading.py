"""Reading what a store holds: the file of an index record, its small arrays, its rows, and what may not be there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
import numpy.typing as npt

from contracts.records import StoredSample
from daemon.store.blocks import block_at
from daemon.store.layout import StoreError
from daemon.store.sample import BLOCK_BYTES
from daemon.store.writing import PART


def file_of(folder: Path, record: StoredSample, *, shared: bool = False) -> Path:
    """Return the file of an index record, seen to be there and of the size that the record says.

    Args:
        folder: The data set's store.
        record: Of the sample.
        shared: The file holds other samples too: it may go on behind this one.

    Raises:
        StoreError: It is missing, is no file, is cut short or too long.
        OSError: It cannot be looked at.
    """
    relative = PurePosixPath(record.file)
    if relative.is_absolute() or ".." in relative.parts:
        raise StoreError(f"the index record of {record.sample_id!r} names {record.file!r}, which is not in {folder}")
    path = folder / relative
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(f"{path} is missing") from error
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path} is no file")
    end = record.offset + record.bytes
    if found.st_size < end:
        raise StoreError(f"{path} is cut short: it has {found.st_size:,} bytes, its index record says {end:,}")
    if found.st_size > end and not shared:
        raise StoreError(f"{path} has {found.st_size:,} bytes, more than the {end:,} that its index record says")
    return path


def read_exactly(path: Path, offset: int, length: int) -> memoryview:
    """Read bytes of a file.

    Raises:
        StoreError: It ends before.
        OSError: It cannot be read.
    """
    with path.open("rb", buffering=0) as stream:
        return _fill(stream.fileno(), path, offset, length)


def read_array(path: Path, offset: int, count: int, dtype: str) -> npt.NDArray[np.generic]:
    """Read ``count`` values of a little-endian numpy type.

    Raises:
        StoreError: The file ends before.
        OSError: It cannot be read.
    """
    return np.frombuffer(read_exactly(path, offset, count * np.dtype(dtype).itemsize), dtype=dtype)


class FileRows:
    """Rows that lie one after another in a file.

    They are read into memory a block at a time. A mapped file would save that copy, which costs little in the
    processor's cache, but a bad sector or a file cut under our hands would end the process instead of raising.
    """

    def __init__(self, path: Path, offset: int, tokens: int, row_bytes: int) -> None:
        self._path = path
        self._offset = offset
        self._tokens = tokens
        self._row_bytes = row_bytes

    @property
    def tokens(self) -> int:
        """How many there are."""
        return self._tokens

    def blocks(self) -> Iterator[memoryview]:
        """Yield them in order, whole rows, each block in memory of its own.

        Raises:
            StoreError: The file ends before.
            OSError: It cannot be read.
        """
        step = max(1, BLOCK_BYTES // self._row_bytes)
        with self._path.open("rb", buffering=0) as stream:
            for first in range(0, self._tokens, step):
                count = min(step, self._tokens - first)
                place = self._offset + first * self._row_bytes
                yield _fill(stream.fileno(), self._path, place, count * self._row_bytes)


def agree(path: Path, record: StoredSample, *, tokens: int, slots: int, hidden_size: int, dtype: str) -> None:
    """See that a file's rows have the shape that its index record says.

    Raises:
        StoreError: They have not.
    """
    for what, found, said in (
        ("rows", tokens, record.tokens),
        ("slots a row", slots, len(record.layers) + 1),
        ("values a slot", hidden_size, record.hidden_size),
    ):
        if found != said:
            raise StoreError(f"{path} has {found} {what}, its index record says {said}")
    if dtype != record.dtype:
        raise StoreError(f"{path} holds {dtype}, its index record says {record.dtype}")


_TENSORS: Final = (".safetensors", ".ckpt", ".ckpt.gz", ".pt", ".e3s")
"""How names of samples end, in any layout."""


def find_foreign(folder: Path, ours: Iterable[Path], files: Container[str]) -> list[str]:
    """Return the files of tensors in a store that are not of this store, sorted: nobody reads or removes them.

    Args:
        folder: The data set's store.
        ours: Files below it that no record accounts for, but that have names of its samples.
        files: All others of its own: of samples, and beside them.
    """
    known = {path.relative_to(folder).as_posix() for path in ours}
    found = []
    for parent, _, names in os.walk(folder):
        found += [Path(parent, name).relative_to(folder).as_posix() for name in names if name.endswith(_TENSORS)]
    return sorted(name for name in found if name not in known and name not in files)


def find_strays(folder: Path, records: list[StoredSample], is_sample: Callable[[Path], bool]) -> list[Path]:
    """Return temporaries, and files that a reader of this layout takes for samples but no index record names; sorted.

    Files of other kinds are nobody's strays: the data-set files, a person's notes, a trainer's caches.

    Args:
        folder: The data set's store.
        records: All of its index.
        is_sample: Of a path below the store: whether it would be taken for a sample.
    """
    known = {record.file for record in records}
    strays = []
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            relative = path.relative_to(folder)
            temporary = name.startswith(".") and name.endswith(PART)
            if temporary or (is_sample(relative) and relative.as_posix() not in known):
                strays.append(path)
    return sorted(strays)


def _fill(descriptor: int, path: Path, offset: int, length: int) -> memoryview:
    whole = block_at(offset, length)
    left = whole
    while left:
        count = os.preadv(descriptor, [left], offset + length - len(left))
        if not count:
            raise StoreError(
                f"{path} ends {len(left):,} bytes too early, behind its byte {offset + length - len(left)}"
            )
        left = left[count:]
    return whole
