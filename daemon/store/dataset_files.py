"""What belongs beside the samples of a store: the data-set files of its trainer, and what the store is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from contracts.records import StoredSample
from contracts.wording import counted
from daemon.store.arrow_dataset import Example, MissingPackageError, require_pyarrow, write_arrow_dataset
from daemon.store.facts import FORMAT
from daemon.store.layout import Layout, StoreError
from daemon.store.norm_file import NORM_FILE, write_norm
from daemon.store.norms import NormWeight
from daemon.store.torch_pickle import Storage, View
from daemon.store.torch_zip import write_archive
from daemon.store.vocabulary import TokenCounts, vocabulary_maps
from daemon.store.writing import Folders, Output, new_file

__all__ = ["MissingPackageError", "write_dataset_files"]

STORE_FILE: Final = "eagle3-store.json"


class StoreDescription(msgspec.Struct):
    """What ``eagle3-store.json`` says that anything of ours reads."""

    samples: int
    tokens: int
    bytes: int
    draft_vocab_size: int | None = None
    """Of the maps that were written with it; None: none were."""
    vocab_size: int | None = None
    """Of the model's vocabulary; None: it was not known."""
    files: dict[str, int] = {}
    """Name below the store's folder -> size, of every other file that was written beside the samples."""


_BESIDE: Final = (
    NORM_FILE,
    "data-*.arrow",
    "dataset_info.json",
    "state.json",
    "token_freq.pt",
    "d2t-*.npy",
    "t2d-*.npy",
    "vocab_mapping/*.pt",
)


def files_beside(folder: Path) -> dict[str, int]:
    """Return the files beside the samples of a store, with their sizes.

    Raises:
        OSError: The folder cannot be read.
    """
    found = (path for pattern in _BESIDE for path in folder.glob(pattern))
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(found)}


def read_description(folder: Path) -> StoreDescription | None:
    """Return what a store's files were written for; None when that cannot be read.

    Raises:
        OSError: The file is there and cannot be read.
    """
    try:
        return msgspec.json.decode((folder / STORE_FILE).read_bytes(), type=StoreDescription)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def makes_maps(layout: str) -> bool:
    """Whether the trainer of a layout reads maps of the draft vocabulary."""
    return layout in _MAP_WRITERS


def count_tokens(
    layout: Layout, records: list[StoredSample], counts: TokenCounts, draft_vocab_size: int | None
) -> None:
    """Count the tokens that a trainer learns from, where its files need that: of all stores that it reads together.

    Args:
        layout: Of the store.
        records: All of its index.
        counts: Added to.
        draft_vocab_size: Size of the draft vocabulary; None: no maps.

    Raises:
        StoreError: A sample cannot be used.
        OSError: A file cannot be read.
    """
    if layout.name == "speculators" or (makes_maps(layout.name) and draft_vocab_size is not None):
        for _ in _examples(layout, records, counts):
            pass


def write_run_maps(layout: str, stores: Path, counts: TokenCounts, draft_vocab_size: int, vocab_size: int) -> list[str]:
    """Write the maps for a trainer that reads the stores of all data sets as one.

    SpecForge looks for samples anywhere below its root: that may be one store, or the folder of all of them.

    Args:
        layout: Name of the stores' layout.
        stores: The folder of all stores.
        counts: Of all of them.
        draft_vocab_size: Size of the draft vocabulary.
        vocab_size: Size of the model's vocabulary.

    Returns:
        A sentence for each thing that was written.

    Raises:
        StoreError: The sizes and the counts do not fit together.
        OSError: A file cannot be written.
    """
    if layout != "specforge":
        return []
    return _torch_maps(stores, *vocabulary_maps(counts, draft_vocab_size, vocab_size))


def write_dataset_files(
    layout: Layout,
    folder: Path,
    records: list[StoredSample],
    *,
    draft_vocab_size: int | None,
    vocab_size: int | None,
    norm: NormWeight | None,
    counts: TokenCounts | None = None,
) -> list[str]:
    """Write the files that a layout's trainer reads beside the samples; at any time, over those of an earlier call.

    Each is written whole or not at all. All layouts: ``eagle3-store.json``, and ``norm.safetensors`` when the norm is
    known. speculators: the Arrow data set, ``token_freq.pt``, and the maps ``d2t-<n>.npy`` and ``t2d-<n>.npy``.
    specforge: ``vocab_mapping/vocab_mapping.pt``. Maps need both sizes.

    Args:
        layout: Of the store.
        folder: Where the files go: the store's own.
        records: All of its index, by row.
        draft_vocab_size: Size of the draft vocabulary; None: no maps.
        vocab_size: Size of the model's vocabulary; None: not known, no maps.
        norm: The model's final norm; None: not known, none is written and what an earlier call wrote stays.
        counts: Of all stores that a trainer reads together (`count_tokens`); None: this one stands alone.

    Returns:
        A sentence for each thing that was written, or not written although it was asked for.

    Raises:
        StoreError: The records do not make one data set, or a sample cannot be used.
        MissingPackageError: pyarrow is needed and not installed.
        OSError: A file cannot be written.
    """
    _check_same(records)
    Folders(folder).ready(folder)
    said: list[str] = []
    if counts is None:
        counts = TokenCounts()
        count_tokens(layout, records, counts, draft_vocab_size)
    if layout.name == "speculators":
        said += _speculators_files(layout, folder, records, counts)
    mapped = None
    if makes_maps(layout.name) and draft_vocab_size is not None:
        if vocab_size is None:
            said.append(f"no maps of the draft vocabulary: the size of the model's vocabulary is not known ({folder})")
        else:
            said += _MAP_WRITERS[layout.name](folder, *vocabulary_maps(counts, draft_vocab_size, vocab_size))
            mapped = draft_vocab_size
    if norm is not None:
        said.append(f"wrote {write_norm(folder, norm)}: weight and eps of the final norm")
    said.append(_write_description(layout, folder, records, mapped, vocab_size))
    return said


