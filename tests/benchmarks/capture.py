"""Tokens a second from prompt to stored hidden states, in one pass and in two, against generating alone.

Also what dumping costs the embedded server by itself: the same requests without a daemon, with and without --dump-dir.
Its model is tiny (a row has 1 kB and a pass takes a millisecond), so that all overheads weigh more than on a real one.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import psutil

from daemon.embedded.config import load_config
from daemon.sglang_plugin.eagle3_sglang.dump_format import rows_offset
from tests.support.extracting import ROW_BYTES
from tests.whole_run import embedded_server

SHARED_MEMORY = Path("/dev/shm")
ROUNDS = 3
DUMP_ROUNDS = 5
MODES = {
    "generate only": 'stages = ["generate"]\n',
    "one pass": 'stages = ["generate", "extract"]\n[extract]\ncapture = "generating"\n',
    "generate, then prefill": 'stages = ["generate", "extract"]\n[extract]\ncapture = "afterwards"\n',
}


@dataclass(frozen=True)
class Load:
    """Requests to one kind of embedded server."""

    words: tuple[str, ...]
    requests: int
    prompt_ids: int
    new_tokens: int
    in_flight: int


LOADS = {
    "tiny model": Load((), 96, 100, 32, 32),
    "canned answers": Load(("--no-model", "--fixed-length", "300"), 300, 100, 300, 64),
}


def write_prompts(path: Path, load: Load) -> list[list[int]]:
    chance = np.random.default_rng(6)
    prompts: list[list[int]] = chance.integers(1, 900, (load.requests, load.prompt_ids)).tolist()
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        for number, ids in enumerate(prompts):
            file.write(json.dumps({"sample_id": f"p{number}", "input_ids": ids}) + "\n")
    return prompts


def run_daemon(folder: Path, url: str, dumps: Path, load: Load, mode: str) -> float:
    """Run a whole daemon; return generated tokens a second, from the first request to the last durable record."""
    data = folder / "prepared" / "B1"
    write_prompts(data / "prompts.jsonl", load)
    extract = "" if "extract" not in mode else f'layers = [1, 3, 4]\ndump_dir = "{dumps}"\n'
    (folder / "run.toml").write_text(
        f'[run]\nname = "bench"\n{mode}{extract}'
        f"[sampling]\nignore_eos = true\nmax_new_tokens = {load.new_tokens}\n[telemetry]\ngpus = false\n"
        f'[generate]\nconcurrency = {load.in_flight}\n[[servers]]\nurl = "{url}"\n[[datasets]]\nname = "B1"\n'
    )
    done = subprocess.run([sys.executable, "-m", "daemon", "run", str(folder)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the daemon ended with {done.returncode}: {done.stderr[-2000:]}")
    answers = list(records(data / "raw_responses.jsonl"))
    ended = max(answer["finished_at"] for answer in answers)
    if extract:
        stored = list(records(data / "hidden_states.jsonl"))
        if len(stored) != load.requests:
            raise RuntimeError(f"{len(stored)} samples of {load.requests} were stored")
        ended = max(ended, *(record["at"] for record in stored))
    tokens = sum(answer["completion_tokens"] for answer in answers)
    return float(tokens / (ended - min(answer["started_at"] for answer in answers)))


def records(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_bytes().splitlines())


def end_to_end(load: Load) -> dict[str, list[float]]:
    """Run each mode in turn; what else the machine does befalls all alike."""
    rates: dict[str, list[float]] = {mode: [] for mode in MODES}
    with ExitStack() as stack:
        dumps = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=SHARED_MEMORY)))
        plain = stack.enter_context(embedded_server(*load.words))
        dumping = stack.enter_context(embedded_server(*load.words, "--dump-dir", str(dumps)))
        for _ in range(ROUNDS):
            for mode, text in MODES.items():
                with tempfile.TemporaryDirectory() as name:
                    url = plain if mode == "generate only" else dumping
                    rates[mode].append(run_daemon(Path(name), url, dumps, load, text))
    return rates


async def ask_all(url: str, prompts: list[list[int]], load: Load, mark: str, dumps: Path | None) -> float:
    """Send all prompts; return generated tokens a second, until the last row is in its file."""
    todo, tokens = iter(enumerate(prompts)), 0
    async with aiohttp.ClientSession() as session:

        async def worker() -> None:
            nonlocal tokens
            for number, ids in todo:
                sampling = {"max_new_tokens": load.new_tokens, "ignore_eos": True}
                body = {"rid": f"e3.bench.{mark}.1.{number:x}", "input_ids": ids, "sampling_params": sampling}
                async with session.post(f"{url}/generate", json=body) as response:
                    response.raise_for_status()
                    tokens += len((await response.json())["output_ids"])

        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(load.in_flight)))
    if dumps is not None:
        await_dumps(dumps, load)
    return tokens / (time.perf_counter() - began)


def await_dumps(dumps: Path, load: Load) -> None:
    """Wait until the rows of all requests are in their files; remove them."""
    size = rows_offset(load_config().max_position_embeddings) + (load.prompt_ids + load.new_tokens - 1) * ROW_BYTES
    missing, deadline = load.requests, time.perf_counter() + 60
    while missing:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{missing} dumps of {load.requests} are missing")
        for path in dumps.glob("*.dump"):
            if path.stat().st_size >= size:
                path.unlink()
                missing -= 1
        time.sleep(0.002)


def server_alone(load: Load) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Ask the same of a server that dumps and of one that does not, in turn.

    Returns:
        Tokens a second of each round, and tokens for each second of the server's own CPU.
    """
    rates: dict[str, list[float]] = {"without dumps": [], "with dumps": []}
    thrift: dict[str, list[float]] = {kind: [] for kind in rates}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=SHARED_MEMORY)))
        dumps = folder / "dumps"
        prompts = write_prompts(folder / "prompts" / "prompts.jsonl", load)
        servers = {
            "without dumps": start(stack, *load.words),
            "with dumps": start(stack, *load.words, "--dump-dir", str(dumps)),
        }
        for turn in range(-1, DUMP_ROUNDS):
            for kind, (url, process) in servers.items():
                dumped = dumps if kind == "with dumps" else None
                before = sum(process.cpu_times()[:2])
                rate = asyncio.run(ask_all(url, prompts, load, f"r{turn + 1}", dumped))
                cpu = sum(process.cpu_times()[:2]) - before
                if turn >= 0:
                    rates[kind].append(rate)
                    thrift[kind].append(load.requests * load.new_tokens / cpu)
    return rates, thrift


