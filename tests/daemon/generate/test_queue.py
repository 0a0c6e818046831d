"""A data set's queue: order, suspects, retries, targets, requeues."""

from pathlib import Path

import pytest

from contracts.fold.run import RunFold
from contracts.records import Failure, FailureClass, NextStep, Requeue, encode_line
from daemon.generate.queue import DatasetQueue, typical_tokens
from daemon.generate.work_queue import Trouble
from daemon.prompts.index import PromptEntry, PromptIndex, PromptLimits
from daemon.request_ids import RequestIds
from daemon.writer import Writer
from tests.support.runs import make_run, prompt_lines

LIMITS = PromptLimits(None, None, None, 64)


def response(sample_id: str, tokens: int = 3) -> bytes:
    ids = ",".join("7" * tokens)
    return (
        b'{"sample_id":"%s","prompt_tokens":2,"completion_tokens":%d,"finish_reason":"stop","output_ids":[%s]}\n'
        % (sample_id.encode(), tokens, ids.encode())
    )  # fmt: skip


def failure(sample_id: str, error: FailureClass, step: NextStep, attempt: int = 0) -> bytes:
    return encode_line(Failure(sample_id=sample_id, error=error, message="m", next=step, at=1.0, attempt=attempt))


class Queues:
    """A run directory with two data sets and the queues over it."""

    def __init__(self, path: Path, number: int = 5, **how: object) -> None:
        datasets = {"B1": prompt_lines(number), "B2": prompt_lines(number)}
        self.run = make_run(path, ["http://127.0.0.1:9"], datasets, **how)  # type: ignore[arg-type]
        self.fold = RunFold(self.run)

    def write(self, name: str, *lines: bytes, dataset: str = "B1") -> None:
        with (self.run / "prepared" / dataset / name).open("ab") as file:
            file.writelines(lines)
        self.fold.poll()

    def queue(self, name: str = "B1") -> DatasetQueue:
        self.fold.poll()
        dataset = self.fold.datasets[name]
        index = PromptIndex.build(dataset.folder.prompts, LIMITS)
        writer = Writer(lambda lines: None, lambda trouble: None)
        return DatasetQueue(self.fold, dataset, index, writer, RequestIds(self.run, "s"))


def ids(queue: DatasetQueue, now: float = 0.0, suspects: bool = True) -> list[str]:
    """Take everything that is ready."""
    found = []
    while queue.has_ready(now, suspects):
        entry = queue.take(suspects)
        assert entry is not None
        found.append(str(entry.sample_id))
    return found


def test_fresh_ones_go_in_the_order_of_the_file(tmp_path: Path) -> None:
    queues = Queues(tmp_path)
    queues.write("raw_responses.jsonl", response("p1"), response("p3"))
    queue = queues.queue()
    assert ids(queue) == ["p0", "p2", "p4"]
    assert (queue.in_flight, queue.exhausted, queue.sent) == (3, True, 3)


def test_what_failed_before_is_placed_by_its_last_failure(tmp_path: Path) -> None:
    queues = Queues(tmp_path)
    queues.write(
        "failures.jsonl",
        failure("p0", FailureClass.REJECTED, NextStep.QUARANTINED, 1),
        failure("p1", FailureClass.TRANSIENT, NextStep.RETRY, 2),
        failure("p2", FailureClass.SERVER_DOWN, NextStep.RETRY),
    )
    queue = queues.queue()
    assert queue.trouble[b"p1"].attempts == 2
    assert ids(queue, suspects=False) == ["p1", "p3", "p4"]
    assert not queue.exhausted, "the suspect waits"
    assert ids(queue) == ["p2"]


def test_retries_wait_for_their_time_and_a_suspect_among_them_for_its_turn(tmp_path: Path) -> None:
    queue = Queues(tmp_path).queue()
    first, second, *_ = [queue.take(True) for _ in range(5)]
    assert first is not None and second is not None
    queue.trouble[second.key] = Trouble(deaths=1)
    queue.retry_at(first, 10.0, FailureClass.TRANSIENT)
    queue.retry_at(second, 5.0, FailureClass.TRANSIENT)
    assert queue.next_due() == 5.0
    assert ids(queue, now=4.0) == []
    assert ids(queue, now=20.0, suspects=False) == [first.sample_id]
    assert queue.next_due() is None
    assert ids(queue, now=20.0) == [second.sample_id]


