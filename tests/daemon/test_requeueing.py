"""A wish for another try that comes to nothing is answered, and written nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contracts.commands import Retry
from contracts.fold.run import RunFold
from contracts.records import CaptureCheck, Failure, FailureClass, NextStep, Requeue, Stage, encode_line
from daemon.control.handlers import Handlers
from daemon.requeueing import Requeueing
from daemon.wishes import Requeued, nothing_to_retry
from tests.support.runs import make_run, prompt_lines


class Written:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def append(self, path: Path, line: bytes) -> None:
        self.lines.append(line)


class Daemon:
    """As much of a daemon as a retry needs; nothing failed in it."""

    def __init__(self, fold: RunFold) -> None:
        self.fold, self.events, self.clock = fold, self, self

    def emit(self, *what: Any, **more: Any) -> None:
        raise AssertionError("an event of nothing")

    def now(self) -> float:
        return 1.0

    def has_failed(self, *what: Any) -> bool:
        return False

    def requeue(self, *what: Any) -> Requeued:
        return Requeued()


def test_only_what_comes_to_something_is_written(tmp_path: Path) -> None:
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(2), "B2": prompt_lines(1)})
    given_up = Failure(
        sample_id="p1", error=FailureClass.TRANSIENT, message="HTTP 503", next=NextStep.QUARANTINED, at=1.0
    )
    (run / "prepared" / "B1" / "failures.jsonl").write_bytes(encode_line(given_up))
    fold, written = RunFold(run), Written()
    fold.poll()
    requeueing = Requeueing(fold, written)  # type: ignore[arg-type]
    assert not requeueing.requeue(Requeue(at=2.0, error=FailureClass.REJECTED), None, [])
    assert written.lines == []
    assert requeueing.requeue(Requeue(at=2.0), None, []).samples == 1
    assert len(written.lines) == 1, "and nothing for the data set in which nothing is given up"


def left_out(name: str, check: CaptureCheck) -> Failure:
    return Failure(
        sample_id=name,
        error=FailureClass.INVALID_INPUT,
        message=check,
        next=NextStep.REFUSED,
        at=1.0,
        stage=Stage.EXTRACT,
        check=check,
    )


def test_what_no_try_can_help_is_neither_counted_nor_written(tmp_path: Path) -> None:
    """A daemon read prompts and limits at its start: what it leaves out it goes on to leave out."""
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(3)}, extract={"layers": [1]})
    path = run / "prepared" / "B1" / "failures.jsonl"
    path.write_bytes(encode_line(left_out("p0", CaptureCheck.NOTHING_TO_LEARN)))
    fold, written = RunFold(run), Written()
    fold.poll()
    requeueing = Requeueing(fold, written)  # type: ignore[arg-type]
    assert not requeueing.requeue(Requeue(at=2.0), None, [])
    assert not requeueing.requeue(Requeue(at=2.0, sample_id="p0"), None, [])
    assert written.lines == []
    said = nothing_to_retry(fold, Retry())
    assert said.endswith("1 sample has nothing to learn from, which no retry changes")
    given_up = Failure(
        sample_id="p1", error=FailureClass.CAPTURE, message="ids", next=NextStep.QUARANTINED, at=1.0,
        stage=Stage.EXTRACT, check=CaptureCheck.IDS,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + encode_line(given_up))
    fold.poll()
    assert requeueing.requeue(Requeue(at=2.0), None, []).samples == 1


async def test_a_living_daemon_says_that_there_is_nothing(tmp_path: Path) -> None:
    fold = RunFold(make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(1)}))
    fold.poll()
    reply = await Handlers(Daemon(fold)).handle(Retry(dataset="B1"))  # type: ignore[arg-type]
    assert reply.ok and reply.message.startswith("nothing to retry: no sample of B1 is given up")
