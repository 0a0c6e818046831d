"""Any size a terminal may report: no exception, whole lines, the most important to the last."""

from __future__ import annotations

import pytest

from eagle3_tui.feed.state import View
from eagle3_tui.terminal import Capabilities
from tests.eagle3_tui.conftest import AppMaker
from tests.eagle3_tui.samples import SCENES, running
from tests.eagle3_tui.screens.support import shown, text_of

SWEEP = [(0, 0), (1, 1), (20, 5), (200, 60), (10, 3), (80, 24), (40, 12), (39, 12), (41, 200), (300, 12), (80, 24)]


@pytest.mark.parametrize(
    ("scene", "start"),
    [("stalled", (0, 0)), ("cjk", (1, 1)), ("gpus_16", (20, 5)), ("stopped", (0, 0)), ("storing", (1, 1))],
)
async def test_resize_sweep(make_app: AppMaker, scene: str, start: tuple[int, int]) -> None:
    app = make_app(SCENES[scene]())
    async with app.run_test(size=start) as pilot:
        await shown(pilot)
        for width, height in SWEEP:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
        assert app.size == (80, 24)
        assert "stalled" in text_of(app)[0] or scene != "stalled"
    assert app.return_code is None


@pytest.mark.parametrize("unicode", [True, False])
async def test_every_line_is_as_wide_as_the_screen(make_app: AppMaker, unicode: bool) -> None:
    app = make_app(SCENES["cjk"](), capabilities=Capabilities(unicode=unicode))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        for width, height in [(80, 24), (40, 12), (53, 17), (120, 36), (200, 50)]:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            for part in ("header", "table", "gpus", "events", "footer"):
                widget = app.screen.query_one(f"#{part}")
                for y in range(widget.size.height):
                    strip = widget.render_line(y)
                    assert sum(segment.cell_length for segment in strip) == width, (part, y, strip.text)


async def test_small_screen_still_says_how_it_goes(make_app: AppMaker) -> None:
    app = make_app(SCENES["stalled"]())
    async with app.run_test(size=(30, 8)) as pilot:
        await shown(pilot)
        text = "\n".join(text_of(app))
        assert "stalled" in text
        assert "1 critical" in text
        assert "needs 40x12" in text


async def test_all_that_matters_is_on_80x24(make_app: AppMaker) -> None:
    app = make_app(SCENES["warning"]())
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        text = "\n".join(text_of(app))
    for needed in (
        "synth_100k", "● running", "1 warning", "ETA 13h 05m", "35 %", "tok/s now", "in flight 248/256", "failed 12",
        "unreadable 0", "B1_opencode", "B6_wildchat", "7,412/9,000", "GPUs", "94 %", "127.0.0.1:30000", "q leave",
    ):  # fmt: skip
        assert needed in text, needed


async def test_the_store_is_on_80x24_too(make_app: AppMaker) -> None:
    app = make_app(SCENES["storing"]())
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        text = "\n".join(text_of(app))
    for needed in (
        "stored 33,", "2.3 TB", "57 MB/s", "dumps 3.1/16.0 GB", "checks failed 3", "◆ A2_openmath", "41 %",
        "B6_wildchat", "in flight 248/256", "disk free", "q leave",
    ):  # fmt: skip
        assert needed in text, needed


async def test_before_the_first_reading_it_says_so(make_app: AppMaker) -> None:
    app = make_app(running())
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        app._run_screen.show(View())
        await pilot.pause()
        assert "reading the run's files" in text_of(app)[0]
