"""Text fit for a terminal: nothing it would obey, right widths, honest figures; known failures 47 and 49."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from eagle3_tui.text import (
    cell_width,
    counted,
    encodable,
    fit,
    human_bytes,
    human_count,
    human_duration,
    human_exact,
    human_percent,
    human_rate,
    human_time,
    shorten,
    visible,
    wrap,
)

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
FORBIDDEN = {
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
}


def texts(name: str) -> list[str]:
    lines = (CASES / name).read_text(encoding="utf-8").splitlines()
    return [value for line in lines for value in json.loads(line).values()]


def test_plain_text_is_unchanged() -> None:
    assert visible("plain ~ text") == "plain ~ text"
    assert visible("漢字 é שלום") == "漢字 é שלום"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "^[[2J"),
        ("a\nb\tc\r\0\x7f", "a^Jb^Ic^M^@^?"),
        ("\x9b31m", "<9b>31m"),
        ("\u202eevil", "<202e>evil"),
        ("zero\u200bwidth\ufeff", "zero<200b>width<feff>"),
        ("half \ud83d", "half <d83d>"),
        ("line\u2028break", "line<2028>break"),
        ("👩\u200d👩\u200d👧 ☂\ufe0f 👋🏽", "👩👩👧 ☂ 👋"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", texts("47-escapes.jsonl"))
def test_case_47_no_control_character_is_left(text: str) -> None:
    assert not FORBIDDEN & set(visible(text))


@given(st.text())
def test_no_control_character_is_left_of_any_text(text: str) -> None:
    assert not FORBIDDEN & set(visible(text))
    visible(text).encode()


@given(st.text())
def test_making_visible_twice_changes_nothing(text: str) -> None:
    assert visible(visible(text)) == visible(text)


def test_widths_agree_with_what_the_app_is_drawn_with() -> None:
    for code in range(0, sys.maxunicode + 1, 7):
        shown = visible(chr(code))
        assert cell_width(shown) == cell_len(shown), hex(code)


@pytest.mark.parametrize("text", texts("49-wide.jsonl"))
@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 10, 40])
def test_case_49_rows_end_in_the_same_cell(text: str, width: int) -> None:
    for right in (False, True):
        assert cell_len(fit(text, width, right=right)) == width


@given(st.text(), st.integers(0, 30))
def test_fit_is_exact_for_any_text(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width
    assert cell_len(shorten(text, width)) <= width


def test_nothing_is_cut_inside_a_character() -> None:
    assert fit("漢字漢字", 5) == "漢字…"
    assert fit("漢字漢字", 6) == "漢字… "
    assert fit("a漢", 2, ellipsis="~") == "a~"
    assert fit("漢", 1) == "…"


def test_combining_marks_stay_with_their_letter() -> None:
    assert fit("e\u0301e\u0301e\u0301", 2) == "e\u0301…"


def test_fit_pads_on_the_side_asked_for() -> None:
    assert fit("ab", 4) == "ab  "
    assert fit("ab", 4, right=True) == "  ab"
    assert fit("ab", 0) == ""


def test_wrap_breaks_at_spaces_and_within_words_that_are_too_long() -> None:
    assert wrap("one two three", 9, first="- ", rest="  ") == ["- one two", "  three"]
    assert wrap("abcdefghij", 6, rest="  ") == ["abcdef", "  ghij"]
    assert wrap("漢字漢字", 5) == ["漢字", "漢字"]


@given(st.text(), st.integers(4, 40))
def test_wrap_loses_nothing_but_spaces_at_breaks(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == visible(text).replace(" ", "")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0, "0"),
        (9_800, "9,800"),
        (99_999, "99,999"),
        (123_449, "123.4 k"),
        (999_949, "999.9 k"),
        (999_950, "1.0 M"),
        (41_234_567, "41.2 M"),
        (10**18 * 5, "5,000.0 P"),
    ],
)
def test_human_count(value: int | None, shown: str) -> None:
    assert human_count(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (512, "512 B"), (88e9, "88.0 GB"), (2.31e12, "2.3 TB"), (999.96e6, "1.0 GB")]
)
def test_human_bytes(value: float | None, shown: str) -> None:
    assert human_bytes(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0s"),
        (34.4, "34s"),
        (59.6, "1m 00s"),
        (725, "12m 05s"),
        (15_120, "4h 12m"),
        (183_600, "2d 03h"),
        (100 * 86_400, "100d"),
        (-5, "-"),
        (float("inf"), "-"),
        (float("nan"), "-"),
    ],
)
def test_human_duration(value: float | None, shown: str) -> None:
    assert human_duration(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(None, "-"), (0.1, "0.1"), (9.96, "10"), (1402.4, "1,402")])
def test_human_rate(value: float | None, shown: str) -> None:
    assert human_rate(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.0, "0.0 %"), (1.14, "1.1 %"), (97.2, "97 %"), (99.7, "99 %"), (100.0, "100 %")]
)
def test_human_percent_is_100_only_when_it_is_all(value: float | None, shown: str) -> None:
    assert human_percent(value) == shown


def test_unknown_is_never_zero() -> None:
    assert [human_exact(None), human_time(None)] == ["-", "-"]


def test_encodable_text_can_be_written() -> None:
    assert encodable("é漢") == "é漢"
    assert encodable("a\udce9b").encode() == "a\ufffdb".encode()


@pytest.mark.parametrize(
    ("count", "shown"), [(None, "- samples"), (0, "0 samples"), (1, "1 sample"), (1_204, "1,204 samples")]
)
def test_a_count_has_its_noun(count: int | None, shown: str) -> None:
    assert counted(count, "sample") == shown
    assert counted(1, "pass", "passes") == "1 pass" and counted(2, "pass", "passes") == "2 passes"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(99_999.0, "99,999"), (99_999.6, "100 k"), (123_456.0, "123 k"), (999_600.0, "1.0 M"), (1_234_567.0, "1.2 M")],
)
def test_a_rate_never_takes_more_than_six_cells(value: float, shown: str) -> None:
    assert human_rate(value) == shown
