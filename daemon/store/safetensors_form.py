"""The safetensors format: 8 bytes with the length of a JSON header, the header, then the tensors without gaps."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from daemon.store.blocks import PAGE
from daemon.store.layout import StoreError
from daemon.store.reading import read_exactly

ALIGNMENT: Final = 64
"""Headers are padded to it with spaces, so that data begins at a multiple of it behind the document's beginning."""
FLOATS: Final = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
"""The format's name of each dtype of rows."""
_ITEM_BYTES: Final = {"I64": 8, "U8": 1, "BF16": 2, "F16": 2, "F32": 4}
_LENGTH_BYTES: Final = 8
_MOST_HEADER: Final = 1 << 20
"""Ours have a few hundred bytes; a longer one is damage."""


@dataclass(frozen=True)
class Entry:
    """One tensor of a document."""

    dtype: str
    """As the format names it: ``I64``, ``U8``, ``BF16``, ``F16``, ``F32``."""
    shape: tuple[int, ...]
    offset: int
    """Of its first byte in the file."""


@dataclass(frozen=True)
class Document:
    """A safetensors document that was found whole in a file."""

    entries: dict[str, Entry]
    metadata: dict[str, str]


def encode_header(
    tensors: list[tuple[str, str, tuple[int, ...]]], metadata: dict[str, str], paged: str | None = None
) -> bytes:
    """Return length and header of a document.

    Args:
        tensors: Name, dtype as the format names it, and shape of each, in the order in which their bytes follow;
            those with larger items first, so that each is aligned to its items.
        metadata: ASCII text only.
        paged: Name of a tensor; the header is padded so that it begins at a page of the document. What is in front of
            it must have a multiple of 8 bytes.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    alignment, before, end = ALIGNMENT, 0, 0
    for name, dtype, shape in tensors:
        begin, end = end, end + math.prod(shape) * _ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
        if name == paged:
            alignment, before = PAGE, begin
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-(len(text) + _LENGTH_BYTES + before) % alignment)
    return struct.pack("<Q", len(text)) + text


def document_bytes(header: bytes, tensors: list[tuple[str, str, tuple[int, ...]]]) -> int:
    """Return the size of the whole document that a header from `encode_header` begins."""
    return len(header) + sum(math.prod(shape) * _ITEM_BYTES[dtype] for _, dtype, shape in tensors)


def read_document(path: Path, offset: int, length: int) -> Document:
    """Read the header of a document that fills ``length`` bytes of a file, from ``offset`` on.

    Raises:
        StoreError: It is cut short, has bytes too many, or is no such document; the message says which.
        OSError: It cannot be read.
    """
    header, begin = _header(path, offset, length)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise StoreError(f"{path} has a damaged header: its metadata is no text")
    return Document(_entries(path, header, offset + begin, length - begin), metadata)


def document_length(path: Path, offset: int, most: int) -> int:
    """Return how many bytes a document has that begins at ``offset``, by what its header says.

    Args:
        path: Of the file.
        offset: Of its first byte.
        most: Bytes that are there for it.

    Raises:
        StoreError: No document begins there, or it goes on behind them.
        OSError: It cannot be read.
    """
    header, begin = _header(path, offset, most)
    header.pop("__metadata__", None)
    try:
        end = max((int(entry["data_offsets"][1]) for entry in header.values()), default=0)
    except (TypeError, KeyError, ValueError, IndexError, OverflowError) as error:
        raise StoreError(f"{path} has a damaged header at byte {offset:,}: {error!r}") from error
    if not 0 <= end <= most - begin:
        raise StoreError(f"{path} is cut short: a document at byte {offset:,} has {begin + end:,} bytes")
    return begin + end


def _header(path: Path, offset: int, length: int) -> tuple[dict[str, Any], int]:
    """Return the header of a document, and where its tensors begin behind its first byte."""
    if length < _LENGTH_BYTES:
        raise StoreError(f"{path} is cut short: {length} bytes are no safetensors document")
    (size,) = struct.unpack("<Q", read_exactly(path, offset, _LENGTH_BYTES))
    if size > min(_MOST_HEADER, length - _LENGTH_BYTES):
        raise StoreError(f"{path} says that its header has {size:,} bytes, and has {length - _LENGTH_BYTES:,} in all")
    text = bytes(read_exactly(path, offset + _LENGTH_BYTES, size))
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} has a damaged header: {error}") from error
    if not isinstance(header, dict):
        raise StoreError(f"{path} has a damaged header: no object")
    return header, _LENGTH_BYTES + size


def _entries(path: Path, header: dict[str, Any], data: int, room: int) -> dict[str, Entry]:
    """Return the tensors of a header, seen to fill the ``room`` bytes from ``data`` on without gap or overlap."""
    places: list[tuple[int, int]] = []
    entries = {}
    for name, raw in header.items():
        try:
            dtype, shape, (begin, end) = raw["dtype"], tuple(raw["shape"]), raw["data_offsets"]
            whole = all(type(number) is int and number >= 0 for number in (*shape, begin, end))
            fits = whole and end - begin == math.prod(shape) * _ITEM_BYTES[dtype]
        except (TypeError, KeyError, ValueError) as error:
            raise StoreError(f"{path} has a damaged header: tensor {name!r}: {error!r}") from error
        if not fits:
            raise StoreError(f"{path} has a damaged header: tensor {name!r} of shape {shape}, bytes {begin} to {end}")
        places.append((begin, end))
        entries[name] = Entry(dtype, shape, data + begin)
    reached = 0
    for begin, end in sorted(places):
        if begin != reached:
            raise StoreError(f"{path} has a damaged header: its tensors overlap or leave a gap at byte {reached}")
        reached = end
    if reached > room:
        raise StoreError(f"{path} is cut short: its tensors have {reached:,} bytes, {room:,} are there")
    if reached < room:
        raise StoreError(f"{path} has {room - reached:,} bytes behind its tensors that belong to nothing")
    return entries
