"""Events for one follower: taken as they come, kept in a bounded queue, written as fast as the follower reads."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from contracts.records import Event, Severity, encode_line

QUEUE: Final = 1000
"""Events that wait for a slow follower; what comes while it is full is dropped, and the follower is told how many."""


class Follower:
    """One connection that follows events.

    Args:
        writer: The connection.
        limit: Most events that wait.
    """

    def __init__(self, writer: asyncio.StreamWriter, limit: int = QUEUE) -> None:
        self._writer = writer
        self._limit = limit
        self._waiting: deque[Event] = deque()
        self._dropped = 0
        self._over = False
        self._wake = asyncio.Event()

    async def run(self, events: AsyncIterator[Event], reader: asyncio.StreamReader) -> None:
        """Write events until they end or the follower leaves; never lets their source wait."""
        taking = asyncio.ensure_future(self._take(events))
        ends = {asyncio.ensure_future(self._write()), asyncio.ensure_future(_left(reader))}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (taking, *ends):
                task.cancel()
            ended = await asyncio.gather(taking, *ends, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                raise outcome

    async def _take(self, events: AsyncIterator[Event]) -> None:
        try:
            async for event in events:
                if len(self._waiting) >= self._limit:
                    self._dropped += 1
                else:
                    self._waiting.append(event)
                self._wake.set()
        finally:
            self._over = True
            self._wake.set()

    async def _write(self) -> None:
        while not self._over or self._waiting:
            await self._wake.wait()
            self._wake.clear()
            await self._flush()

    async def _flush(self) -> None:
        while self._waiting:
            self._writer.write(encode_line(self._waiting.popleft()))
            if self._dropped and not self._waiting:
                self._writer.write(encode_line(_dropped(self._dropped)))
                self._dropped = 0
            await self._writer.drain()


async def _left(reader: asyncio.StreamReader) -> None:
    """Return when the follower closes its end; what it still sends is not read as commands."""
    while await reader.read(1 << 16):
        pass


def _dropped(count: int) -> Event:
    return Event(
        at=time.time(),
        severity=Severity.WARNING,
        kind="control.dropped",
        message=f"{count:,} events are left out here: they came faster than this follower reads; events.jsonl has all",
        data={"dropped": count},
    )
