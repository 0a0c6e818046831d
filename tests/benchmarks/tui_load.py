"""What a daemon at work writes, at a set rate, without one: for benchmarks of what reads it.

``python -m tests.benchmarks.tui_load RUN RATE SECONDS LOG`` holds the run's lock, appends responses evenly to all data
sets, a heartbeat and readings of eight GPUs, the host and two servers a second, and logs a line (monotonic clock,
responses so far) for each batch.
"""

from __future__ import annotations

import fcntl
import os
import random
import sys
import time
from pathlib import Path

import msgspec

from contracts.clock import boot_id
from contracts.daemon_info import DaemonInfo, process_start
from contracts.records import (
    GpuReading,
    GpuSample,
    Heartbeat,
    HostSample,
    Response,
    ServerReading,
    ServerSample,
    encode_line,
)
from contracts.run_dir import RunDir

DATASETS = 30
BATCH_S = 0.02
READINGS_S = 1.0
GPUS = 8
_SERVERS = ("http://127.0.0.1:30000", "http://127.0.0.1:30001")


def name_of(number: int) -> str:
    """A data set's name."""
    return f"B{number:02}_opencodeinstruct"


def make_run(folder: Path, prompts: int) -> RunDir:
    """Make a run of `DATASETS` data sets with so many prompts each and no answer."""
    named = "".join(f'[[datasets]]\nname = "{name_of(number)}"\n' for number in range(DATASETS))
    servers = "".join(f'[[servers]]\nurl = "{url}"\n' for url in _SERVERS)
    run = RunDir(folder)
    run.telemetry.mkdir(parents=True)
    run.config.write_text(f'[run]\nname = "bench"\n{servers}{named}')
    for number in range(DATASETS):
        data = run.dataset(name_of(number))
        data.path.mkdir(parents=True)
        with data.prompts.open("w") as file:
            file.writelines(f'{{"sample_id":"s{index}","input_ids":[1,2,3]}}\n' for index in range(prompts))
    return run


def answer(number: int, ids: msgspec.Raw, tokens: int, at: float) -> bytes:
    """A line of raw_responses.jsonl."""
    return encode_line(
        Response(
            sample_id=f"s{number}", prompt_tokens=120, completion_tokens=tokens, finish_reason="stop", output_ids=ids,
            finished_at=at, started_at=at - 20.0, rid=f"e3g.0123456789abcdef.{number:x}", server=_SERVERS[number % 2],
            attempt=1,
        )
    )  # fmt: skip


def some_ids(chance: random.Random, tokens: int) -> msgspec.Raw:
    """Ids of an answer of so many tokens, as text."""
    return msgspec.Raw(b"[" + b",".join(b"%d" % chance.randrange(160_000) for _ in range(tokens)) + b"]")


def readings(run: RunDir, at: float, mono: float, chance: random.Random, in_flight: dict[str, int]) -> None:
    """Append what the daemon appends once a second."""
    gpus = [
        GpuReading(
            index=index, name="H200", utilization_pct=float(chance.randint(88, 99)), power_limit_w=700.0,
            power_w=float(chance.randint(600, 690)), memory_used_bytes=130_000_000_000 + chance.randrange(10**9),
            memory_total_bytes=150_000_000_000, temperature_c=float(chance.randint(60, 70)), processes=1,
        )
        for index in range(GPUS)
    ]  # fmt: skip
    servers = [
        ServerReading(
            url=url, state="ok", version="0.5.23", model="/models/m", running=chance.randint(100, 128),
            queued=chance.randint(0, 30), kv_usage_pct=chance.uniform(70, 90), tokens_per_s=chance.uniform(3e5, 4e5),
            cache_hit_pct=chance.uniform(10, 20), retracted=0, outstanding=128,
        )
        for url in _SERVERS
    ]  # fmt: skip
    records = {
        "gpu": GpuSample(at=at, state="ok", gpus=gpus),
        "host": HostSample(
            at=at, cpu_pct=chance.uniform(20, 60), memory_used_bytes=10**11, memory_total_bytes=10**12,
            disk_free_bytes=10**12, disk_total_bytes=10**13, shm_free_bytes=10**11, shm_total_bytes=10**11,
        ),
        "server": ServerSample(at=at, servers=servers),
        "daemon": Heartbeat(
            at=at, mono=mono, boot_id=boot_id(), pid=os.getpid(), state="running", reason=None,
            concurrency=sum(in_flight.values()), in_flight=in_flight, waiting_retry={}, since_progress_s=0.0,
            oldest_request_s=chance.uniform(10, 30),
        ),
    }  # fmt: skip
    for kind, record in records.items():
        with run.telemetry_file(kind).open("ab") as file:
            file.write(encode_line(record))


def main() -> None:
    run, rate, seconds, log = RunDir(Path(sys.argv[1])), float(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    lock = os.open(run.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    info = DaemonInfo(pid=os.getpid(), start_time=process_start(os.getpid()), boot_id=boot_id(), since=time.time())
    run.daemon_info.write_bytes(msgspec.json.encode(info))
    chance = random.Random(1)
    bodies = [(tokens, some_ids(chance, tokens)) for tokens in (chance.randrange(1000, 2000) for _ in range(40))]
    files = [run.dataset(name_of(number)).responses.open("ab", buffering=0) for number in range(DATASETS)]
    begun = time.monotonic()
    written, next_readings = 0, begun
    with log.open("w") as said:
        while (now := time.monotonic()) < begun + seconds:
            if now >= next_readings:
                in_flight = {name_of(number): chance.randint(6, 10) for number in range(DATASETS)}
                readings(run, time.time(), now, chance, in_flight)
                next_readings += READINGS_S
            due = int((now - begun) * rate)
            for index in range(written, due):
                tokens, ids = bodies[chance.randrange(len(bodies))]
                files[index % DATASETS].write(answer(index // DATASETS, ids, tokens, time.time()))
            if due > written:
                written = due
                said.write(f"{time.monotonic():.4f} {written}\n")
                said.flush()
            time.sleep(BATCH_S)


if __name__ == "__main__":
    main()
