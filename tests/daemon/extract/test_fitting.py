"""How much of a sample is stored: lengths around every limit."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.records import CaptureCheck
from daemon.capture.fault import CaptureFault
from daemon.extract.entry import ExtractEntry
from daemon.extract.fitting import Fitting, SampleLimits
from daemon.prompts.index import PromptEntry
from tests.daemon.extract.support import NotedCaptures


def a_prompt(tokens: int, *, masked: bool = False) -> PromptEntry:
    return PromptEntry("a", b"a", 0, 1, tokens, None, 1, 0, 5 if masked else 0)


def fitting(room: int = 10_000, **limits: Any) -> Fitting:
    captures: Any = NotedCaptures()
    captures.room = room
    return Fitting(SampleLimits(**({"longest": None, "truncate": False, "longest_prefill": None} | limits)), captures)


@pytest.mark.parametrize(
    ("limits", "whole", "outcome"),
    [
        ({}, 900, 900),
        ({"longest": 10}, 10, 10),
        ({"longest": 10}, 11, CaptureCheck.TOO_LONG),
        ({"longest": 10, "truncate": True}, 11, 10),
        ({"longest": 4, "truncate": True}, 11, 4),
        ({"longest": 3, "truncate": True}, 11, CaptureCheck.TOO_LONG),
        ({"longest": 2, "truncate": True}, 11, CaptureCheck.TOO_LONG),
        ({"room": 10}, 10, 10),
        ({"room": 10}, 11, CaptureCheck.TOO_LARGE),
        ({"room": 10, "longest": 8, "truncate": True}, 11, 8),
        ({}, 4, 4),
        ({}, 3, CaptureCheck.NOTHING_TO_LEARN),
        ({}, 2, CaptureCheck.NOTHING_TO_LEARN),
    ],
)
def test_an_answer_to_a_prompt_of_three_tokens(limits: dict[str, Any], whole: int, outcome: object) -> None:
    found = fitting(**limits).fit(a_prompt(3), whole)
    assert (found.check if isinstance(found, CaptureFault) else found) == outcome


@pytest.mark.parametrize(
    ("whole", "said"),
    [(3, "has one token, which is never fed"), (2, "is empty: its last token is never fed")],
)
def test_an_answer_that_teaches_nothing_is_named(whole: int, said: str) -> None:
    found = fitting().fit(a_prompt(3), whole)
    assert isinstance(found, CaptureFault) and said in found.message


def test_a_pretokenized_sample_is_judged_by_its_length_alone() -> None:
    assert fitting(longest=2, truncate=True).fit(a_prompt(3, masked=True), 3) == 2
    assert fitting().fit(a_prompt(3, masked=True), 3) == 3


@pytest.mark.parametrize(
    ("truncate", "most", "outcome"),
    [(False, 9, None), (False, 8, CaptureCheck.TOO_LONG), (True, 8, None), (True, 3, CaptureCheck.TOO_LONG)],
)
def test_what_a_server_cannot_take_in_one_pass(truncate: bool, most: int, outcome: CaptureCheck | None) -> None:
    entry = ExtractEntry(a_prompt(3), 9, 12, 0, 50)
    fault = fitting(truncate=truncate, longest_prefill=most).cut_to_pass(entry)
    assert (fault and fault.check) == outcome
    assert entry.tokens == (min(9, most) if truncate else 9)
    assert entry.whole_tokens == 12