def start(stack: ExitStack, *words: str) -> tuple[str, psutil.Process]:
    """Start an embedded server; return its URL and its process."""
    before = set(psutil.Process().children())
    url = stack.enter_context(embedded_server(*words))
    (process,) = set(psutil.Process().children()) - before
    return url, process


def rows_of(name: str, rates: dict[str, list[float]]) -> Iterator[str]:
    base = next(iter(rates.values()))
    for kind, found in rates.items():
        ratios = sorted(mine / other for mine, other in zip(found, base, strict=True))
        yield (
            f"| {name} | {kind} | {statistics.median(found):,.0f} | {statistics.median(ratios):.3f} | "
            f"{ratios[0]:.3f} to {ratios[-1]:.3f} |"
        )


def report() -> str:
    lines = ["| server | whole daemon | tok/s, median | of the first, median | rounds |", "|---|---|---|---|---|"]
    for name, load in LOADS.items():
        lines.extend(rows_of(name, end_to_end(load)))
    lines.extend(["", "| server | alone | tok/s, median | of the first, median | rounds |", "|---|---|---|---|---|"])
    for name, load in LOADS.items():
        rates, thrift = server_alone(load)
        lines.extend(rows_of(name, rates))
        lines.extend(rows_of(f"{name}, for each second of its CPU", thrift))
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
