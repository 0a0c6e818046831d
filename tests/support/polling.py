"""Waiting for what other processes do: ask again until it is so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_S = 0.02


def wait_for(ask: Callable[[], T], told: Callable[[], str] = str, *, seconds: float = 20.0) -> T:
    """Ask until the answer is true, and return it.

    Args:
        ask: What is waited for.
        told: What the person is shown where it does not come.
        seconds: So long at most: far longer than it takes on a busy machine.
    """
    end = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < end, f"not within {seconds:g} s:\n{told()}"
        time.sleep(PAUSE_S)
    return answer
