"""CPU of the dump writer for one row of a decode step, against one bare pwritev for each row.

Steps come at the pace of a server, requests end after 500 of them and others begin. The copies from the GPU are left
out: rows lie in memory, as they do in pinned buffers.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch

from daemon.sglang_plugin.eagle3_sglang.capture import Capture
from daemon.sglang_plugin.eagle3_sglang.rows import RowBatch
from daemon.sglang_plugin.eagle3_sglang.writer import DumpWriter
from tests.daemon.sglang_plugin.dumps import about

SHARED_MEMORY = "/dev/shm"
LAYERS = 3
BUFFERS = 4
"""Row buffers that are used in turn: one alone would stay in the processor's cache."""
ANSWER = 500
"""Steps that a request runs."""


class Load(NamedTuple):
    """Decode steps of so many requests."""

    hidden: int
    requests: int
    steps: int
    step_s: float

    @property
    def row_bytes(self) -> int:
        return (LAYERS + 1) * self.hidden * 2


LOADS = [
    Load(128, 1, 200, 0.005), Load(128, 16, 200, 0.01), Load(128, 256, 96, 0.03), Load(128, 512, 96, 0.03),
    Load(7168, 1, 200, 0.005), Load(7168, 16, 100, 0.01), Load(7168, 256, 48, 0.03), Load(7168, 512, 24, 0.06),
]  # fmt: skip


def buffers(load: Load) -> list[torch.Tensor]:
    shape = (load.requests, (LAYERS + 1) * load.hidden)
    return [torch.full(shape, number + 1.0, dtype=torch.bfloat16) for number in range(BUFFERS)]


def paced(load: Load, step: Callable[[int], None]) -> float:
    """Do the steps at their pace; return the CPU seconds that each took, those of other threads too."""
    at, began = time.monotonic(), time.process_time()
    for number in range(load.steps):
        step(number)
        at += load.step_s
        time.sleep(max(0.0, at - time.monotonic()))
    return (time.process_time() - began) / load.steps


def bare(load: Load) -> float:
    """One pwritev for each row, the files open."""
    rows, width = [bytes_of(each) for each in buffers(load)], load.row_bytes
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as name:
        files = [os.open(f"{name}/{number}", os.O_RDWR | os.O_CREAT, 0o600) for number in range(load.requests)]

        def step(number: int) -> None:
            view = rows[number % BUFFERS]
            for place, file in enumerate(files):
                os.pwritev(file, [view[width * place : width * (place + 1)]], width * number)

        try:
            return paced(load, step)
        finally:
            for file in files:
                os.close(file)


def bytes_of(tensor: torch.Tensor) -> memoryview:
    return tensor.view(torch.uint8).flatten().numpy().data


def written(load: Load) -> float:
    """The writer: putting steps, and its thread."""
    rows, running = buffers(load), Running(load.requests)
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as name:
        layers = tuple(range(LAYERS))
        form = about(
            hidden_size=load.hidden, dtype="bfloat16", layers=layers, server_layers=layers, context_length=4096
        )
        writer = DumpWriter(Path(name), form, log=print)

        def begin(rids: list[str]) -> None:
            count = len(rids)
            ids, positions = torch.arange(2 * count), torch.tensor([0, 1] * count)
            two_each = rows[0][:count].repeat(2, 1)
            writer.put(RowBatch(rids, [2] * count, two_each, ids, positions, None))

        def step(number: int) -> None:
            if running.one_ends(number):
                begin([running.exchange()])
            ids, positions = torch.arange(load.requests), torch.tensor(running.positions)
            rids, counts = list(running.rids), [1] * load.requests
            writer.put(RowBatch(rids, counts, rows[number % BUFFERS], ids, positions, None))
            running.advance()

        try:
            begin(running.rids)
            writer.flush()
            took = paced(load, step)
            began = time.process_time()
            writer.flush()  # what is still held belongs to the steps
            took += (time.process_time() - began) / load.steps
        finally:
            writer.close()
        if writer.failed_requests:
            raise RuntimeError(f"rows of {writer.failed_requests} requests could not be written")
        return took


class Running:
    """Requests that run, and the position that each is at."""

    def __init__(self, count: int) -> None:
        self.rids = [f"e3.bench.{number}.1.1" for number in range(count)]
        self.positions = [2] * count
        self._begun = count

    def one_ends(self, step: int) -> bool:
        return step % max(1, ANSWER // len(self.rids)) == 1

    def exchange(self) -> str:
        """Let the eldest end and another begin; return its rid."""
        self.rids = [*self.rids[1:], f"e3.bench.{self._begun}.1.1"]
        self.positions = [*self.positions[1:], 2]
        self._begun += 1
        return self.rids[-1]

    def advance(self) -> None:
        self.positions = [position + 1 for position in self.positions]


def captured(requests: int, steps: int = 100) -> float:
    """CPU seconds of taking one step's rows out of a pass: of the scheduler's own thread."""
    running, capture = Running(requests), Capture(None)
    rows = torch.ones((requests, LAYERS * 128), dtype=torch.bfloat16)
    output = SimpleNamespace(logits_output=SimpleNamespace(hidden_states=rows, last_hidden_states=rows[:, :128]))
    ids = torch.arange(requests)
    mode = SimpleNamespace(name="DECODE", is_idle=lambda: False)
    began = time.thread_time()
    for number in range(steps):
        if running.one_ends(number):
            running.exchange()
        forward = SimpleNamespace(rids=list(running.rids), forward_mode=mode, input_ids=ids, positions=ids)
        for _ in capture.batches(output, forward):
            pass
    return (time.thread_time() - began) / steps


def report() -> str:
    lines = [
        "| a row | requests | step ms | µs a row | bare pwritev | ratio | of a core | scheduler's part, µs a row |",
        "|---|---|---|---|---|---|---|---|",
    ]
    torch.set_num_threads(1)
    for load in LOADS:
        plain, ours, taking = bare(load), written(load), captured(load.requests)
        each = 1e6 / load.requests
        lines.append(
            f"| {load.row_bytes / 1000:.0f} kB | {load.requests} | {1000 * load.step_s:.0f} | {each * ours:.1f} | "
            f"{each * plain:.1f} | {ours / plain:.2f} | {100 * ours / load.step_s:.1f} % | {each * taking:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
