from __future__ import annotations

import unicodedata
from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from eagle3_tui.terminal import Capabilities
from eagle3_tui.widgets.bars import bar
from eagle3_tui.widgets.line import Group, cell, group, labelled, line, safe, strip, wrap
from eagle3_tui.widgets.look import Look, look_for

LOOK = look_for(Capabilities())
ASCII = look_for(Capabilities(unicode=False))


@given(st.text(max_size=40), st.integers(0, 30), st.sampled_from([LOOK, ASCII]))
def test_no_text_leaves_its_cell_or_sends_a_control(text: str, width: int, look: Look) -> None:
    drawn = cell(text, width, look)
    assert cell_len(drawn) == width
    assert all(char.isprintable() or unicodedata.category(char) == "Zs" for char in drawn)
    if look is ASCII:
        assert drawn.isascii()


def test_ascii_keeps_the_width() -> None:
    assert safe("é漢x", ASCII) == "???x"
    assert safe("é漢x", LOOK) == "é漢x"


def words(strip_text: str) -> list[str]:
    return strip_text.split()


def test_the_highest_rank_goes_first_and_nothing_is_cut() -> None:
    groups = [
        group("state", LOOK.plain, LOOK),
        group("elapsed", LOOK.plain, LOOK, rank=4),
        group("ETA", LOOK.plain, LOOK, rank=2, right=True),
    ]
    assert line(groups, 22, LOOK).text == " state  elapsed   ETA "
    assert words(line(groups, 18, LOOK).text) == ["state", "ETA"]
    assert words(line(groups, 8, LOOK).text) == ["state"]


def test_a_name_shrinks_before_others_go() -> None:
    groups = [group("a_long_name_of_a_run", LOOK.plain, LOOK, shrink_to=8), group("state", LOOK.plain, LOOK, rank=1)]
    assert line(groups, 22, LOOK).text == " a_long_name_…  state "


def test_wrapping_at_spaces() -> None:
    assert wrap("two lines fit no shape", 10, LOOK) == ["two lines", "fit no", "shape"]
    assert wrap("", 10, LOOK) == [""]
    assert wrap("a /very/long/path b", 8, LOOK) == ["a", "/very/l…", "b"]


@given(st.text(max_size=80), st.integers(1, 20))
def test_wrapped_lines_fit(text: str, width: int) -> None:
    assert all(cell_len(line) <= width for line in wrap(text, width, LOOK))


def test_the_bar_takes_what_is_left() -> None:
    groups = [
        Group(((bar(0.5, 8, LOOK.signs), LOOK.plain),), grow=partial(bar, 0.5, signs=LOOK.signs)),
        group("50 %", LOOK.plain, LOOK),
    ]
    assert line(groups, 24, LOOK).text == " ████████░░░░░░░░  50 % "


def test_a_label_is_part_of_its_value() -> None:
    assert labelled("failed", "12", LOOK.warn, LOOK, 0).width() == len("failed 12")


@given(st.integers(0, 60))
def test_any_width_is_filled_exactly(width: int) -> None:
    groups = [group("漢字の名前", LOOK.plain, LOOK, shrink_to=4), group("x" * 30, LOOK.plain, LOOK, right=True)]
    assert cell_len(line(groups, width, LOOK).text) == width
    assert cell_len(strip([("漢" * 40, LOOK.plain)], width, LOOK).text) == width
