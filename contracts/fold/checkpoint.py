"""A saved fold: makes a restart cost only the new bytes. Verified against the files, dropped when in doubt.

Each file's part stands for itself: when a file was changed behind what was read of it, only its part is counted again.
A file of unchanged size and time is taken as unchanged; of a grown one, samples of what was read before are compared.
What this cannot notice: bytes changed in place, in a file that has grown since, outside the samples.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from contracts.fold.dataset import DatasetFold, DatasetState
from contracts.journal.tail import Position, Tail
from contracts.run_dir import FAILURES, HIDDEN_STATES, PROMPTS, RESPONSES

VERSION: Final = 7
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


def save_checkpoint(path: Path, datasets: list[DatasetFold]) -> None:
    """Write the folds as they are, atomically. Not synced: a lost or torn checkpoint is only rebuilt.

    Raises:
        OSError: The file cannot be written.
    """
    saved = {
        dataset.name: SavedDataset(
            {name: mark for name, tail in dataset.tails.items() if (mark := _mark(tail)) is not None}, dataset.state
        )
        for dataset in datasets
    }
    body = msgspec.msgpack.encode(Checkpoint(VERSION, saved))
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
    parts = {PROMPTS: "prompts", RESPONSES: "responses", FAILURES: "failures", HIDDEN_STATES: "hidden"}
    for name, mark in saved.marks.items():
        tail = dataset.tails[name]
        doubt = _doubt(tail.path, mark)
        if doubt:
            notes.append(f"{tail.path}: {doubt} since the checkpoint; counted again")
            continue
        setattr(dataset.state, parts[name], getattr(saved.state, parts[name]))
        tail.position = mark.position
    return notes


def _mark(tail: Tail) -> FileMark | None:
    if tail.position is None:
        return None
    try:
        stat = tail.path.stat()
        guard = _guard(tail.path, tail.position.offset)
    except OSError:
        return None
    return FileMark(tail.position, stat.st_size, stat.st_mtime_ns, guard)


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
