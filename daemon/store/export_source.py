"""Samples of a run's store as an export takes them: seen to be what was stored, their norm brought to its form."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

from contracts.records import StoredSample
from contracts.sample_id import sample_key
from daemon.store.examine import form_of
from daemon.store.export_target import ExportError
from daemon.store.layout import StoreError
from daemon.store.layouts import make_layout
from daemon.store.norm_file import NORM_FILE, read_norm
from daemon.store.norms import NormWeight, divide, multiply
from daemon.store.sample import Rows, Sample
from daemon.store.writing import checksum_of

_POST: Final = "post"
_SPECFORGE_LAYERS: Final = 3


class Source:
    """A store of the run, read in the form that the export is written in.

    Args:
        folder: The store's.
        norm_wanted: Of the last slot.
    """

    def __init__(self, folder: Path, norm_wanted: str) -> None:
        self._folder = folder
        self._norm_wanted = norm_wanted
        self.norm: NormWeight | None = None
        """Of the model, where the store has it."""

    def check(self, layout: str, records: list[StoredSample]) -> None:
        """See whether the records can be exported at all, and read the norm.

        Raises:
            ExportError: They cannot.
        """
        self.norm = read_norm(self._folder)
        for record in records:
            if record.norm != self._norm_wanted and self.norm is None:
                raise ExportError(
                    f"{self._folder} holds the last hidden state as {record.norm!r}, {layout} wants it as "
                    f"{self._norm_wanted!r}, and {self._folder / NORM_FILE}, with the weight of the final norm, is not "
                    f"there: a daemon writes it as soon as a server is there"
                )
            if layout == "specforge" and len(record.layers) != _SPECFORGE_LAYERS:
                raise ExportError(
                    f"{self._folder}: SpecForge takes {_SPECFORGE_LAYERS} layers, sample {record.sample_id!r} has "
                    f"{len(record.layers)}"
                )

    def sample(self, record: StoredSample) -> Sample:
        """Return a sample as it is to be written, its bytes seen to be those that were stored.

        Raises:
            StoreError: They are not.
            OSError: They cannot be read.
        """
        layout = make_layout(record.layout, self._folder)
        loaded = layout.load(record)
        found = checksum_of(self._folder / record.file, record.offset, record.bytes)
        if found != record.checksum:
            raise StoreError(
                f"{self._folder / record.file}: its bytes have {found}, those stored had {record.checksum}"
            )
        if loaded.loss_mask is None:
            raise StoreError(f"{self._folder / record.file} has no loss mask")
        form = dataclasses.replace(form_of(record), norm=self._norm_wanted)
        return Sample(
            sample_id=record.sample_id,
            key=sample_key(record.sample_id),
            ids=loaded.ids,
            loss_mask=loaded.loss_mask,
            form=form,
            rows=self._rows(loaded.rows, record),
        )

    def _rows(self, rows: Rows, record: StoredSample) -> Rows:
        if record.norm == self._norm_wanted:
            return rows
        assert self.norm is not None  # see check
        change = multiply if self._norm_wanted == _POST else divide
        return change(rows, form_of(record), self.norm)
