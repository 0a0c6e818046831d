"""Samples from /dev/shm into each layout, checked and durable, against torch.load + torch.save of the same tensors.

The disk is that of the temporary folder (TMPDIR chooses another).
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psutil
import torch
import xxhash

from contracts.clock import Clock
from daemon.capture.row_numbers import RowNumbers
from daemon.capture.taker import take
from daemon.store.layouts import LAYOUTS, make_layout, norm_of
from daemon.store.row_checks import check_rows
from daemon.store.sample import RowForm
from tests.daemon.capture.dumps import MODEL, make_header, make_order, make_rid, write_dump

SHARED_MEMORY = Path("/dev/shm")
LAYERS = (2, 30, 58)
TORCH = "torch.load + torch.save"
DISK = "the disk alone: bytes in memory, written"


@dataclass(frozen=True)
class Load:
    """So many samples of one size, in bfloat16."""

    samples: int
    tokens: int
    hidden_size: int
    rounds: int

    @property
    def bytes(self) -> int:
        """Of the hidden states of one."""
        return self.tokens * (len(LAYERS) + 1) * self.hidden_size * 2


LOADS = (Load(1, 2048, 7168, 9), Load(1, 4096, 7168, 5), Load(100, 64, 512, 5))


@dataclass
class Took:
    """Seconds of each round."""

    durable: list[float] = field(default_factory=list)
    unsynced: list[float] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)
    """Of the durable ones: looking at the rows."""
    cpu: list[float] = field(default_factory=list)
    """Of the durable ones: of the processor, the disk's work left out. What else the machine does changes it least."""


@dataclass
class Stopwatch:
    """Seconds inside of one function."""

    inside: Callable[..., Any]
    seconds: float = 0.0

    def __call__(self, *words: Any) -> Any:
        began = time.perf_counter()
        try:
            return self.inside(*words)
        finally:
            self.seconds += time.perf_counter() - began


@contextmanager
def no_syncs() -> Iterator[None]:
    """The same work, nothing of the disk waited for, nor begun early."""
    with (
        mock.patch.object(os, "fdatasync", lambda _: None),
        mock.patch.object(os, "fsync", lambda _: None),
        mock.patch.object(os, "posix_fadvise", lambda *_: None),
    ):
        yield


def write_sources(load: Load, source: Path) -> None:
    """Write each sample once for torch, and once for each norm as a dump."""
    chance = np.random.default_rng(5)
    for number in range(load.samples):
        shape = (load.tokens, len(LAYERS) + 1, load.hidden_size)
        bits = chance.integers(0x3F80, 0x4100, shape, np.uint16)  # between 1 and 8
        ids = list(range(1, load.tokens + 1))
        tensors = {
            "input_ids": torch.tensor(ids),
            "loss_mask": torch.ones(load.tokens, dtype=torch.int64),
            "hidden_states": torch.from_numpy(bits).view(torch.bfloat16),
        }
        torch.save(tensors, source / f"{number}.pt")
        for norm in {norm_of(name) for name in LAYOUTS}:
            folder = source / norm
            folder.mkdir(exist_ok=True)
            rid = make_rid(number)
            form = RowForm(LAYERS, load.hidden_size, "bfloat16", norm)
            write_dump(folder, rid, ids, bits, header=make_header(rid, form, context_length=8192))


def with_torch(load: Load, source: Path, store: Path, *, durable: bool) -> None:
    for number in range(load.samples):
        tensors = torch.load(source / f"{number}.pt")
        with (store / f"{number}.pt").open("wb") as file:
            torch.save(tensors, file)
            if durable:
                file.flush()
                os.fsync(file.fileno())


def with_nothing_else(load: Load, store: Path, *, durable: bool) -> None:
    """Write as many bytes, out of the processor's cache and with nothing looked at: no way into a store is faster."""
    block = bytes(1 << 20)
    for number in range(load.samples):
        with (store / f"{number}.raw").open("wb", buffering=0) as file:
            for first in range(0, load.bytes, len(block)):
                file.write(block[: load.bytes - first])
            if durable:
                os.fdatasync(file.fileno())


