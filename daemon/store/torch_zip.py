"""The zip form of torch.save, written and read without torch.

Records as torch.load wants them: ``data.pkl``, ``byteorder``, ``data/<key>`` for each storage (stored, not compressed,
beginning at a multiple of 64 bytes, large ones of a page, so that ``mmap=True`` gives aligned tensors), ``version`` and
``.data/serialization_id``. Several tensors may look at one storage, so that rows of hidden states go in as they come.
What torch does not know (``.data/eagle3.json``, our facts) it does not look at. The same content gives the same bytes.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

import xxhash

from daemon.store.blocks import PAGE, PAGED_FROM
from daemon.store.layout import StoreError
from daemon.store.reading import read_exactly
from daemon.store.torch_pickle import PickleError, Storage, Value, decode_pickle, encode_pickle
from daemon.store.writing import Output

_ROOT: Final = "archive"
_FACTS: Final = ".data/eagle3.json"
_ALIGNMENT: Final = 64
_LOCAL_HEADER: Final = 30
"""Fixed part of a zip record's header; name and extra fields follow."""
_ZIP64_FIELD: Final = 20
"""The extra field in front of records that are written with 64-bit sizes."""
_PADDING_FIELD: Final = b"FB"
"""Header id of the extra field that torch pads with."""
_MOST_PICKLE: Final = 256 << 20
_DAMAGE: Final = (
    zipfile.BadZipFile,
    PickleError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    EOFError,
    ValueError,
    KeyError,
    IndexError,
    OverflowError,
)
"""What zipfile and the decoders run into in a damaged file."""


@dataclass(frozen=True)
class Archive:
    """What a file of torch.save holds."""

    values: dict[str, Value] | dict[int, int]
    places: dict[str, int]
    """Of each storage, by its key: where it begins in the file."""
    facts: dict[str, str]
    """Ours; empty where the file has none."""


def write_archive(
    output: Output,
    values: Mapping[str, Value] | Mapping[int, int],
    storages: Iterable[tuple[Storage, Iterable[bytes | memoryview]]] = (),
    facts: Mapping[str, str] | None = None,
) -> None:
    """Write a dict as torch.save would.

    Args:
        output: At its beginning.
        values: Tensors that look at the storages, texts, integers.
        storages: Each with its bytes, in pieces, in the order in which they are written.
        facts: See `Archive`.

    Raises:
        OSError: It cannot be written.
        ValueError: The pieces of a storage have more or fewer bytes than it should.
    """
    # zipfile asks its file for write and flush alone when it cannot seek, and then puts the checksums behind the data.
    with zipfile.ZipFile(cast(IO[bytes], output), "w") as archive:
        pickled = encode_pickle(values)
        _write_record(archive, output, "data.pkl", [pickled])
        _write_record(archive, output, "byteorder", [b"little"])
        for storage, pieces in storages:
            alignment = PAGE if storage.bytes >= PAGED_FROM else _ALIGNMENT
            _write_record(archive, output, f"data/{storage.key}", _counted(storage, pieces), alignment, large=True)
        _write_record(archive, output, "version", [b"3\n"])
        if facts:
            _write_record(archive, output, _FACTS, [json.dumps(dict(facts)).encode()])
        checks = struct.pack(f"<{len(archive.infolist())}I", *(record.CRC for record in archive.infolist()))
        identity = xxhash.xxh3_128_intdigest(pickled + checks) % 10**40
        _write_record(archive, output, ".data/serialization_id", [f"{identity:040}".encode()])


def read_archive(path: Path) -> Archive:
    """Read everything but the storages.

    Raises:
        StoreError: It is cut short, damaged, or holds something else than `write_archive` writes.
        OSError: It cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            records = {record.filename: record for record in archive.infolist()}
            if not all(0 <= record.header_offset < path.stat().st_size for record in records.values()):
                raise StoreError(f"{path} is damaged: its directory points outside of it")
            root = next((name.removesuffix("data.pkl") for name in records if name.endswith("/data.pkl")), None)
            if root is None:
                raise StoreError(f"{path} is no file of torch.save: it has no data.pkl")
            if records[root + "data.pkl"].file_size > _MOST_PICKLE:
                raise StoreError(f"{path} says that its pickle has {records[root + 'data.pkl'].file_size:,} bytes")
            values = decode_pickle(archive.read(root + "data.pkl"))
            facts = json.loads(archive.read(root + _FACTS)) if root + _FACTS in records else {}
    except _DAMAGE as error:
        raise StoreError(f"{path} cannot be read as a file of torch.save: {error}") from error
    if not isinstance(facts, dict) or not all(isinstance(value, str) for value in facts.values()):
        raise StoreError(f"{path} has damaged facts: {str(facts)[:80]}")
    storages = {value.storage for value in values.values() if not isinstance(value, str | int)}
    places = {storage.key: _place(path, records.get(f"{root}data/{storage.key}"), storage) for storage in storages}
    return Archive(values, places, facts)


def _write_record(
    archive: zipfile.ZipFile,
    output: Output,
    name: str,
    pieces: Iterable[bytes | memoryview],
    alignment: int = _ALIGNMENT,
    *,
    large: bool = False,
) -> None:
    """Write one record; a large one with 64-bit sizes, since what zipfile decides on its own changes its header."""
    record = zipfile.ZipInfo(f"{_ROOT}/{name}")
    header = _LOCAL_HEADER + len(record.filename) + (_ZIP64_FIELD if large else 0) + 4
    padding = -(output.count + header) % alignment
    record.extra = struct.pack("<2sH", _PADDING_FIELD, padding) + b"Z" * padding
    with archive.open(record, "w", force_zip64=large) as stream:
        for piece in pieces:
            stream.write(piece)


def _counted(storage: Storage, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    written = 0
    for piece in pieces:
        written += memoryview(piece).nbytes
        yield piece
    if written != storage.bytes:
        raise ValueError(f"storage {storage.key} got {written:,} bytes, it should have {storage.bytes:,}")


def _place(path: Path, record: zipfile.ZipInfo | None, storage: Storage) -> int:
    """Return where a storage begins, seen to be stored, and within the file.

    Raises:
        StoreError: It is not there, or of another size.
    """
    if record is None:
        raise StoreError(f"{path} has no record of its storage {storage.key}")
    if record.compress_type != zipfile.ZIP_STORED or record.file_size != storage.bytes:
        raise StoreError(
            f"{path} has {record.file_size:,} bytes in its storage {storage.key}, its tensors need {storage.bytes:,}"
        )
    header = bytes(read_exactly(path, record.header_offset, _LOCAL_HEADER))
    name_length, extra_length = struct.unpack("<HH", header[26:30])
    place = record.header_offset + _LOCAL_HEADER + int(name_length) + int(extra_length)
    if not header.startswith(b"PK\x03\x04") or place + storage.bytes > path.stat().st_size:
        raise StoreError(f"{path} is damaged: its directory points at no record for storage {storage.key}")
    return place
