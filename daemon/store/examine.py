"""One stored sample against its record and its sequence: every byte is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from contracts.records import CaptureCheck, StoredSample
from contracts.wording import counted
from daemon.store.findings import Finding, Kind
from daemon.store.layout import Layout, Loaded, StoreError
from daemon.store.row_checks import check_rows
from daemon.store.sample import RowForm
from daemon.store.sequences import Expected
from daemon.store.writing import checksum_of


def examine(folder: Path, layout: Layout, record: StoredSample, expected: Expected | None) -> Iterator[Finding]:
    """Yield what is wrong with a sample whose file is there and long enough; nothing when all is well.

    A wrong checksum ends it: what else is wrong comes of that.

    Args:
        folder: The data set's store.
        layout: Of it.
        record: Of the sample.
        expected: What prompt and response say it must be; None: not known, so ids and mask are not compared.
    """
    try:
        # Twice over the file: the second time its bytes are still in memory, but for samples larger than that.
        found = checksum_of(folder / record.file, record.offset, record.bytes)
        if found != record.checksum:
            yield _finding(Kind.CHECKSUM, record, f"its bytes have {found}, those written had {record.checksum}")
            return
        loaded = layout.load(record)
        odd = list(_shape(record, loaded))
        yield from odd
        yield from _sequence(record, loaded, expected)
        if not odd:
            yield from _rows(record, loaded)
    except StoreError as error:
        yield _finding(Kind.SHAPE, record, str(error))
    except OSError as error:
        yield _finding(Kind.UNREADABLE, record, f"{folder / record.file}: cannot be read: {error.strerror or error}")


def _shape(record: StoredSample, loaded: Loaded) -> Iterator[Finding]:
    form = loaded.form
    if form is not None and (difference := _difference(form, form_of(record))):
        yield _finding(Kind.SHAPE, record, f"its file says {difference[0]}, its record {difference[1]}")
    if not loaded.rows.tokens == len(loaded.ids) == record.tokens:
        yield _finding(
            Kind.SHAPE,
            record,
            f"{counted(loaded.rows.tokens, 'row')} and {counted(len(loaded.ids), 'id')}, its record says "
            f"{record.tokens:,}",
        )


def form_of(record: StoredSample) -> RowForm:
    """Return the form of rows that a record states."""
    return RowForm(tuple(record.layers), record.hidden_size, record.dtype, record.norm)


def _difference(found: RowForm, said: RowForm) -> tuple[str, str] | None:
    for what in ("layers", "hidden_size", "dtype", "norm"):
        one, other = getattr(found, what), getattr(said, what)
        if one != other:
            return f"{what.replace('_', ' ')} {one}", str(other)
    return None


def _sequence(record: StoredSample, loaded: Loaded, expected: Expected | None) -> Iterator[Finding]:
    """Compare ids and mask."""
    if expected is None:
        return
    whole, tokens = len(expected.ids), record.tokens
    said = tokens if record.truncated_from is None else record.truncated_from
    if whole != said:
        yield _finding(Kind.IDS, record, f"{counted(said, 'token')}, prompt and response make {whole:,}")
        return
    ids, mask = expected.ids[:tokens], expected.mask[:tokens]
    if len(loaded.ids) != tokens:
        yield _finding(Kind.IDS, record, f"{counted(len(loaded.ids), 'id')}, prompt and response make {tokens:,}")
    elif (other := np.flatnonzero(loaded.ids != ids)).size:
        place = int(other[0])
        yield _finding(
            Kind.IDS,
            record,
            f"{other.size} of {tokens} ids differ from prompt and response, first at {place}: "
            f"{loaded.ids[place]} instead of {ids[place]}",
        )
    found = loaded.loss_mask
    learned = int(mask.sum(dtype=np.int64))
    if found is not None and len(found) != tokens:
        yield _finding(
            Kind.MASK, record, f"its loss mask has {counted(len(found), 'value')} for {counted(tokens, 'token')}"
        )
    elif found is not None and (other := np.flatnonzero(found != mask)).size:
        what = f"{other.size} of {tokens} values of its loss mask are wrong, first at {other[0]}"
        yield _finding(Kind.MASK, record, what)
    elif record.loss_tokens != learned:
        yield _finding(Kind.MASK, record, f"its record says {record.loss_tokens} loss tokens, there must be {learned}")


def _rows(record: StoredSample, loaded: Loaded) -> Iterator[Finding]:
    """Look at every value; the first fault is told."""
    form = form_of(record)
    first = seen = 0
    for block in loaded.rows.blocks():
        seen += block.nbytes
        fault = check_rows(block, form.dtype, form.slots * form.hidden_size, form.slots)
        if fault is not None:
            last = fault.slot == len(form.layers)
            where = "the last hidden state" if last else f"the output of layer {form.layers[fault.slot]}"
            bad = fault.kind is CaptureCheck.NON_FINITE
            kind, what = (Kind.NON_FINITE, "not finite") if bad else (Kind.ZERO_ROW, "nothing but zeros")
            yield _finding(kind, record, f"row {first + fault.row}, {where}: {what}")
            return
        first += block.nbytes // form.row_bytes
    if seen != record.tokens * form.row_bytes:
        yield _finding(Kind.SHAPE, record, f"its rows have {seen:,} bytes, not {record.tokens * form.row_bytes:,}")


def _finding(kind: Kind, record: StoredSample, what: str) -> Finding:
    return Finding(kind=kind, what=what, sample_id=record.sample_id, file=record.file)