def test_put_back_keeps_a_suspect_a_suspect(tmp_path: Path) -> None:
    queue = Queues(tmp_path).queue()
    entry = queue.take(True)
    assert entry is not None
    queue.trouble[entry.key] = Trouble(deaths=1)
    queue.put_back(entry)
    assert entry.sample_id not in ids(queue, suspects=False)
    assert ids(queue) == [entry.sample_id]


def test_a_target_is_reached_by_answers_that_are_not_in_the_file_yet(tmp_path: Path) -> None:
    queues = Queues(tmp_path, targets={"B1": 10})
    queues.write("raw_responses.jsonl", response("p0", 6))
    queue = queues.queue()
    entry = queue.take(True)
    assert entry is not None
    assert not queue.target_reached
    queue.answered(entry, 4)
    assert queue.target_reached and not queue.has_ready(0.0, True) and queue.exhausted
    queues.write("raw_responses.jsonl", response(str(entry.sample_id), 4))
    queue.refresh()
    assert queue.target_reached and not queue._unread, "counted once"


def test_halted_sends_nothing_until_a_requeue(tmp_path: Path) -> None:
    queues = Queues(tmp_path)
    queues.write("failures.jsonl", failure("p0", FailureClass.CONTRACT_DRIFT, NextStep.STOPPED))
    queue = queues.queue()
    assert queue.halted and ids(queue) == []
    assert queue.requeue(Requeue(at=2.0, error=FailureClass.REJECTED)) == 0
    assert queue.halted
    queue.requeue(Requeue(at=2.0, error=FailureClass.CONTRACT_DRIFT))
    assert ids(queue) == ["p0", "p1", "p2", "p3", "p4"]


@pytest.mark.parametrize(
    ("record", "again"),
    [
        (Requeue(at=2.0), ["p0", "p1", "p2", "p3"]),
        (Requeue(at=2.0, error=FailureClass.REJECTED), ["p0"]),
        (Requeue(at=2.0, error=FailureClass.TRANSIENT), ["p1", "p3"]),
        (Requeue(at=2.0, error=FailureClass.SERVER_DOWN), ["p2"]),
        (Requeue(at=2.0, sample_id="p1"), ["p1"]),
        (Requeue(at=2.0, error=FailureClass.REJECTED, sample_id="p1"), []),
        (Requeue(at=2.0, sample_id="nobody"), []),
    ],
)
def test_requeue_takes_what_waits_and_what_was_given_up(record: Requeue, again: list[str], tmp_path: Path) -> None:
    queue = Queues(tmp_path).queue()
    rejected, failing, suspect, late, _ = [_taken(queue) for _ in range(5)]
    for entry in (rejected, failing, suspect, late):
        queue.trouble[entry.key] = Trouble(attempts=2)
    queue.quarantine(rejected, FailureClass.REJECTED)
    queue.quarantine(failing, FailureClass.TRANSIENT)
    queue.trouble[suspect.key] = Trouble(deaths=1)
    queue.suspect(suspect)
    queue.retry_at(late, 1e9, FailureClass.TRANSIENT)
    assert queue.requeue(record) == len(again)
    assert ids(queue, suspects=False) == again
    assert all(sample.encode() not in queue.trouble for sample in again), "counted from the start"


def _taken(queue: DatasetQueue) -> PromptEntry:
    entry = queue.take(True)
    assert entry is not None
    return entry


def test_claims_to_slots_are_in_tokens_for_all(tmp_path: Path) -> None:
    queues = Queues(tmp_path, number=100)
    one, other = queues.queue("B1"), queues.queue("B2")
    assert one.weight == other.weight == 100 * 64, "nothing known: what the server would allow"
    queues.write("raw_responses.jsonl", *(response(f"p{index}", 30) for index in range(50)))
    one, other = queues.queue("B1"), queues.queue("B2")
    assert (one.weight, other.weight) == (50 * 30, 100 * 30)
    assert typical_tokens(queues.fold) == 30


def test_a_target_beyond_what_the_prompts_give_is_no_claim(tmp_path: Path) -> None:
    queues = Queues(tmp_path, number=10, targets={"B1": 10**9, "B2": 40})
    queues.write("raw_responses.jsonl", response("p0", 30))
    queues.write("raw_responses.jsonl", response("p0", 30), dataset="B2")
    assert queues.queue("B1").weight == 9 * 30
    assert queues.queue("B2").weight == 10
