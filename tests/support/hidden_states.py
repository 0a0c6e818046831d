"""The truth about the embedded model's hidden states, and a plain reader of what was dumped of them.

Both know nothing of the daemon's own code for dumps but the format's declarations.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from daemon.embedded.config import load_config
from daemon.sglang_plugin.eagle3_sglang.dump_format import HEADER_BYTES, MARK, DumpHeader, dump_path

Floats = npt.NDArray[np.float32]


@functools.cache
def _model(seed: int):  # type: ignore[no-untyped-def]
    from daemon.embedded.model import TinyLlama, limit_threads

    limit_threads()
    return TinyLlama(load_config(), seed)


def norm_weight(seed: int = 0) -> Floats:
    """Weight of the embedded model's final norm [H]."""
    weight: Floats = _model(seed).norm.weight.numpy().copy()
    return weight


def reference_rows(seed: int, ids: Sequence[int], layers: Sequence[int], norm: str) -> Floats:
    """Hidden states of the embedded model [T, K+1, H] by one plain prefill of `ids` [T], in float32.

    Args:
        seed: of the server.
        ids: prompt and answer without its last token.
        layers: 0-based output ids; slots 0..K-1 in this order, slot K is the last hidden state.
        norm: `post` or `over_weight` (without the correction for tiny states, which this model does not have).
    """
    from daemon.embedded.model import KVCache

    output = _model(seed).prefill(list(ids), KVCache(load_config(), 1), 0, capture=layers)
    last = output.last.numpy()
    if norm == "over_weight":
        last = last / norm_weight(seed)
    rows: Floats = np.stack([*(output.aux[layer].numpy() for layer in layers), last], axis=1)
    return rows


@dataclass(frozen=True)
class ReadDump:
    """What a dump file holds; T is the number of whole rows in it."""

    header: DumpHeader
    ids: list[int]
    batches: list[int]
    """Number of the batch each row came in; 0 where none was written."""
    rows: Floats
    """[T, K+1, H]."""


def read_dump(folder: Path, rid: str) -> ReadDump:
    """Read a request's dump; FileNotFoundError when there is none."""
    raw = dump_path(folder, rid).read_bytes()
    header = DumpHeader.decode(raw[:HEADER_BYTES])
    count = max(0, len(raw) - header.rows_offset) // header.row_bytes
    marks = list(struct.iter_unpack(MARK, raw[HEADER_BYTES : HEADER_BYTES + struct.calcsize(MARK) * count]))
    body = raw[header.rows_offset : header.rows_offset + count * header.row_bytes]
    if header.dtype == "bfloat16":
        values = (np.frombuffer(body, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.frombuffer(body, "<f4")
    rows = values.reshape(count, header.slots, header.hidden_size)
    return ReadDump(header, [mark[0] for mark in marks], [mark[1] for mark in marks], rows)
