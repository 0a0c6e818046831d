"""One sample as a file of torch.save: what the two layouts have in common that use it.

Rows are written as they are, [L, K+1, H], into one storage, and the trainer's two tensors look at it: the layers'
states at the first K slots of each row, the last hidden state at the slot behind them. Neither is contiguous. Their
readers (SpecForge 0.2.0, ModelOpt 0.47.0) slice, clone, stack and pad, which all take such tensors; the file is as
large as the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from contracts.records import StoredSample
from contracts.sample_id import SampleId
from daemon.store.facts import check_owner, facts_of, form_from, owner_of
from daemon.store.layout import Identity, Loaded, Placed, StoreError
from daemon.store.reading import FileRows, agree, file_of, find_strays, read_array
from daemon.store.sample import Sample
from daemon.store.torch_pickle import ITEM_BYTES, Storage, Value, View
from daemon.store.torch_zip import Archive, read_archive, write_archive
from daemon.store.writing import Folders, new_file, rows_of


class TorchLayout:
    """A layout with one file of torch.save for each sample; see `Layout`."""

    name: str
    norm = "post"

    aux_key: ClassVar[str]
    """Of the layers' states, [L, K*H]."""
    last_key: ClassVar[str]
    """Of the last hidden state, [L, H]."""
    batched: ClassVar[bool]
    """Whether these two have a batch dimension of 1 in front."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folders = Folders(folder)

    def file_for(self, sample: Sample, row: int) -> str:
        """Return the file of a sample, below the store."""
        raise NotImplementedError

    def is_sample(self, path: Path) -> bool:
        """Whether the trainer takes a file (a path below the store) for a sample."""
        raise NotImplementedError

    def more(self, sample_id: SampleId) -> Mapping[str, Value]:
        """Return what the trainer's dict holds besides tensors."""
        return {}

    def place(self, sample: Sample, row: int) -> Placed:
        """See `Layout.place`."""
        form, tokens = sample.form, sample.rows.tokens
        ids = Storage("0", "int64", tokens)
        mask = Storage("1", "int64", tokens)
        rows = Storage("2", form.dtype, tokens * form.slots * form.hidden_size)
        aux, last = self._views(rows, tokens, form.slots, form.hidden_size)
        values: dict[str, Value] = {
            "input_ids": View.whole(ids),
            "loss_mask": View.whole(mask),
            self.last_key: last,
            self.aux_key: aux,
            **self.more(sample.sample_id),
        }
        file = self.file_for(sample, row)
        path = self._folder / file
        self._folders.ready(path.parent)
        with new_file(path) as output:
            storages: list[tuple[Storage, Iterable[memoryview]]] = [
                (ids, [sample.ids.astype("<i8", copy=False).data]),
                (mask, [sample.loss_mask.astype("<i8").data]),
                (rows, rows_of(sample)),
            ]
            write_archive(output, values, storages, facts_of(sample))
        return Placed(file=file, offset=0, bytes=output.count, checksum=output.checksum())

    def load(self, record: StoredSample) -> Loaded:
        """See `Layout.load`."""
        path = file_of(self._folder, record)
        archive = read_archive(path)
        check_owner(path, archive.facts, record)
        last, aux = _view(path, archive, self.last_key), _view(path, archive, self.aux_key)
        slots, hidden_size = self._shape(path, aux, last)
        tokens, dtype = last.shape[-2], last.storage.dtype
        agree(path, record, tokens=tokens, slots=slots, hidden_size=hidden_size, dtype=dtype)
        row_bytes = slots * hidden_size * ITEM_BYTES[dtype]
        return Loaded(
            ids=_integers(path, archive, "input_ids", tokens),
            loss_mask=_integers(path, archive, "loss_mask", tokens).astype(np.uint8),
            rows=FileRows(path, archive.places[last.storage.key], tokens, row_bytes),
            form=form_from(path, archive.facts, hidden_size, dtype),
        )

    def identify(self, file: str, offset: int, length: int) -> Identity:
        """See `Layout.identify`; a file holds one sample."""
        path = self._folder / file
        archive = read_archive(path)
        owner = owner_of(path, archive.facts)
        last, aux = _view(path, archive, self.last_key), _view(path, archive, self.aux_key)
        _, hidden_size = self._shape(path, aux, last)
        form = form_from(path, archive.facts, hidden_size, last.storage.dtype)
        assert form is not None  # owner_of has seen that the file states its facts
        return Identity(owner, last.shape[-2], form)

    def row_of(self, file: str) -> int | None:
        """See `Layout.row_of`."""
        return None

    def strays(self, records: list[StoredSample]) -> list[Path]:
        """See `Layout.strays`."""
        return find_strays(self._folder, records, self.is_sample)

    def cut_back(self, records: list[StoredSample]) -> list[str]:
        """See `Layout.cut_back`: no file is shared here."""
        return []

    def _views(self, rows: Storage, tokens: int, slots: int, hidden_size: int) -> tuple[View, View]:
        """Return the layers' states and the last hidden state, both looking at the rows."""
        width, split = slots * hidden_size, (slots - 1) * hidden_size
        shape = (1,) if self.batched else ()
        strides = (tokens * width, width, 1) if self.batched else (width, 1)
        aux = View(rows, (*shape, tokens, split), strides)
        return aux, View(rows, (*shape, tokens, hidden_size), strides, offset=split)

    def _shape(self, path: Path, aux: View, last: View) -> tuple[int, int]:
        """Return slots and hidden size of the rows that two tensors look at.

        Raises:
            StoreError: They are no such tensors.
        """
        dimensions = 3 if self.batched else 2
        if len(last.shape) == dimensions and last.shape[-1] and len(last.strides) == dimensions:
            tokens, hidden_size = last.shape[-2:]
            slots = last.strides[-2] // hidden_size
            ours = (aux, last) == self._views(last.storage, tokens, slots, hidden_size)
            if ours and last.storage.values == tokens * slots * hidden_size:
                return slots, hidden_size
        raise StoreError(
            f"{path} has {self.aux_key!r} of shape {aux.shape} and {self.last_key!r} of shape {last.shape}, which do "
            f"not look at rows of this layout"
        )


def _view(path: Path, archive: Archive, name: str) -> View:
    found = {str(key): value for key, value in archive.values.items()}.get(name)
    if not isinstance(found, View):
        raise StoreError(f"{path} has no tensor {name!r}, only {sorted(map(str, archive.values))}")
    return found


def _integers(path: Path, archive: Archive, name: str, tokens: int) -> npt.NDArray[np.int64]:
    view = _view(path, archive, name)
    if view.storage.dtype != "int64":
        raise StoreError(f"{path} has {name!r} as {view.storage.dtype}, not int64")
    if view != View.whole(view.storage) or view.shape != (tokens,):
        raise StoreError(f"{path} has {name!r} of shape {view.shape} for {tokens} rows")
    return read_array(path, archive.places[view.storage.key], tokens, "<i8").astype(np.int64, copy=False)
