"""What the daemon adds to an answer's time at 200 requests a second, against a bare loop with as many in flight.

The server's delays vary by half, so that answers do not come in waves, and each answer tells its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import uvloop

from tests.benchmarks.bare_loop import bodies
from tests.benchmarks.driver import DELAY_S, bare_server, write_prompts, write_run

RATE = 200
SPREAD = 0.5
REQUESTS = 4_000


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


async def bare(url: str, prompts: Path) -> list[float]:
    """Keep as many in flight, parse nothing before the clock is stopped; return the seconds over the server's own."""
    over: list[float] = []
    todo = bodies(prompts)
    async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:

        async def worker() -> None:
            for body in todo:
                began = time.perf_counter()
                async with session.post(f"{url}/generate", data=body) as response:
                    content = await response.read()
                took = time.perf_counter() - began
                over.append(took - float(content[content.rfind(b":") + 1 :].rstrip(b"}")))

        await asyncio.gather(*(worker() for _ in range(int(RATE * DELAY_S))))
    return over


def daemon(url: str, folder: Path) -> list[float]:
    """Run the daemon with as many in flight as give the rate; return the seconds over the server's own."""
    write_run(folder, url, int(RATE * DELAY_S))
    subprocess.run([sys.executable, "-m", "daemon", "run", str(folder)], check=True)
    records = map(json.loads, (folder / "prepared" / "B1" / "raw_responses.jsonl").read_bytes().splitlines())
    return [record["finished_at"] - record["started_at"] - record["e2e_latency_s"] for record in records]


def report() -> str:
    """Return the table."""
    with tempfile.TemporaryDirectory() as name, bare_server(spread=SPREAD) as url:
        prompts = Path(name) / "prepared" / "B1" / "prompts.jsonl"
        write_prompts(prompts, REQUESTS)
        measured = {"bare loop": uvloop.run(bare(url, prompts)), "daemon": daemon(url, Path(name))}
    lines = [f"| at {RATE} req/s | answers | median over the server's own ms | p99 over it ms |", "|---|---|---|---|"]
    for who, over in measured.items():
        lines.append(
            f"| {who} | {len(over)} | {1000 * percentile(over, 0.5):.1f} | {1000 * percentile(over, 0.99):.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
