"""Layout ``speculators``: ``hidden_states/hs_<row>.safetensors``, one for each row of the Arrow data set beside it.

Tensors ``token_ids`` int64 [L] and ``hidden_states`` [L, K+1, H], the last slot divided by the final norm's weight (the
trainer applies that norm itself). ``loss_mask`` uint8 [L] is ours: its loader (0.9.0) takes the two it knows from the
file and looks at nothing else; the mask that it trains with is in the data set, which is made from these
(`daemon.store.dataset_files`).
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Final

from contracts.journal.durable import sync_folder
from contracts.records import StoredSample
from daemon.store.layout import Identity, Loaded, Placed, StoreError
from daemon.store.reading import FileRows, file_of, find_strays
from daemon.store.safetensors_samples import SampleDocument, identify_document, load_document
from daemon.store.sample import Sample
from daemon.store.writing import PART, Folders, new_file

_IDS: Final = "token_ids"
_FOLDER: Final = "hidden_states"
_NAME: Final = re.compile(r"hs_.*\.safetensors")
_ROW: Final = re.compile(rf"{_FOLDER}/hs_(0|[1-9][0-9]{{0,15}})\.safetensors")
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class SpeculatorsLayout:
    """See the module."""

    name = "speculators"
    norm = "over_weight"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folders = Folders(folder)

    def place(self, sample: Sample, row: int) -> Placed:
        """See `Layout.place`."""
        document = SampleDocument.of(sample, _IDS)
        path = self._path(row)
        with new_file(path) as output:
            document.write(output.write)
        return Placed(file=_file(row), offset=0, bytes=output.count, checksum=output.checksum())

    def load(self, record: StoredSample) -> Loaded:
        """See `Layout.load`."""
        return load_document(file_of(self._folder, record), record, _IDS)

    def identify(self, file: str, offset: int, length: int) -> Identity:
        """See `Layout.identify`: a name without its number is no sample's."""
        if self.row_of(file) is None:
            raise StoreError(f"{file} is no name of a sample in this layout")
        return identify_document(self._folder / file, offset, length)

    def row_of(self, file: str) -> int | None:
        """See `Layout.row_of`."""
        found = _ROW.fullmatch(file)
        return None if found is None else int(found[1])

    def renumber(self, record: StoredSample, row: int) -> Placed:
        """Give a sample another row, so that rows run from 0 without holes.

        Its file is at both places when this returns, and what was at the new place is gone: record the new place, make
        the record last, then remove the old file (`strays` names it). A crash in between leaves a good record and a
        stray, either way. `closing_moves` says which samples to move where.

        Args:
            record: Of a sample whose file is whole.
            row: One that no record has.

        Raises:
            StoreError: The sample's file is missing or of another size.
            OSError: The new name cannot be made; the sample is where it was.
        """
        source = file_of(self._folder, record)
        if record.row != row:
            target = self._path(row)
            beside = target.with_name(f".{target.name}{PART}")
            beside.unlink(missing_ok=True)
            try:
                os.link(source, beside)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                _copy(source, record.bytes, target)
            else:
                beside.rename(target)
                beside.unlink(missing_ok=True)  # renaming one name of a file onto another of it does nothing
                sync_folder(target.parent)
        return Placed(file=_file(row), offset=0, bytes=record.bytes, checksum=record.checksum)

    def strays(self, records: list[StoredSample]) -> list[Path]:
        """See `Layout.strays`."""
        return find_strays(self._folder, records, _is_sample)

    def cut_back(self, records: list[StoredSample]) -> list[str]:
        """See `Layout.cut_back`: no file is shared here."""
        return []

    def _path(self, row: int) -> Path:
        path = self._folder / _file(row)
        self._folders.ready(path.parent)
        return path


def closing_moves(records: list[StoredSample]) -> list[tuple[StoredSample, int]]:
    """Return which samples must get which row so that rows run from 0 without holes: the last ones go into the holes.

    No move goes to a row that a record has, or had before: a crash between two of them costs nothing.

    Args:
        records: All of an index.

    Raises:
        StoreError: Two of them have the same row.
    """
    count = len(records)
    taken: dict[int, StoredSample] = {}
    for record in records:
        other = taken.setdefault(record.row, record)
        if other is not record:
            raise StoreError(
                f"samples {other.sample_id!r} and {record.sample_id!r} have the same number {record.row}: put it right "
                "with eagle3 verify RUN --repair"
            )
    holes = (row for row in range(count) if row not in taken)
    beyond = sorted((record for record in records if record.row >= count), key=lambda record: record.row)
    return list(zip(beyond, holes, strict=True))


def _file(row: int) -> str:
    return f"{_FOLDER}/hs_{row}.safetensors"


def _is_sample(path: Path) -> bool:
    return path.parts[:-1] == (_FOLDER,) and _NAME.fullmatch(path.name) is not None


def _copy(source: Path, size: int, target: Path) -> None:
    with new_file(target) as output:
        for block in FileRows(source, 0, size, 1).blocks():
            output.write(block)
