"""Whether a dump holds the rows of a sample, and whether they can be real. Cheap questions first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from contracts.records import CaptureCheck
from daemon.capture.dump import Dump
from daemon.capture.fault import CaptureFault
from daemon.capture.forms import AskedForm, difference
from daemon.sglang_plugin.eagle3_sglang.dump_format import DumpHeader
from daemon.store.blocks import block_at
from daemon.store.row_checks import check_rows


def check_header(header: DumpHeader, form: AskedForm, model: str | None) -> None:
    """Check that the rows are of the form that the store holds.

    Args:
        header: Of the dump.
        form: Of the store.
        model: Of the run, as the servers name it; None: any.

    Raises:
        CaptureFault: They are not; a systematic one.
    """
    found = difference(header, form, model)
    if found is not None:
        raise CaptureFault(*found)


def check_rows_written(dump: Dump, rows: int) -> None:
    """Check that the dump reaches over so many rows. More are no fault: a scheduler may run one step too many.

    Raises:
        CaptureFault: It stops short.
    """
    written = dump.rows_written
    if written < rows:
        raise CaptureFault(
            CaptureCheck.ROWS,
            f"{written} rows for {rows} tokens in {dump.path.name}: the plugin stopped before the answer did, the "
            f"server's log says why",
        )


def check_marks(
    ids: npt.NDArray[np.uint32], passes: npt.NDArray[np.uint32], expected_ids: npt.NDArray[np.int64]
) -> None:
    """Check that every position was computed, and from the token that was sent or received there.

    Args:
        ids: [n], fed.
        passes: [n], numbers of the forward passes; 0: never written.
        expected_ids: [n].

    Raises:
        CaptureFault: Naming the first position at fault, and how many there are.
    """
    if ids.size != expected_ids.size or passes.size != expected_ids.size:
        raise CaptureFault(CaptureCheck.ROWS, f"{min(ids.size, passes.size)} rows for {expected_ids.size} tokens")
    never = np.flatnonzero(passes == 0)
    if never.size:
        raise CaptureFault(
            CaptureCheck.POSITIONS,
            f"position {never[0]} was never written ({never.size} of {passes.size} positions were not): was part of "
            f"the prompt taken from a cache? The server's log may say",
        )
    other = np.flatnonzero(ids != expected_ids)
    if other.size:
        first = int(other[0])
        raise CaptureFault(
            CaptureCheck.IDS,
            f"position {first} was computed from token id {ids[first]}, sent and received was {expected_ids[first]} "
            f"({other.size} of {ids.size} ids differ): these are rows of another request or of another text",
        )


class CheckedRows:
    """Rows 0..tokens-1 of a dump, a `daemon.store.sample.Rows`: each block is examined before anybody gets it."""

    def __init__(self, dump: Dump, tokens: int, make_block: Callable[[int, int], memoryview] = block_at) -> None:
        self._dump = dump
        self._tokens = tokens
        self._make_block = make_block

    @property
    def tokens(self) -> int:
        """How many there are."""
        return self._tokens

    def blocks(self) -> Iterator[memoryview]:
        """Yield them; see `Dump.blocks`.

        Raises:
            CaptureFault: A value is not finite, or a slot of a row all zero, with its position and layer; or the dump
                was cut short meanwhile.
        """
        header = self._dump.header
        values = header.slots * header.hidden_size
        first = 0
        for block in self._dump.blocks(self._tokens, self._make_block):
            fault = check_rows(block, header.dtype, values, header.slots)
            if fault is not None:
                where = (
                    f"the output of layer {header.layers[fault.slot]}"
                    if fault.slot < len(header.layers)
                    else "the last hidden state"
                )
                what = "not finite" if fault.kind is CaptureCheck.NON_FINITE else "nothing but zeros"
                raise CaptureFault(
                    fault.kind, f"position {first + fault.row}, {where}: {what}, so the server computed it so"
                )
            first += len(block) // header.row_bytes
            yield block
