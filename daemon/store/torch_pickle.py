"""The pickle inside a file of torch.save, written and read without torch.

Written by hand, opcode by opcode (protocol 2), as torch.save writes a dict of tensors, so that torch.load takes it with
``weights_only=True`` too. Read with an unpickler that knows the few names of such a dict and refuses every other:
nothing in a file is ever called.
"""

from __future__ import annotations

import collections
import io
import pickle
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from daemon.sglang_plugin.eagle3_sglang.dump_format import ITEM_BYTES as ROW_ITEM_BYTES

_STORAGES: Final = {
    "bfloat16": "BFloat16Storage",
    "float16": "HalfStorage",
    "float32": "FloatStorage",
    "int64": "LongStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
}
_DTYPES: Final = {storage: dtype for dtype, storage in _STORAGES.items()}
ITEM_BYTES: Final = {**ROW_ITEM_BYTES, "int64": 8, "uint8": 1, "bool": 1}
_DAMAGE: Final = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    MemoryError,
)
"""What damaged opcodes run into."""


class PickleError(ValueError):
    """A pickle that is damaged, or holds something other than tensors, texts and numbers."""


@dataclass(frozen=True)
class Storage:
    """A stretch of values that one or several tensors look at."""

    key: str
    """Its record is ``data/<key>``."""
    dtype: str
    """As torch names it, without ``torch.``."""
    values: int

    @property
    def bytes(self) -> int:
        """Size of its record."""
        return self.values * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class View:
    """A tensor: how it looks at a storage. Numbers are values, not bytes."""

    storage: Storage
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def whole(cls, storage: Storage) -> View:
        """Return all of a storage as a vector."""
        return cls(storage, (storage.values,), (1,))

    @property
    def fits(self) -> bool:
        """Whether it stays within its storage."""
        if min((self.offset, *self.shape, *self.strides)) < 0 or len(self.shape) != len(self.strides):
            return False
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return 0 in self.shape or last < self.storage.values


Value = View | str | int


def encode_pickle(values: Mapping[str, Value] | Mapping[int, int]) -> bytes:
    """Return ``data.pkl`` of a dict."""
    out = io.BytesIO()
    out.write(b"\x80\x02}(")
    for name, value in values.items():
        _write(out, name)
        _write(out, value)
    out.write(b"u.")
    return out.getvalue()


def decode_pickle(text: bytes) -> dict[str, Value] | dict[int, int]:
    """Return the dict of ``data.pkl``.

    Raises:
        PickleError: It is damaged, or holds something else.
    """
    try:
        found = _Unpickler(io.BytesIO(text)).load()
    except PickleError:
        raise
    except _DAMAGE as error:
        raise PickleError(f"its pickle is damaged: {error!r}") from error
    if not isinstance(found, dict):
        raise PickleError(f"it holds a {type(found).__name__}, not a dict")
    for name, value in found.items():
        if not isinstance(name, str | int) or not isinstance(value, View | str | int):
            raise PickleError(f"it holds {name!r}: {type(value).__name__}, neither tensor nor text nor number")
    return found


def _write(out: io.BytesIO, value: Value) -> None:
    match value:
        case View():
            _write_view(out, value)
        case str():
            text = value.encode("utf-8", "surrogatepass")
            out.write(b"X" + struct.pack("<I", len(text)) + text)
        case bool():
            raise TypeError("no flags are written")
        case int():
            _write_int(out, value)


def _write_int(out: io.BytesIO, value: int) -> None:
    if -(1 << 31) <= value < 1 << 31:
        out.write(b"J" + struct.pack("<i", value))
    else:
        number = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        out.write(b"\x8a" + bytes([len(number)]) + number)


def _write_view(out: io.BytesIO, view: View) -> None:
    storage = view.storage
    out.write(b"ctorch._utils\n_rebuild_tensor_v2\n((")
    _write(out, "storage")
    out.write(b"ctorch\n" + _STORAGES[storage.dtype].encode() + b"\n")
    _write(out, storage.key)
    _write(out, "cpu")
    _write_int(out, storage.values)
    out.write(b"tQ")
    _write_int(out, view.offset)
    for numbers in (view.shape, view.strides):
        out.write(b"(")
        for number in numbers:
            _write_int(out, number)
        out.write(b"t")
    out.write(b"\x89ccollections\nOrderedDict\n)RtR")


class _Unpickler(pickle.Unpickler):
    """Knows what `encode_pickle` (and torch.save, for such dicts) writes."""

    def find_class(self, module: str, name: str, /) -> Any:
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
            ("collections", "OrderedDict"): collections.OrderedDict,
        }
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if (module, name) in known:
            return known[module, name]
        raise PickleError(f"its pickle asks for {module}.{name}, which is refused")

    def persistent_load(self, pid: Any) -> Storage:
        kind, dtype, key, _, values = pid
        if kind != "storage" or dtype not in ITEM_BYTES or not isinstance(key, str) or not isinstance(values, int):
            raise PickleError(f"its pickle names a storage that cannot be: {pid!r}")
        return Storage(key, dtype, values)


def _rebuild(storage: Any, offset: Any, shape: Any, strides: Any, *_: object) -> View:
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, Storage) or not all(type(number) is int for number in numbers):
        raise PickleError("its pickle describes a tensor that cannot be")
    view = View(storage, tuple(shape), tuple(strides), offset)
    if not view.fits:
        raise PickleError(f"a tensor of shape {view.shape} reaches beyond its storage of {storage.values} values")
    return view
