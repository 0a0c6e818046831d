"""One sample as a safetensors document: how it is written and read, for the two layouts that use the format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from contracts.records import StoredSample
from daemon.sglang_plugin.eagle3_sglang.dump_format import ITEM_BYTES
from daemon.store.blocks import PAGED_FROM
from daemon.store.facts import check_owner, facts_of, form_from, owner_of
from daemon.store.layout import Identity, Loaded, StoreError
from daemon.store.reading import FileRows, agree, read_array
from daemon.store.safetensors_form import FLOATS, Entry, document_bytes, encode_header, read_document
from daemon.store.sample import Sample
from daemon.store.writing import rows_of

_STATES: Final = "hidden_states"
_MASK: Final = "loss_mask"
_DTYPES: Final = {name: dtype for dtype, name in FLOATS.items()}


@dataclass(frozen=True)
class SampleDocument:
    """A sample, ready to be written: ids, then its rows as they are, then its mask."""

    sample: Sample
    header: bytes
    size: int
    """Bytes of the whole document."""

    @classmethod
    def of(cls, sample: Sample, ids_name: str) -> SampleDocument:
        """Make the document of a sample.

        Args:
            sample: Its rows are not touched.
            ids_name: Name of the tensor of its token ids.
        """
        tokens = sample.rows.tokens
        tensors = [
            (ids_name, "I64", (tokens,)),
            (_STATES, FLOATS[sample.form.dtype], (tokens, sample.form.slots, sample.form.hidden_size)),
            (_MASK, "U8", (tokens,)),
        ]
        large = tokens * sample.form.row_bytes >= PAGED_FROM
        header = encode_header(tensors, facts_of(sample), paged=_STATES if large else None)
        return cls(sample, header, document_bytes(header, tensors))

    def write(self, write: Callable[[bytes | memoryview], object]) -> None:
        """Hand it over piece by piece.

        Raises:
            What ``write`` and the sample's rows raise.
        """
        write(self.header)
        write(self.sample.ids.astype("<i8", copy=False).data)
        for block in rows_of(self.sample):
            write(block)
        write(self.sample.loss_mask.astype(np.uint8, copy=False).data)


def identify_document(path: Path, offset: int, length: int) -> Identity:
    """See `daemon.store.layout.Layout.identify`."""
    document = read_document(path, offset, length)
    owner = owner_of(path, document.metadata)
    states = _states(path, document.entries)
    tokens, _, hidden_size = states.shape
    form = form_from(path, document.metadata, hidden_size, _DTYPES[states.dtype])
    assert form is not None  # owner_of has seen that the file states its facts
    return Identity(owner, tokens, form)


def load_document(path: Path, record: StoredSample, ids_name: str) -> Loaded:
    """Open the document of a sample; its file was seen to be large enough.

    Raises:
        StoreError: It is damaged, of another form than its record says, or another sample's.
        OSError: It cannot be read.
    """
    document = read_document(path, record.offset, record.bytes)
    check_owner(path, document.metadata, record)
    states = _states(path, document.entries)
    tokens, slots, hidden_size = states.shape
    dtype = _DTYPES[states.dtype]
    agree(path, record, tokens=tokens, slots=slots, hidden_size=hidden_size, dtype=dtype)
    ids = _vector(path, _entry(path, document.entries, ids_name, "I64"), ids_name, tokens)
    mask = _vector(path, _entry(path, document.entries, _MASK, "U8"), _MASK, tokens)
    return Loaded(
        ids=read_array(path, ids.offset, tokens, "<i8").astype(np.int64, copy=False),
        loss_mask=read_array(path, mask.offset, tokens, "u1").astype(np.uint8, copy=False),
        rows=FileRows(path, states.offset, tokens, slots * hidden_size * ITEM_BYTES[dtype]),
        form=form_from(path, document.metadata, hidden_size, dtype),
    )


def _states(path: Path, entries: dict[str, Entry]) -> Entry:
    states = _entry(path, entries, _STATES, *FLOATS.values())
    if len(states.shape) != 3:
        raise StoreError(f"{path} has {_STATES!r} of shape {states.shape}, not [tokens, slots, hidden size]")
    return states


def _entry(path: Path, entries: dict[str, Entry], name: str, *dtypes: str) -> Entry:
    entry = entries.get(name)
    if entry is None:
        raise StoreError(f"{path} has no tensor {name!r}, only {sorted(entries)}")
    if dtypes and entry.dtype not in dtypes:
        raise StoreError(f"{path} has {name!r} as {entry.dtype}, not {' or '.join(dtypes)}")
    return entry


def _vector(path: Path, entry: Entry, name: str, tokens: int) -> Entry:
    if entry.shape != (tokens,):
        raise StoreError(f"{path} has {name!r} of shape {entry.shape} for {tokens} rows")
    return entry
