"""The environment in which every screen looks the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contracts.clock import Clock
from contracts.status import RunStatus
from eagle3_tui.app import Eagle3App
from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.samples import NOW, FakeMonitor, FakeSender

CASES = Path(__file__).parents[1] / "fixtures" / "cases"


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No colour switches, no Textual switches, UTC."""
    for name in list(os.environ):
        if (name.startswith("TEXTUAL") and not name.startswith("TEXTUAL_SNAPSHOT")) or name in (
            "NO_COLOR",
            "COLUMNS",
            "LINES",
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def standing_clock() -> Clock:
    """A clock on which nothing grows old."""
    return Clock(wall=lambda: NOW, monotonic=lambda: 0.0)


AppMaker = Callable[..., Eagle3App]


@pytest.fixture
def make_app() -> AppMaker:
    """An app over a status, with a sender that remembers; both are its attributes' values in the tests."""

    def make(
        status: RunStatus,
        *,
        source: FakeMonitor | None = None,
        sender: FakeSender | None = None,
        capabilities: Capabilities | None = None,
        read_only: bool = False,
    ) -> Eagle3App:
        return Eagle3App(
            source or FakeMonitor(status),
            sender or FakeSender(),
            capabilities=capabilities or Capabilities(),
            read_only=read_only,
            clock=standing_clock(),
        )

    return make
