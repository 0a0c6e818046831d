"""Dump files made by hand, and a store that keeps what it is given."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from contracts.records import StoredSample
from daemon.capture.order import TakeOrder
from daemon.sglang_plugin.eagle3_sglang.dump_format import (
    HEADER_BYTES,
    MARK_BYTES,
    POST,
    About,
    DumpHeader,
    dump_path,
    rows_offset,
)
from daemon.store.layout import Loaded, Placed
from daemon.store.sample import RowForm, Sample

TAG = "0123abcd"
FORM = RowForm(layers=(1, 3, 4), hidden_size=8, dtype="float32", norm=POST)
MODEL = "models/tiny"
CONTEXT = 600
"""Not a multiple of a page: the rows begin after a gap."""


def make_rid(number: int, sample: int | None = None, tag: str = TAG) -> str:
    return f"e3.{tag}.{number if sample is None else sample:016x}.5e55.{number:x}"


def make_header(rid: str, form: RowForm = FORM, **changes: Any) -> DumpHeader:
    values: dict[str, Any] = {
        "rid": rid,
        "instance": "77-1000-0",
        "layers": form.layers,
        "server_layers": form.layers,
        "hidden_size": form.hidden_size,
        "dtype": form.dtype,
        "norm": form.norm,
        "model": MODEL,
        "sglang": "0.5.23",
        "context_length": CONTEXT,
    }
    return DumpHeader(**{**values, **changes})


def make_about(**changes: Any) -> About:
    values: dict[str, Any] = {
        "instance": "77-1000-0",
        "pid": 77,
        "port": 30000,
        "dp_rank": 0,
        "sglang": "0.5.23",
        "model": MODEL,
        "architecture": "LlamaForCausalLM",
        "layers": FORM.layers,
        "server_layers": FORM.layers,
        "hidden_size": FORM.hidden_size,
        "dtype": FORM.dtype,
        "norm": FORM.norm,
        "norm_eps": 1e-5,
        "norm_has_zero": False,
        "context_length": CONTEXT,
        "started_at": 1000.0,
    }
    return About(**{**values, **changes})


def make_rows(ids: list[int], form: RowForm = FORM) -> npt.NDArray[np.float32]:
    """Rows, [tokens, K+1, H] in float32: every value of a row is 1 + its token id, the slots tell apart by sign."""
    values = np.ones((len(ids), form.slots, form.hidden_size), np.float32)
    values *= 1 + np.array(ids, np.float32)[:, None, None]
    values[:, 1::2] *= -1
    return values


def write_dump(
    folder: Path,
    rid: str,
    ids: list[int],
    rows: npt.NDArray[Any] | None = None,
    passes: list[int] | None = None,
    header: DumpHeader | None = None,
) -> Path:
    """Write a dump as the plugin does; rows default to `make_rows`, passes to one chunk of all."""
    header = header or make_header(rid)
    rows = make_rows(ids) if rows is None else rows
    marks = np.array([ids, [1] * len(ids) if passes is None else passes], "<u4").T
    path = dump_path(folder, rid)
    with path.open("wb") as stream:
        stream.write(header.encode())
        stream.write(marks.tobytes())
        stream.seek(header.rows_offset)
        stream.write(rows.tobytes())
    return path


def write_about(folder: Path, about: About) -> None:
    (folder / about.file_name).write_bytes(about.encode())


def poke(path: Path, offset: int, content: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(content)


def mark_offset(position: int) -> int:
    return HEADER_BYTES + MARK_BYTES * position


def row_offset(position: int, form: RowForm = FORM) -> int:
    return rows_offset(CONTEXT) + form.row_bytes * position


def make_order(rid: str, prompt: list[int], output: list[int] | None = None, **changes: Any) -> TakeOrder:
    """An order for an answer; without one for a pre-tokenized sample whose mask is 0, 1, 0, 1, ..."""
    values: dict[str, Any] = {
        "dataset": "d",
        "sample_id": rid,
        "key": rid.encode(),
        "rid": rid,
        "prompt_ids": str(prompt).encode(),
        "output_ids": None if output is None else str(output).encode(),
        "loss_mask": str([place % 2 for place in range(len(prompt))]).encode() if output is None else None,
        "capture": "generating" if output is not None else "afterwards",
        "cached_tokens": 0,
        "server": "http://127.0.0.1:30000",
    }
    return TakeOrder(**{**values, **changes})


class MemoryLayout:
    """A layout that keeps samples in memory, by row number; nothing of one whose rows raise is left."""

    name = "memory"
    norm = POST

    def __init__(self, folder: Path) -> None:
        self.rows: dict[int, bytes] = {}
        self.samples: dict[int, Sample] = {}
        self.trouble: OSError | None = None
        """Raised by the next `place`, after the rows were read."""
        self._lock = threading.Lock()

    def place(self, sample: Sample, row: int) -> Placed:
        content = b"".join(bytes(block) for block in sample.rows.blocks())
        trouble, self.trouble = self.trouble, None
        if trouble is not None:
            raise trouble
        with self._lock:
            assert row not in self.rows
            self.rows[row] = content
            self.samples[row] = sample
        return Placed(file=f"{row}.bin", offset=0, bytes=len(content), checksum="xxh3_128:0")

    def load(self, record: StoredSample) -> Loaded:
        raise NotImplementedError

    def strays(self, records: list[StoredSample]) -> list[Path]:
        raise NotImplementedError

    def cut_back(self, records: list[StoredSample]) -> list[str]:
        raise NotImplementedError

    def stored(self, record: StoredSample, form: RowForm = FORM) -> npt.NDArray[np.float32]:
        """Rows of a stored sample, [tokens, K+1, H]; float32 only."""
        return np.frombuffer(self.rows[record.row], "<f4").reshape(record.tokens, form.slots, form.hidden_size)
