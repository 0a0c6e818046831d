"""The main screen as it was approved by looking at it: every state at three sizes, the history in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion

from eagle3_tui.app import Eagle3App
from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.conftest import AppMaker, standing_clock
from tests.eagle3_tui.recorded import Recorded
from tests.eagle3_tui.samples import FakeSender, running
from tests.eagle3_tui.scenes import ALL_SCENES
from tests.eagle3_tui.screens.support import shown, until

Compare = Callable[..., bool]
SIZES: Final = {"80x24": (80, 24), "120x36": (120, 36), "200x50": (200, 50)}
PLAIN: Final = {
    "ascii": Capabilities(unicode=False),
    "no_color": Capabilities(color=False),
    "light": Capabilities(light=True),
}
SHOTS: Final = [
    *((scene, "", False) for scene in ALL_SCENES if scene not in ("warning", "cjk")),
    ("foreign", "", True),
    *((scene, plain, False) for plain in PLAIN for scene in ("stalled", "failing")),
]
NO_HISTORY: Final = ("start",)
"""Nothing was finished in it yet."""


@pytest.mark.parametrize(
    ("scene", "plain", "read_only"),
    SHOTS,
    ids=["-".join(filter(None, (scene, plain, "read_only" * read_only))) for scene, plain, read_only in SHOTS],
)
async def test_scene(snapshot: SnapshotAssertion, scene: str, plain: str, read_only: bool) -> None:
    source = Recorded(ALL_SCENES[scene]())
    source.unicode, source.has_history = plain != "ascii", scene not in NO_HISTORY
    capabilities = PLAIN.get(plain, Capabilities())
    app = Eagle3App(
        source, FakeSender(), capabilities=capabilities, read_only=read_only, clock=standing_clock(), history=True
    )
    async with app.run_test(size=SIZES["80x24"]) as pilot:
        await shown(pilot)
        for name, size in SIZES.items():
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await until(pilot, lambda: not any(worker.group == "history" for worker in app.workers))
            await pilot.pause()
            assert app.export_screenshot() == snapshot(name=name, extension_class=SVGImageExtension)


def test_help(snap_compare: Compare, make_app: AppMaker) -> None:
    async def open_help(pilot: Any) -> None:
        await shown(pilot)
        await pilot.press("question_mark")
        await pilot.pause()

    assert snap_compare(make_app(running()), terminal_size=SIZES["80x24"], run_before=open_help)


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
