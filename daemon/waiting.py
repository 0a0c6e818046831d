"""What the start of a session waits for: lines that reach their files, servers that can be used."""

from __future__ import annotations

import asyncio
from typing import Final

from daemon.condition import Condition
from daemon.servers.pool import ServerPool
from daemon.writer import Writer

FIRST_PROBES_S: Final = 10.0
"""How long the first usable server waits for the others to tell what they take."""


class Waiting:
    """Waits that a drain ends.

    Args:
        writer: Whose lines are waited for.
        pool: Whose servers are.
        condition: Says whether it drains.
    """

    def __init__(self, writer: Writer, pool: ServerPool, condition: Condition) -> None:
        self._writer = writer
        self._pool = pool
        self._condition = condition
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Look again: something changed."""
        self._changed.set()

    async def until_written(self, *, even_draining: bool = False) -> None:
        """Wait until everything that was handed to the writer is in its file; a drain ends it unless told otherwise."""
        while self._writer.unwritten and (even_draining or not self._condition.draining):
            self._changed.clear()
            await self._changed.wait()

    async def until_servers(self) -> None:
        """Wait for a usable server, and then a little for the others: prompts must fit them all."""
        loop = asyncio.get_running_loop()
        patience_ends: float | None = None
        while not self._condition.draining:
            if self._pool.probes:
                now = loop.time()
                patience_ends = now + FIRST_PROBES_S if patience_ends is None else patience_ends
                if self._pool.all_tried or now >= patience_ends:
                    return
            self._changed.clear()
            try:
                async with asyncio.timeout_at(patience_ends):
                    await self._changed.wait()
            except TimeoutError:
                continue
