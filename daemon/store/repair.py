"""Putting a store right: what is wrong is given up in the index, to be made again, and every removal is said.

The order makes a crash harmless: the index says first that a sample holds no longer, only then its file goes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from contracts.journal.append import Journal
from contracts.journal.durable import sync_folder
from contracts.records import DroppedSample, StoredSample, encode_line
from daemon.store.cheap_checks import FileSizes, tails
from daemon.store.findings import Kind
from daemon.store.index_rewrite import rewrite_index
from daemon.store.verify import VerifiedStore


def repair_store(store: VerifiedStore) -> tuple[list[str], int]:
    """Give up bad samples, remove their files and strays, cut tails, take damaged lines out of the index.

    The caller holds the run's lock. Nothing but what the sentences say is changed.

    Returns:
        A sentence for each thing that was done or left, and the number of findings that remain.

    Raises:
        OSError: A file cannot be changed; what was said so far in the index holds.
    """
    if store.gone is not None:
        return [f"{store.name}: nothing was changed: {store.gone}"], sum(store.report.counts.values())
    said = rewrite_index(store.index)
    records = dict(store.index.records)
    said += _give_up(store, records, store.bad)
    said += list(_remove_strays(store, records))
    said += [f"{store.name}: {sentence}" for sentence in store.layout.cut_back(list(records.values()))]
    # What is still longer than its record says is no shared file: nobody knows what has been done to it.
    found = list(tails(records.values(), FileSizes(store.folder)))
    longer = {finding.file: finding.what for finding in found}
    late = {key: f"tail: {longer[record.file]}" for key, record in records.items() if record.file in longer}
    said += _give_up(store, records, late)
    said += list(_remove_strays(store, records))
    return said, store.beyond_repair


def _give_up(store: VerifiedStore, records: dict[bytes, StoredSample], bad: dict[bytes, str]) -> list[str]:
    """Append that samples hold no longer, and take them out of ``records``."""
    lines, said = [], []
    for key, why in bad.items():
        record = records.pop(key)
        lines.append(encode_line(DroppedSample(sample_id=record.sample_id, why=why, at=time.time())))
        again = "" if why.startswith(f"{Kind.UNWANTED}:") else " and will be made again"
        said.append(f"{store.name}: sample {record.sample_id!r} is given up{again}: {why}")
    if lines:
        journal = Journal(store.index.path)
        try:
            journal.append(b"".join(lines))
            journal.sync()
        finally:
            journal.close()
    return said


def _remove_strays(store: VerifiedStore, records: dict[bytes, StoredSample]) -> Iterator[str]:
    """Remove what no record accounts for, files of samples just given up included."""
    for path in remove_strays(store.layout.strays(list(records.values()))):
        yield f"{store.name}: removed {path}"


def remove_strays(strays: list[Path]) -> list[Path]:
    """Remove files for good and return them.

    Raises:
        OSError: One cannot be removed.
    """
    for path in strays:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in strays}:
        sync_folder(folder)
    return strays
