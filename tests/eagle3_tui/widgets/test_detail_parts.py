"""Facts, long text and bars: every line as wide as the screen, nothing lost, nothing drawn as something else."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.details.lengths import LengthSteps
from eagle3_tui.terminal import Capabilities
from eagle3_tui.text import cell_width, visible
from eagle3_tui.token_text import ByteText, Piece
from eagle3_tui.widgets.detail import Fact, fact_lines, wrapped
from eagle3_tui.widgets.histogram import histogram_lines, joined, rate_lines, upright
from eagle3_tui.widgets.look import look_for
from eagle3_tui.widgets.story import id_rows, text_rows
from tests.eagle3_tui.conftest import CASES

LOOK = look_for(Capabilities())
ASCII = look_for(Capabilities(unicode=False))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=4)), max_size=4), st.integers(1, 130), st.booleans())
def test_facts_are_exactly_as_wide_as_the_screen(facts: list[tuple[str, list[str]]], width: int, unicode: bool) -> None:
    look = LOOK if unicode else ASCII
    made = [Fact(label, tuple((text, look.plain) for text in texts)) for label, texts in facts]
    for line in fact_lines(made, width, look):
        assert cell_width(line.text) == width
        assert all(char.isprintable() or unicodedata.category(char) == "Zs" for char in line.text)
        assert unicode or line.text.isascii()


@given(TEXTS, st.integers(2, 40))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    shown = visible(text)
    lines = wrapped(shown, width)
    assert "".join(lines) == shown
    assert all(cell_width(line) <= width or len(line) == 1 for line in lines)


def test_parts_stay_whole_and_go_on_below_each_other() -> None:
    fact = Fact("where", tuple((word, LOOK.plain) for word in ("one two three", "four five six", "seven")))
    lines = [line.text.rstrip() for line in fact_lines([fact], 40, LOOK)]
    assert lines == [" where      one two three", "            four five six  seven"]


@given(st.lists(st.builds(Piece, TEXTS, st.booleans()), max_size=5), st.integers(8, 60))
def test_text_keeps_its_characters_and_its_line_breaks(pieces: list[Piece], width: int) -> None:
    rows = text_rows("t", pieces, width, LOOK)[1:-1]
    drawn = "".join(text for row in rows for text, _ in row)
    whole = [line.removesuffix("\r").expandtabs(4) for piece in pieces for line in piece.text.split("\n")]
    assert drawn == "".join(map(visible, whole))
    assert all(sum(cell_width(text) for text, _ in row) <= width for row in rows)


def test_special_tokens_stand_out() -> None:
    pieces = ByteText().pieces([104, 105, 151_645, 10, 60, 255])
    assert pieces == [Piece("hi", False), Piece("<151645>", True), Piece("\n<\ufffd", False)]
    rows = text_rows("t", pieces, 40, LOOK)
    assert rows[1] == [("hi", LOOK.plain), ("<151645>", LOOK.active)]


@pytest.mark.parametrize("case", ["47-escapes.jsonl", "49-wide.jsonl"])
def test_what_models_say_reaches_the_terminal_as_text(case: str) -> None:
    texts = [text for line in (CASES / case).read_text("utf-8").splitlines() for text in json.loads(line).values()]
    rows = text_rows("t", ByteText().pieces(list("\n".join(texts).encode())), 40, LOOK)
    assert all(text.isprintable() for row in rows for text, _ in row)
    assert all(sum(cell_width(text) for text, _ in row) <= 40 for row in rows)


def test_ids_are_in_columns_with_the_number_of_the_first() -> None:
    rows = id_rows("prompt", tuple(range(100)), 40, LOOK)
    assert rows[0][0][0] == "prompt, 100 ids"
    assert [row[0][0].strip() for row in rows[1:4]] == ["0", "11", "22"]
    assert "no ids" in id_rows("answer", None, 40, LOOK)[0][1][0]


def test_bars_reach_the_top_and_never_vanish() -> None:
    assert upright([0, 1, 500, 1000, None], 2, LOOK) == ["   █ ", " ▁██-"]
    assert upright([0, 1, 500, 1000], 2, ASCII) == ["   #", " .##"]
    assert upright([], 2, LOOK) == ["", ""]
    assert upright([0, None], 1, LOOK, cells=2) == ["  --"]


def test_the_newest_stretch_is_whole_when_values_are_joined() -> None:
    assert joined([None, 1.0, 3.0, 5.0, 7.0], 3) == [None, 2.0, 6.0]
    assert joined([1.0, 2.0], 5) == [1.0, 2.0]


@pytest.mark.parametrize("width", [1, 9, 40, 120])
@pytest.mark.parametrize("height", [0, 1, 2, 6])
def test_charts_at_any_size(width: int, height: int) -> None:
    steps = LengthSteps(tuple(range(51)), tuple(n % 7 for n in range(50)))
    for lines in (
        histogram_lines(steps, width, height, LOOK),
        histogram_lines(None, width, height, LOOK),
        rate_lines([None, 1.0, 2.0] * 40, width, height, LOOK),
        rate_lines([None], width, height, ASCII),
    ):
        assert len(lines) <= height
        assert all(cell_width(line.text) == width for line in lines)


def test_the_axis_names_the_lengths_below_their_bars() -> None:
    lines = [line.text for line in histogram_lines(LengthSteps((16, 18, 20, 22), (1, 4, 2)), 40, 4, LOOK)]
    assert lines[0].split()[0] == "4"
    assert lines[-1].split() == ["16", "18", "20", "22"]
    assert lines[-1].index("18") == lines[-2].index("█████")
