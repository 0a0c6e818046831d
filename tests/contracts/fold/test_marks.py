"""What is marked below a history."""

from __future__ import annotations

import pytest

from contracts.fold.marks import Marks
from tests.support.records import event


@pytest.mark.parametrize(
    ("dataset", "message", "text"),
    [
        ("B1", "B1: 40 of 51 answers ended by length", "B1: 40 of 51 answers ended by length"),
        ("B1", "40 of 51 answers ended by length", "B1: 40 of 51 answers ended by length"),
        (None, "no daemon", "no daemon"),
    ],
)
def test_an_alert_names_its_data_set_once(dataset: str | None, message: str, text: str) -> None:
    marks = Marks()
    marks.alerted(event("alert.raised", dataset=dataset, message=message))
    assert marks.last[0].text == text
