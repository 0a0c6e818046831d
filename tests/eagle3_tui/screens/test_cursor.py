"""The cursor, the order and the filter of the main screen."""

from __future__ import annotations

import pytest
from textual.events import Key
from textual.geometry import Region
from textual.pilot import Pilot

from eagle3_tui.feed.state import View
from eagle3_tui.screens.run import RunScreen
from eagle3_tui.widgets.table import DatasetTable
from eagle3_tui.widgets.target import Target
from tests.eagle3_tui.conftest import AppMaker
from tests.eagle3_tui.samples import LENGTH_ALERT, NO_PROGRESS, FakeSender, dataset, running
from tests.eagle3_tui.scenes import hundred
from tests.eagle3_tui.screens.support import part_text, shown, text_of


def run_screen(pilot: Pilot[int]) -> RunScreen:
    screen = pilot.app.screen
    assert isinstance(screen, RunScreen)
    return screen


def rows(pilot: Pilot[int]) -> list[str]:
    """The names in sight."""
    screen = run_screen(pilot)
    return [name for y in range(screen.table.size.height) if (name := screen.table.name_at(y)) is not None]


async def test_up_from_the_first_data_set_are_the_alerts(make_app: AppMaker) -> None:
    app = make_app(running(alerts=[LENGTH_ALERT, NO_PROGRESS]))
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        screen = run_screen(pilot)
        assert screen.selected == Target("A1_openthoughts")
        screen.move_cursor(1)
        screen.move_cursor(-1)
        screen.move_cursor(-1)
        assert screen.selected == Target("B2_magicoder", LENGTH_ALERT)
        screen.move_cursor(-1)
        screen.move_cursor(-1)
        assert screen.selected == Target(None, NO_PROGRESS)
        screen.move_cursor(2)
        assert screen.selected == Target("A1_openthoughts")
        screen.move_to_end(1)
        assert screen.selected == Target("B6_wildchat")
        screen.move_cursor(1)
        assert screen.selected == Target("B6_wildchat")


async def test_an_alert_that_is_over_gives_the_cursor_back(make_app: AppMaker) -> None:
    app = make_app(running(alerts=[NO_PROGRESS]))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        screen = run_screen(pilot)
        screen.move_cursor(-1)
        assert screen.selected == Target(None, NO_PROGRESS)
        screen.show(View(running()))
        assert screen.selected == Target("A1_openthoughts")
        assert screen.alerts.selected is None


async def test_nothing_to_select(make_app: AppMaker) -> None:
    app = make_app(running(datasets=[dataset("a")]))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        screen = run_screen(pilot)
        screen.filter("b")
        screen.move_cursor(1)
        screen.move_page(-1)
        assert screen.selected is None
        assert "no data set has that" in "\n".join(part_text(app, "table"))


async def test_the_cursor_stays_on_its_data_set_when_the_order_changes(make_app: AppMaker) -> None:
    app = make_app(running())
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        screen = run_screen(pilot)
        screen.move_cursor(5)
        assert rows(pilot)[5] == "B2_magicoder"
        while screen.table.sort.title != "tokens":
            screen.sort_next()
        assert rows(pilot)[:3] == ["B3_metamath", "B1_opencodeinstruct", "B2_magicoder"]
        assert screen.selected == Target("B2_magicoder")
        assert part_text(app, "rule-table")[0].endswith(" by tokens ▼ ─")
        assert "tokens▼" in part_text(app, "table")[0]
        screen.sort_reverse()
        assert rows(pilot)[-1] == "B3_metamath"
        assert "total" in "\n".join(part_text(app, "table")).splitlines()[11]


async def test_the_cursor_is_scrolled_into_sight(make_app: AppMaker) -> None:
    app = make_app(hundred())
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        screen = run_screen(pilot)
        for lines in (1, 30, 60, -17, 99, -99):
            screen.move_cursor(lines)
            await pilot.pause()
            assert screen.selected is not None
            assert screen.selected.dataset in rows(pilot)
        screen.move_to_end(1)
        assert f"/100{screen.table.look.signs.more}" in part_text(app, "table")[0]
        assert rows(pilot)[-1].endswith("第99版")
        screen.filter("第1")
        assert screen.table.count == (11, 100)
        assert rows(pilot)[0].endswith("第1版")


