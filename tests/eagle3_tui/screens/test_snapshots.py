"""The main screen as it was approved by looking at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.conftest import AppMaker
from tests.eagle3_tui.samples import SCENES, running
from tests.eagle3_tui.screens.support import shown

Compare = Callable[..., bool]
SIZES = {"80x24": (80, 24), "120x36": (120, 36), "200x50": (200, 50)}
SHOTS = [
    *((scene, "80x24") for scene in SCENES),
    *((scene, "120x36") for scene in ("running", "stalled", "foreign", "gpus_16", "cjk", "storing")),
    ("gpus_16", "200x50"),
    ("storing", "200x50"),
]


@pytest.mark.parametrize(("scene", "size"), SHOTS)
def test_scene(snap_compare: Compare, make_app: AppMaker, scene: str, size: str) -> None:
    assert snap_compare(make_app(SCENES[scene]()), terminal_size=SIZES[size], run_before=shown)


def test_help(snap_compare: Compare, make_app: AppMaker) -> None:
    async def open_help(pilot: Any) -> None:
        await shown(pilot)
        await pilot.press("question_mark")
        await pilot.pause()

    assert snap_compare(make_app(running()), terminal_size=SIZES["80x24"], run_before=open_help)


def test_read_only(snap_compare: Compare, make_app: AppMaker) -> None:
    assert snap_compare(make_app(running(), read_only=True), terminal_size=SIZES["80x24"], run_before=shown)


@pytest.mark.parametrize(
    "capabilities", [Capabilities(unicode=False), Capabilities(color=False)], ids=["ascii", "no_color"]
)
def test_plain_terminal(snap_compare: Compare, make_app: AppMaker, capabilities: Capabilities) -> None:
    app = make_app(SCENES["stalled"](), capabilities=capabilities)
    assert snap_compare(app, terminal_size=SIZES["80x24"], run_before=shown)
