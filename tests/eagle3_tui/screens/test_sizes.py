"""Any size a terminal may report: no exception, whole lines, the most important to the last."""

from __future__ import annotations

import msgspec
import pytest

from contracts.status import RunStatus
from eagle3_tui.app import Eagle3App
from eagle3_tui.feed.state import View
from eagle3_tui.terminal import Capabilities
from eagle3_tui.text import cell_width
from tests.eagle3_tui.conftest import AppMaker, standing_clock
from tests.eagle3_tui.recorded import Recorded
from tests.eagle3_tui.samples import NOW, SCENES, FakeSender, running
from tests.eagle3_tui.scenes import ALL_SCENES
from tests.eagle3_tui.screens.support import shown, text_of, with_history

SWEEP = [
    (0, 0), (1, 1), (20, 5), (10, 3), (39, 12), (40, 11), (40, 12), (41, 200), (53, 17), (79, 23), (80, 24), (100, 30),
    (119, 30), (120, 30), (150, 36), (179, 50), (180, 50), (200, 60), (300, 12), (300, 100), (80, 24),
]  # fmt: skip


class Moving(Recorded):
    """A run that goes on: every reading finds it changed."""

    def refresh(self) -> RunStatus:
        self.status = msgspec.structs.replace(self.status, at=self.status.at + 1.0)
        for data in (*self.status.datasets, self.status.totals):
            data.done += 7
            data.completion_tokens = None if data.completion_tokens is None else data.completion_tokens + 7_919
        self.events = [*self.events[1:], msgspec.structs.replace(self.events[0], at=self.status.at)]
        return self.status


@pytest.mark.parametrize(
    ("scene", "start"), [("stalled", (0, 0)), ("hundred", (1, 1)), ("wide_run", (20, 5)), ("start", (0, 0))]
)
async def test_resize_sweep(scene: str, start: tuple[int, int]) -> None:
    source = Moving(ALL_SCENES[scene]())
    app = Eagle3App(source, FakeSender(), capabilities=Capabilities(), history=True, clock=standing_clock())
    async with app.run_test(size=start) as pilot:
        await shown(pilot)
        for width, height in SWEEP:
            await pilot.resize_terminal(width, height)
            await app.feed.read()
            app._show()
            await pilot.pause()
            lines = text_of(app)
            assert {cell_width(line) for line in lines} <= {width}
            said = "\n".join(lines)
            if width >= 40 and height >= 12:
                assert "leave" in lines[-1], (width, height)
            elif width >= 20:
                assert "needs 40x12" in said, (width, height)
        assert "stalled" in text_of(app)[0] or scene != "stalled"
        done = app.feed.view().status
        assert done is not None
        assert done.at > NOW + len(SWEEP)
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


@pytest.mark.parametrize(
    ("size", "region"), [((120, 36), (62, 19, 58, 10)), ((100, 36), (0, 23, 100, 6)), ((80, 24), (0, 0, 0, 0))]
)
async def test_the_history_is_beside_the_gpus_or_below(
    make_app: AppMaker, size: tuple[int, int], region: tuple[int, int, int, int]
) -> None:
    app = with_history(make_app(running()))
    async with app.run_test(size=size) as pilot:
        await shown(pilot)
        assert app.screen.query_one("#plot").region == region
        gpus = app.screen.query_one("#gpus").region
        assert gpus.height == (8 if size[0] == 120 else 4)


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
        "synth_100k", "● running", "1 warning", "ETA 11:18 tomorrow  (in 13h 05m)", "elapsed 4h 12m", "35 %",
        "tok/s now", "in flight 248/256", "failed 12",
        "unreadable 0", "B1_opencode", "running", "B6_wildchat",
        "7,412/9,000", "GPUs", "94 %", "127.0.0.1:30000", "q leave",
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


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light"])
async def test_only_the_sixteen_colours_of_the_terminal(make_app: AppMaker, theme: str) -> None:
    """Then it suits light and dark terminals alike: nothing is painted over their background."""
    app = make_app(ALL_SCENES["failing"]())
    app.theme = theme
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        styles = {segment.style for strip in app.screen._compositor.render_strips() for segment in strip}
    assert len(styles) > 5
    for style in styles:
        for color in (style.color, style.bgcolor) if style is not None else ():
            assert color is None or color.number is not None or color.is_default, style
