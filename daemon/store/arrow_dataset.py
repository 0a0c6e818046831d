"""The Arrow data set of a speculators store, as ``datasets.save_to_disk`` leaves it, written with pyarrow alone.

A stream of record batches, and two small JSON files that describe it. The format ``torch`` is part of what is saved:
without it the trainer gets lists where it wants tensors.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from daemon.store.writing import new_file

_ARROW: Final = "data-00000-of-00001.arrow"
_BATCH_TOKENS: Final = 1 << 20
"""A batch is written when it has so many: memory stays flat, however long the data set."""
_LIST: Final = {"feature": {"dtype": "int64", "_type": "Value"}, "_type": "Sequence"}
_FEATURES: Final = {"input_ids": _LIST, "loss_mask": _LIST, "seq_len": {"dtype": "int64", "_type": "Value"}}


class MissingPackageError(Exception):
    """A package is needed that is not installed; the message says how to install it."""


class Example(NamedTuple):
    """One row of the data set."""

    ids: npt.NDArray[np.int64]
    loss_mask: npt.NDArray[np.uint8]


def require_pyarrow() -> Any:
    """Return pyarrow.

    Raises:
        MissingPackageError: It is not installed.
    """
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingPackageError(
            f"the data set that speculators reads is written with pyarrow, which cannot be imported ({error}): "
            f"pip install 'eagle3-tui[speculators]'"
        ) from error


def write_arrow_dataset(folder: Path, examples: Iterable[Example], fingerprint: str) -> list[Path]:
    """Write the three files of a data set, each whole or not at all, and return them.

    Args:
        folder: Where they go.
        examples: Row 0, 1, ...; read in one pass.
        fingerprint: Different for different data: the library that reads them keys its caches with it.

    Raises:
        MissingPackageError: pyarrow is not installed.
        OSError: A file cannot be written.
    """
    arrow = require_pyarrow()
    _write_stream(arrow, folder / _ARROW, examples)
    info = {"citation": "", "description": "", "features": _FEATURES, "homepage": "", "license": ""}
    state = {
        "_data_files": [{"filename": _ARROW}],
        "_fingerprint": fingerprint,
        "_format_columns": list(_FEATURES),
        "_format_kwargs": {},
        "_format_type": "torch",
        "_output_all_columns": False,
        "_split": None,
    }
    for name, content in (("dataset_info.json", info), ("state.json", state)):
        with new_file(folder / name) as output:
            output.write(json.dumps(content, indent=2).encode())
    return [folder / name for name in (_ARROW, "dataset_info.json", "state.json")]


def _write_stream(arrow: Any, path: Path, examples: Iterable[Example]) -> None:
    lists = arrow.list_(arrow.int64())
    schema = arrow.schema(
        [("input_ids", lists), ("loss_mask", lists), ("seq_len", arrow.int64())],
        metadata={"huggingface": json.dumps({"info": {"features": _FEATURES}})},
    )
    with new_file(path) as output:
        sink = arrow.PythonFile(_Sink(output.write), mode="w")
        with arrow.ipc.new_stream(sink, schema) as stream:
            batch: list[Example] = []
            tokens = 0
            for example in examples:
                batch.append(example)
                tokens += len(example.ids)
                if tokens >= _BATCH_TOKENS:
                    stream.write_batch(_record_batch(arrow, schema, batch))
                    batch, tokens = [], 0
            if batch:
                stream.write_batch(_record_batch(arrow, schema, batch))


def _record_batch(arrow: Any, schema: Any, batch: list[Example]) -> Any:
    lengths = np.array([len(example.ids) for example in batch], np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    columns = [
        arrow.ListArray.from_arrays(offsets, np.concatenate(values).astype(np.int64, copy=False))
        for values in ([example.ids for example in batch], [example.loss_mask for example in batch])
    ]
    return arrow.record_batch([*columns, arrow.array(lengths)], schema=schema)


class _Sink:
    """As much of a file as pyarrow wants to write to."""

    closed = False

    def __init__(self, write: Any) -> None:
        self._write = write

    def write(self, data: Any) -> int:
        """Pass on a buffer of pyarrow's."""
        return int(self._write(memoryview(data)))

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""

    def writable(self) -> bool:
        """Yes."""
        return True
