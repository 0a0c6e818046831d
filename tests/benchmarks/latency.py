"""What the daemon adds to an answer's time at 200 requests a second, against a bare loop at the same rate.

The server answers after exactly its delay; ``finished_at - started_at`` of the records is what the driver saw.
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
REQUESTS = 4_000


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


async def bare(url: str, prompts: Path) -> list[float]:
    """Send at the rate, parse nothing; return the seconds of each answer."""
    took: list[float] = []
    async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:

        async def one(body: bytes) -> None:
            began = time.perf_counter()
            async with session.post(f"{url}/generate", data=body) as response:
                await response.read()
            took.append(time.perf_counter() - began)

        tasks = []
        for body in bodies(prompts):
            tasks.append(asyncio.create_task(one(body)))
            await asyncio.sleep(1 / RATE)
        await asyncio.gather(*tasks)
    return took


def daemon(url: str, folder: Path) -> list[float]:
    """Run the daemon with as many in flight as give the rate; return the seconds of each answer."""
    write_run(folder, url, int(RATE * DELAY_S))
    subprocess.run([sys.executable, "-m", "daemon", "run", str(folder)], check=True)
    records = (folder / "prepared" / "B1" / "raw_responses.jsonl").read_bytes().splitlines()
    return [(record := json.loads(line))["finished_at"] - record["started_at"] for line in records]


def report() -> str:
    """Return the table."""
    with tempfile.TemporaryDirectory() as name, bare_server() as url:
        prompts = Path(name) / "prepared" / "B1" / "prompts.jsonl"
        write_prompts(prompts, REQUESTS)
        measured = {"bare loop": uvloop.run(bare(url, prompts)), "daemon": daemon(url, Path(name))}
    lines = [f"| at {RATE} req/s | answers | median over the server's own ms | p99 over it ms |", "|---|---|---|---|"]
    for who, took in measured.items():
        over = [(seconds - DELAY_S) * 1000 for seconds in took]
        lines.append(f"| {who} | {len(over)} | {percentile(over, 0.5):.1f} | {percentile(over, 0.99):.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
