"""Requests a second and CPU of the daemon, from prompt to durable record, against a bare loop that keeps nothing."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

DELAY_S = 0.2
IDS = 1500
PROMPT_IDS = 300
ROUNDS = 3


@dataclass(frozen=True)
class Measured:
    """One driver at one number in flight."""

    requests_per_s: float
    cpu_ms: float


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def bare_server(delay_s: float = DELAY_S, spread: float = 0.0) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "tests.benchmarks.bare_server", str(port), str(delay_s), str(IDS), str(spread)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def count(url: str) -> int:
    with urllib.request.urlopen(f"{url}/count") as response:
        return int(json.load(response)["count"])


def write_prompts(path: Path, number: int) -> None:
    chance = random.Random(2)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for index in range(number):
            ids = [chance.randrange(160_000) for _ in range(PROMPT_IDS)]
            file.write(json.dumps({"sample_id": f"p{index}", "input_ids": ids}, separators=(",", ":")) + "\n")


def write_run(folder: Path, url: str, in_flight: int) -> None:
    (folder / "run.toml").write_text(
        f'[run]\nname = "bench"\n[sampling]\ntemperature = 0.6\nmax_new_tokens = {IDS}\n'
        f"[generate]\nconcurrency = {in_flight}\nvocab_size = 200000\n[telemetry]\ngpus = false\n"
        f'[[servers]]\nurl = "{url}"\n[[datasets]]\nname = "B1"\n'
    )


def measure(command: list[str], url: str, requests: int) -> Measured:
    """Run a driver; take speed and CPU between 15 % and 85 % of the requests, start and end left out."""
    before = count(url)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watched = psutil.Process(process.pid)
    marks: list[tuple[int, float, float]] = []
    for share in (0.15, 0.85):
        while (done := count(url) - before) < share * requests:
            if process.poll() is not None:
                raise RuntimeError(f"{command}: ended early with {process.returncode}")
            time.sleep(0.02)
        cpu = watched.cpu_times()
        marks.append((done, time.perf_counter(), cpu.user + cpu.system))
    process.wait()
    (first, began, cpu_began), (last, ended, cpu_ended) = marks
    return Measured((last - first) / (ended - began), (cpu_ended - cpu_began) * 1000 / (last - first))


def compare(in_flight: int, requests: int) -> tuple[Measured, Measured, int]:
    """Return (daemon, bare loop, records on the disk)."""
    with tempfile.TemporaryDirectory() as name, bare_server() as url:
        folder = Path(name)
        prompts = folder / "prepared" / "B1" / "prompts.jsonl"
        write_prompts(prompts, requests)
        write_run(folder, url, in_flight)
        bare_command = [sys.executable, "-m", "tests.benchmarks.bare_loop", url, str(prompts), str(in_flight)]
        responses = prompts.with_name("raw_responses.jsonl")
        rounds: list[tuple[Measured, Measured]] = []
        for _ in range(ROUNDS):
            responses.unlink(missing_ok=True)
            (folder / "fold.checkpoint").unlink(missing_ok=True)
            bare = measure(bare_command, url, requests)
            daemon = measure([sys.executable, "-m", "daemon", "run", str(folder)], url, requests)
            rounds.append((daemon, bare))
        records = responses.read_bytes().count(b"\n")
    return _best([daemon for daemon, _ in rounds]), _best([bare for _, bare in rounds]), records


def _best(measured: list[Measured]) -> Measured:
    """Return the best of the rounds: what disturbs a measurement only ever makes it worse."""
    return Measured(max(each.requests_per_s for each in measured), min(each.cpu_ms for each in measured))


def report() -> str:
    lines = [
        "| in flight | daemon req/s | bare req/s | ratio | daemon CPU ms | bare CPU ms | ratio | records |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for in_flight in (64, 256, 512):
        requests = 40 * in_flight if in_flight < 256 else 30 * in_flight
        daemon, bare, records = compare(in_flight, requests)
        lines.append(
            f"| {in_flight} | {daemon.requests_per_s:.0f} | {bare.requests_per_s:.0f} | "
            f"{daemon.requests_per_s / bare.requests_per_s:.2f} | {daemon.cpu_ms:.3f} | {bare.cpu_ms:.3f} | "
            f"{daemon.cpu_ms / bare.cpu_ms:.2f} | {records} of {requests} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
