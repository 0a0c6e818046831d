"""Bytes of a store that no index record accounts for: what they are, which may go, and which are samples.

A crash leaves a few of them. An index that lost lines (a file that was cut, a backup that was put back) leaves as many
as it lost, whole and expensive, and they are told apart by what they are, not by how many they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contracts.journal.durable import sync_folder
from contracts.records import StoredSample
from contracts.sample_id import sample_key
from daemon.store.index import Index
from daemon.store.layout import Identity, Layout, StoreError
from daemon.store.safetensors_ import OWN_FILE_BYTES, SafetensorsLayout
from daemon.store.shard_gaps import Stretch, stretches, void
from daemon.store.shards import is_shard
from daemon.store.writing import PART, checksum_of

MOST_LEFT: Final = 64
"""Files and documents that a crash can have left, with room to spare: two samples are stored at a time. More that
cannot be explained are not removed unless a person asks for it."""


@dataclass(frozen=True)
class Piece:
    """A file, or a part of a shard, that no record accounts for."""

    path: Path
    file: str
    """Below the store."""
    offset: int
    length: int
    stretch: Stretch | None = None
    """Its part of a shard; None: it is a file of its own."""

    @property
    def place(self) -> str:
        """The file, and where in it."""
        return str(self.path) if self.stretch is None else f"{self.path} at byte {self.offset:,}"

    @property
    def weight(self) -> int:
        """How many samples it may be."""
        if self.stretch is None or self.stretch.whole:
            return 1
        return -(-self.length // OWN_FILE_BYTES)


@dataclass(frozen=True)
class Claim:
    """A piece that says whose sample it is; nothing of that was checked."""

    piece: Piece
    key: bytes
    identity: Identity


@dataclass
class Verdict:
    """What becomes of pieces."""

    adopted: list[StoredSample] = field(default_factory=list)
    """Whole samples of the run: records to be appended to the index."""
    going: list[tuple[Piece, str]] = field(default_factory=list)
    """What may be removed however many they are, each with the reason."""
    odd: list[tuple[Piece, str]] = field(default_factory=list)
    """What nobody knows a use for, each with the reason."""
    undecided: str | None = None
    """Why nothing odd may be removed, not even on demand: what samples must be is not known."""

    def repeated(self, piece: Piece, record: StoredSample, where: str) -> None:
        """Take a piece that says it is a sample which has a record: it may go where it is that, byte for byte.

        Args:
            piece: It.
            record: Of the sample.
            where: What is said of that one's place.
        """
        same = piece.length == record.bytes and checksum_of(piece.path, piece.offset, piece.length) == record.checksum
        what = f"{'the same as' if same else 'another one of'} sample {record.sample_id!r}{where}"
        (self.going if same else self.odd).append((piece, what))

    @property
    def is_much(self) -> bool:
        """Whether there is more than a crash can leave."""
        return sum(piece.weight for piece, _ in self.odd) > MOST_LEFT


Judge = Callable[[Layout, list[Claim], dict[bytes, StoredSample]], Verdict]
"""Says what becomes of claims to samples of which the index has none; given the layout, them, and the records that
hold."""


def pieces_of(layout: Layout, folder: Path, records: list[StoredSample]) -> Iterator[Piece]:
    """Yield what no record accounts for; nothing but headers is read.

    Args:
        layout: Of the store.
        folder: The store's.
        records: All that hold.

    Raises:
        OSError: A file cannot be looked at.
    """
    for path in layout.strays(records):
        if not is_shard(path.name):
            yield Piece(path, path.relative_to(folder).as_posix(), 0, path.stat().st_size)
    if isinstance(layout, SafetensorsLayout):
        for found in stretches(folder, records):
            yield Piece(found.path, found.path.name, found.offset, found.length, found)


def sort_out(layout: Layout, folder: Path, index: Index, good: dict[bytes, StoredSample], judge: Judge) -> Verdict:
    """Say what becomes of all that no record accounts for; nothing is changed.

    Args:
        layout: Of the store.
        folder: The store's.
        index: As it stands.
        good: Its records whose bytes are there.
        judge: Decides on claims to samples that are not among these.

    Raises:
        StoreError: There is too much to be looked at here and now; the message says what to do.
        OSError: A file cannot be read.
    """
    found, claims = Verdict(), list[Claim]()
    lost = {record.file for key, record in index.records.items() if key not in good}
    for piece in pieces_of(layout, folder, list(good.values())):
        if piece.path.name.endswith(PART):
            found.going.append((piece, "it was being written when its writer ended"))
        elif _is_given_up(piece, index):
            found.going.append((piece, "its sample was given up"))
        else:
            try:
                if piece.stretch is not None and not piece.stretch.whole:
                    raise StoreError("no document")
                identity = layout.identify(piece.file, piece.offset, piece.length)
            except StoreError as error:
                left = piece.file in lost
                (found.going if left else found.odd).append((piece, "left of a sample" if left else str(error)))
                continue
            claims.append(Claim(piece, sample_key(identity.sample_id), identity))
    if claims:
        _judge(layout, folder, good, claims, judge, found)
    return found


def _judge(
    layout: Layout, folder: Path, good: dict[bytes, StoredSample], claims: list[Claim], judge: Judge, found: Verdict
) -> None:
    judged = judge(layout, [claim for claim in claims if claim.key not in good], good)
    found.adopted += judged.adopted
    found.odd += judged.odd
    found.going += judged.going
    found.undecided = judged.undecided
    for claim in claims:
        record = good.get(claim.key)
        if record is None:
            continue
        found.repeated(claim.piece, record, f", which is in {record.file}")


def remove(
    layout: Layout, folder: Path, records: list[StoredSample], verdict: Verdict, *, demanded: bool = False
) -> tuple[list[str], list[Piece]]:
    """Remove what may go, and what is odd where that is not much; adopted samples stay.

    Args:
        layout: Of the store.
        folder: The store's.
        records: All that hold, adopted ones included.
        verdict: On what no record accounts for.
        demanded: A person asked for it: whatever is odd goes.

    Returns:
        A sentence for each thing that was removed, and what was left.

    Raises:
        OSError: A file cannot be removed or cut.
    """
    stays = verdict.undecided is not None or (verdict.is_much and not demanded)
    gone = verdict.going if stays else verdict.going + verdict.odd
    files = [piece.path for piece, _ in gone if piece.stretch is None]
    said = [f"removed {piece.place}: {why}" for piece, why in gone if piece.stretch is None]
    if not stays:
        whole = [path for path in layout.strays(records) if is_shard(path.name)]
        said += [f"removed {path}: nothing in it is a sample of this run" for path in whole]
        files += whole
        said += layout.cut_back(records)
        gone = [(piece, why) for piece, why in gone if piece.path not in whole]
    said += _void(gone)
    remove_files(files)
    return said, [piece for piece, _ in verdict.odd] if stays else []


def given_up_files(layout: Layout, folder: Path, index: Index) -> list[Path]:
    """Return files of their own that an index once told of and that hold no longer.

    Raises:
        OSError: The store cannot be read.
    """
    if not index.given_up:
        return []
    pieces = pieces_of(layout, folder, list(index.records.values()))
    return [piece.path for piece in pieces if piece.stretch is None and _is_given_up(piece, index)]


def remove_files(paths: list[Path]) -> None:
    """Remove files for good.

    Raises:
        OSError: One cannot be removed.
    """
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        sync_folder(folder)


def _void(gone: list[tuple[Piece, str]]) -> Iterator[str]:
    """Take documents that were not cut off out of their shards."""
    for piece, why in gone:
        stretch = piece.stretch
        if stretch is None or not stretch.whole or piece.offset >= os.stat(piece.path).st_size:  # noqa: PTH116
            continue
        void(stretch)
        yield f"took the document at byte {piece.offset:,} out of {piece.path}: {why}"


def _is_given_up(piece: Piece, index: Index) -> bool:
    """Whether the index says that what lies there holds no longer.

    What was written later is another sample, unless it is the same, byte for byte. What was given up for its bytes, and
    not removed by then, is told by its time.
    """
    known = index.given_up.get((piece.file, piece.offset))
    if known is None:
        return False
    late = piece.path.stat().st_mtime > known.at
    return not late or checksum_of(piece.path, piece.offset, piece.length) == known.checksum
