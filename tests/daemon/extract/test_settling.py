"""What is recorded of a capture that failed, and when its sample is tried again."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.records import CaptureCheck
from daemon.extract.settling import ALL_FAIL, MOST_ATTEMPTS, RETRY_S
from tests.daemon.extract.support import Extracting, land, prompt, send

MASKED = [prompt(name, loss_mask=[0, 1, 1]) for name in "abcd"]


def pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.extract.settling.time.monotonic", lambda: 100.0)


def test_pauses_grow_where_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have filled the folder for hours: a failure each second would fill the journal."""
    pause(monkeypatch)
    extracting = Extracting(tmp_path, MASKED[:1])
    queue, dues = extracting.make(), []
    for _ in range(12):
        attempt = send(queue)
        assert attempt is not None
        land(queue, attempt)
        extracting.captures.fail(CaptureCheck.NO_ROOM)
        due = queue.next_due()
        assert due is not None
        dues.append(due - 100.0)
    assert dues[:4] == [RETRY_S, 2 * RETRY_S, 4 * RETRY_S, 8 * RETRY_S] and dues[-1] == 60.0
    assert {failure.get("attempt", 0) for failure in extracting.failures()} == {0}


def test_a_good_one_between_systematic_faults_starts_the_count_again(tmp_path: Path) -> None:
    extracting = Extracting(tmp_path, MASKED)
    queue = extracting.make()
    for check in (CaptureCheck.NORM, CaptureCheck.NORM, None, CaptureCheck.NORM, CaptureCheck.NORM):
        attempt = send(queue)
        assert attempt is not None
        land(queue, attempt)
        if check is None:
            extracting.store(*extracting.captures.takes.pop())
        else:
            extracting.captures.fail(check)
    assert not queue.halted and len(extracting.failures()) == 4


def test_after_a_person_let_it_go_on_one_fault_is_not_enough_to_stop(tmp_path: Path) -> None:
    extracting = Extracting(tmp_path, MASKED)
    queue = extracting.make()
    for number in range(5):
        attempt = send(queue)
        assert attempt is not None
        land(queue, attempt)
        extracting.captures.fail(CaptureCheck.HIDDEN_SIZE)
        if number == 2:
            assert queue.halted
            queue.halted = False
    assert not queue.halted
    assert extracting.events.kinds == ["extract.halted"]


def test_the_record_says_all_that_is_known(tmp_path: Path) -> None:
    extracting = Extracting(tmp_path, MASKED[:1])
    queue = extracting.make()
    attempt = send(queue)
    assert attempt is not None
    land(queue, attempt)
    extracting.captures.fail(CaptureCheck.ZERO_ROW, "row 3 is zero")
    (failure,) = extracting.failures()
    del failure["at"]
    assert failure == {
        "type": "failure", "sample_id": "a", "error": "capture", "message": "row 3 is zero", "next": "retry",
        "attempt": 1, "rid": attempt.rid, "server": "http://127.0.0.1:1", "stage": "extract", "check": "zero_row",
        "schema": 1,
    }  # fmt: skip
    assert MOST_ATTEMPTS > 1


@pytest.mark.parametrize("check", [CaptureCheck.MISSING, CaptureCheck.IDS, CaptureCheck.NON_FINITE])
def test_when_every_sample_fails_the_fault_is_not_in_the_samples(check: CaptureCheck, tmp_path: Path) -> None:
    """A plugin's thread that has died must not cost 88,000 samples three attempts each."""
    extracting = Extracting(tmp_path, [prompt(f"s{number}", loss_mask=[0, 1, 1]) for number in range(ALL_FAIL + 1)])
    queue = extracting.make()
    for number in range(ALL_FAIL):
        assert not queue.halted, number
        attempt = send(queue)
        assert attempt is not None
        land(queue, attempt)
        extracting.captures.fail(check)
    assert queue.halted
    steps = [failure["next"] for failure in extracting.failures()]
    assert len(steps) == ALL_FAIL and steps[-1] == "stopped" and "stopped" not in steps[:-1]
