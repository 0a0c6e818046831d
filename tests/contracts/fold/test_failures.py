"""What failed, and what a person put back."""

from __future__ import annotations

import msgspec
import pytest

from contracts.fold.failures import FailureFold, SampleFailure
from contracts.records import FailureClass, NextStep, Requeue, encode_line
from tests.support.records import NOW, failure


def fold_of(*records: msgspec.Struct | bytes) -> FailureFold:
    fold = FailureFold()
    content = b"".join(record if isinstance(record, bytes) else encode_line(record) for record in records)
    fold.feed(bytearray(content), len(content), 0, False)
    return fold


POISON = {"error": FailureClass.POISON, "next": NextStep.QUARANTINED, "attempt": 0}
DOWN = {"error": FailureClass.SERVER_DOWN, "next": NextStep.RETRY, "attempt": 0}
DRIFT = {"error": FailureClass.CONTRACT_DRIFT, "next": NextStep.STOPPED, "message": "rid differs"}


def test_the_last_failure_of_a_sample_holds() -> None:
    fold = fold_of(failure("a"), failure("b"), failure("a", attempt=2, message="reset", next=NextStep.QUARANTINED))
    assert fold.samples[b"a"] == SampleFailure(FailureClass.TRANSIENT, NextStep.QUARANTINED, 2, 0, "reset", NOW - 5)
    assert set(fold.samples) == {b"a", b"b"}
    assert fold.by_class == {"transient": 3}


def test_an_uncharged_failure_keeps_the_attempts_so_far() -> None:
    fold = fold_of(failure("a", attempt=2), failure("a", **DOWN))
    assert (fold.samples[b"a"].attempt, fold.samples[b"a"].deaths) == (2, 1)


def test_deaths_add_up_over_other_failures() -> None:
    fold = fold_of(failure("a", **DOWN), failure("a"), failure("a", **POISON))
    assert (fold.samples[b"a"].deaths, fold.samples[b"a"].next) == (2, NextStep.QUARANTINED)


def test_numbers_and_their_text_are_one_sample() -> None:
    assert set(fold_of(failure(7), failure("7")).samples) == {b"7"}


def test_refused_lines_are_kept_by_line_and_are_no_failed_samples() -> None:
    refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
    fold = fold_of(
        failure("a", line=3, message="empty", **refused),
        failure(None, line=3, message="still empty", **refused),
        failure(None, line=9, message="bad", source="in.jsonl", **refused),
    )
    assert fold.refused_lines == {3: "still empty"}
    assert fold.refused_source_lines == {9: "bad"}
    assert fold.samples == {}
    assert fold.history.is_empty


def test_drift_halts_until_a_requeue_of_its_class() -> None:
    assert fold_of(failure("a", **DRIFT)).halted == "rid differs"
    assert fold_of(failure("a", **DRIFT), Requeue(at=NOW, error=FailureClass.TRANSIENT)).halted == "rid differs"
    assert fold_of(failure("a", **DRIFT), Requeue(at=NOW, sample_id="a")).halted == "rid differs"
    assert fold_of(failure("a", **DRIFT), Requeue(at=NOW, error=FailureClass.CONTRACT_DRIFT)).halted is None
    fold = fold_of(failure("a", **DRIFT), Requeue(at=NOW))
    assert (fold.halted, fold.samples) == (None, {})


@pytest.mark.parametrize(
    ("requeue", "left"),
    [
        (Requeue(at=NOW), set()),
        (Requeue(at=NOW, error=FailureClass.POISON), {b"t", b"7"}),
        (Requeue(at=NOW, error=FailureClass.TRANSIENT), {b"p"}),
        (Requeue(at=NOW, sample_id=7), {b"t", b"p"}),
        (Requeue(at=NOW, sample_id="7"), {b"t", b"p"}),
        (Requeue(at=NOW, sample_id="p", error=FailureClass.TRANSIENT), {b"t", b"p", b"7"}),
    ],
)
def test_a_requeue_clears_what_matches(requeue: Requeue, left: set[bytes]) -> None:
    fold = fold_of(failure("t"), failure("p", **POISON), failure("7"), requeue)
    assert set(fold.samples) == left


def test_a_requeue_clears_only_what_came_before_it_and_the_count_begins_anew() -> None:
    fold = fold_of(failure("a", attempt=4), failure("a", **DOWN), Requeue(at=NOW), failure("a", attempt=1))
    assert (fold.samples[b"a"].attempt, fold.samples[b"a"].deaths) == (1, 0)


def test_only_a_requeue_of_invalid_input_clears_refusals() -> None:
    refused = failure(None, line=3, error=FailureClass.INVALID_INPUT, next=NextStep.REFUSED)
    assert fold_of(refused, Requeue(at=NOW)).refused_lines == {3: "HTTP 503"}
    assert fold_of(refused, Requeue(at=NOW, error=FailureClass.INVALID_INPUT)).refused_lines == {}


def test_aborts_are_failures_that_hold_tokens() -> None:
    fold = fold_of(failure("a", completion_tokens=3), failure("b"))
    bucket = fold.history.since(0)
    assert (bucket.failures, bucket.aborts, bucket.tokens) == (2, 1, 0)


def test_lines_that_are_no_failures_are_unreadable_and_safe_to_show() -> None:
    strange = b'{"type":"\\u001b]0;evil"}\n'
    fold = fold_of(b"\n", failure("a"), strange, b"{\n", b'{"type":"failure","sample_id":"a"}\n', b"\xff\n")
    assert fold.unreadable.count == 4
    assert fold.unreadable.first[0].line == 3
    assert all(place.why.isprintable() for place in fold.unreadable.first)
    assert set(fold.samples) == {b"a"}
