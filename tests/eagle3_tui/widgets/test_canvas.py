from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from eagle3_tui.widgets.canvas import changed_spans

BOLD = Style(bold=True)


def line(*parts: tuple[str, Style | None]) -> Strip:
    return Strip([Segment(text, style) for text, style in parts])


def test_equal_lines_send_nothing() -> None:
    assert changed_spans(line(("abc", BOLD)), line(("abc", BOLD))) == []
    assert changed_spans(line(("ab", BOLD), ("c", BOLD)), line(("abc", BOLD))) == []


def test_only_the_changed_figures() -> None:
    before = line(("in flight 248/256      failed 12", None))
    after = line(("in flight 251/256      failed 13", None))
    assert changed_spans(before, after) == [(11, 2), (31, 1)]


def test_near_changes_are_one() -> None:
    assert changed_spans(line(("a1b2c", None)), line(("a3b4c", None))) == [(1, 3)]


def test_a_change_of_style_counts() -> None:
    assert changed_spans(line(("ab", None), ("cd", None)), line(("ab", None), ("cd", BOLD))) == [(2, 2)]


def test_wide_characters_count_with_both_cells() -> None:
    assert changed_spans(line(("漢字x", None)), line(("漢語x", None))) == [(2, 2)]


def test_a_combining_mark_belongs_to_its_letter() -> None:
    assert changed_spans(line(("ae\u0301b", None)), line(("aeb", None))) == [(1, 1)]


def test_lines_of_different_length() -> None:
    assert changed_spans(line(("ab", None)), line(("abcd", None))) == [(2, 2)]