async def test_a_step_of_the_cursor_sends_two_rows(make_app: AppMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(running())
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        seen: list[Region] = []

        def refresh(self: DatasetTable, *regions: Region, **_more: object) -> DatasetTable:
            seen.extend(regions or [self.region])
            return self

        monkeypatch.setattr(DatasetTable, "refresh", refresh)
        run_screen(pilot).move_cursor(3)
        assert sorted(region.y for region in seen) == [1, 4]
        assert {region.height for region in seen} == {1}


async def test_what_is_typed_goes_into_the_filter_and_to_nothing_else(make_app: AppMaker) -> None:
    sender = FakeSender()
    app = make_app(running(), sender=sender)
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        screen = run_screen(pilot)
        screen.begin_filter()
        await pilot.press("p", "q", "backspace", "backspace", "M", "e", "t")
        assert screen.filtering
        assert rows(pilot) == ["B3_metamath"]
        assert "/Met▏ 1/10" in part_text(app, "table")[0]
        assert "total of all" in part_text(app, "table")[2]
        assert " /Met  1 of 10 " in part_text(app, "rule-table")[0]
        assert "Esc shows all" in text_of(app)[-1]
        await pilot.press("enter")
        assert not screen.filtering
        assert (screen.table.wanted, len(rows(pilot))) == ("Met", 1)
        assert "q leave" in text_of(app)[-1]
        assert screen.selected == Target("B3_metamath")
        screen.begin_filter()
        await pilot.press("escape")
        assert (screen.table.wanted, len(rows(pilot))) == ("", 10)
        assert not screen.clear_filter()
        await pilot.press("p")
        await pilot.pause()
    assert [type(command).__name__ for command in sender.sent] == ["Pause"]
    assert app.return_code is None


async def test_keys_that_come_with_the_slash_in_one_piece_are_part_of_the_filter(make_app: AppMaker) -> None:
    """As over a slow SSH connection: none of them pauses the run or leaves."""
    sender = FakeSender()
    app = make_app(running(), sender=sender)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        for name, character in (("slash", "/"), ("p", "p"), ("q", "q")):
            app.post_message(Key(name, character))
        for _ in range(3):
            await pilot.pause()
        assert run_screen(pilot).table.wanted == "pq"
    assert sender.sent == []


async def test_escapes_in_a_pasted_filter_are_shown(make_app: AppMaker) -> None:
    app = make_app(running())
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        screen = run_screen(pilot)
        screen.begin_filter()
        screen.filter("\x1b]0;x\x07 [red]" + "y" * 500)
        assert "^[]0;x^G [red]" in part_text(app, "rule-table")[0]
        assert len(screen.table.wanted) == 60


async def test_the_mouse_sorts_selects_and_opens(make_app: AppMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(running(alerts=[NO_PROGRESS]))
    opened: list[Target] = []

    def on_opened(self: object, message: RunScreen.Opened) -> None:
        opened.append(message.target)

    monkeypatch.setattr(type(app), "on_run_screen_opened", on_opened, raising=False)
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        screen = run_screen(pilot)
        failed = part_text(app, "table")[0].index("failed")
        await pilot.click("#table", offset=(failed + 1, 0))
        assert screen.table.sort.title == "failed"
        assert rows(pilot)[0] == "B2_magicoder"
        await pilot.click("#table", offset=(4, 2))
        assert screen.selected == Target("B1_opencodeinstruct")
        assert opened == []
        await pilot.click("#table", offset=(4, 2))
        await pilot.pause()
        assert opened == [Target("B1_opencodeinstruct")]
        await pilot.click("#alerts", offset=(4, 0))
        assert screen.selected == Target(None, NO_PROGRESS)
        await pilot.click("#header", offset=(4, 0))
        assert screen.selected == Target(None, NO_PROGRESS)
