"""Waiting for something that has no event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

LONGEST_S = 40.0
"""Less than a test's own time limit: that cannot end a wait whose callbacks swallow it, as asyncio's do."""


async def _rest() -> None:
    await asyncio.sleep(0.005)


async def eventually(true: Callable[[], bool], rest: Callable[[], Awaitable[None]] = _rest) -> None:
    """Let the loop run until something holds.

    Args:
        true: Whether it does.
        rest: What is awaited between two looks.

    Raises:
        AssertionError: It does not.
    """
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < LONGEST_S, "what is waited for does not come"
        await rest()