def _speculators_files(layout: Layout, folder: Path, records: list[StoredSample], counts: TokenCounts) -> list[str]:
    require_pyarrow()
    for place, record in enumerate(records):
        if record.row != place:
            raise StoreError(
                f"{folder}: sample {record.sample_id!r} has row {record.row}, where row {place} is expected: rows of "
                f"a speculators store must run from 0 without holes"
            )
    fingerprint = xxhash.xxh3_64(b"eagle3")
    for record in records:
        fingerprint.update(record.checksum.encode())
    files = write_arrow_dataset(folder, _examples(layout, records), fingerprint.hexdigest())
    frequencies = counts.frequencies()
    path = folder / "token_freq.pt"
    with new_file(path) as output:
        write_archive(output, frequencies)
    said = [f"wrote {', '.join(file.name for file in files)} in {folder}: {counted(len(records), 'row')}"]
    if len(records) < 2:
        said.append(f"{folder}: speculators trains with 2 samples at least, this store has {len(records)}")
    return [*said, f"wrote {path}: {counted(len(frequencies), 'different token id')}"]


def _examples(layout: Layout, records: list[StoredSample], counts: TokenCounts | None = None) -> Iterator[Example]:
    """Read ids and mask of each sample, count them where that is asked for, and pass them on."""
    for record in records:
        loaded = layout.load(record)
        if loaded.loss_mask is None:
            raise StoreError(f"{record.file} has no loss mask")
        if counts is not None:
            counts.add(loaded.ids, loaded.loss_mask)
        yield Example(loaded.ids, loaded.loss_mask)


def _npy_maps(folder: Path, d2t: npt.NDArray[np.int64], t2d: npt.NDArray[np.bool_]) -> list[str]:
    said = []
    for name, values in (("d2t", d2t), ("t2d", t2d)):
        path = folder / f"{name}-{len(d2t)}.npy"
        with new_file(path) as output:
            _write_npy(output, values)
        said.append(f"wrote {path}: a draft vocabulary of {len(d2t):,} ids of {len(t2d):,}")
    return said


def _write_npy(output: Output, values: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> None:
    np.lib.format.write_array_header_1_0(output, np.lib.format.header_data_from_array_1_0(values))
    output.write(values.data)


def _torch_maps(folder: Path, d2t: npt.NDArray[np.int64], t2d: npt.NDArray[np.bool_]) -> list[str]:
    path = folder / "vocab_mapping" / "vocab_mapping.pt"
    Folders(folder).ready(path.parent)
    first, second = Storage("0", "int64", len(d2t)), Storage("1", "bool", len(t2d))
    with new_file(path) as output:
        values = {"d2t": View.whole(first), "t2d": View.whole(second)}
        write_archive(output, values, [(first, [d2t.data]), (second, [t2d.data])])
    return [f"wrote {path}: a draft vocabulary of {len(d2t):,} ids of {len(t2d):,}"]


_MAP_WRITERS: Final[dict[str, Callable[[Path, npt.NDArray[np.int64], npt.NDArray[np.bool_]], list[str]]]] = {
    "speculators": _npy_maps,
    "specforge": _torch_maps,
}


def _check_same(records: list[StoredSample]) -> None:
    """See that all samples are of one form: a trainer would mix them without a word."""
    for record in records[1:]:
        first = records[0]
        for what in ("layers", "hidden_size", "dtype", "norm", "layout"):
            if getattr(record, what) != getattr(first, what):
                raise StoreError(
                    f"sample {record.sample_id!r} has {what} {getattr(record, what)}, sample {first.sample_id!r} "
                    f"{getattr(first, what)}: they cannot be one data set"
                )


def _write_description(
    layout: Layout, folder: Path, records: list[StoredSample], draft_vocab_size: int | None, vocab_size: int | None
) -> str:
    first = records[0] if records else None
    models = sorted({record.model for record in records if record.model is not None})
    description = {
        "format": FORMAT,
        "layout": layout.name,
        "layers": first and first.layers,
        "layer_ids": "0-based outputs: slot i of a row is the output of layer layers[i]; the last slot follows",
        "norm": layout.norm,
        "dtype": first and first.dtype,
        "hidden_size": first and first.hidden_size,
        "models": models,
        "samples": len(records),
        "tokens": sum(record.tokens for record in records),
        "loss_tokens": sum(record.loss_tokens for record in records),
        "bytes": sum(record.bytes for record in records),
        "draft_vocab_size": draft_vocab_size,
        "vocab_size": vocab_size,
        "files": files_beside(folder),
    }
    path = folder / STORE_FILE
    with new_file(path) as output:
        output.write(json.dumps(description, indent=1).encode() + b"\n")
    return f"wrote {path}: what the store holds, {counted(len(records), 'sample')}"
