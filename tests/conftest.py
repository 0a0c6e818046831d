"""What every test may leave as it found it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """A session in the test's own process takes what it holds from the collector, for good: here a test's length."""
    threshold = gc.get_threshold()
    yield
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.set_threshold(*threshold)
