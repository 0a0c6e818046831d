"""Putting a store right: what is wrong is given up in the index, to be made again, and all that is done is said.

The order makes a crash harmless: the index says first that a sample holds no longer, only then its file goes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from contracts.journal.append import append_durably
from contracts.records import DroppedSample, StoredSample, encode_line
from contracts.sample_id import sample_key
from contracts.wording import counted
from daemon.store.adopting import Adopting, Progress
from daemon.store.cheap_checks import FileSizes, tails
from daemon.store.findings import Kind
from daemon.store.index_rewrite import rewrite_index
from daemon.store.reconcile import reconcile
from daemon.store.shards import is_shard
from daemon.store.verify import VerifiedStore


@dataclass
class Repaired:
    """What was done to one store."""

    dataset: str
    said: list[str] = field(default_factory=list)
    """A sentence for each thing that was done or left."""
    given_up: int = 0
    adopted: int = 0
    removed: int = 0
    left: int = 0
    """Findings that remain."""

    @property
    def summary(self) -> str:
        """All of it in one sentence."""
        done = [
            f"{counted(number, 'sample')} {what}"
            for number, what in ((self.given_up, "given up"), (self.adopted, "recorded again"))
            if number
        ]
        done += [f"{counted(self.removed, 'removal')} of what no record accounts for"] if self.removed else []
        left = f"; {counted(self.left, 'finding remains', 'findings remain')}" if self.left else ""
        return f"{self.dataset} was repaired by eagle3 verify --repair: {', '.join(done) or 'the index alone'}{left}"


def repair_store(store: VerifiedStore, progress: Progress = lambda *_: None) -> Repaired:
    """Give up bad samples, record whole ones that the index has lost, remove strays, cut tails, tidy the index.

    The caller holds the run's lock. Nothing but what the sentences say is changed.

    Args:
        store: What verify found.
        progress: Told of samples that are read to be recorded again.

    Raises:
        StoreError: The store went while it was looked at.
        OSError: A file cannot be changed; what was said so far in the index holds.
    """
    done = Repaired(store.name, left=store.beyond_repair)
    if store.gone is not None:
        done.said.append(f"{store.name}: nothing was changed: {store.gone}")
        done.left = sum(store.report.counts.values())
        return done
    done.said += rewrite_index(store.index)
    # A file of one sample that is longer than its record says: nobody knows what has been done to it.
    longer = {finding.file: finding.what for finding in tails(store.index.records.values(), FileSizes(store.folder))}
    late = {
        key: f"tail: {longer[record.file]}"
        for key, record in store.index.records.items()
        if record.file in longer and not is_shard(record.file)
    }
    _give_up(store, {**late, **store.bad}, done)
    judge = Adopting(store.run, store.name, store.extract, progress=progress)
    found = reconcile(store.layout, store.index, store.folder, judge, demanded=True)
    _give_up(store, dict.fromkeys(map(_key, found.missing), "its file went meanwhile"), done)
    _append(store, [encode_line(record) for record in found.adopted])
    done.adopted, done.removed = len(found.adopted), len(found.removed)
    done.left += found.remark is not None
    done.said += [f"{store.name}: {sentence}" for sentence in found.sentences]
    return done


def _give_up(store: VerifiedStore, bad: dict[bytes, str], done: Repaired) -> None:
    """Append that samples hold no longer."""
    lines = []
    for key, why in bad.items():
        record = store.index.records[key]
        dropped = DroppedSample(sample_id=record.sample_id, why=why, at=time.time())
        store.index.apply(dropped)
        lines.append(encode_line(dropped))
        again = "" if why.startswith(f"{Kind.UNWANTED}:") else " and will be made again"
        done.said.append(f"{store.name}: sample {record.sample_id!r} is given up{again}: {why}")
    done.given_up += len(lines)
    _append(store, lines)


def _append(store: VerifiedStore, lines: list[bytes]) -> None:
    if lines:
        append_durably(store.index.path, b"".join(lines))


def _key(record: StoredSample) -> bytes:
    return sample_key(record.sample_id)
