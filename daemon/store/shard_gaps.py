"""What lies in shards where no index record points: whole documents, and bytes that are none.

Documents begin at multiples of 64 bytes and say in their first bytes how long they are, so that they are found without
any table: one after another, and behind damage at the next place that looks like the beginning of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from contracts.records import StoredSample
from daemon.store.layout import StoreError
from daemon.store.safetensors_form import document_length
from daemon.store.shards import ALIGNMENT, is_shard

_BLOCK: Final = 1 << 20
_MOST_HEADER: Final = 1 << 20


@dataclass(frozen=True)
class Stretch:
    """Bytes of a shard that no record accounts for."""

    path: Path
    offset: int
    length: int
    whole: bool
    """A document, by what its header says; False: bytes behind the last record that are none."""


def stretches(folder: Path, records: list[StoredSample]) -> Iterator[Stretch]:
    """Yield what lies in the shards of a store outside of its records: whole documents everywhere, and behind the last
    record of a shard also what is none.

    Args:
        folder: The store's.
        records: All that hold.

    Raises:
        OSError: A shard cannot be read.
    """
    taken: dict[str, list[tuple[int, int]]] = {}
    for record in records:
        if is_shard(record.file):
            taken.setdefault(record.file, []).append((record.offset, record.offset + record.bytes))
    names = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208
    for name in sorted(filter(is_shard, names)):
        yield from _of_shard(folder / name, sorted(taken.get(name, [])))


def void(stretch: Stretch) -> None:
    """Make a document between others one no longer: nothing finds it again.

    Raises:
        OSError: The shard cannot be written.
    """
    descriptor = os.open(stretch.path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, bytes(8), stretch.offset)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _of_shard(path: Path, taken: list[tuple[int, int]]) -> Iterator[Stretch]:
    size, reached = path.stat().st_size, 0
    for begin, end in taken:
        yield from (found for found in _between(path, reached, min(begin, size)) if found.whole)
        reached = max(reached, end)
    yield from _between(path, reached, size)


def _between(path: Path, begin: int, end: int) -> Iterator[Stretch]:
    """Yield the documents of a gap, and what lies in front of, between and behind them."""
    reached = begin
    for offset, length in _documents(path, begin, end):
        if offset - reached >= ALIGNMENT:
            yield Stretch(path, reached, offset - reached, whole=False)
        yield Stretch(path, offset, length, whole=True)
        reached = offset + length
    if end > reached:
        yield Stretch(path, reached, end - reached, whole=False)


def _documents(path: Path, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each document."""
    offset: int | None = _aligned(begin)
    while offset is not None and offset < end:
        length = None
        try:
            length = document_length(path, offset, end - offset)
        except StoreError:
            pass  # no document begins here
        if length is None:
            offset = _next_start(path, offset + ALIGNMENT, end)
        else:
            yield offset, length
            offset = _aligned(offset + length)


def _next_start(path: Path, begin: int, end: int) -> int | None:
    """Return the next place that looks like the beginning of a document: a small number, then a brace."""
    with path.open("rb", buffering=0) as stream:
        for offset in range(begin, end, _BLOCK):
            content = os.pread(stream.fileno(), min(_BLOCK, end - offset), offset)
            lines = np.frombuffer(content[: len(content) // ALIGNMENT * ALIGNMENT], np.uint8).reshape(-1, ALIGNMENT)
            sizes = np.ascontiguousarray(lines[:, :8]).view("<u8")[:, 0]
            likely = np.flatnonzero((sizes > 0) & (sizes <= _MOST_HEADER) & (lines[:, 8] == ord("{")))
            if likely.size:
                return offset + int(likely[0]) * ALIGNMENT
    return None


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
