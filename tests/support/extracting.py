"""Runs with the stage extract on the embedded server: its options, its process, and what must hold of what is stored.

``python -m tests.support.extracting`` starts embedded servers by fork, one at a time, so that a start after
a kill -9 costs no import of torch.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

from contracts.records import StoredSample
from contracts.run_dir import RunDir
from contracts.sample_id import sample_key
from daemon.embedded.faults import Faults
from daemon.embedded.options import Options
from daemon.embedded.server import EmbeddedServer
from daemon.store.index import read_index
from daemon.store.layouts import make_layout
from daemon.store.verify import verify_run
from tests.support.hidden_states import Floats, reference_rows
from tests.support.runs import records

LAYERS = (1, 3, 4)
ROW_BYTES = 4 * 64 * 4
"""Of the embedded model: three layers and the last, 64 values each, float32."""
SHORT = {"max_new_tokens": 10}
"""``[sampling]``: the tiny model takes some milliseconds for a token."""
NORMS = {"safetensors": "post", "specforge": "post", "modelopt": "post", "speculators": "over_weight"}
ROOT = Path(__file__).parents[2]


def extract(dumps: Path, **over: Any) -> dict[str, Any]:
    """``[extract]`` of a run: what `make_run` takes."""
    return {"layers": list(LAYERS), "dump_dir": str(dumps), "dump_wait_s": 2.0, **over}


def prompts(number: int, first: int = 0, longest: int = 24) -> list[dict[str, Any]]:
    """Prompts p0, p1, ... of 3 to `longest` tokens."""
    return [
        {"sample_id": f"p{index}", "input_ids": [1 + (index * 7 + place) % 900 for place in range(3 + index % longest)]}
        for index in range(first, first + number)
    ]


def pretokenized(number: int, length: int = 12) -> list[dict[str, Any]]:
    """Samples a0, a1, ... that bring their answer."""
    return [
        {
            "sample_id": f"a{index}",
            "input_ids": [1 + (index * 11 + place) % 900 for place in range(length + index)],
            "loss_mask": [0] * 5 + [1] * (length + index - 5),
        }
        for index in range(number)
    ]


@asynccontextmanager
async def dumping(dumps: Path, **options: Any) -> AsyncIterator[EmbeddedServer]:
    """Serve the tiny model in the test's own loop, with its hidden states dumped; answers are short."""
    # Room for keys and values is laid out for as many as may run: with the default of 64 that is 50 MB for each server.
    given = {"dump_dir": dumps, "eos_bias": 3.0, "max_running_requests": 16, **options}
    async with EmbeddedServer(Options(**given)) as server:
        yield server


def left_in(dumps: Path) -> list[str]:
    """What is in a dump folder that belongs to requests."""
    return sorted(path.name for path in dumps.iterdir() if not path.name.startswith(("about.", "norm.")))


def indexed(run: Path, dataset: str = "B1") -> dict[bytes, StoredSample]:
    """What the index of a store holds, by sample key."""
    return read_index(run / "prepared" / dataset / "hidden_states.jsonl").records


def stored_ids(run: Path, dataset: str = "B1") -> list[Any]:
    """Ids of the samples in the index, sorted by their text; those stored twice stand there twice."""
    held: list[Any] = []
    for record in records(run / "prepared" / dataset / "hidden_states.jsonl"):
        if record["type"] == "stored":
            held.append(record["sample_id"])
        else:
            held.remove(record["sample_id"])
    return sorted(held, key=str)


