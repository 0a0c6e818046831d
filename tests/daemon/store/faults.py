"""Ways to spoil a stored run, and what verify says of it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from contracts.records import StoredSample
from contracts.run_dir import RunDir
from daemon.store.findings import VerifyReport
from daemon.store.index import read_index
from daemon.store.verify import verify_run
from tests.support.stored_run import append


def index_path(run: Path, dataset: str = "B1") -> Path:
    return RunDir(run).dataset(dataset).hidden_states


def records(run: Path, dataset: str = "B1") -> dict[str, StoredSample]:
    return {key.decode(): record for key, record in read_index(index_path(run, dataset)).records.items()}


def file_of(run: Path, record: StoredSample, dataset: str = "B1") -> Path:
    return RunDir(run).store(dataset) / record.file


def replace_record(run: Path, sample: str, **over: Any) -> None:
    """Write the index anew with another record of one sample."""
    held = records(run)
    index_path(run).unlink()
    for name, record in held.items():
        append(index_path(run), msgspec.structs.replace(record, **over) if name == sample else record)


def flip_byte(path: Path, place: int) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        byte = os.pread(descriptor, 1, place)
        os.pwrite(descriptor, bytes([byte[0] ^ 0x10]), place)
    finally:
        os.close(descriptor)


def drop_lines(path: Path, drop: Callable[[dict[str, Any]], bool]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not drop(msgspec.json.decode(line))))


def verify(run: Path, **options: Any) -> VerifyReport:
    return verify_run(run, chance=random.Random(1), **options)[0]


def found(run: Path, **options: Any) -> dict[str, list[str | int | None]]:
    """Kinds that verify finds, each with the samples it names."""
    kinds: dict[str, list[str | int | None]] = {}
    for store in verify(run, **options).stores:
        for finding in store.first:
            kinds.setdefault(str(finding.kind), []).append(finding.sample_id)
    return kinds
