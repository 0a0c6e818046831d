from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_tui.screens.layout import Needs, gpu_rows, gpus_width, has_plot, share_out

NEEDS = st.builds(
    Needs,
    header=st.integers(3, 5),
    alerts=st.integers(0, 30),
    brief=st.integers(0, 30),
    urgent=st.integers(0, 30),
    table=st.integers(2, 60),
    gpus=st.integers(1, 16),
    servers=st.integers(0, 10),
    figures=st.integers(0, 20),
    stores=st.booleans(),
    plot=st.booleans(),
    beside=st.booleans(),
)


@given(st.integers(12, 120), NEEDS)
def test_every_line_is_given_out_and_none_twice(height: int, needs: Needs) -> None:
    got = share_out(height, needs)
    assert got.used() == height
    assert got.header == needs.header
    assert got.table >= min(needs.table, 4)
    assert got.events >= 0
    assert (got.alerts > 0) == (needs.alerts > 0)
    assert got.gpus in (1, needs.gpus)
    assert got.plot == 0 or (needs.plot and got.plot >= 6)
    assert got.alerts <= max(height // 3, 1)


@given(st.integers(0, 12), NEEDS)
def test_too_few_lines_take_from_the_events(height: int, needs: Needs) -> None:
    got = share_out(height, needs)
    assert got.events >= 0
    assert got.events == 0 or got.used() == height


def test_80x24_shows_ten_data_sets_servers_and_two_events() -> None:
    got = share_out(24, Needs(header=3, alerts=0, brief=0, urgent=0, table=12, gpus=4, servers=2))
    assert (got.table, got.servers, got.events) == (12, 2, 2)


def test_where_something_is_stored_the_disk_comes_before_the_grid() -> None:
    needs = Needs(header=4, alerts=0, brief=0, urgent=0, table=12, gpus=4, servers=2)
    assert (share_out(24, needs).servers, share_out(24, needs).gpus) == (1, 4)
    got = share_out(24, replace(needs, stores=True))
    assert (got.table, got.servers, got.gpus) == (12, 2, 1)


def test_data_sets_come_before_advice_and_grid() -> None:
    got = share_out(24, Needs(header=4, alerts=4, brief=4, urgent=0, table=30, gpus=4, servers=2))
    assert (got.alerts, got.gpus, got.rules) == (1, 1, False)
    assert got.table == 24 - 4 - 1 - 1 - 1 - 2 - 1


def test_what_to_do_about_a_critical_alert_comes_before_data_sets() -> None:
    got = share_out(24, Needs(header=4, alerts=7, brief=7, urgent=5, table=30, gpus=4, servers=2))
    assert (got.alerts, got.table) == (5, 10)


def test_a_high_screen_keeps_the_grid_however_many_data_sets() -> None:
    got = share_out(36, Needs(header=3, alerts=2, brief=2, urgent=0, table=60, gpus=4, servers=2))
    assert (got.gpus, got.alerts, got.rules, got.events) == (4, 2, True, 5)


def test_advice_of_many_alerts_takes_no_line_from_the_data_sets() -> None:
    needs = Needs(header=3, alerts=12, brief=9, urgent=9, table=12, gpus=4, servers=2)
    got = share_out(36, needs)
    assert (got.alerts, got.table) == (9, 9)
    assert share_out(60, needs).alerts == 12


def test_the_history_has_its_place_on_a_high_screen_only() -> None:
    needs = Needs(header=4, alerts=0, brief=0, urgent=0, table=12, gpus=8, servers=2, plot=True, beside=True)
    beside = share_out(36, needs)
    assert (beside.table, beside.gpus, beside.servers, beside.plot, beside.events) == (12, 8, 2, 9, 5)
    below = share_out(36, replace(needs, beside=False, gpus=2))
    assert (below.table, below.plot, below.middle()) == (12, 7, 9)
    assert share_out(100, needs).plot == 16


@pytest.mark.parametrize(
    ("size", "gpus", "expected"),
    [
        ((80, 24), 8, (False, False)),
        ((120, 29), 8, (False, False)),
        ((100, 36), 8, (True, False)),
        ((120, 36), 8, (True, True)),
        ((120, 36), 0, (True, False)),
        ((179, 50), 8, (True, True)),
        ((180, 50), 8, (True, False)),
        ((300, 100), 16, (True, False)),
    ],
)
def test_where_the_history_is(size: tuple[int, int], gpus: int, expected: tuple[bool, bool]) -> None:
    assert has_plot(*size, gpus, wanted=True) == expected
    assert has_plot(*size, gpus, wanted=False) == (False, False)


@given(st.integers(120, 300), st.integers(4, 16))
def test_gpus_leave_room_for_the_history(width: int, gpus: int) -> None:
    assert gpus_width(width, gpus, beside=True) <= width - 34
    assert gpus_width(width, gpus, beside=False) == width


@pytest.mark.parametrize(
    ("width", "gpus", "beside", "rows"),
    [(120, 16, True, 8), (80, 16, False, 4), (200, 8, False, 4), (200, 16, False, 8), (300, 16, False, 6)],
)
def test_lines_of_the_gpus(width: int, gpus: int, beside: bool, rows: int) -> None:
    assert gpu_rows(width, gpus, beside=beside) == rows
