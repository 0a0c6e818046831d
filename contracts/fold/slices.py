"""A fold as MessagePack, in slices: what `msgspec.msgpack.encode` makes of it, without holding up anybody meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

LARGE: Final = 4000
"""Dicts, sets and lists of more items are encoded in slices of so many: a millisecond or two."""
encode: Final = msgspec.msgpack.Encoder().encode
"""Encodes what is small."""

Piece = bytes | dict[Any, Any] | list[Any]
"""Encoded already, or a copy of what is large."""


def pieces(value: Any) -> list[Piece]:
    """Return a struct of structs as it is now: what is small is encoded; what is large is copied, which is quicker."""
    if isinstance(value, msgspec.Struct) and not value.__struct_config__.array_like:
        made: list[Piece] = [map_head(len(value.__struct_fields__))]
        for name in value.__struct_encode_fields__:
            made.append(encode(name))
            made += pieces(getattr(value, name))
        return made
    if not isinstance(value, dict | set | list) or len(value) <= LARGE:
        return [encode(value)]
    if isinstance(value, dict):
        return [encode(value) if _may_change(next(iter(value.values()))) else dict(value)]
    return [list(value)]


def _may_change(held: Any) -> bool:
    """Whether what a fold holds is changed in place, and not replaced: a copy would change with it."""
    return isinstance(held, msgspec.Struct) and not held.__struct_config__.frozen


def encoded(piece: Piece) -> Iterator[bytes]:
    """Yield a piece encoded, in slices; other threads have their turn between two."""
    if isinstance(piece, bytes):
        yield piece
        return
    items = iter(piece.items() if isinstance(piece, dict) else piece)
    yield map_head(len(piece)) if isinstance(piece, dict) else _head(len(piece), 0x90, 0xDC)
    while chunk := list(islice(items, LARGE)):
        text = encode(dict(chunk) if isinstance(piece, dict) else chunk)
        yield text[len(_head(len(chunk), 0x80, 0xDE)) :]


def map_head(count: int) -> bytes:
    """Return what begins a MessagePack map of so many pairs."""
    return _head(count, 0x80, 0xDE)


def _head(count: int, short: int, long: int) -> bytes:
    """Return what begins a map or an array; the kinds for 16 and 32 bits follow one another."""
    if count < 16:
        return bytes((short | count,))
    if count < 1 << 16:
        return bytes((long,)) + count.to_bytes(2, "big")
    return bytes((long + 1,)) + count.to_bytes(4, "big")
