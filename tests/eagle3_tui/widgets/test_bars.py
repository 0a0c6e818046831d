from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3_tui.terminal import ASCII_SIGNS, UNICODE_SIGNS, Signs
from eagle3_tui.widgets.bars import bar, level, whole_percent

SIGNS = st.sampled_from([ASCII_SIGNS, UNICODE_SIGNS])


@given(st.one_of(st.none(), st.floats()), st.integers(-3, 60), SIGNS)
def test_width_is_exact_whatever_the_share(share: float | None, width: int, signs: Signs) -> None:
    assert len(bar(share, width, signs)) == max(width, 0)
    assert len(level(share, signs)) == 1
    assert whole_percent(share)


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0.0, "░░░░"),
        (0.5, "██░░"),
        (0.53125, "██▏░"),
        (1.0, "████"),
        (1.7, "████"),
        (-1.0, "░░░░"),
        (0.000001, "▏░░░"),
        (0.999999, "███▉"),
        (None, "-   "),
        (float("nan"), "-   "),
    ],
)
def test_drawn_by_eighths(share: float | None, drawn: str) -> None:
    assert bar(share, 4, UNICODE_SIGNS) == drawn


def test_plain_signs() -> None:
    assert bar(0.5, 4, ASCII_SIGNS) == "##.."
    assert bar(0.999, 4, ASCII_SIGNS) == "###."


@pytest.mark.parametrize(
    ("share", "text"), [(None, "-"), (0.0, "0 %"), (0.999, "99 %"), (1.0, "100 %"), (1.3, "100 %"), (0.29, "29 %")]
)
def test_percent_is_rounded_down(share: float | None, text: str) -> None:
    assert whole_percent(share) == text


def test_levels() -> None:
    assert [level(x, UNICODE_SIGNS) for x in (0.0, 0.5, 1.0, None)] == ["▁", "▅", "█", "-"]


@pytest.mark.parametrize(
    ("share", "lost", "drawn"),
    [
        (0.97, 0.03, "#########x"),
        (0.5, 0.3, "#####..xxx"),
        (0.999, 0.001, "#########x"),
        (0.001, 0.999, "#xxxxxxxxx"),
        (0.0, 1.0, "xxxxxxxxxx"),
        (0.69, 0.3, "######.xxx"),
        (0.0, 0.01, ".........x"),
    ],
)
def test_what_will_never_come_has_a_shape_of_its_own(share: float, lost: float, drawn: str) -> None:
    assert bar(share, 10, ASCII_SIGNS, lost) == drawn
    assert len(bar(share, 10, UNICODE_SIGNS, lost)) == 10
