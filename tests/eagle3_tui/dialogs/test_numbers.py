from __future__ import annotations

import pytest

from eagle3_tui.dialogs.numbers import natural_from


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("512", 512),
        (" 10M ", 10_000_000),
        ("1.5 m", 1_500_000),
        ("10_000_000", 10_000_000),
        ("10,000,000", 10_000_000),
        ("10'000", 10_000),
        ("2G", 2_000_000_000),
        ("0", 0),
        ("0.5k", 500),
    ],
)
def test_as_people_write_them(text: str, number: int) -> None:
    assert natural_from(text) == number


@pytest.mark.parametrize("text", ["", "-5", "1.5", "ten", "10,00", "1e6", "10MB", "M", "٣" * 3000 + "x"])
def test_what_is_no_whole_number(text: str) -> None:
    assert natural_from(text) is None
