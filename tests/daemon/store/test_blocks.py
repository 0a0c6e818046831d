from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors
import torch

from daemon.store.blocks import PAGE, PAGED_FROM, block_at
from daemon.store.layouts import make_layout, norm_of
from tests.daemon.store.store_samples import NAMES, make_sample, record_of


@pytest.mark.parametrize("offset", [0, 1, 16, 4095, 4096, 10_000])
@pytest.mark.parametrize("length", [0, 8, 5000])
def test_a_block_lies_in_its_page_as_in_its_file(offset: int, length: int) -> None:
    block = block_at(offset, length)
    assert block.nbytes == length and not block.readonly
    assert length == 0 or np.frombuffer(block, np.uint8).ctypes.data % PAGE == offset % PAGE


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokens", [2600, 2601, 2607])
def test_the_rows_of_a_large_sample_begin_at_a_page(tmp_path: Path, name: str, tokens: int) -> None:
    sample = make_sample(tokens=tokens, hidden=256, norm=norm_of(name), at_once=500)
    assert sample.form.row_bytes * tokens >= PAGED_FROM
    rows = b"".join(sample.rows.blocks())
    layout = make_layout(name, tmp_path)
    record = record_of(sample, layout.place(sample, 0), 0, layout)
    path = tmp_path / record.file
    assert path.read_bytes().index(rows) % PAGE == 0
    assert b"".join(layout.load(record).rows.blocks()) == rows
    if path.suffix == ".safetensors":
        with safetensors.safe_open(path, "pt") as document:
            found = [document.get_tensor("hidden_states").flatten(1)]
    else:
        found = [each.squeeze(0) for each in torch.load(path, mmap=True).values() if getattr(each, "ndim", 0) > 1]
        found.sort(key=lambda each: -each.shape[1])
    states = torch.cat(found, dim=1)
    assert bytes(states.contiguous().view(torch.uint8).numpy()) == rows
