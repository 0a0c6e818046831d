"""A list of thousands draws what is in sight, sends what changed, and keeps its cursor where the person put it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App, ComposeResult
from textual.geometry import Region

from eagle3_tui.terminal import Capabilities
from eagle3_tui.text import cell_width
from eagle3_tui.widgets.listing import ListColumn, Listing
from eagle3_tui.widgets.look import look_for

LOOK = look_for(Capabilities())
Item = tuple[int, str]


class Counted:
    """Counts how many cells are drawn."""

    def __init__(self) -> None:
        self.drawn = 0

    def columns(self) -> list[ListColumn[Item]]:
        def name(item: Item, now: float, look: object) -> tuple[str, object]:
            self.drawn += 1
            return item[1], LOOK.plain

        return [
            ListColumn("no", 5, lambda item, now, look: (str(item[0]), look.plain), right=True),
            ListColumn("name", 10, name, grows=True),  # type: ignore[arg-type]
            ListColumn("more", 20, lambda item, now, look: ("x", look.plain), rank=1),
        ]


class ListApp(App[None]):
    CSS = "Listing { width: 100%; height: 100%; }"

    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self.listing: Listing[Item] = Listing(LOOK, counted.columns(), lambda item: item[0], empty="nothing", id="list")

        self.chosen = 0

    def compose(self) -> ComposeResult:
        yield self.listing

    def on_listing_chosen(self) -> None:
        self.chosen += 1


def rows(listing: Listing[Item]) -> list[str]:
    return [listing.render_line(y).text for y in range(listing.size.height)]


def many(count: int) -> Sequence[Item]:
    return [(number, f"name {number}") for number in range(count)]


async def test_only_what_is_in_sight_is_drawn() -> None:
    counted = Counted()
    app = ListApp(counted)
    async with app.run_test(size=(40, 11)):
        counted.drawn = 0
        app.listing.put(many(100_000), 0.0)
        assert counted.drawn == 10
        app.listing.move_to_end(1)
        assert counted.drawn == 20
        lines = rows(app.listing)
    assert "99,991-100,000/100,000" in lines[0]
    assert "name 99999" in lines[-1]


async def test_the_place_in_the_list_leaves_titles_whole_or_out() -> None:
    app = ListApp(Counted())
    async with app.run_test(size=(40, 11)):
        app.listing.put(many(100_000), 0.0)
        for last, titles in ((10, "no name more"), (1_000, "no name"), (100_000, "no name")):
            app.listing.go_to(last - 1)
            title = app.listing.render_line(0).text
            assert title.split()[:-1] == titles.split()
            assert title.endswith(f"{last - 9:,}-{last:,}/100,000{LOOK.signs.more}")
            assert cell_width(title) == 40


async def test_a_changed_item_is_one_region() -> None:
    app = ListApp(Counted())
    async with app.run_test(size=(40, 11)):
        app.listing.put(many(50), 0.0)
        seen: list[Region] = []
        app.listing.refresh = lambda *regions, **more: seen.extend(regions) or app.listing  # type: ignore[method-assign]
        app.listing.put(many(50), 0.0)
        assert seen == []
        app.listing.put([*many(4), (4, "name X"), *many(50)[5:]], 0.0)
    assert [(region.y, region.height) for region in seen] == [(5, 1)]
    assert seen[0].width < 6


async def test_the_cursor_stays_with_its_item_but_on_top_it_follows() -> None:
    app = ListApp(Counted())
    async with app.run_test(size=(40, 11)):
        app.listing.put([(1, "a"), (2, "b"), (3, "c")], 0.0)
        app.listing.put([(0, "new"), (1, "a"), (2, "b"), (3, "c")], 0.0)
        assert app.listing.selected == (0, "new")
        app.listing.move(2)
        app.listing.put([(9, "newer"), (0, "new"), (1, "a"), (2, "b"), (3, "c")], 0.0)
        assert app.listing.selected == (2, "b")
        app.listing.put([(9, "newer")], 0.0)
        assert app.listing.selected == (9, "newer")
        app.listing.put([], 0.0)
        assert app.listing.selected is None
        assert "nothing" in rows(app.listing)[1]


async def test_columns_go_by_rank_and_wide_text_keeps_them_in_line() -> None:
    app = ListApp(Counted())
    async with app.run_test(size=(30, 5)) as pilot:
        app.listing.put([(1, "日本語データセットの名前はとても長い"), (2, "\x1b[31m"), (3, "é e\u0301")], 0.0)
        lines = rows(app.listing)
        assert "more" not in lines[0]
        assert {cell_width(line) for line in lines} == {30}
        assert "^[[31m" in lines[2]
        await pilot.resize_terminal(60, 5)
        await pilot.pause()
        assert "more" in rows(app.listing)[0]


async def test_a_click_selects_and_a_second_one_chooses() -> None:
    app = ListApp(Counted())
    async with app.run_test(size=(40, 11)) as pilot:
        app.listing.put(many(5), 0.0)
        await pilot.click("#list", offset=(3, 3))
        assert app.listing.selected == (2, "name 2")
        assert app.chosen == 0
        await pilot.click("#list", offset=(3, 3))
        await pilot.pause()
        assert app.chosen == 1
