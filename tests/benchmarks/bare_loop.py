"""The baseline of the driver: aiohttp and uvloop, the same requests, nothing parsed, nothing kept.

``python -m tests.benchmarks.bare_loop URL PROMPTS_FILE IN_FLIGHT [RATE]``. With RATE: so many requests a second instead
of as many as fit. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import uvloop

SAMPLING = b'{"temperature":0.6,"max_new_tokens":1500}'


def bodies(prompts: Path) -> Iterator[bytes]:
    for number, line in enumerate(prompts.read_bytes().splitlines()):
        ids = line[line.find(b"[") : line.find(b"]") + 1]
        yield b'{"rid":"bare.%016x","input_ids":%b,"sampling_params":%b}' % (number, ids, SAMPLING)


async def run(url: str, prompts: Path, in_flight: int) -> None:
    todo = bodies(prompts)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def worker() -> None:
            for body in todo:
                async with session.post(f"{url}/generate", data=body) as response:
                    await response.read()

        print("start", flush=True)
        await asyncio.gather(*(worker() for _ in range(in_flight)))


if __name__ == "__main__":
    began = time.perf_counter()
    uvloop.run(run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
    print(json.dumps({"wall_s": time.perf_counter() - began}))