def check_stored(run: Path, *, seed: int = 0, layout: str = "safetensors", rows: int | None = None) -> int:
    """See that all that is stored is right: verify finds nothing, ids are those of the files, rows the model's own.

    Args:
        run: The run directory; no daemon is at work.
        seed: Of the server.
        layout: Of the stores.
        rows: Compare the rows of so many samples of each data set with the model's; None: of all.

    Returns:
        How many samples are stored.
    """
    report, _ = verify_run(run)
    assert [found for store in report.stores for found in store.first] == [] and report.left == 0
    total = 0
    for folder in sorted((run / "prepared").iterdir()):
        expected = _expected(folder)
        held = indexed(run, folder.name)
        store = make_layout(layout, RunDir(run).store(folder.name))
        assert len(stored_ids(run, folder.name)) == len(held), "twice"
        assert len({record.row for record in held.values()}) == len(held), "two at one row"
        for number, (key, record) in enumerate(held.items()):
            loaded = store.load(record)
            ids, mask = expected[key]
            assert loaded.ids.tolist() == ids[: record.tokens], record.sample_id
            assert record.tokens == len(ids) or record.truncated_from == len(ids), record.sample_id
            if loaded.loss_mask is not None:
                assert loaded.loss_mask.tolist() == mask[: record.tokens], record.sample_id
            if rows is None or number < rows:
                found = _floats(b"".join(bytes(block) for block in loaded.rows.blocks()), record.tokens)
                wanted = reference_rows(seed, ids[: record.tokens], LAYERS, NORMS[layout])
                np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3, err_msg=str(record.sample_id))
        total += len(held)
    return total


def _expected(folder: Path) -> dict[bytes, tuple[list[int], list[int]]]:
    """Ids and mask of every sample, from the files alone."""
    lines = {sample_key(line["sample_id"]): line for line in records(folder / "prompts.jsonl")}
    found = {key: (line["input_ids"], line["loss_mask"]) for key, line in lines.items() if "loss_mask" in line}
    for line in records(folder / "raw_responses.jsonl"):
        key = sample_key(line["sample_id"] if "sample_id" in line else line["id"])
        prompt, output = lines.get(key), (line | line.get("response", {})).get("output_ids")
        if prompt is not None and output:
            head, tail = prompt["input_ids"], output[:-1]
            found.setdefault(key, (head + tail, [0] * len(head) + [1] * len(tail)))
    return found


def _floats(raw: bytes, tokens: int) -> Floats:
    return np.frombuffer(raw, "<f4").reshape(tokens, len(LAYERS) + 1, -1)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ServerProcess:
    """The embedded server as a process at one port, to be killed and started again.

    Args:
        zygote: Starts it.
        dumps: The dump folder.
        options: Of the server; `latency`: of its faults.
    """

    def __init__(self, zygote: ServerZygote, dumps: Path, **options: Any) -> None:
        self._zygote = zygote
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._start = json.dumps({"dumps": str(dumps), "port": port, **options})
        self._pid: int | None = None

    def start(self) -> None:
        """Start it; it serves when this returns."""
        self._pid = self._zygote.start(self._start)

    def kill(self) -> None:
        """kill -9."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            self._pid = None

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class ServerZygote:
    """The other end of `serve`: starts one server at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.extracting"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def start(self, line: str) -> int:
        """Start a server; return its pid when it serves."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> ServerZygote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def serve() -> None:
    import torch  # noqa: F401 - what every child needs

    for line in sys.stdin:
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(0)
            os.close(ready)
            asyncio.run(_serve(json.loads(line), tell))
            os._exit(0)
        os.close(tell)
        os.read(ready, 1)
        os.close(ready)
        print(pid, flush=True)
        os.waitpid(pid, 0)


async def _serve(options: dict[str, Any], tell: int) -> None:
    dumps, latency = Path(options.pop("dumps")), options.pop("latency", 0.0)
    async with dumping(dumps, faults=Faults(latency=latency), **options):
        os.write(tell, b"r")
        await asyncio.Event().wait()


@contextmanager
def in_memory() -> Iterator[Path]:
    """A temporary folder in memory, where there is one: hundreds of syncs cost nothing there."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="e3test-", dir=shm if os.access(shm, os.W_OK) else None) as folder:
        yield Path(folder)


@contextmanager
def small_disk(folder: Path, megabytes: float) -> Iterator[Path]:
    """A file system of its own of so many megabytes (2^20 bytes); skips the test where none can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    size = f"size={int(megabytes * 1024)}k"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


if __name__ == "__main__":
    serve()
