"""How a history is drawn; golden files hold what was approved by looking at it. UPDATE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.strip import Strip

from contracts.fold.marks import Mark, MarkKind
from contracts.history import SPANS, Quantity, RunHistory
from eagle3_tui.feed.state import View
from eagle3_tui.terminal import Capabilities
from eagle3_tui.widgets.curve import curve_rows, points_per_cell, scale, tick_rows, time_places
from eagle3_tui.widgets.look import look_for
from eagle3_tui.widgets.plot import HistoryPlot
from eagle3_tui.widgets.plot_lines import _label, curve_cells, plot_lines
from tests.eagle3_tui.samples import NOW, running

GOLDEN = Path(__file__).parents[1] / "golden"
UNICODE, ASCII = look_for(Capabilities()), look_for(Capabilities(unicode=False, color=False))
MARKS = (
    Mark(NOW - 520, MarkKind.PAUSE, "paused: by user"),
    Mark(NOW - 300, MarkKind.RESTART, "restarted"),
    Mark(NOW - 20, MarkKind.ALERT, "B1: 6.4 % of answers stop by length \x1b[31m测试"),
)


def made(cells: int, unicode: bool = True, **over: Any) -> RunHistory:
    """Ten minutes of a wave with a pause and a gap in it."""
    points = cells * points_per_cell(unicode)
    step = 600 / points
    values: list[float | None] = []
    for index in range(points):
        age = 600 - index * step
        is_gap = 440 < age < 520 or 300 < age < 380
        values.append(None if is_gap else 2000 + 900 * math.sin(index * step / 40) + (0 if age > 100 else 700))
    known = [value for value in values if value is not None]
    fields: dict[str, Any] = {
        "quantity": Quantity.TOKENS, "begin": NOW - 600, "step_s": step, "values": tuple(values), "end": NOW,
        "mean": sum(known) / len(known), "most": max(known), "marks": MARKS,
        "choices": (Quantity.TOKENS, Quantity.GPU),
    }  # fmt: skip
    return RunHistory(**(fields | over))


def drawn(found: RunHistory | None, width: int, height: int, look: Any = UNICODE, **over: Any) -> list[str]:
    quantity = found.quantity if found is not None else Quantity.TOKENS
    lines = plot_lines(
        found, over.get("quantity", quantity), over.get("span", 0), width, height, look, over.get("problem")
    )
    return [line.text for line in lines]


@pytest.mark.parametrize(("width", "height"), [(30, 4), (55, 6), (58, 8), (118, 10), (200, 20)])
@pytest.mark.parametrize("kind", ["braille", "ascii"])
def test_golden(width: int, height: int, kind: str) -> None:
    look = UNICODE if kind == "braille" else ASCII
    text = "\n".join(drawn(made(curve_cells(width), look.unicode), width, height, look)) + "\n"
    path = GOLDEN / f"plot-{kind}-{width}x{height}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@given(
    st.integers(30, 200),
    st.integers(4, 20),
    st.booleans(),
    st.lists(st.one_of(st.none(), st.floats(0, 1e12)), max_size=500),
    st.lists(st.tuples(st.floats(-700, 0), st.sampled_from(MarkKind), st.text(max_size=40)), max_size=8),
    st.sampled_from(Quantity),
)
def test_any_history_fills_its_place_exactly(
    width: int,
    height: int,
    unicode: bool,
    values: list[float | None],
    marks: list[tuple[float, MarkKind, str]],
    quantity: Quantity,
) -> None:
    look = UNICODE if unicode else ASCII
    found = made(
        1,
        values=tuple(values),
        step_s=600 / max(len(values), 1),
        quantity=quantity,
        marks=tuple(Mark(NOW + at, kind, text) for at, kind, text in sorted(marks)),
    )
    lines = plot_lines(found, quantity, 0, width, height, look)
    assert len(lines) == height
    for line in lines:
        assert line.cell_length == width == Strip(list(line)).cell_length
        assert "\x1b" not in line.text
        assert unicode or line.text.isascii()


def test_what_is_not_known_is_empty_and_zero_is_a_dot() -> None:
    assert curve_rows([None, 0.0, 1.0, 1.0], 1.0, 2, unicode=True) == [" ⣿", "⢀⣿"]
    assert curve_rows([None, 0.0, 0.25, 0.5, 1.0], 1.0, 1, unicode=False) == [" ..:#"]
    assert curve_rows([0.001, 99.0], 100.0, 3, unicode=False)[-1][0] == "."


@given(st.floats(1e-6, 1e12), st.integers(1, 10))
def test_a_scale_is_round_and_holds_everything(most: float, ticks: int) -> None:
    top, step = scale(most, ticks)
    assert top >= most * (1 - 1e-9)
    assert 1 <= round(top / step) <= ticks
    digits = f"{step:.6e}".split("e")[0].rstrip("0").replace(".", "")
    assert digits in ("1", "2", "25", "5")
    for rows in range(ticks, 21):
        places = tick_rows(top, step, rows)
        assert set(places) <= set(range(rows))
        assert max(places.values()) == pytest.approx(top)


@pytest.mark.parametrize("most", [None, 0.0, math.nan, math.inf])
def test_a_scale_of_nothing(most: float | None) -> None:
    assert scale(most, 3) == (1.0, 1.0)


@given(st.floats(0, 4e9), st.floats(1, 1e5), st.integers(10, 200))
def test_times_do_not_run_into_each_other(begin: float, cell_s: float, cells: int) -> None:
    free = 0
    for start, text in time_places(begin, cell_s, cells):
        assert start >= free
        assert start + len(text) <= cells
        free = start + len(text) + 1


def test_times_are_round_and_days_have_names() -> None:
    assert [text for _, text in time_places(NOW, 6.0, 100)] == ["22:14", "22:16", "22:18", "22:20", "22:22"]
    assert [text for _, text in time_places(NOW, 864.0, 100)][:3] == ["Wed 15", "03:00", "06:00"]


def test_says_what_is_not_there() -> None:
    nothing: dict[str, Any] = {"values": (None,) * 40, "mean": None, "most": None, "marks": ()}
    assert "reading ..." in drawn(None, 60, 6)[1]
    assert "reading ..." in drawn(made(20, **nothing, reading=True), 60, 6)[1]
    assert "nothing ran in 10 min" in drawn(made(20, **nothing), 60, 6)[1]
    assert "nothing ran yet" in drawn(made(20, **nothing), 60, 6, span=2)[1]
    assert "no readings in 1 h" in drawn(made(20, **nothing, quantity=Quantity.GPU), 60, 6, span=1)[1]
    assert "no response says when" in drawn(made(20, **nothing, untimed=True), 60, 6)[1]
    assert "can't read /x" in drawn(made(20), 60, 6, problem="can't read /x: Stale file handle")[1]
    assert "reading ..." in drawn(made(20), 60, 6, quantity=Quantity.GPU)[1]  # another one was asked for
    assert len(drawn(None, 60, 6)) == 6
    assert "3 unreadable lines" in drawn(made(50, unreadable=3), 100, 6)[0]
    assert "[1 h]" in drawn(made(50), 100, 6, span=1)[0]


def test_percentages_have_their_whole_scale() -> None:
    lines = drawn(made(50, quantity=Quantity.GPU, values=(30.0,) * 100, marks=()), 58, 8)
    assert lines[1].startswith("   100┤ ")
    assert lines[6].startswith("     0┤")


class Asked:
    """Answers as the feed does, and remembers what was asked."""

    def __init__(self, **over: Any) -> None:
        self.questions: list[dict[str, Any]] = []
        self.over = over
        self.error: OSError | None = None

    async def __call__(self, question: Any) -> RunHistory:
        self.questions.append(question.keywords)
        if self.error is not None:
            raise self.error
        asked = question.keywords
        return made(asked["points"] // asked["together"], quantity=asked["quantity"], **self.over)


class Shown(App[None]):
    def __init__(self, ask: Asked) -> None:
        super().__init__(ansi_color=True)
        self.plot = HistoryPlot(UNICODE, ask, id="plot")

    def compose(self) -> ComposeResult:
        yield self.plot


def text(app: Shown) -> str:
    return "\n".join(app.plot.render_line(y).text for y in range(app.plot.size.height))


async def test_asks_for_as_many_points_as_there_is_room_for() -> None:
    ask = Asked()
    async with Shown(ask).run_test(size=(60, 8)) as pilot:
        assert isinstance(pilot.app, Shown)
        await pilot.pause()
        assert ask.questions == []  # nothing is known of the run yet
        pilot.app.plot.show(View(running()))
        await pilot.pause()
        assert ask.questions == [{"quantity": Quantity.TOKENS, "span_s": 600.0, "points": 104, "together": 2}]
        assert "⣿" in text(pilot.app)
        await pilot.resize_terminal(100, 20)
        await pilot.pause()
        assert ask.questions[-1]["points"] == 184


async def test_asks_no_more_often_than_something_can_have_changed() -> None:
    ask = Asked()
    async with Shown(ask).run_test(size=(60, 8)) as pilot:
        assert isinstance(pilot.app, Shown)
        plot = pilot.app.plot
        plot.show(View(running()))
        await pilot.pause()
        for _ in range(5):
            plot.look_again()
            plot.show(View(running()))
            await pilot.pause()
        assert len(ask.questions) == 1


@pytest.mark.parametrize(
    ("replays", "seconds", "asks"),
    [(False, 5.0, 1), (False, -5.0, 1), (False, 7.0, 2), (False, -7.0, 2), (True, 0.0, 2)],
    ids=["on", "back", "far on", "far back", "source"],
)
async def test_a_jump_in_time_or_another_source_is_asked_for_at_once(replays: bool, seconds: float, asks: int) -> None:
    ask = Asked()
    async with Shown(ask).run_test(size=(60, 8)) as pilot:
        assert isinstance(pilot.app, Shown)
        plot = pilot.app.plot
        plot.show(View(running()))
        await pilot.pause()
        assert made(52).step_s == pytest.approx(600 / 104)
        plot.show(View(running(at=NOW + seconds), replays=replays))
        await pilot.pause()
        assert len(ask.questions) == asks


async def test_goes_on_asking_while_older_telemetry_is_read() -> None:
    ask = Asked(reading=True)
    async with Shown(ask).run_test(size=(100, 8)) as pilot:
        assert isinstance(pilot.app, Shown)
        pilot.app.plot.show(View(running()))
        while len(ask.questions) < 3:
            await pilot.pause()
        assert "reading ..." in text(pilot.app)
        ask.over = {}
        while "reading ..." in text(pilot.app):
            await pilot.pause()


async def test_the_next_quantity_and_span() -> None:
    ask = Asked()
    async with Shown(ask).run_test(size=(60, 8)) as pilot:
        assert isinstance(pilot.app, Shown)
        plot = pilot.app.plot
        plot.show(View(running()))
        await pilot.pause()
        assert plot.next_quantity() is Quantity.GPU
        await pilot.pause()
        assert ask.questions[-1]["quantity"] is Quantity.GPU
        assert "GPU use %" in text(pilot.app)
        assert plot.next_quantity() is Quantity.TOKENS
        assert [plot.next_span() for _ in SPANS] == ["1 h", "all", "10 min"]
        await pilot.pause()
        await pilot.pause()
        assert (ask.questions[-1]["quantity"], ask.questions[-1]["span_s"]) == (Quantity.TOKENS, 600.0)
        assert "[10 min]" in text(pilot.app)


async def test_a_file_that_cannot_be_read_is_said() -> None:
    ask = Asked()
    ask.error = PermissionError(13, "Permission denied", "/run/telemetry/gpu.jsonl")
    async with Shown(ask).run_test(size=(80, 8)) as pilot:
        assert isinstance(pilot.app, Shown)
        pilot.app.plot.show(View(running()))
        await pilot.pause()
        assert "can't read /run/telemetry/gpu.jsonl: Permission denied" in text(pilot.app)


def marks_line(ages: dict[float, str], width: int = 58) -> str:
    marks = tuple(Mark(NOW - age, MarkKind.ALERT, text) for age, text in ages.items())
    return drawn(made(curve_cells(width), marks=marks), width, 8)[6]


def test_words_stand_beside_their_marks_where_there_is_room() -> None:
    assert "! one is here    " in marks_line({500: "one is here"})
    assert "  one is here ! " in marks_line({4: "one is here"})
    assert "! first is l… ! x  " in marks_line({400: "first is long enough", 230: "x"})
    assert "!    ! second " in marks_line({500: "first is long enough", 440: "second"})
    assert "! older  newest ! " in marks_line({200: "older", 4: "newest"})
    assert marks_line({30: "a", 4: "b is longer"}).rstrip().endswith("! !")


def test_a_mark_just_now_is_in_the_last_cell() -> None:
    assert marks_line({0: "now"}).rstrip().endswith("now !")


def test_colours(snap_compare: Any) -> None:
    async def show(pilot: Any) -> None:
        pilot.app.plot.show(View(running()))
        await pilot.pause()
        await pilot.pause()

    assert snap_compare(Shown(Asked()), terminal_size=(100, 10), run_before=show)


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [
        (0.0, 1.0, "0"), (2500.0, 500.0, "2,500"), (10_000.0, 5000.0, "10 k"), (12_500.0, 2500.0, "12.5k"),
        (999_000.0, 1.0, "999 k"), (1e6, 5e5, "1.0 M"), (1.25e6, 2.5e5, "1.25M"), (2.5e6, 5e5, "2.5 M"),
        (1e7, 5e6, "10 M"), (1.75e8, 2.5e7, "175 M"), (1e9, 5e8, "1.0 G"), (0.25, 0.25, "0.25"),
    ],
)  # fmt: skip
def test_numbers_of_the_axis_have_five_cells(value: float, step: float, text: str) -> None:
    assert _label(value, step) == text
    assert len(text) <= 5


@given(st.floats(min_value=0.0, max_value=1e11), st.integers(min_value=2, max_value=8))
def test_no_number_of_an_axis_is_wider_or_in_powers(most: float, ticks: int) -> None:
    top, step = scale(most, ticks)
    for number in range(round(top / step) + 1):
        text = _label(number * step, step)
        assert len(text) <= 6 if top < 1 else len(text) <= 5, text
        assert "e" not in text or top < 1
