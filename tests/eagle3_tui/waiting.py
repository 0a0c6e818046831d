"""Waiting for something that has no event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def eventually(true: Callable[[], bool]) -> None:
    """Let the loop run until something holds; the test's own time limit ends a wait for what never comes."""
    while not true():  # noqa: ASYNC110 - the test asks from outside
        await asyncio.sleep(0.005)
