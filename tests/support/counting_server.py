"""The embedded server without a model, in a process of its own, that writes the rid of every request into a file.

``python -m tests.support.counting_server RIDS LATENCY SPREAD`` prints its address when it serves.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daemon.embedded.faults import Faults
from daemon.embedded.options import Options
from daemon.embedded.server import EmbeddedServer


class WrittenRids(Counter[str]):
    """Counts rids and writes them down as they come."""

    descriptor = -1

    def update(self, rids: Iterable[str] | None = None, /, **_: Any) -> None:  # type: ignore[override]
        names = list(rids or ())
        super().update(names)
        if names:
            os.write(self.descriptor, "".join(f"{name}\n" for name in names).encode())


async def serve(path: str, latency: float, spread: float) -> None:
    options = Options(no_model=True, fixed_length=20, faults=Faults(latency=latency, latency_spread=spread))
    async with EmbeddedServer(options) as server:
        rids = WrittenRids()
        rids.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        server.requests_seen.rids = rids
        print(server.url, flush=True)
        await asyncio.Event().wait()


@contextmanager
def counting_server(rids: Path, latency: float, spread: float) -> Iterator[str]:
    """Serve until the block ends; yields the address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.counting_server", str(rids), str(latency), str(spread)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
