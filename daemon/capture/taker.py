"""One dump into the store: examined, placed, described. Blocking; run it in a thread."""

from __future__ import annotations

from pathlib import Path

from contracts.clock import Clock
from contracts.records import CaptureCheck, StoredSample
from daemon.capture.ahead import RowsAhead
from daemon.capture.checks import check_header, check_marks, check_rows_written
from daemon.capture.dump import Dump
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.capture.row_numbers import RowNumbers
from daemon.store.layout import Layout, Placed
from daemon.store.sample import RowForm, Sample


def take(
    order: TakeOrder,
    folder: Path,
    layout: Layout,
    form: RowForm,
    model: str | None,
    row_numbers: RowNumbers,
    clock: Clock,
) -> StoredSample:
    """Check everything about a sample's dump and place it in the store.

    The dump stays: `daemon.capture.leftovers.remove_dump` is for whoever knows that the record is on the disk.

    Args:
        order: What the dump must hold.
        folder: The dump folder.
        layout: Of the data set's store.
        form: Of the store's rows.
        model: Of the run, as the servers name it; None: any.
        row_numbers: Of the store.
        clock: Gives the time of the record.

    Returns:
        The record for the index. The sample counts only when that is on the disk, and the dump is not to be removed
        before.

    Raises:
        CaptureFault: The dump does not hold the sample. Nothing of it is in the store.
        OSError: The store cannot be written. Nothing of it is in the store; the same order may be tried again.
    """
    check_not_cached(order)
    ids, mask = order.ids, order.mask
    with Dump.open(folder, order.rid) as dump:
        check_header(dump.header, form, model)
        check_rows_written(dump, order.rows)
        check_marks(*dump.marks(order.rows), order.fed_ids)
        row = row_numbers.take()
        placed: Placed | None = None
        try:
            with RowsAhead(dump, ids.size) as rows:
                placed = layout.place(Sample(order.sample_id, order.key, ids, mask, form, rows), row)
        finally:
            if placed is None:
                row_numbers.give_back(row)
        return StoredSample(
            sample_id=order.sample_id,
            file=placed.file,
            row=row,
            offset=placed.offset,
            bytes=placed.bytes,
            checksum=placed.checksum,
            tokens=ids.size,
            loss_tokens=int(mask.sum(dtype="int64")),
            layers=list(form.layers),
            hidden_size=form.hidden_size,
            dtype=form.dtype,
            norm=form.norm,
            layout=layout.name,
            model=dump.header.model,
            capture=order.capture,
            truncated_from=order.truncated_from,
            server=order.server or None,
            rid=order.rid,
            at=clock.now(),
        )


def check_not_cached(order: TakeOrder) -> None:
    """Check that the server computed every row; asked before rows are waited for, since those it left out never come.

    Raises:
        CaptureFault: It took some from its cache; a systematic fault.
    """
    if order.cached_tokens:
        raise CaptureFault(
            CaptureCheck.CACHED,
            f"the server took {order.cached_tokens} prompt tokens from its cache, their rows were never computed: "
            f"start it with --disable-radix-cache (eagle3 server-args RUN)",
        )
