"""The stores of a run as its session uses them: opened and compared with their index, completed at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.fold.dataset import DatasetFold
from contracts.records import DroppedSample, encode_line
from contracts.run_config import GENERATING
from contracts.run_dir import RunDir
from daemon.capture.row_numbers import RowNumbers
from daemon.store.index import Index, read_index
from daemon.store.layout import Layout
from daemon.store.layouts import make_layout
from daemon.store.reconcile import reconcile

MOST_LOST: Final = 4096
"""Answers that a power cut can lose, at most: those of the last group commit."""


@dataclass(frozen=True)
class Store:
    """Where the hidden states of one data set go."""

    folder: Path
    layout: Layout
    index_path: Path
    numbers: RowNumbers


@dataclass(frozen=True)
class Opened:
    """A store, and what was found in it."""

    store: Store
    said: list[str]
    """What was put right, in sentences."""


def open_store(
    run: RunDir, dataset: DatasetFold, layout: str, now: float, append: Callable[[Path, bytes], None]
) -> Opened:
    """Open the store of a data set: what a crash left is removed, what is missing is taken out of the index.

    Blocking: call it in a thread.

    Args:
        run: The run directory.
        dataset: The data set's fold.
        layout: Name of the layout.
        now: The time of the records.
        append: Takes lines for the index.

    Raises:
        StoreError: The index has samples and the store no file at all.
        OSError: Folder or index cannot be read or written.
    """
    folder = run.store(dataset.name)
    folder.mkdir(parents=True, exist_ok=True)
    made = make_layout(layout, folder)
    index = read_index(dataset.folder.hidden_states)
    said = _drop_unanswered(dataset, index, now, append)
    found = reconcile(made, index, folder)
    missing = {id(record) for record in found.missing}
    for record in found.missing:
        dropped = DroppedSample(sample_id=record.sample_id, why="its file is missing or cut short", at=now)
        append(dataset.folder.hidden_states, encode_line(dropped))
    held = [record for record in index.records.values() if id(record) not in missing]
    numbers = RowNumbers(record.row for record in held)
    return Opened(Store(folder, made, dataset.folder.hidden_states, numbers), [*said, *found.sentences])


def _drop_unanswered(
    dataset: DatasetFold, index: Index, now: float, append: Callable[[Path, bytes], None]
) -> list[str]:
    """Give up samples that were stored from an answer which is not in the response file.

    A power cut can lose the answer's line and keep the sample: its prompt is answered again, with another answer. Many
    of them are no power cut: then a person has to look.
    """
    lost = [
        (key, record)
        for key, record in index.records.items()
        if record.capture == GENERATING and key not in dataset.responses.done
    ]
    if len(lost) > MOST_LOST:
        return [
            f"{len(lost)} stored samples have no answer in {dataset.folder.responses}: was it replaced? They are left "
            f"as they are; eagle3 verify names them"
        ]
    for key, record in lost:
        dropped = DroppedSample(sample_id=record.sample_id, why="its answer is not in the response file", at=now)
        append(dataset.folder.hidden_states, encode_line(dropped))
        del index.records[key]
    return [f"sample {record.sample_id!r} will be made again: its answer is not there" for _, record in lost]
