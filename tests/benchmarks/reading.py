"""Counting response files with deduplication, against json.loads of every line and against ``wc -l``."""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

IDS = 1500
ROUNDS = 7


def write_responses(path: Path, number: int) -> None:
    """Write records as the daemon does: about 9.8 kB each."""
    chance = random.Random(1)
    bodies = [b"[" + b",".join(b"%d" % chance.randrange(160_000) for _ in range(IDS)) + b"]" for _ in range(50)]
    with path.open("wb") as file:
        for index in range(number):
            file.write(
                b'{"sample_id":"oci-%07d","prompt_tokens":%d,"completion_tokens":%d,"finish_reason":"stop",'
                b'"output_ids":%b,"finished_at":%.6f,"started_at":1796045640.25,"rid":"e3.0123456789abcdef.%x",'
                b'"server":"http://127.0.0.1:30000","attempt":1,"matched":151645,"cached_tokens":0,'
                b'"e2e_latency_s":23.118,"schema":1}\n'
                % (index, chance.randrange(50, 900), IDS, bodies[index % 50], 1796045653 + index * 0.01, index)
            )


def seconds(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median of some rounds."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


FOLD = """
import resource, sys, time
from pathlib import Path
from contracts.fold.responses import ResponseFold
from contracts.journal.tail import Tail
path, rounds = Path(sys.argv[1]), int(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
took = []
for _ in range(rounds):
    fold = ResponseFold()
    began = time.perf_counter()
    Tail(path).poll(fold)
    took.append(time.perf_counter() - began)
assert not fold.unreadable.count and not fold.contradictions.count
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(sorted(took)[rounds // 2], len(fold.done), fold.completion_tokens, (after - before) // 1024)
"""


def measure_fold(path: Path, rounds: int) -> tuple[float, int, int, int]:
    """Return (seconds, samples, tokens, MiB of memory beyond the imports), in a process of its own."""
    command = [sys.executable, "-c", FOLD, str(path), str(rounds)]
    words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(words[0]), int(words[1]), int(words[2]), int(words[3])


def json_loads_every_line(path: Path) -> int:
    """The way everybody begins: with a set for deduplication."""
    seen, tokens = set(), 0
    with path.open("rb") as file:
        for line in file:
            record = json.loads(line)
            if record["sample_id"] not in seen:
                seen.add(record["sample_id"])
                tokens += record["completion_tokens"]
    return tokens


def report() -> str:
    """Return the table."""
    lines = [
        "| file | records | x json.loads | x wc -l | GB/s | memory MiB |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        for number, rounds in ((20_000, ROUNDS), (300_000, 3)):
            path = Path(name) / "raw_responses.jsonl"
            write_responses(path, number)
            size = path.stat().st_size
            own, samples, tokens, memory = measure_fold(path, rounds)
            assert (samples, tokens) == (number, number * IDS)
            counted = seconds(
                lambda path=path: subprocess.run(["wc", "-l", path], check=True, capture_output=True), rounds
            )
            if number == 20_000:
                slow = seconds(lambda path=path: json_loads_every_line(path), 1) / size
            lines.append(
                f"| {size / 1e9:.1f} GB | {number:,} | {slow * size / own:.0f} | {counted / own:.2f} | "
                f"{size / own / 1e9:.1f} | {memory} |"
            )
            path.unlink()
    return "\n".join(lines)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(report())
