"""What a store's layout must do; one module for each layout, found by name in `daemon.store.layouts`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from contracts.records import StoredSample
from contracts.sample_id import SampleId
from daemon.store.sample import RowForm, Rows, Sample


class StoreError(Exception):
    """What is in a store is not what its index says; the message names the file and what is wrong."""


@dataclass(frozen=True)
class Placed:
    """Where a sample was written; it is on the disk under its final name."""

    file: str
    """Below the data set's store."""
    offset: int
    bytes: int
    checksum: str
    """``xxh3_128:<hex>`` of those bytes."""


@dataclass(frozen=True)
class Loaded:
    """A sample read back from a store; nothing of it is checked but that the file has the layout's form."""

    ids: npt.NDArray[np.int64]
    loss_mask: npt.NDArray[np.uint8] | None
    """None where the layout keeps it elsewhere until `Layout.finish` (speculators)."""
    rows: Rows
    form: RowForm | None
    """What the file itself says of its rows' form; None where it says nothing."""


@dataclass(frozen=True)
class Identity:
    """Whose sample some bytes of a store say they are, and in which form; nothing else of them was looked at."""

    sample_id: SampleId
    tokens: int
    form: RowForm


class Layout(Protocol):
    """One layout. Instances are made for one data set's folder and may be used from several threads.

    Everything is written once: under a temporary name (which no trainer's reader takes for a sample), synced, renamed,
    and the folder synced; or appended to a file that the index alone gives a meaning to, and synced.
    """

    name: str
    norm: str
    """What it wants in the last slot."""

    def __init__(self, folder: Path) -> None:
        """Touch nothing yet."""

    def place(self, sample: Sample, row: int) -> Placed:
        """Write a sample, once; when it returns, it is on the disk.

        Args:
            sample: Its rows are read in one pass (and may raise: then nothing of the sample is left).
            row: Its number in the store.

        Raises:
            OSError: It cannot be written (``ENOSPC``: nothing of it is left).
        """

    def load(self, record: StoredSample) -> Loaded:
        """Open a stored sample.

        Raises:
            StoreError: The file is missing, cut short, or of another form.
            OSError: It cannot be read.
        """

    def identify(self, file: str, offset: int, length: int) -> Identity:
        """Return what bytes of a file say of themselves, where no record tells of them.

        Args:
            file: Below the store.
            offset: Of the first byte.
            length: In bytes.

        Raises:
            StoreError: They are no whole sample of this layout, or do not say whose.
            OSError: They cannot be read.
        """

    def row_of(self, file: str) -> int | None:
        """Return the number in a file's name; None: names have none in this layout, or it is no such name."""

    def strays(self, records: list[StoredSample]) -> list[Path]:
        """Return the files in the folder (temporaries included) that no index record accounts for.

        Shared files that hold more than the index says are not named: see `cut_back`.
        """

    def cut_back(self, records: list[StoredSample]) -> list[str]:
        """Cut what a crash left behind the last indexed sample of shared files; return a sentence for each."""
