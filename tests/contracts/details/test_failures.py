from __future__ import annotations

from pathlib import Path

from contracts.details.failures import IN_RESPONSES, attempts_of, failure_overview, message_form
from contracts.records import CaptureCheck, FailureClass, NextStep, Stage
from tests.support.records import NOW, failure, folded, make_run, response, write


def test_messages_that_differ_in_numbers_and_request_ids_are_one_group(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    lines = [failure(f"s{n}", message=f"HTTP 503: queue {n}, request e3.ab{n:x}.{n:08x}.1") for n in range(300)]
    write(run.dataset("d").failures, [*lines, failure("z", message="connection reset", at=NOW)])
    groups = failure_overview(folded(run), NOW).groups
    assert [(group.open, group.form) for group in groups] == [
        (300, "HTTP #: queue #, request #"),
        (1, "connection reset"),
    ]
    assert groups[0].message.startswith("HTTP 503: queue 299")
    assert groups[0].retrying == 300


def test_what_was_answered_meanwhile_is_solved_not_open(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    write(run.dataset("d").failures, [failure("a"), failure("b")])
    write(run.dataset("d").responses, [response("a")])
    (group,) = failure_overview(folded(run), NOW).groups
    assert (group.open, group.solved) == (1, 1)
    assert group.can_retry


def test_what_a_rule_leaves_out_is_not_open_and_says_what_helps(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    refused = {"stage": Stage.EXTRACT, "error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
    checks = {
        "one": CaptureCheck.NOTHING_TO_LEARN, "two": CaptureCheck.NOTHING_TO_LEARN, "long": CaptureCheck.TOO_LONG,
        "ids": CaptureCheck.NO_IDS,
    }  # fmt: skip
    write(
        run.dataset("d").failures,
        [failure(each, message=check, check=check, **refused) for each, check in checks.items()],
    )
    groups = {group.check: group for group in failure_overview(folded(run), NOW).groups}
    assert {check: (group.open, group.left_out) for check, group in groups.items()} == {
        CaptureCheck.NOTHING_TO_LEARN: (0, 2), CaptureCheck.TOO_LONG: (0, 1), CaptureCheck.NO_IDS: (1, 0),
    }  # fmt: skip
    assert not any(group.can_retry for group in groups.values())
    assert "learnt" in groups[CaptureCheck.NOTHING_TO_LEARN].instead
    assert "raise max_tokens" in groups[CaptureCheck.TOO_LONG].instead
    assert not any("prompt file" in group.instead for group in groups.values()), "it is the answer that is so"


def test_both_stages_refused_lines_and_foreign_failures(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", datasets=("d", "e"))
    write(
        run.dataset("d").failures,
        [
            failure("a", stage=Stage.EXTRACT, error=FailureClass.CAPTURE, check=CaptureCheck.IDS, message="ids differ"),
            failure(
                None, error=FailureClass.INVALID_INPUT, next=NextStep.REFUSED, line=3, message="id 99 is too large"
            ),
            failure("q", error=FailureClass.REJECTED, next=NextStep.QUARANTINED, message="HTTP 400"),
        ],
    )
    write(run.dataset("e").failures, [failure("q", error=FailureClass.REJECTED, message="HTTP 400")])
    write(run.dataset("e").responses, [b'{"custom_id":"f","error":{"message":"no answer"}}\n'])
    fold = folded(run)
    overview = failure_overview(fold, NOW)
    assert {(group.stage, group.error): (group.open, group.datasets) for group in overview.groups} == {
        ("extract", "capture"): (1, ("d",)),
        ("generate", "invalid_input"): (1, ("d",)),
        ("generate", "rejected"): (2, ("d", "e")),
        ("generate", IN_RESPONSES): (1, ("e",)),
    }
    assert overview.checks == {"ids": 1}
    assert overview.attempts == {"rejected": 2, "invalid_input": 1}
    assert [group.error for group in overview.groups if not group.can_retry] == [
        group.error for group in overview.groups if group.error in ("invalid_input", IN_RESPONSES)
    ]
    rejected = next(group for group in overview.groups if group.error == "rejected")
    assert rejected.retrying == 1
    assert {group.error for group in failure_overview(fold, NOW, "d").groups} == {
        "capture", "invalid_input", "rejected",
    }  # fmt: skip


def test_the_attempts_of_a_group_are_the_newest_first(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    write(
        run.dataset("d").failures,
        [failure(f"s{n}", message=f"HTTP 503 n {n}", at=NOW + n) for n in range(20)]
        + [b"not json\n", failure("x", message="HTTP 500 oops", at=NOW)],
    )
    fold = folded(run)
    group = failure_overview(fold, NOW).groups[0]
    attempts = attempts_of(fold, NOW, group)
    assert [attempt.failure.sample_id for attempt in attempts] == [f"s{n}" for n in range(19, -1, -1)]
    raw = run.dataset("d").failures.read_bytes()
    assert all(raw[attempt.offset :].startswith(b"{") for attempt in attempts)


def test_what_was_appended_after_the_fold_is_not_listed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    write(run.dataset("d").failures, [failure("a")])
    fold = folded(run)
    write(run.dataset("d").failures, [failure("b")])
    group = failure_overview(fold, NOW).groups[0]
    assert [attempt.failure.sample_id for attempt in attempts_of(fold, NOW, group)] == ["a"]


def test_words_stay_and_what_varies_goes() -> None:
    assert message_form("abort of e3.run-a.9f.2 after 12.5 s at 0123456789abcdef") == "abort of # after #.# s at #"
    assert message_form("bad face") == "bad face"
