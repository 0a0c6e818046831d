"""How much of a sample is stored: lengths around every limit."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.fold.failures import SampleFailure
from contracts.records import CaptureCheck, FailureClass, NextStep
from daemon.capture.fault import CaptureFault
from daemon.extract.entry import ExtractEntry
from daemon.extract.fitting import Fitting, SampleLimits, may_fit_now
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


@pytest.mark.parametrize(
    ("check", "tokens", "fits"),
    [
        (CaptureCheck.TOO_LARGE, 11, False),
        (CaptureCheck.TOO_LARGE, 10, True),
        (CaptureCheck.TOO_LARGE, None, True),  # of an older version: it is looked at
        (CaptureCheck.TOO_LONG, 9, False),
        (CaptureCheck.TOO_LONG, 8, True),
        (CaptureCheck.TOO_LONG, None, False),  # more than a server takes, or nothing left of its answer
        (CaptureCheck.NOTHING_TO_LEARN, None, False),
        (CaptureCheck.NO_IDS, None, False),
    ],
)
def test_what_was_left_out_may_fit_by_now(check: CaptureCheck, tokens: int | None, fits: bool) -> None:
    captures: Any = NotedCaptures()
    captures.room = 10
    refused = SampleFailure(FailureClass.INVALID_INPUT, NextStep.REFUSED, 0, 0, "too much", 1.0, check, tokens)
    assert may_fit_now(refused, SampleLimits(8, False, None), captures) is fits
    given_up = SampleFailure(FailureClass.CAPTURE, NextStep.QUARANTINED, 3, 0, "wrong", 1.0, check, tokens)
    assert not may_fit_now(given_up, SampleLimits(None, True, None), captures)


def test_what_was_too_long_may_be_cut_or_taken_whole_by_now() -> None:
    captures: Any = NotedCaptures()
    long = SampleFailure(
        FailureClass.INVALID_INPUT, NextStep.REFUSED, 0, 0, "too long", 1.0, CaptureCheck.TOO_LONG, 900
    )
    assert not may_fit_now(long, SampleLimits(8, False, None), captures)
    assert may_fit_now(long, SampleLimits(8, True, None), captures)
    assert may_fit_now(long, SampleLimits(None, False, None), captures)


def test_a_sample_left_out_for_its_length_says_how_long_it_is() -> None:
    found = fitting(longest=10).fit(a_prompt(3), 11)
    assert isinstance(found, CaptureFault) and found.tokens == 11
