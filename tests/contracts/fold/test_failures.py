"""What failed, and what a person put back."""

from __future__ import annotations

import msgspec
import pytest

from contracts.fold.failures import FailureFold, SampleFailure
from contracts.records import CaptureCheck, FailureClass, NextStep, Requeue, Stage, encode_line
from tests.support.records import NOW, failure
from tests.support.stored import failed_capture


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


def test_a_requeue_clears_what_it_can_help() -> None:
    """Of what nothing is to be learnt from another try makes nothing; what is too long has to be asked for."""
    refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
    records = [
        failed_capture("long", CaptureCheck.TOO_LONG, **refused),
        failed_capture("one", CaptureCheck.NOTHING_TO_LEARN, **refused),
        failed_capture("ids", CaptureCheck.IDS, next=NextStep.QUARANTINED),
    ]
    for over, left in (
        ({}, {b"long", b"one"}),
        ({"error": FailureClass.CAPTURE}, {b"long", b"one"}),
        ({"error": FailureClass.INVALID_INPUT}, {b"one", b"ids"}),
        ({"sample_id": "one"}, {b"long", b"ids"}),
    ):
        assert set(fold_of(*records, Requeue(at=NOW, **over)).extract) == left


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


class TestOfExtraction:
    """The two halves of the job do not touch each other."""

    def test_a_failed_capture_says_nothing_of_the_answer(self) -> None:
        fold = fold_of(failed_capture("a"), failed_capture("a", CaptureCheck.ZERO_ROW, attempt=2))
        assert (fold.samples, fold.by_class, fold.history.is_empty) == ({}, {}, True)
        assert (fold.extract[b"a"].attempt, fold.extract[b"a"].check) == (2, CaptureCheck.ZERO_ROW)
        assert fold.checks == {"ids": 1, "zero_row": 1}
        assert fold.extract_history.since(0).failures == 2

    def test_a_failed_answer_says_nothing_of_captures(self) -> None:
        fold = fold_of(failure("a"), failure("b", **DRIFT))
        assert (fold.extract, fold.checks, fold.extract_halted) == ({}, {}, None)
        assert fold.extract_history.is_empty

    def test_want_of_room_is_no_fault_of_the_rows(self) -> None:
        bucket = fold_of(failed_capture("a", CaptureCheck.NO_ROOM)).extract_history.since(0)
        assert (bucket.no_room, bucket.failures) == (1, 0)

    def test_a_sample_that_is_left_out_failed_no_check(self) -> None:
        refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
        fold = fold_of(failed_capture("a", CaptureCheck.TOO_LONG, **refused))
        assert (fold.checks, fold.extract_history.is_empty) == ({}, True)
        assert (fold.extract[b"a"].next, fold.refused_lines) == (NextStep.REFUSED, {})

    def test_a_pass_that_a_server_lost_failed_no_check(self) -> None:
        fold = fold_of(failure("a", stage=Stage.EXTRACT, **DOWN))
        assert (fold.extract[b"a"].deaths, fold.checks, fold.extract_history.is_empty) == (1, {}, True)

    @pytest.mark.parametrize(
        ("requeue", "halted", "extract_halted"),
        [
            (Requeue(at=NOW), False, False),
            (Requeue(at=NOW, stage=Stage.EXTRACT), True, False),
            (Requeue(at=NOW, stage=Stage.GENERATE), False, True),
            (Requeue(at=NOW, error=FailureClass.CAPTURE), True, False),
            (Requeue(at=NOW, error=FailureClass.CONTRACT_DRIFT), False, False),
            (Requeue(at=NOW, error=FailureClass.TRANSIENT), True, True),
            (Requeue(at=NOW, sample_id="a"), True, True),
        ],
    )
    def test_a_requeue_ends_the_halt_of_its_stage(self, requeue: Requeue, halted: bool, extract_halted: bool) -> None:
        fault = failed_capture("a", CaptureCheck.LAYERS, next=NextStep.STOPPED, message="layers [1] for [2]")
        before = fold_of(failure("a", **DRIFT), fault)
        assert (before.halted, before.extract_halted) == ("rid differs", "layers [1] for [2]")
        before.apply(requeue)
        assert (before.halted is not None, before.extract_halted is not None) == (halted, extract_halted)

    def test_a_requeue_clears_the_samples_of_its_stage(self) -> None:
        records = (failure("a"), failed_capture("a"))
        for stage, left in ((None, (0, 0)), (Stage.GENERATE, (0, 1)), (Stage.EXTRACT, (1, 0))):
            fold = fold_of(*records, Requeue(at=NOW, stage=stage, sample_id="a"))
            assert (len(fold.samples), len(fold.extract)) == left

    def test_refused_prompts_are_no_matter_of_extraction(self) -> None:
        refused = failure(None, line=3, error=FailureClass.INVALID_INPUT, next=NextStep.REFUSED)
        requeue = Requeue(at=NOW, error=FailureClass.INVALID_INPUT, stage=Stage.EXTRACT)
        assert fold_of(refused, requeue).refused_lines == {3: "HTTP 503"}
