"""What a dialog says will happen, in numbers."""

from __future__ import annotations

from pathlib import Path

from contracts.commands import DEFAULT, Drain, Pause, Retry, Set, Stop
from contracts.records import CaptureCheck, FailureClass, NextStep, Stage
from eagle3_tui.dialogs.consequences import consequences
from eagle3_tui.dialogs.retryable import GivenUp, Halted, Retryable, retryable
from tests.eagle3_tui.samples import dataset, foreign, running, storing
from tests.support.records import folded, make_run, write
from tests.support.stored import failed_capture

REACH = Retryable(
    (GivenUp("B1", "transient", 12), GivenUp("B1", "poison", 1), GivenUp("B2", "transient", 4)),
    (Halted("B2", Stage.GENERATE),),
)


def said(*args: object) -> str:
    return " ".join(consequences(*args))  # type: ignore[arg-type]


def test_drain_says_what_still_finishes_and_what_is_left() -> None:
    text = said(Drain(), storing(oldest_request_s=75.0))
    assert "248 open requests still finish, the oldest is open for 1m 15s" in text
    assert "7 captures" in text
    assert "eagle3 start /data/synth_100k" in text


def test_stop_says_what_is_lost() -> None:
    status = running(datasets=[dataset("B1", in_flight=10, avg_completion_tokens=500.0)])
    status.totals.in_flight, status.totals.avg_completion_tokens = 10, 500.0
    text = said(Stop(), status)
    assert "10 open requests are given up" in text
    assert "5,000 tokens" in text


def test_nothing_open_is_nothing_lost() -> None:
    status = running()
    status.totals.in_flight = 0
    assert "nothing is lost" in said(Stop(), status)
    assert "none is open" in said(Drain(), status)


def test_unknown_is_not_a_zero() -> None:
    text = said(Stop(), foreign())
    assert " 0 " not in text
    assert "The rest waits" in text or "no answer yet" in text


def test_concurrency_up_and_down() -> None:
    assert "256 more" in said(Set(concurrency=512), running())
    assert "148 open ones finish" in said(Set(concurrency=100), running())
    assert "run.toml says" in said(Set(concurrency=DEFAULT), running())


def test_targets_reached_missing_and_out_of_reach() -> None:
    status = running(datasets=[dataset("B1")])
    assert "reached already" in said(Set(targets={"B1": 1_000}), status)
    text = said(Set(targets={"B1": 9_000_000}), status)
    assert "802,328 tokens are then still to come" in text
    assert "725 answers" in text
    assert "9m 32s" in text
    assert "too few" not in text
    assert "1,588 prompts" in said(Set(targets={"B1": 99_000_000}), status)
    assert "run.toml says" in said(Set(targets={"B1": DEFAULT}), status)


def test_retry_counts_what_was_given_up() -> None:
    assert "17 samples" in said(Retry(), None, REACH)
    assert "12 samples" in said(Retry(dataset="B1", error=FailureClass.TRANSIENT), None, REACH)
    assert "going on again: B2" in said(Retry(error=FailureClass.CONTRACT_DRIFT), None, REACH)
    assert "going on" not in said(Retry(error=FailureClass.TRANSIENT), None, REACH)
    assert "one sample" in said(Retry(sample_id="x"), None, REACH)
    assert said(Retry(), None, None) == ""


def test_what_no_retry_helps_is_not_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
    lines = [failed_capture(f"d-{each}", CaptureCheck.NOTHING_TO_LEARN, **refused) for each in range(4)]
    lines.append(failed_capture("d-9", next=NextStep.QUARANTINED))
    write(run.dataset("d").failures, lines)
    assert retryable(folded(run), 0.0).samples(None, None) == 1


def test_nothing_is_said_where_nothing_is_at_stake() -> None:
    assert consequences(Pause(), running()) == []
    assert "not been read yet" in said(Stop(), None)
