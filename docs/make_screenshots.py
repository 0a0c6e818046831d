"""Draws docs/images/tui.svg: the real app over the tests' sample of a run on eight GPUs.

Run it in the repository root after a change of the screen: ``.venv/bin/python -m docs.make_screenshots``.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

from contracts.clock import Clock
from contracts.records import Event, Severity
from eagle3_tui.app import Eagle3App
from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.samples import NOW, FakeMonitor, FakeSender, alert, server, storing
from tests.eagle3_tui.screens.support import shown

IMAGES = Path(__file__).parent / "images"
SIZE = (120, 36)

LENGTH_SHARE = alert(
    "length_share",
    Severity.WARNING,
    "B2_magicoder: 64 of 500 recent outcomes (12.8 %) end by length, limit 10 %",
    dataset="B2_magicoder",
    advice="Raise [sampling] max_new_tokens, or accept cut answers and raise [alerts] length_share_pct.",
)
EVENTS = [
    Event(at=NOW - 15_120, severity=Severity.INFO, kind="daemon.started", message="daemon 0.1.0 started, pid 4242"),
    Event(
        at=NOW - 15_118,
        severity=Severity.INFO,
        kind="server.up",
        message="http://127.0.0.1:30000 is ready: SGLang 0.5.23, Kimi-K2.5",
    ),
    Event(
        at=NOW - 9_000,
        severity=Severity.INFO,
        kind="control.set",
        message="concurrency: 256",
    ),
    Event(
        at=NOW - 4_000,
        severity=Severity.CRITICAL,
        kind="server.down",
        message="http://127.0.0.1:30000 is down: Connection refused",
    ),
    Event(
        at=NOW - 3_650,
        severity=Severity.INFO,
        kind="server.up",
        message="http://127.0.0.1:30000 is back: SGLang 0.5.23, Kimi-K2.5",
    ),
    Event(
        at=NOW - 240,
        severity=Severity.WARNING,
        kind="alert.raised",
        message=LENGTH_SHARE.message,
    ),
]


async def draw(path: Path) -> None:
    """Write one image of the main screen."""
    status = storing(alerts=[LENGTH_SHARE], servers=[server(model="Kimi-K2.5")])
    app = Eagle3App(
        FakeMonitor(status, EVENTS),
        FakeSender(),
        capabilities=Capabilities(),
        clock=Clock(wall=lambda: NOW, monotonic=lambda: 0.0),
    )
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot)
        image = app.export_screenshot(title="eagle3 tui")
    # Fonts from another host would be fetched by whoever looks at the image: a local one will do.
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", image, flags=re.DOTALL), encoding="utf-8")


def main() -> None:
    """Draw all images."""
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        os.environ.pop(name, None)
    os.environ["TZ"] = "UTC"
    time.tzset()
    IMAGES.mkdir(exist_ok=True)
    asyncio.run(draw(IMAGES / "tui.svg"))


if __name__ == "__main__":
    main()
