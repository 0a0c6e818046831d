"""Index and files of one store brought together at a daemon's start: cheap, no sample is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from contracts.records import StoredSample
from daemon.store.cheap_checks import FileSizes, file_fault, gone
from daemon.store.index import Index
from daemon.store.layout import Layout, StoreError
from daemon.store.repair import remove_strays


@dataclass
class Reconciled:
    """What was found and done."""

    strays: list[Path] = field(default_factory=list)
    """Files that no record accounts for; they are removed."""
    missing: list[StoredSample] = field(default_factory=list)
    """Records whose file is not there or shorter than they say: the caller gives them up, to be made again. What is
    left of their files is among ``strays``."""
    sentences: list[str] = field(default_factory=list)
    """What was done and found, one each."""


def reconcile(layout: Layout, index: Index, folder: Path) -> Reconciled:
    """Remove files that no record accounts for, cut what a crash left in shared ones, find records without a file.

    Nothing is appended to the index: until the caller has appended what is ``missing``, a crash only means that the
    next start finds it again. Only for whoever holds the run's lock.

    Args:
        layout: Of the store.
        index: As it stands.
        folder: The store's.

    Raises:
        StoreError: The index has samples and the store has no file at all: its disk may not be mounted. Or the index
            is empty and the store is not: nothing of it is removed.
        OSError: A file cannot be looked at, removed or cut.
    """
    why = gone(folder, index, layout)
    if why is not None:
        raise StoreError(why)
    found, sizes = Reconciled(), FileSizes(folder)
    good = []
    for record in index.records.values():
        fault = file_fault(record, sizes)
        if fault is None:
            good.append(record)
        else:
            found.missing.append(record)
            found.sentences.append(f"sample {record.sample_id!r} will be made again: {fault.what}")
    found.strays = remove_strays(layout.strays(good))
    found.sentences += [f"removed {path}: no record accounts for it" for path in found.strays]
    found.sentences += layout.cut_back(good)
    return found
