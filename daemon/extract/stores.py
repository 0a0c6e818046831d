"""The stores of a run as its session uses them: opened and compared with their index, completed at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.fold.dataset import DatasetFold
from contracts.records import DroppedSample, encode_line
from contracts.run_config import GENERATING, Extract
from contracts.run_dir import RunDir
from contracts.wording import counted
from daemon.capture.row_numbers import RowNumbers
from daemon.store.adopting import MOST_AT_START, Adopting, adopted_sentences
from daemon.store.index import Index, read_index
from daemon.store.layout import Layout, StoreError
from daemon.store.layouts import make_layout
from daemon.store.reconcile import Reconciled, reconcile

MOST_LOST: Final = 256
"""Answers that a power cut can lose, at most, and the newest: those of the last group commit."""
TOLD: Final = 20
"""So many sentences of one kind are events of their own."""


@dataclass(frozen=True)
class Store:
    """Where the hidden states of one data set go."""

    folder: Path
    layout: Layout
    index_path: Path
    numbers: RowNumbers
    reserved: tuple[int, ...] = ()
    """Numbers in the names of files that no record accounts for and that were left: nobody may write over them."""


@dataclass(frozen=True)
class Opened:
    """A store, and what was found in it."""

    store: Store
    said: list[str]
    """What was put right, in sentences."""


def open_store(
    run: RunDir, dataset: DatasetFold, extract: Extract, now: float, append: Callable[[Path, bytes], None]
) -> Opened:
    """Open the store of a data set: what a crash left is removed, what is missing is taken out of the index, and what
    the index has lost is put back.

    Blocking: call it in a thread.

    Args:
        run: The run directory.
        dataset: The data set's fold.
        extract: ``[extract]`` of run.toml.
        now: The time of the records.
        append: Takes lines for the index.

    Raises:
        StoreError: The index has samples and the store no file at all, or the response file no answer; or it lost more
            of them than can be looked at before a start.
        OSError: Folder or index cannot be read or written.
    """
    folder = run.store(dataset.name)
    folder.mkdir(parents=True, exist_ok=True)
    made = make_layout(extract.layout, folder)
    index = read_index(dataset.folder.hidden_states)
    said = _drop_unanswered(dataset, index, now, append)
    found = reconcile(made, index, folder, Adopting(run, dataset.name, extract, at_most=MOST_AT_START))
    for record in found.missing:
        dropped = DroppedSample(sample_id=record.sample_id, why="its file is missing or cut short", at=now)
        append(dataset.folder.hidden_states, encode_line(dropped))
    for record in found.adopted:
        append(dataset.folder.hidden_states, encode_line(record))
    reserved = tuple(row for piece in found.kept if (row := made.row_of(piece.file)) is not None)
    numbers = RowNumbers([*(record.row for record in found.held), *reserved])
    said += _told(found, f"eagle3 verify {run.path} shows them, with --repair they are removed")
    return Opened(Store(folder, made, dataset.folder.hidden_states, numbers, reserved), said)


def _told(found: Reconciled, what_to_do: str) -> list[str]:
    """Return what was found in sentences for the events: of each kind the first ones, and how many there are."""
    told = []
    for kind in (found.lost, adopted_sentences(found.adopted), found.removed):
        told += kind[:TOLD]
        if len(kind) > TOLD:
            told.append(f"and {counted(len(kind) - TOLD, 'more sentence')} like the last one")
    if found.remark is not None:
        told.append(f"{found.remark}: {what_to_do}")
    return told


def _drop_unanswered(
    dataset: DatasetFold, index: Index, now: float, append: Callable[[Path, bytes], None]
) -> list[str]:
    """Give up samples that were stored from an answer which is not in the response file.

    A power cut can lose the answer's line and keep the sample: its prompt is answered again, with another answer. Many
    of them, or old ones, are no power cut: then a person has to look.

    Raises:
        StoreError: There is no answer at all: all would be answered again beside a store of the answers before.
    """
    made = {key: record for key, record in index.records.items() if record.capture == GENERATING}
    lost = [(key, record) for key, record in made.items() if key not in dataset.responses.done]
    if lost and not dataset.responses.done:
        raise StoreError(
            f"{dataset.folder.responses} holds no answer, but the index has "
            f"{counted(len(made), 'sample')} stored from its answers: bring the file back (moved? an older copy?)"
        )
    newest = set(list(index.records)[-MOST_LOST:])
    if any(key not in newest for key, _ in lost):
        return [
            f"{counted(len(lost), 'stored sample has', 'stored samples have')} no answer in "
            f"{dataset.folder.responses}: was it replaced? They are left as they are; eagle3 verify names them"
        ]
    for _, record in lost:
        dropped = DroppedSample(sample_id=record.sample_id, why="its answer is not in the response file", at=now)
        append(dataset.folder.hidden_states, encode_line(dropped))
        index.apply(dropped)
    return [f"sample {record.sample_id!r} will be made again: its answer is not there" for _, record in lost]
