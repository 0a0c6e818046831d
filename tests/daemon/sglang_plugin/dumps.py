"""Makes batches of rows, and reads dumps back with code of its own."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import torch
from torch import Tensor

from daemon.sglang_plugin.eagle3_sglang.dump_format import About
from daemon.sglang_plugin.eagle3_sglang.rows import RowBatch

SLOTS, HIDDEN, CONTEXT = 3, 4, 64
WIDTH = SLOTS * HIDDEN


def about(**changes: object) -> About:
    values: dict[str, object] = {
        "instance": "1-2-0",
        "pid": 1,
        "port": None,
        "dp_rank": 0,
        "sglang": "0.5.23",
        "model": "tiny",
        "architecture": "LlamaForCausalLM",
        "layers": (1, 2),
        "server_layers": (1, 2),
        "hidden_size": HIDDEN,
        "dtype": "float32",
        "norm": "post",
        "norm_eps": 1e-6,
        "norm_has_zero": False,
        "context_length": CONTEXT,
        "started_at": 0.0,
        **changes,
    }
    return About(**values)  # type: ignore[arg-type]


def row(rid: str, position: int, salt: int = 0) -> Tensor:
    """The row that a request has at a position: no two alike, and all exact in float32."""
    return torch.arange(WIDTH, dtype=torch.float32) + 16 * (position + 4096 * (sum(rid.encode()) % 64)) + salt / 2


def token(rid: str, position: int) -> int:
    return (sum(rid.encode()) + 7 * position) % 1000


def batch(*segments: tuple[str, int, int], salt: int = 0) -> RowBatch:
    """Rows of (rid, first position, count)."""
    keys = [(rid, position) for rid, first, count in segments for position in range(first, first + count)]
    return RowBatch(
        rids=[rid for rid, _, _ in segments],
        counts=[count for _, _, count in segments],
        rows=torch.stack([row(*key, salt) for key in keys]),
        ids=torch.tensor([token(*key) for key in keys]),
        positions=torch.tensor([position for _, position in keys]),
        wait=None,
    )


class Dump:
    """One dump, as its documentation says it is to be read."""

    def __init__(self, folder: Path, rid: str) -> None:
        content = (folder / f"{rid}.dump").read_bytes()
        self.header = json.loads(content[:4096])
        context, layers = self.header["context_length"], len(self.header["layers"])
        offset = (4096 + 8 * context + 4095) // 4096 * 4096
        width = (layers + 1) * self.header["hidden_size"]
        body = content[offset:]
        kind = {"float32": torch.float32, "bfloat16": torch.bfloat16}[self.header["dtype"]]
        rows = torch.frombuffer(bytearray(body), dtype=kind) if body else torch.empty(0, dtype=kind)
        self.rows = rows.reshape(-1, width)
        marks = [struct.unpack_from("<II", content, 4096 + 8 * position) for position in range(len(self.rows))]
        self.ids = [mark[0] for mark in marks]
        self.passes = [mark[1] for mark in marks]
        self.left = content[4096 + 8 * len(marks) : offset]
        """Marks of positions without a row."""


def assert_whole(folder: Path, rid: str, count: int, salt: int = 0) -> Dump:
    dump = Dump(folder, rid)
    assert len(dump.rows) == count
    assert torch.equal(dump.rows, torch.stack([row(rid, position, salt) for position in range(count)]))
    assert dump.ids == [token(rid, position) for position in range(count)]
    assert all(dump.passes)
    assert not any(dump.left)
    return dump
