"""Index and files of one store brought together: whoever works on a store, or puts it right, goes by this.

Cheap where all is as it should be: no sample is read. Only what no record accounts for is looked into.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from contracts.records import StoredSample
from contracts.wording import counted
from daemon.store.adopting import adopted_sentences
from daemon.store.cheap_checks import FileSizes, file_fault, gone
from daemon.store.index import Index
from daemon.store.layout import Layout, StoreError
from daemon.store.unrecorded import Judge, Piece, remove, sort_out


@dataclass
class Reconciled:
    """What was found and done."""

    adopted: list[StoredSample] = field(default_factory=list)
    """Whole samples that the index had lost: the caller appends their records."""
    missing: list[StoredSample] = field(default_factory=list)
    """Records whose file is not there or shorter than they say: the caller gives them up, to be made again."""
    lost: list[str] = field(default_factory=list)
    """Of each missing one a sentence."""
    held: list[StoredSample] = field(default_factory=list)
    """Records that hold, adopted ones among them."""
    removed: list[str] = field(default_factory=list)
    """What was removed, cut off or taken out of a shard: a sentence each, with the reason."""
    kept: list[Piece] = field(default_factory=list)
    """What no record accounts for and is no sample, and was left: there is too much of it, or nobody knows."""
    remark: str | None = None
    """A sentence on what was left, and what to do about it."""

    @property
    def sentences(self) -> list[str]:
        """What was done and found, one each."""
        told = [*self.lost, *adopted_sentences(self.adopted), *self.removed]
        return told if self.remark is None else [*told, self.remark]


def reconcile(layout: Layout, index: Index, folder: Path, judge: Judge, *, demanded: bool = False) -> Reconciled:
    """Adopt whole samples that no record accounts for, remove what a crash left, find records without a file.

    What is no sample is removed only while there is no more of it than a crash can leave, or when that is demanded;
    where nobody can know, nothing is. Nothing is appended to the index: until the caller has appended what is
    ``missing`` and ``adopted``, in this order, a crash only means that the next one finds it again. Only for whoever
    holds the run's lock.

    Args:
        layout: Of the store.
        index: As it stands.
        folder: The store's.
        judge: Knows which samples there may be.
        demanded: A person asked for a repair: odd files go, however many there are.

    Raises:
        StoreError: The index has samples and the store has no file at all: its disk may not be mounted. Or too much
            would have to be read.
        OSError: A file cannot be looked at, removed or cut.
    """
    why = gone(folder, index)
    if why is not None:
        raise StoreError(why)
    found, sizes = Reconciled(), FileSizes(folder)
    good: dict[bytes, StoredSample] = {}
    for key, record in index.records.items():
        fault = file_fault(record, sizes)
        if fault is None:
            good[key] = record
        else:
            found.missing.append(record)
            found.lost.append(f"sample {record.sample_id!r} will be made again: {fault.what}")
    verdict = sort_out(layout, folder, index, good, judge)
    found.adopted = verdict.adopted
    found.held = [*good.values(), *verdict.adopted]
    found.removed, found.kept = remove(layout, folder, found.held, verdict, demanded=demanded)
    if found.kept:
        piece, what = verdict.odd[0]
        found.remark = (
            f"{folder} holds {counted(len(found.kept), 'file or document', 'files and documents')} that the index does "
            f"not know and that cannot be recorded again: {piece.place} first ({what}). "
            + (verdict.undecided or "More than a crash can leave: they are left as they are, look what they are")
        )
    return found
