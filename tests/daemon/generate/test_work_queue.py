"""What both stages' queues have in common, beyond what `test_queue` sees through answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contracts.records import FailureClass, Requeue, Stage
from daemon.generate.work_queue import Trouble, WorkQueue


@dataclass(frozen=True)
class Entry:
    sample_id: str

    @property
    def key(self) -> bytes:
        return self.sample_id.encode()


class Queue(WorkQueue[Entry]):
    def __init__(self, *samples: str, stage: Stage = Stage.EXTRACT, halted: bool = False) -> None:
        super().__init__("B1", stage, Path("failures.jsonl"), halted=halted)
        self._fresh.extend(map(Entry, samples))

    def refresh(self) -> None: ...
    def rid(self, entry: Entry) -> str:
        return entry.sample_id

    def job(self, attempt: Any) -> None: ...
    def accept(self, attempt: Any, response: Any) -> None: ...
    def fruitless(self, attempt: Any) -> None: ...

    def taken(self, now: float = 0.0, suspects: bool = True) -> list[str]:
        found = []
        while self.has_ready(now, suspects):
            ahead = self.next_entry(suspects)
            entry = self.take(suspects)
            assert entry is not None and entry is ahead, "what is looked at is what is taken"
            found.append(entry.sample_id)
        return found


def test_due_retries_go_first_then_suspects_then_fresh_ones() -> None:
    queue = Queue("fresh")
    queue.retry_at(Entry("due"), 1.0, FailureClass.CAPTURE)
    queue.suspect(Entry("suspect"))
    assert queue.waiting == 3 and queue.waiting_retry == 2
    assert queue.taken(now=2.0) == ["due", "suspect", "fresh"]
    assert queue.exhausted and queue.in_flight == 3
    assert queue.take(True) is None and queue.next_entry(True) is None


def test_a_look_ahead_leaves_suspects_out_where_they_may_not_go() -> None:
    queue = Queue()
    queue.suspect(Entry("s"))
    assert not queue.has_ready(0.0, False) and queue.next_entry(False) is None
    assert not queue.exhausted


def test_what_is_put_off_lets_others_go_first() -> None:
    queue = Queue("a", "b")
    queue.put_off(True, 5.0, FailureClass.CAPTURE)
    assert queue.taken(4.0) == ["b"] and queue.waiting == 1 and queue.next_due() == 5.0
    assert queue.taken(5.0) == ["a"] and queue.sent == 2
    queue.put_off(True, 5.0, FailureClass.CAPTURE)
    assert queue.waiting == 0


def test_a_halted_queue_has_nothing_due() -> None:
    queue = Queue("a", halted=True)
    queue.retry_at(Entry("b"), 1.0, FailureClass.CAPTURE)
    assert not queue.has_ready(9.0, True) and queue.next_due() is None
    assert not queue.exhausted, "it waits for a person"


@pytest.mark.parametrize(
    ("record", "goes_on"),
    [
        (Requeue(at=1.0), True),
        (Requeue(at=1.0, stage=Stage.EXTRACT), True),
        (Requeue(at=1.0, error=FailureClass.CAPTURE), True),
        (Requeue(at=1.0, error=FailureClass.CONTRACT_DRIFT), True),
        (Requeue(at=1.0, error=FailureClass.TRANSIENT), False),
        (Requeue(at=1.0, stage=Stage.GENERATE), False),
        (Requeue(at=1.0, sample_id="a"), False),
    ],
)
def test_what_ends_a_halt_of_the_extraction(record: Requeue, goes_on: bool) -> None:
    queue = Queue("a", halted=True)
    assert queue.ends_halt(record) is goes_on
    queue.requeue(record)
    assert queue.halted is not goes_on


def test_failed_captures_do_not_let_answers_go_on() -> None:
    queue = Queue("a", stage=Stage.GENERATE, halted=True)
    queue.requeue(Requeue(at=1.0, error=FailureClass.CAPTURE))
    assert queue.halted


def test_a_requeue_of_the_other_stage_touches_nothing() -> None:
    queue = Queue()
    queue.quarantine(Entry("a"), FailureClass.CAPTURE)
    assert queue.requeue(Requeue(at=1.0, stage=Stage.GENERATE)) == 0
    assert queue.exhausted
    assert queue.requeue(Requeue(at=1.0, stage=Stage.EXTRACT)) == 1
    assert queue.taken() == ["a"]


def test_what_is_tried_again_is_counted_from_the_start() -> None:
    queue = Queue("x")
    entry = Entry("a")
    queue.trouble[b"a"] = Trouble(attempts=3, deaths=2)
    queue.quarantine(entry, FailureClass.CAPTURE)
    assert queue.is_suspect(entry)
    queue.requeue(Requeue(at=1.0))
    assert queue.trouble == {} and not queue.is_suspect(entry)
    assert queue.taken() == ["a", "x"], "before what was never tried"


def test_trouble_of_a_sample_that_had_none_is_not_kept() -> None:
    queue = Queue("a")
    assert queue.trouble_of(Entry("a")) == Trouble() and queue.trouble == {}
