"""The folder that one data set is exported into: what is in it already, and one sample more.

``export.jsonl`` in it has lines as ``hidden_states.jsonl``, of what lies there. ``rid`` and ``at`` stay those of the
run's record, by which a sample that was stored anew is told from the one that was exported.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from contracts.journal.append import Journal
from contracts.records import DroppedSample, StoredSample, encode_line
from contracts.sample_id import sample_key
from contracts.wording import counted
from daemon.store.index import read_index
from daemon.store.layout import Layout
from daemon.store.layouts import Renumbering, make_layout
from daemon.store.reconcile import reconcile
from daemon.store.sample import Sample
from daemon.store.speculators_ import closing_moves
from daemon.store.unrecorded import Claim, Verdict, remove_files

EXPORT: Final = "export.jsonl"


class ExportError(Exception):
    """An export that cannot be made; the message says why and what to do."""


class ExportTarget:
    """One data set's folder of an export, open for more samples; made by `open_target`."""

    def __init__(self, folder: Path, layout: Layout, journal: Journal, records: dict[bytes, StoredSample]) -> None:
        self.folder = folder
        self.layout = layout
        self.records = records
        """What lies in it, by ``sample_key``."""
        self._journal = journal
        self._named = Counter(record.file for record in records.values())
        """How many records name a file: looking through the folder for each one that goes would take hours."""
        taken = {record.row for record in records.values()}
        self._next = max(taken, default=-1) + 1
        self._holes = [row for row in range(self._next) if row not in taken]

    def has(self, source: StoredSample) -> bool:
        """Whether this very sample is there, as the run stored it last."""
        there = self.records.get(sample_key(source.sample_id))
        return there is not None and _capture(there) == _capture(source)

    def add(self, sample: Sample, source: StoredSample) -> StoredSample:
        """Write a sample and record it.

        Args:
            sample: In the form that the layout stores.
            source: Its record in the run.

        Raises:
            OSError: It cannot be written; nothing of it is left.
            Whatever its rows raise.
        """
        self._drop([sample.key], "stored anew")
        row = self._holes[0] if self._holes else self._next
        placed = self.layout.place(sample, row)
        record = msgspec.structs.replace(
            source,
            file=placed.file,
            row=row,
            offset=placed.offset,
            bytes=placed.bytes,
            checksum=placed.checksum,
            norm=sample.form.norm,
            layout=self.layout.name,
        )
        self._journal.append(encode_line(record))
        self._keep(record)
        if self._holes:
            heapq.heappop(self._holes)
        else:
            self._next += 1
        return record

    def keep_only(self, keys: Iterable[bytes]) -> int:
        """Remove the samples that the run has no longer; return how many they were."""
        gone = list(self.records.keys() - set(keys))
        self._drop(gone, "the run has it no longer")
        return len(gone)

    def close_gaps(self) -> None:
        """Number the samples from 0 without holes, where the layout's trainer knows them by their number.

        Raises:
            StoreError: A sample's file is missing.
            OSError: It cannot be given another name.
        """
        if not isinstance(self.layout, Renumbering):
            return
        for record, row in closing_moves(list(self.records.values())):
            placed = self.layout.renumber(record, row)
            moved = msgspec.structs.replace(record, row=row, file=placed.file)
            self._drop([sample_key(record.sample_id)], f"renumbered from {record.row} to {row}", moved)

    def _drop(self, keys: list[bytes], why: str, instead: StoredSample | None = None) -> None:
        """Record that samples hold no longer (and what holds instead), then remove their files."""
        dropped = [self.records.pop(key) for key in keys if key in self.records]
        if not dropped:
            return
        now = time.time()
        lines = [encode_line(DroppedSample(sample_id=one.sample_id, why=why, at=now)) for one in dropped]
        if instead is not None:
            lines.append(encode_line(instead))
            self._keep(instead)
        self._journal.append(b"".join(lines))
        self._journal.sync()
        self._named.subtract(one.file for one in dropped)
        files = dict.fromkeys(one.file for one in dropped)
        remove_files([path for file in files if not self._named[file] and (path := self.folder / file).exists()])
        for one in dropped:
            heapq.heappush(self._holes, one.row)

    def _keep(self, record: StoredSample) -> None:
        self.records[sample_key(record.sample_id)] = record
        self._named[record.file] += 1


@contextmanager
def open_target(folder: Path, layout: str, keys: Container[bytes]) -> Iterator[tuple[ExportTarget, list[str]]]:
    """Open a folder for an export, made when missing; what a crash left there is put right.

    Args:
        folder: It.
        layout: Of the export.
        keys: Of the samples that the run has: they are exported again where ``export.jsonl`` lost them.

    Yields:
        The folder, and a sentence for each thing that was put right.

    Raises:
        ExportError: It holds samples of something else, an export in another layout, or another export is at work.
        StoreError: Its ``export.jsonl`` has samples and their files are all gone.
        OSError: It cannot be written.
    """
    store = make_layout(layout, folder)
    path = folder / EXPORT
    if not path.exists() and folder.exists() and (strays := store.strays([])):
        raise ExportError(
            f"{folder} holds {counted(len(strays), 'file')} that a reader of the layout {layout} takes for samples "
            f"({strays[0].name} first) and no {EXPORT}: choose an empty folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        journal = Journal(path)
        try:
            index = read_index(path)
            other = next((one.layout for one in index.records.values() if one.layout != layout), None)
            if other is not None:
                raise ExportError(f"{folder} holds an export in the layout {other}: choose another folder for {layout}")
            found = reconcile(store, index, folder, _Copies(keys))
            for record in found.missing:
                line = DroppedSample(sample_id=record.sample_id, why="its file is missing", at=time.time())
                journal.append(encode_line(line))
                index.apply(line)
            if found.remark is not None:
                raise ExportError(f"{found.remark}; or choose another folder")
            yield ExportTarget(folder, store, journal, index.records), found.sentences
            journal.sync()
        finally:
            journal.close()


@dataclass(frozen=True)
class _Copies:
    """The judge of an export; see `daemon.store.unrecorded.Judge`: the run has the samples, so that none is adopted."""

    keys: Container[bytes]

    def __call__(self, layout: Layout, claims: list[Claim], good: dict[bytes, StoredSample]) -> Verdict:
        """Let go what the run has; what it has not is not ours."""
        found = Verdict()
        for claim in claims:
            name = repr(claim.identity.sample_id)
            if claim.key in self.keys:
                found.going.append((claim.piece, f"sample {name} is exported again: {EXPORT} had lost it"))
            else:
                found.odd.append((claim.piece, f"sample {name} is none of this run"))
        return found


def _capture(record: StoredSample) -> tuple[object, ...]:
    """Return what tells one capture of a sample from another, whatever has become of its row number."""
    return (record.at if record.rid is None else record.rid, record.tokens, record.loss_tokens)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock on the journal, so that two exports do not write into one folder."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ExportError(f"{path.parent}: another export is at work there") from error
    finally:
        os.close(descriptor)
