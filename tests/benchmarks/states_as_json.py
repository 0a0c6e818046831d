"""One prompt's hidden states of the real SGLang as a dump, against its own ``return_hidden_states``: a JSON answer.

SGLang's answer holds the last hidden state alone; the dump holds three layers besides. Both on the CPU.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from daemon.capture.dump import Dump, header_at
from daemon.sglang_plugin.eagle3_sglang.dump_format import dump_path
from tests.benchmarks.plugin_cost import configured
from tests.sglang import environment
from tests.sglang.server import SglangServer

PROMPT = 300
FETCHES = 9


@dataclass(frozen=True)
class Fetched:
    """One prompt's hidden states, until they are an array."""

    bytes: int
    """Of the answer, or of the dump."""
    wall_s: float
    client_s: float
    """CPU of this process."""
    server_s: float
    """CPU of the server's processes, the forward pass among it."""
    shape: tuple[int, ...]


def nothing(server: SglangServer, body: dict[str, Any]) -> tuple[int, npt.NDArray[Any]]:
    """The same request, its hidden states left where they are."""
    response = server.post("/generate", {**body, "rid": f"bench.{body['rid']}"})
    response.raise_for_status()
    return len(response.content), np.empty((PROMPT, 0), np.float32)


def as_json(server: SglangServer, body: dict[str, Any]) -> tuple[int, npt.NDArray[Any]]:
    response = server.post("/generate", {**body, "return_hidden_states": True})
    response.raise_for_status()
    states = np.array(response.json()["meta_info"]["hidden_states"][0], np.float32)
    return len(response.content), states


def as_dump(folder: Path, server: SglangServer, body: dict[str, Any]) -> tuple[int, npt.NDArray[Any]]:
    server.post("/generate", body).raise_for_status()
    rid, count = body["rid"], len(body["input_ids"])
    while header_at(dump_path(folder, rid)) is None:
        time.sleep(0.0005)
    with Dump.open(folder, rid) as dump:
        while dump.rows_written < count:
            time.sleep(0.0005)
        states = np.concatenate([np.frombuffer(block, np.float32) for block in dump.blocks(count)])
        return dump.path.stat().st_blocks * 512, states.reshape(count, -1)


def fetch(
    server: SglangServer, get: Callable[[SglangServer, dict[str, Any]], tuple[int, npt.NDArray[Any]]]
) -> list[Fetched]:
    """Have the rows of a prompt computed and brought here, some times."""
    found, chance = [], random.Random(5)
    for turn in range(-1, FETCHES):
        prompt = [chance.randrange(1000) for _ in range(PROMPT)]
        sampling = {"temperature": 0, "max_new_tokens": 1}
        body = {"rid": f"e3.bench.one.1.{turn + 1}", "input_ids": prompt, "sampling_params": sampling}
        before, began, own = server_cpu(server), time.perf_counter(), time.process_time()
        size, states = get(server, body)
        took, own = time.perf_counter() - began, time.process_time() - own
        if len(states) != PROMPT:
            raise RuntimeError(f"{len(states)} rows of {PROMPT}")
        if turn >= 0:
            found.append(Fetched(size, took, own, server_cpu(server) - before, states.shape))
    return found


def server_cpu(server: SglangServer) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in server.processes())


def report() -> str:
    reason = environment.missing()
    if reason is not None:
        return f"Not measured: {reason}; `make test-sglang` builds the environment."
    model, fetched = environment.model_path(), {}
    with SglangServer(model, extra_args=["--disable-radix-cache", "--enable-return-hidden-states"]) as server:
        fetched["no hidden states"] = fetch(server, nothing)
        fetched["return_hidden_states"] = fetch(server, as_json)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name) / "dumps"
        flags, path, env = configured(model, folder)
        with SglangServer(model, extra_args=flags, extra_path=[path], env=env) as server:
            fetched["the plugin's dump"] = fetch(server, partial(as_dump, folder))
    lines = [
        f"| {PROMPT} tokens | values of each | kB | bytes a value | ms until in numpy | CPU ms, client | server |",
        "|---|---|---|---|---|---|---|",
    ]
    middle = statistics.median
    for kind, found in fetched.items():
        (rows, width), size = found[0].shape, middle(each.bytes for each in found)
        figures = [1000 * middle(getattr(each, name) for each in found) for name in ("wall_s", "client_s", "server_s")]
        a_value = f"{size / (rows * width):.1f}" if width else "-"
        lines.append(
            f"| {kind} | {width} | {size / 1000:.0f} | {a_value} | {figures[0]:.0f} | "
            f"{figures[1]:.1f} | {figures[2]:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
