"""Waiting for something that has no event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LONGEST_S = 40.0
"""Less than a test's own time limit: that cannot end a wait whose callbacks swallow it, as asyncio's do."""


async def eventually(true: Callable[[], bool]) -> None:
    """Let the loop run until something holds.

    Raises:
        AssertionError: It does not.
    """
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < LONGEST_S, "what is waited for does not come"
        await asyncio.sleep(0.005)
