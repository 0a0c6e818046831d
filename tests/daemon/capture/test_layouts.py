"""Every real layout takes what the taker hands it, and gives it back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contracts.clock import Clock
from daemon.capture.fault import CaptureFault
from daemon.capture.row_numbers import RowNumbers
from daemon.capture.taker import take
from daemon.store.layouts import LAYOUTS, make_layout, norm_of
from daemon.store.sample import RowForm
from tests.daemon.capture.dumps import MODEL, make_header, make_order, make_rid, mark_offset, poke, write_dump

IDS = [5, 6, 7, 8, 9]


@pytest.mark.parametrize("name", LAYOUTS)
def test_samples_go_in_and_come_back(tmp_path: Path, name: str) -> None:
    form = RowForm((1, 3, 4), 1 << 6, "bfloat16", norm_of(name))
    folder, store = tmp_path / "dumps", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    layout, numbers = make_layout(name, store), RowNumbers()
    chance = np.random.default_rng(3)
    records, rows = [], []
    for number in range(3):
        rid = make_rid(number)
        # bits of bfloat16 between 1 and 8
        rows.append(chance.integers(0x3F80, 0x4100, (5, form.slots, form.hidden_size), np.uint16))
        path = write_dump(folder, rid, IDS, rows[-1], header=make_header(rid, form))
        order = make_order(rid, IDS[:2], [*IDS[2:], 2])
        if number == 1:
            poke(path, mark_offset(1), b"\xff")
            with pytest.raises(CaptureFault, match="position 1"):
                take(order, folder, layout, form, MODEL, numbers, Clock())
            poke(path, mark_offset(1), bytes(IDS[1:2]))
        records.append(take(order, folder, layout, form, MODEL, numbers, Clock()))
    assert [record.row for record in records] == [0, 1, 2]
    assert [(record.layout, record.norm) for record in records] == [(name, layout.norm)] * 3
    assert layout.strays(records) == []
    for record, expected in zip(records, rows, strict=True):
        loaded = layout.load(record)
        assert loaded.ids.tolist() == IDS
        assert loaded.loss_mask is None or loaded.loss_mask.tolist() == [0, 0, 1, 1, 1]
        assert b"".join(loaded.rows.blocks()) == expected.tobytes()
