"""A saved fold: makes a restart cost only the new bytes. Verified against the files, dropped when in doubt.

Each file's part stands for itself: when a file was changed behind what was read of it, only its part is counted again.
A file of unchanged size and time is taken as unchanged; of a grown one, samples of what was read before are compared.
What this cannot notice: bytes changed in place, in a file that has grown since, outside the samples.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from contracts.fold.dataset import PARTS, DatasetFold, DatasetState
from contracts.fold.slices import Piece, encode, encoded, map_head, pieces
from contracts.journal.tail import Position

VERSION: Final = 8
"""Raised whenever any fold counts differently than before."""

_SAMPLES: Final = 16
_SAMPLE_BYTES: Final = 256
_LAST_BYTES: Final = 4096
_DIGEST: Final = 32


class FileMark(msgspec.Struct):
    """A file as it was when the fold was saved."""

    position: Position
    size: int
    mtime_ns: int
    guard: bytes


class SavedDataset(msgspec.Struct):
    """One data set's state and what it was read from."""

    marks: dict[str, FileMark]
    state: DatasetState


class Checkpoint(msgspec.Struct):
    """The whole file, behind its digest."""

    version: int
    datasets: dict[str, SavedDataset]


class _Part(NamedTuple):
    """The fold of one file, and how far that was read."""

    path: Path
    position: Position | None
    state: list[Piece]


class Snapshot:
    """A copy of the folds, to be written while they go on.

    Args:
        datasets: Of the folds.
    """

    def __init__(self, datasets: list[DatasetFold]) -> None:
        self._datasets = datasets
        self._taken: list[tuple[str, dict[str, _Part]]] = []

    def take(self) -> Iterator[None]:
        """Copy them file by file, as each is then: between two steps they may go on."""
        for dataset in self._datasets:
            parts: dict[str, _Part] = {}
            for file, part in PARTS.items():
                tail = dataset.tails[file]
                parts[file] = _Part(tail.path, tail.position, pieces(getattr(dataset.state, part)))
                yield
            self._taken.append((dataset.name, parts))

    def write(self, path: Path) -> None:
        """Write what was taken, atomically; other threads are not held up for long. Not synced: a lost or torn
        checkpoint is only rebuilt.

        Raises:
            OSError: The file cannot be written.
        """
        body = bytearray(map_head(2) + encode("version") + encode(VERSION) + encode("datasets"))
        body += map_head(len(self._taken))
        for name, parts in self._taken:
            marks = {
                file: mark for file, part in parts.items() if (mark := _mark(part.path, part.position)) is not None
            }
            body += (
                encode(name) + map_head(2) + encode("marks") + encode(marks) + encode("state") + map_head(len(parts))
            )
            for file, part in parts.items():
                body += encode(PARTS[file])
                for piece in part.state:
                    for slice_ in encoded(piece):
                        body += slice_
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_bytes(hashlib.blake2b(body, digest_size=_DIGEST).digest() + body)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)  # half of it on a full disk would take the room that the records need
            raise


def load_checkpoint(path: Path, datasets: list[DatasetFold]) -> list[str]:
    """Put saved state into the folds where the files still bear it out.

    Returns:
        Sentences on what could not be used, and why.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{path}: cannot be read ({error}); everything is counted again"]
    body = memoryview(content)[_DIGEST:]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != content[:_DIGEST]:
        return [f"{path}: is damaged or empty; everything is counted again"]
    try:
        checkpoint = msgspec.msgpack.decode(body, type=Checkpoint)
    except msgspec.DecodeError as error:
        return [f"{path}: was written by another version ({error}); everything is counted again"]
    if checkpoint.version != VERSION:
        return [f"{path}: was written by another version ({checkpoint.version}); everything is counted again"]
    notes: list[str] = []
    for dataset in datasets:
        saved = checkpoint.datasets.get(dataset.name)
        if saved is not None:
            notes += _restore(dataset, saved)
    return notes


def _restore(dataset: DatasetFold, saved: SavedDataset) -> list[str]:
    notes: list[str] = []
    for name, mark in saved.marks.items():
        tail = dataset.tails[name]
        doubt = _doubt(tail.path, mark)
        if doubt:
            notes.append(f"{tail.path}: {doubt} since the checkpoint; counted again")
            continue
        setattr(dataset.state, PARTS[name], getattr(saved.state, PARTS[name]))
        tail.position = mark.position
    return notes


def _mark(path: Path, position: Position | None) -> FileMark | None:
    if position is None:
        return None
    try:
        stat = path.stat()
        guard = _guard(path, position.offset)
    except OSError:
        return None
    return FileMark(position, stat.st_size, stat.st_mtime_ns, guard)


def _doubt(path: Path, mark: FileMark) -> str | None:
    """Return why the file can't be the one that was read, or None."""
    try:
        stat = path.stat()
        if (stat.st_dev, stat.st_ino) != (mark.position.device, mark.position.inode):
            return "was replaced"
        if stat.st_size < mark.size:
            return "became shorter"
        if stat.st_size == mark.size and stat.st_mtime_ns == mark.mtime_ns:
            return None
        if stat.st_size == mark.size or _guard(path, mark.position.offset) != mark.guard:
            return "was changed in place"
    except OSError as error:
        return f"cannot be read ({error})"
    return None


def _guard(path: Path, offset: int) -> bytes:
    """Return a digest of evenly spread samples and of the last bytes before ``offset``."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        for index in range(_SAMPLES):
            place = offset * index // _SAMPLES
            file.seek(place)
            digest.update(file.read(min(_SAMPLE_BYTES, offset - place)))  # never beyond: the file may grow
        file.seek(max(0, offset - _LAST_BYTES))
        digest.update(file.read(min(_LAST_BYTES, offset)))
    return digest.digest()
