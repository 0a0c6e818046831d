"""A tick sends the cells that changed."""

from __future__ import annotations

from typing import Any

import pytest
from textual.geometry import Region

from eagle3_tui.feed.state import View
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.table import DatasetTable
from tests.eagle3_tui.conftest import AppMaker
from tests.eagle3_tui.samples import dataset, many_datasets, running
from tests.eagle3_tui.screens.support import shown


def record_refreshes(monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> list[Region | None]:
    """Every region that is refreshed from now on; None for a whole widget."""
    seen: list[Region | None] = []

    def refresh(self: Any, *regions: Region, **_more: Any) -> Any:
        seen.extend(regions or [None])
        return self

    monkeypatch.setattr(kind, "refresh", refresh)
    return seen


async def test_one_changed_figure_is_one_region(make_app: AppMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    before = running(datasets=[dataset("a"), dataset("b"), dataset("c")])
    after = running(datasets=[dataset("a"), dataset("b", done=7_413), dataset("c")])
    after.totals = before.totals
    app = make_app(before)
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        seen = record_refreshes(monkeypatch, DatasetTable)
        app.screen.query_one(DatasetTable).show(View(after))
        assert len(seen) == 1
        region = seen[0]
        assert region is not None
        assert (region.y, region.height) == (2, 1)
        assert region.width < 20


async def test_the_same_again_sends_nothing_anywhere(make_app: AppMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(running())
    async with app.run_test(size=(120, 36)) as pilot:
        await shown(pilot)
        table, lines = record_refreshes(monkeypatch, DatasetTable), record_refreshes(monkeypatch, Canvas)
        view = app.feed.view()
        app._run_screen.show(View(running(), view.events))
        assert (table, lines) == ([], [])


async def test_rows_out_of_sight_send_nothing(make_app: AppMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = many_datasets(), many_datasets()
    after.datasets[29].done += 1
    app = make_app(before)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        seen = record_refreshes(monkeypatch, DatasetTable)
        app.screen.query_one(DatasetTable).show(View(after))
        assert seen == []


async def test_another_data_set_repaints_all(make_app: AppMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(running(datasets=[dataset("a")]))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        seen = record_refreshes(monkeypatch, DatasetTable)
        app.screen.query_one(DatasetTable).show(View(running(datasets=[dataset("a"), dataset("b")])))
        assert None in seen
