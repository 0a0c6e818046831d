"""Words that several places share."""

from __future__ import annotations

import pytest

from contracts.wording import with_dataset


@pytest.mark.parametrize(
    ("dataset", "message", "said"),
    [
        (None, "stopped", "stopped"),
        ("d", "stopped", "d: stopped"),
        ("d", "d: stopped", "d: stopped"),
        ("B1", "B12: 4 of 5 answers", "B1: B12: 4 of 5 answers"),
        ("B1", "2 data sets: B1 40 %, B2 50 %", "2 data sets: B1 40 %, B2 50 %"),
        ("中文.*", "中文 stopped", "中文.*: 中文 stopped"),
    ],
)
def test_a_data_set_is_named_once(dataset: str | None, message: str, said: str) -> None:
    assert with_dataset(dataset, message) == said
