"""Layout ``safetensors``, our own: a file for each sample, small ones together in shards.

Tensors ``input_ids`` int64 [L], ``hidden_states`` [L, K+1, H], ``loss_mask`` uint8 [L]; the last slot is after the
final norm. The header's metadata says whose rows they are and of which layers (`daemon.store.facts`).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from contracts.records import StoredSample
from daemon.store.layout import Identity, Loaded, Placed
from daemon.store.naming import file_stem, is_file_stem
from daemon.store.norm_file import NORM_FILE
from daemon.store.reading import file_of, find_strays
from daemon.store.safetensors_samples import SampleDocument, identify_document, load_document
from daemon.store.sample import Sample
from daemon.store.shards import Shards, is_shard
from daemon.store.writing import Folders, new_file

OWN_FILE_BYTES: Final = 4 << 20
"""Samples from this size on have a file of their own."""
_IDS: Final = "input_ids"


class SafetensorsLayout:
    """See the module."""

    name = "safetensors"
    norm = "post"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folders = Folders(folder)
        self._shards = Shards(folder)

    def place(self, sample: Sample, row: int) -> Placed:
        """See `Layout.place`; the row is only the index's business here."""
        document = SampleDocument.of(sample, _IDS)
        folder = self._folders.ready(self._folder)
        if document.size < OWN_FILE_BYTES:
            # In memory first: what its rows raise leaves the shard alone, and other threads wait for the disk only.
            whole = io.BytesIO()
            document.write(whole.write)
            return self._shards.append(whole.getbuffer())
        path = folder / f"{file_stem(sample.sample_id, sample.key)}.safetensors"
        with new_file(path) as output:
            document.write(output.write)
        return Placed(file=path.name, offset=0, bytes=output.count, checksum=output.checksum())

    def load(self, record: StoredSample) -> Loaded:
        """See `Layout.load`."""
        path = file_of(self._folder, record, shared=is_shard(record.file))
        return load_document(path, record, _IDS)

    def identify(self, file: str, offset: int, length: int) -> Identity:
        """See `Layout.identify`."""
        return identify_document(self._folder / file, offset, length)

    def row_of(self, file: str) -> int | None:
        """See `Layout.row_of`."""
        return None

    def strays(self, records: list[StoredSample]) -> list[Path]:
        """See `Layout.strays`."""
        return find_strays(self._folder, records, _is_sample)

    def cut_back(self, records: list[StoredSample]) -> list[str]:
        """See `Layout.cut_back`."""
        return self._shards.cut_back(records)


def _is_sample(path: Path) -> bool:
    if len(path.parts) != 1 or path.name == NORM_FILE:
        return False
    return (path.suffix == ".safetensors" and is_file_stem(path.stem)) or is_shard(path.name)
