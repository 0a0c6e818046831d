"""The main screen as it was approved by looking at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.conftest import AppMaker
from tests.eagle3_tui.samples import running
from tests.eagle3_tui.scenes import ALL_SCENES
from tests.eagle3_tui.screens.support import shown

Compare = Callable[..., bool]
SIZES = {"80x24": (80, 24), "120x36": (120, 36), "200x50": (200, 50)}
SHOTS = [
    *((scene, "80x24") for scene in ALL_SCENES if scene not in ("cjk", "wide_run")),
    *(
        (scene, "120x36")
        for scene in (
            "start", "running", "paused", "stalled", "server_down", "daemon_gone", "finished", "foreign", "gpus_16",
            "no_gpu", "hundred", "failing", "storing",
        )
    ),
    *((scene, "200x50") for scene in ("stalled", "gpus_16", "hundred", "failing", "wide_run")),
]  # fmt: skip
"""At 200x50 the others show what they do at 120x36, with more room between."""


@pytest.mark.parametrize(("scene", "size"), SHOTS)
def test_scene(snap_compare: Compare, make_app: AppMaker, scene: str, size: str) -> None:
    assert snap_compare(make_app(ALL_SCENES[scene]()), terminal_size=SIZES[size], run_before=shown)


def test_help(snap_compare: Compare, make_app: AppMaker) -> None:
    async def open_help(pilot: Any) -> None:
        await shown(pilot)
        await pilot.press("question_mark")
        await pilot.pause()

    assert snap_compare(make_app(running()), terminal_size=SIZES["80x24"], run_before=open_help)


def test_read_only_foreign_folder(snap_compare: Compare, make_app: AppMaker) -> None:
    app = make_app(ALL_SCENES["foreign"](), read_only=True)
    assert snap_compare(app, terminal_size=SIZES["80x24"], run_before=shown)


def test_cursor_order_and_filter(snap_compare: Compare, make_app: AppMaker) -> None:
    async def arrange(pilot: Any) -> None:
        await shown(pilot)
        screen = pilot.app.screen
        screen.table.sort_by("tok/s")
        screen.filter("running")
        screen.move_cursor(1)
        await pilot.pause()

    assert snap_compare(make_app(ALL_SCENES["hundred"]()), terminal_size=SIZES["120x36"], run_before=arrange)


def test_selected_alert(snap_compare: Compare, make_app: AppMaker) -> None:
    async def up(pilot: Any) -> None:
        await shown(pilot)
        pilot.app.screen.move_cursor(-1)
        await pilot.pause()

    assert snap_compare(make_app(ALL_SCENES["stalled"]()), terminal_size=SIZES["80x24"], run_before=up)


PLAIN = {"ascii": Capabilities(unicode=False), "no_color": Capabilities(color=False), "light": Capabilities(light=True)}


@pytest.mark.parametrize(
    ("plain", "scene", "size"),
    [
        ("ascii", "stalled", "80x24"),
        ("ascii", "failing", "120x36"),
        ("no_color", "stalled", "80x24"),
        ("no_color", "failing", "120x36"),
        ("light", "failing", "120x36"),
    ],
)
def test_plain_terminal(snap_compare: Compare, make_app: AppMaker, plain: str, scene: str, size: str) -> None:
    app = make_app(ALL_SCENES[scene](), capabilities=PLAIN[plain])
    assert snap_compare(app, terminal_size=SIZES[size], run_before=shown)