def with_ours(load: Load, source: Path, store: Path, name: str) -> float:
    """Take all samples as the daemon does; return the seconds that looking at the rows took."""
    layout, numbers = make_layout(name, store), RowNumbers()
    form = RowForm(LAYERS, load.hidden_size, "bfloat16", norm_of(name))
    ids, prompt = list(range(1, load.tokens + 1)), load.tokens // 5
    with mock.patch("daemon.capture.checks.check_rows", Stopwatch(check_rows)) as watch:
        for number in range(load.samples):
            order = make_order(make_rid(number), ids[:prompt], [*ids[prompt:], 7])
            take(order, source / norm_of(name), layout, form, MODEL, numbers, Clock())
    return float(watch.seconds)


def seconds(disk: Path, move: Callable[[Path], object]) -> tuple[float, float]:
    """Time a move into an empty folder of a disk that has nothing else to write: on the clock, and of the processor."""
    os.sync()
    with tempfile.TemporaryDirectory(dir=disk) as name:
        began, cpu = time.perf_counter(), time.process_time()
        move(Path(name))
        return time.perf_counter() - began, time.process_time() - cpu


def measure(load: Load, source: Path, disk: Path) -> dict[str, Took]:
    """Move all samples in every way, in turn; what else the machine does befalls all alike."""
    found = {kind: Took() for kind in (TORCH, DISK, *LAYOUTS)}
    for turn in range(-1, load.rounds):
        for kind, took in found.items():
            for durable, series in ((True, took.durable), (False, took.unsynced)):
                looking = 0.0

                def move(store: Path, kind: str = kind, durable: bool = durable) -> None:
                    nonlocal looking
                    if kind == TORCH:
                        with_torch(load, source, store, durable=durable)
                        return
                    if kind == DISK:
                        with_nothing_else(load, store, durable=durable)
                        return
                    with nullcontext() if durable else no_syncs():
                        looking = with_ours(load, source, store, kind)

                spent, cpu = seconds(disk, move)
                if turn >= 0:
                    series.append(spent)
                    if durable:
                        took.checks.append(looking)
                        took.cpu.append(cpu)
    return found


def hashing_s(load: Load) -> float:
    """Seconds that the checksum of all samples takes, in blocks that are in the cache."""
    block = bytes(1 << 20)
    digest, began = xxhash.xxh3_128(), time.perf_counter()
    for _ in range(100):
        digest.update(block)
    return (time.perf_counter() - began) / 100 * load.bytes * load.samples / (1 << 20)


def file_system(folder: Path) -> str:
    mounts = [part for part in psutil.disk_partitions(all=True) if folder.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype


def rows_of(load: Load, found: dict[str, Took]) -> Iterator[str]:
    size, middle, base = load.bytes * load.samples, statistics.median, found[TORCH]
    hashing = hashing_s(load)
    for kind, took in found.items():
        durable, unsynced = middle(took.durable), middle(took.unsynced)
        ratio = middle(theirs / ours for theirs, ours in zip(base.durable, took.durable, strict=True))
        loose = middle(theirs / ours for theirs, ours in zip(base.unsynced, took.unsynced, strict=True))
        cpu = middle(theirs / ours for theirs, ours in zip(base.cpu, took.cpu, strict=True))
        shares = f"{100 * middle(took.checks) / durable:.0f} % | {100 * hashing / durable:.0f} %"
        yield (
            f"| {load.samples} x {load.bytes / 1e6:.2f} MB | {kind} | {size / durable / 1e6:.0f} | {ratio:.1f} | "
            f"{size / unsynced / 1e6:.0f} | {loose:.1f} | {cpu:.1f} | {'- | -' if kind in (TORCH, DISK) else shares} | "
            f"{size / max(took.durable) / 1e6:.0f} to {size / min(took.durable) / 1e6:.0f} |"
        )


def report() -> str:
    lines = [
        "| samples | way | MB/s, durable | x torch durable | MB/s, no sync | x torch, no sync | x torch, CPU | "
        "checks | checksum | rounds, MB/s durable |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        disk = Path(name)
        for load in LOADS:
            with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as shared:
                write_sources(load, Path(shared))
                lines.extend(rows_of(load, measure(load, Path(shared), disk)))
        lines.extend(["", f"From {file_system(SHARED_MEMORY)} to {file_system(disk)}; checks and checksum included."])
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
