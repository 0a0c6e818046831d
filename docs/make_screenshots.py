"""Draws docs/images/*.svg: the real app, its keys pressed, over a made run (`docs.screenshot_run`).

Run it in the repository root after a change of a screen: ``.venv/bin/python -m docs.make_screenshots``.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from textual.pilot import Pilot

from contracts.clock import Clock
from contracts.records import Severity
from contracts.status import RunState, RunStatus
from docs.screenshot_run import NAME, RUN, MadeRun, status, write_run
from eagle3_tui.app import Eagle3App
from eagle3_tui.dialogs.dialog import Dialog
from eagle3_tui.screens.detail import DetailScreen
from eagle3_tui.terminal import Capabilities
from eagle3_tui.widgets.gpu_history import KEPT, STEP_S, GpuHistory
from eagle3_tui.widgets.gpus import Gpus
from tests.eagle3_tui.samples import NO_PROGRESS, NOW, FakeSender, alert
from tests.eagle3_tui.screens.support import shown, until

IMAGES: Final = (Path(__file__).parent / "images").absolute()
LARGE: Final = (120, 36)
SMALL: Final = (80, 24)
LENGTH_SHARE: Final = alert(
    "length_share",
    Severity.WARNING,
    f"{NAME}: 64 of 500 recent outcomes (12.8 %) end by length, limit 10 %",
    dataset=NAME,
    advice="Raise [sampling] max_new_tokens, or accept cut answers and raise [alerts] length_share_pct.",
)
_SPACE: Final = "\N{NO-BREAK SPACE}"
_CELL: Final = 12.2
"""Width of a cell in an image."""
_BUSY: Final = ("detail", "body", "moving", "history")
"""Groups of workers that bring something onto the screen."""


@dataclass(frozen=True)
class Shot:
    """One image."""

    name: str
    keys: Sequence[str] = ()
    size: tuple[int, int] = LARGE
    state: RunState = RunState.RUNNING


SHOTS: Final = (
    Shot("tui"),
    Shot("small", size=SMALL),
    Shot("stalled", size=SMALL, state=RunState.STALLED),
    Shot("paused", size=SMALL, state=RunState.PAUSED),
    Shot("dataset", ("slash", *"magic", "enter", "home", "enter")),
    Shot("failures", ("f",), SMALL),
    Shot("attempts", ("f", "enter"), SMALL),
    Shot("sample", ("slash", *"magic", "enter", "home", "enter", "enter"), SMALL),
    Shot("events", ("e",), SMALL),
    Shot("servers", ("v",), SMALL),
    Shot("help", ("question_mark",), SMALL),
    Shot("confirm", ("S",), SMALL),
)


def shown_status(state: RunState) -> RunStatus:
    """Return the run in a state."""
    made = status()
    made.state, made.alerts = state, [LENGTH_SHARE]
    if state is RunState.RUNNING:
        return made
    if state is RunState.PAUSED:
        made.reason, made.alerts = "driver update", []
    else:
        made.reason, made.alerts = "248 requests are open, no answer for 6m 10s", [NO_PROGRESS, LENGTH_SHARE]
    for data in (*made.datasets, made.totals):
        data.eta_s = data.eta_low_s = data.eta_high_s = None
        data.tokens_per_s = None if data.tokens_per_s is None else 0.0
        if data.hidden is not None:
            data.hidden.mb_per_s = 0.0
        if state is RunState.PAUSED:
            data.in_flight = 0
    made.servers[0].tokens_per_s = 0.0
    if state is RunState.PAUSED:
        made.servers[0].running = made.servers[0].queued = made.servers[0].outstanding = 0
    return made


async def settled(pilot: Pilot[int]) -> None:
    """Wait until nothing is being read and everything that was is shown."""
    app = pilot.app
    for _ in range(3):
        await until(pilot, lambda: not isinstance(app.screen, DetailScreen) or app.screen.has_read)
        await until(pilot, lambda: not any(worker.group in _BUSY for worker in app.workers))
        await pilot.pause()


async def draw(folder: Path, shot: Shot) -> None:
    """Write one image."""
    app = Eagle3App(
        MadeRun(folder, shown_status(shot.state)),
        FakeSender(),
        capabilities=Capabilities(),
        history=True,
        clock=Clock(wall=lambda: NOW, monotonic=lambda: 0.0),
    )
    async with app.run_test(size=shot.size) as pilot:
        await shown(pilot)
        fill(app)
        await settled(pilot)
        for key in shot.keys:
            await pilot.press(key)
            await settled(pilot)
        if shot.name in ("help", "confirm"):
            await until(pilot, lambda: isinstance(app.screen, Dialog))
            await settled(pilot)
        image = app.export_screenshot(title="eagle3 tui")
    (IMAGES / f"{shot.name}.svg").write_text(smaller(image), encoding="utf-8")


def fill(app: Eagle3App) -> None:
    """Give the GPUs the history that they would have seen by now."""
    part, chance = app.screen.query_one(Gpus), random.Random(2)
    readings = status().gpus or []
    part.history = GpuHistory()
    for step in range(KEPT):
        at = NOW + (step - KEPT) * STEP_S
        part.history.add(
            at, [msgspec.structs.replace(gpu, utilization_pct=chance.uniform(86.0, 100.0)) for gpu in readings]
        )
    part.show(app.feed.view())


def smaller(image: str) -> str:
    """Return an image without fonts of another host, which whoever looks at it would fetch, and with short names."""
    image = re.sub(r"@font-face \{.*?\}\s*", "", image, flags=re.DOTALL)
    image = re.sub(r"terminal-\d+-", "", image).replace("&#160;", _SPACE)
    image = re.sub(rf'x="([\d.]+)" (y="[\d.]+" textLength=)"([\d.]+)"([^>]*>)({_SPACE}+)(?=[^<])', _begun_later, image)
    return re.sub(r"\n[ \n]+", "\n", image)


def _begun_later(found: re.Match[str]) -> str:
    """A text without the spaces that it begins with: some programs that draw images drop them, and shift the rest."""
    x, length, cells = float(found[1]), float(found[3]), len(found[5])
    return f'x="{x + cells * _CELL:g}" {found[2]}"{length - cells * _CELL:g}"{found[4]}'


def main() -> None:
    """Draw all images."""
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        os.environ.pop(name, None)
    os.environ["TZ"] = "UTC"
    time.tzset()
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # paths on the screen are short, and the same everywhere
        write_run(Path(RUN))
        for shot in SHOTS:
            asyncio.run(draw(Path(RUN), shot))


if __name__ == "__main__":
    main()
