"""The format itself: the files of public bug reports, and headers that lie."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from daemon.store.layout import StoreError
from daemon.store.safetensors_form import encode_header, read_document

CASES = Path(__file__).parents[2] / "fixtures" / "store"


def read_all(path: Path):
    return read_document(path, 0, path.stat().st_size)


def test_whole_file() -> None:
    found = read_all(CASES / "21b-whole.safetensors")
    assert {name: (entry.dtype, entry.shape, entry.offset) for name, entry in found.entries.items()} == {
        "hidden_states": ("F32", (2, 3), 160),
        "input_ids": ("F32", (2,), 184),
    }


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("21-a-cut", "cut short: its tensors have 32 bytes, 27 are there"),
        ("21c-trailing", "5 bytes behind its tensors"),
        ("21d-zero", "cut short: 0 bytes"),
        ("21e-header-too-long", "says that its header has 1,000,000,000 bytes"),
    ],
)
def test_damaged_files_are_named(case: str, words: str) -> None:
    path = CASES / f"{case}.safetensors"
    with pytest.raises(StoreError, match=words) as failed:
        read_all(path)
    assert str(path) in str(failed.value)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"a": 3}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}',
        b'{"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, -8]}}',
        b'{"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},'
        b' "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}',
        b'{"__metadata__": {"a": 1}}',
        b'{"__metadata__": []}',
    ],
)
def test_headers_that_cannot_be(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(StoreError, match=r"f\.safetensors"):
        read_all(path)


def test_what_we_write_the_library_reads(tmp_path: Path) -> None:
    ids = np.arange(5, dtype=np.int64)
    states = np.arange(10, dtype=np.float32).reshape(5, 2)
    header = encode_header([("ids", "I64", (5,)), ("states", "F32", (5, 2))], {"id": json.dumps("é\ud800")})
    assert len(header) % 64 == 0
    path = tmp_path / "f.safetensors"
    path.write_bytes(header + ids.tobytes() + states.tobytes())
    found = load_file(path)
    assert np.array_equal(found["ids"], ids) and np.array_equal(found["states"], states)
    assert json.loads(read_all(path).metadata["id"]) == "é\ud800"
