"""A data set's samples on their way into the store: none lost, none twice, none waited for without end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.records import CaptureCheck, Failure, FailureClass, NextStep, Requeue, Stage, encode_line
from daemon.extract.adopting import LeftDumps
from daemon.extract.fitting import SampleLimits
from daemon.extract.orders import SampleMovedError
from daemon.extract.queue import PUT_OFF_S, ExtractQueue
from tests.daemon.extract.support import Extracting, drop, entries, land, prompt, response, send, waiting
from tests.support.runs import until
from tests.support.stored import failed_capture, stored

PROMPTS = [prompt("a"), prompt("b"), prompt("m", loss_mask=[0, 1, 1])]


def made(path: Path, **how: Any) -> tuple[Extracting, ExtractQueue]:
    extracting = Extracting(path, PROMPTS, **how)
    return extracting, extracting.make()


def fail_all(extracting: Extracting, queue: ExtractQueue, times: int, check: CaptureCheck = CaptureCheck.IDS) -> None:
    for _ in range(times):
        attempt = send(queue)
        assert attempt is not None
        land(queue, attempt)
        extracting.captures.fail(check)
    extracting.fold.poll()


def test_what_waits_at_a_start(tmp_path: Path) -> None:
    extracting = Extracting(tmp_path, PROMPTS)
    extracting.answer(response("a", [4, 5]), response("stranger", [4, 5]), response("m", [4, 5]))
    queue = extracting.make()
    assert waiting(queue) == ["m", "a"]
    assert [entry.tokens for entry in entries(queue).values()] == [3, 4]
    assert not queue.exhausted and not extracting.folder.failures.exists()


def test_from_answer_to_store(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    extracting.answer(response("a", [4, 5]))
    queue.refresh()
    while (attempt := send(queue)) is not None:
        land(queue, attempt)
    assert len(extracting.captures.takes) == 2 and queue.in_flight == 0
    assert queue.busy and not queue.exhausted, "nothing is in the index yet"
    for order, settle in extracting.captures.takes:
        assert order.server and order.cached_tokens == 0
        extracting.store(order, settle)
    assert queue.busy, "its record is not read yet"
    queue.refresh()
    assert queue.exhausted and extracting.captures.open == {}
    assert queue._wanted.entries == {} and queue._sent == set() and queue._orders == {}


def test_rows_come_with_the_answer(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    entry = queue.index.entries[0]
    rid = queue.answers.begin(entry)
    assert rid is not None
    answer = response("a", [4, 5, 6], rid)
    extracting.answer(answer)
    queue.answers.answered(entry, answer)
    queue.refresh()
    assert waiting(queue) == ["m"], "a is being taken: no second pass"
    (order, settle) = extracting.captures.takes[0]
    assert (order.capture, order.ids.tolist()) == ("generating", [1, 2, 3, 4, 5])
    extracting.store(order, settle)
    queue.refresh()
    assert waiting(queue) == ["m"] and not queue.busy and extracting.captures.open == {}


@pytest.mark.parametrize("read_back_first", [True, False])
def test_a_capture_that_failed_is_made_afterwards(read_back_first: bool, tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    entry = queue.index.entries[0]
    rid = queue.answers.begin(entry)
    answer = response("a", [4, 5, 6], rid)
    extracting.answer(answer)
    queue.answers.answered(entry, answer)
    if read_back_first:
        queue.refresh()
    extracting.captures.fail()
    queue.refresh()
    assert not queue.busy and queue.waiting == 2
    (failure,) = extracting.failures()
    assert (failure["next"], failure["attempt"], failure["check"], failure["rid"]) == ("retry", 1, "ids", rid)
    attempts = [send(queue), send(queue)]
    assert sorted(attempt.entry.sample_id for attempt in attempts if attempt) == ["a", "m"]


def test_a_capture_given_up_for_room_costs_no_attempt(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    entry = queue.index.entries[0]
    rid = queue.answers.begin(entry)
    assert rid is not None
    extracting.captures.close(rid)
    answer = response("a", [4, 5, 6], rid)
    queue.answers.answered(entry, answer)
    extracting.answer(answer)
    queue.refresh()
    (failure,) = extracting.failures()
    assert (failure["check"], failure.get("attempt", 0), failure["next"]) == ("no_room", 0, "retry")
    assert queue.waiting == 2


def test_an_answer_without_capture_is_no_failure(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    answer = response("a", [4, 5], "e3g.x")
    queue.answers.answered(queue.index.entries[0], answer)
    assert not extracting.folder.failures.exists() and extracting.captures.takes == []


def test_the_rows_of_a_second_answer_are_not_wanted(tmp_path: Path) -> None:
    """Somebody appended a response while ours was made: the first one in the file counts, and is what is stored."""
    extracting, queue = made(tmp_path)
    entry = queue.index.entries[0]
    rid = queue.answers.begin(entry)
    assert rid is not None
    extracting.answer(response("a", [7, 8]))
    queue.refresh()
    queue.answers.answered(entry, response("a", [4, 5, 6], rid))
    assert extracting.captures.takes == [] and not extracting.captures.is_open(rid)
    assert sorted(waiting(queue)) == ["a", "m"]


@pytest.mark.parametrize(
    ("ids", "check"),
    [
        ([4], CaptureCheck.NOTHING_TO_LEARN),
        ([], CaptureCheck.NOTHING_TO_LEARN),
        (list(range(20)), CaptureCheck.TOO_LONG),
    ],
)
@pytest.mark.parametrize("captured", [True, False])
def test_what_is_refused_is_recorded_once_and_settled(
    ids: list[int], check: CaptureCheck, captured: bool, tmp_path: Path
) -> None:
    extracting, queue = made(tmp_path, limits=SampleLimits(10, False, None))
    entry = queue.index.entries[0]
    rid = queue.answers.begin(entry) if captured else "e3g.x"
    assert rid is not None
    answer = response("a", ids, rid)
    queue.answers.answered(entry, answer)
    extracting.answer(answer)
    queue.refresh()
    assert extracting.captures.open == {} and waiting(queue) == ["m"]
    (failure,) = extracting.failures()
    assert (failure["check"], failure["next"], failure["error"]) == (check, "refused", "invalid_input")
    assert failure.get("tokens") == (22 if check is CaptureCheck.TOO_LONG else None)
    extracting.fold.poll()
    assert extracting.fold.extract_given_up == 1
    extracting.make()
    assert len(extracting.failures()) == 1, "a second start says it no second time"


def test_a_refused_sample_that_fits_now_is_taken(tmp_path: Path) -> None:
    extracting = Extracting(tmp_path, PROMPTS, SampleLimits(4, False, None))
    extracting.answer(response("a", [4, 5, 6]))
    extracting.make()
    extracting.limits = SampleLimits(None, False, None)
    queue = extracting.make()
    assert waiting(queue) == ["m", "a"]
    extracting.fold.poll()
    assert extracting.fold.extract_given_up == 0


def test_ids_that_cannot_be_read_are_a_failure_and_no_crash(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    entry = queue.index.entries[0]
    rid = queue.answers.begin(entry)
    assert rid is not None
    line = encode_line(response("a", [4, 5, 6], rid)).replace(b"[4,5,6]", b"[4,5.5,6]")
    answer = response("a", [4, 5, 6], rid)
    answer.output_ids = msgspec.Raw(b"[4,5.5,6]")
    queue.answers.answered(entry, answer)
    assert extracting.captures.takes == [] and extracting.captures.open == {} and not queue.busy
    extracting.answer(line)
    queue.refresh()
    first, second = send(queue), send(queue)
    attempt = next(each for each in (first, second) if each is not None and each.entry.sample_id == "a")
    assert queue.job(attempt) is None  # type: ignore[arg-type]
    drop(queue, attempt)
    (failure,) = extracting.failures()
    assert (failure["check"], failure["next"]) == ("no_ids", "refused")
    assert waiting(queue) == [] and queue.waiting == 0


def test_what_is_refused_for_days_keeps_nothing_in_memory(tmp_path: Path) -> None:
    extracting = Extracting(tmp_path, PROMPTS[2:], vocab_size=2)
    queue = extracting.make()
    attempt = send(queue)
    assert attempt is not None and queue.job(attempt) is None  # type: ignore[arg-type]
    drop(queue, attempt)
    (fault,) = queue._wanted._refused.values()
    assert fault.check is CaptureCheck.NO_IDS and fault.__traceback__ is None, "its frames hold ids and masks"


def test_an_answer_to_another_prompt_of_that_name_is_refused(tmp_path: Path) -> None:
    """One of the two files was exchanged: the rows of the one's prompt and the other's answer teach nonsense."""
    extracting, queue = made(tmp_path)
    extracting.answer(response("a", [4, 5], prompt_tokens=7), response("b", [4, 5]))
    queue.refresh()
    assert waiting(queue) == ["m", "b"]
    (failure,) = extracting.failures()
    assert (failure["check"], failure["next"]) == ("no_ids", "refused")
    assert "answers a prompt of 7 tokens" in failure["message"] and "has 3" in failure["message"]


def test_prompts_that_cannot_be_read_any_more_leave_no_capture_open(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    entry = queue.index.entries[0]
    rid = queue.answers.begin(entry)
    assert rid is not None
    extracting.folder.prompts.write_text("")
    queue.answers.answered(entry, response("a", [4, 5, 6], rid))
    assert extracting.captures.open == {} and not queue.busy


def test_a_sample_is_given_up_after_three_and_a_person_can_ask_again(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    fail_all(extracting, queue, 3)
    steps = [(failure["attempt"], failure["next"]) for failure in extracting.failures()]
    assert steps == [(1, "retry"), (2, "retry"), (3, "quarantined")]
    assert queue.exhausted
    assert extracting.make().exhausted, "also after a start"
    wish = Requeue(at=9.0, error=FailureClass.CAPTURE)
    assert queue.requeue(wish) == 1
    assert waiting(queue) == ["m"] and queue.trouble == {}


def test_a_wish_in_every_state_neither_loses_nor_doubles_a_sample(tmp_path: Path) -> None:
    extracting = Extracting(tmp_path, [prompt(name, loss_mask=[0, 1, 1]) for name in "abcde"])
    queue = extracting.make()
    given_up, later, taken, sent = (send(queue) for _ in range(4))
    assert given_up and later and taken and sent
    for attempt in (given_up, later, taken):
        queue.job(attempt)  # type: ignore[arg-type]
    queue.quarantine(given_up.entry, FailureClass.REJECTED)
    drop(queue, given_up)
    queue.retry_at(later.entry, 1e9, FailureClass.CAPTURE)
    drop(queue, later)
    land(queue, taken)
    assert queue.requeue(Requeue(at=9.0)) == 2
    assert waiting(queue) == ["a", "b", "e"]
    assert queue.busy and queue.in_flight == 1
    land(queue, sent)
    for order, settle in list(extracting.captures.takes):
        extracting.store(order, settle)
    while (attempt := send(queue)) is not None:
        land(queue, attempt)
        extracting.store(*extracting.captures.takes[-1])
    queue.refresh()
    assert queue.exhausted and len(extracting.fold.hidden.stored) == 5 and extracting.fold.hidden.duplicates == 0


def test_a_wish_does_not_unsettle_what_is_refused(tmp_path: Path) -> None:
    """The record of the wish clears the refusal; without another one the run would never be done."""
    extracting, queue = made(tmp_path)
    extracting.answer(response("a", [4]))
    queue.refresh()
    for of_all in (Requeue(at=9.0), Requeue(at=9.0, error=FailureClass.INVALID_INPUT)):
        queue.requeue(of_all)
    assert len(extracting.failures()) == 1, "a wish that names no sample does not clear it"
    wish = Requeue(at=9.0, sample_id="a")
    extracting.journals.append(extracting.folder.failures, encode_line(wish))
    queue.requeue(wish)
    extracting.fold.poll()
    assert extracting.fold.extract_given_up == 1
    queue.requeue(Requeue(at=9.0, error=FailureClass.CAPTURE))
    queue.requeue(Requeue(at=9.0, stage=Stage.GENERATE))
    queue.requeue(Requeue(at=9.0, sample_id="b"))
    assert [each["type"] for each in extracting.failures()] == ["failure", "requeue", "failure"]


@pytest.mark.parametrize(
    ("failure", "where"),
    [
        (failed_capture("m", attempt=1), "waiting"),
        (failed_capture("m", attempt=3, next=NextStep.QUARANTINED), "given up"),
        (failed_capture("m", error=FailureClass.SERVER_DOWN, check=None), "suspect"),
    ],
)
def test_what_failed_in_an_earlier_session(failure: Failure, where: str, tmp_path: Path) -> None:
    extracting = Extracting(tmp_path, PROMPTS)
    extracting.journals.append(extracting.folder.failures, encode_line(failure))
    queue = extracting.make()
    assert queue.has_ready(0.0, suspects=False) is (where == "waiting")
    assert queue.has_ready(0.0, suspects=True) is (where != "given up")
    assert queue.trouble[b"m"].attempts == failure.attempt


def test_a_systematic_fault_stops_the_stage_and_asks_for_its_server(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    fail_all(extracting, queue, 3, CaptureCheck.LAYERS)
    assert queue.halted and "extract.halted" in extracting.events.kinds
    assert len(extracting.rechecked) == 3
    assert [failure["next"] for failure in extracting.failures()] == ["retry", "retry", "stopped"]
    assert send(queue) is None and not queue.exhausted
    assert queue.answers.begin(queue.index.entries[0]) is None, "and no answer is captured"
    assert extracting.make().halted
    queue.requeue(Requeue(at=9.0))
    assert send(queue) is not None


def test_a_pass_waits_for_room(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path)
    extracting.captures.room = 4
    extracting.captures.open["e3.other"] = 2
    assert send(queue) is None and not queue.exhausted
    extracting.captures.close("e3.other")
    assert send(queue) is not None


def test_what_others_leave_no_room_for_lets_smaller_ones_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.extract.queue.PUT_OFF_MOST", 3)
    large = [prompt(f"l{number}", [1] * 9, loss_mask=[1] * 9) for number in range(5)]
    extracting = Extracting(tmp_path, [*large, prompt("small", loss_mask=[0, 1, 1])])
    queue = extracting.make()
    extracting.captures.room = 4
    assert send(queue, 100.0) is None, "not all of many at a time"
    attempt = send(queue, 100.0)
    assert attempt is not None and attempt.entry.sample_id == "small"
    assert send(queue, 100.0) is None and not queue.exhausted and queue.next_due() == 100.0 + PUT_OFF_S
    extracting.captures.room = 1000
    assert send(queue, 101.0) is None
    sent = [send(queue, 100.0 + PUT_OFF_S) for _ in range(5)]
    assert [each and each.entry.sample_id for each in sent] == [f"l{number}" for number in range(5)]
    assert not extracting.folder.failures.exists(), "nobody failed"


def test_a_cut_to_what_a_server_takes_holds_for_passes_alone(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path, limits=SampleLimits(None, True, 5))
    entry = queue.index.entries[0]
    rid = queue.answers.begin(entry)
    assert rid is not None
    answer = response("a", [4, 5, 6, 7], rid)
    queue.answers.answered(entry, answer)
    extracting.answer(answer)
    queue.refresh()
    order = extracting.captures.fail()
    assert order.ids.size == 6, "while generating all rows came"
    found = [each for each in (send(queue), send(queue)) if each and each.entry.sample_id == "a"]
    job = queue.job(found[0])  # type: ignore[arg-type]
    assert job is not None and (job.prompt_tokens, job.input_ids) == (5, b"[1,2,3,4,5]")


def test_what_only_its_answer_could_bring_is_refused_when_that_failed(tmp_path: Path) -> None:
    extracting, queue = made(tmp_path, limits=SampleLimits(None, False, 5))
    entry = queue.index.entries[0]
    rid = queue.answers.begin(entry)
    assert rid is not None
    answer = response("a", [4, 5, 6, 7], rid)
    queue.answers.answered(entry, answer)
    extracting.answer(answer)
    queue.refresh()
    assert not extracting.folder.failures.exists(), "its rows are just being taken"
    extracting.captures.fail()
    assert [(each["check"], each["next"]) for each in extracting.failures()] == [
        ("ids", "retry"),
        ("too_long", "refused"),
    ]
    assert waiting(queue) == ["m"] and queue.waiting == 1


class TestAnotherResponseFile:
    def test_all_of_it_is_taken(self, tmp_path: Path) -> None:
        extracting, queue = made(tmp_path)
        extracting.answer(response("a", [4, 5]), response("b", [4, 5]))
        queue.refresh()
        extracting.replace_responses(response("b", [4, 5, 6]))
        queue.refresh()
        assert sorted(waiting(queue)) == ["b", "m"]
        assert entries(queue)[b"b"].tokens == 5

    def test_what_waits_for_another_try_is_found_there(self, tmp_path: Path) -> None:
        extracting, queue = made(tmp_path)
        extracting.answer(response("a", [4, 5]))
        queue.refresh()
        attempts = {each.entry.sample_id: each for each in (send(queue), send(queue)) if each}
        drop(queue, attempts["m"])
        land(queue, attempts["a"])
        extracting.captures.fail()
        assert queue.next_due() is not None
        extracting.replace_responses(response("b", [1, 2]), response("a", [4, 5]))
        queue.refresh()
        again = [send(queue), send(queue)]
        jobs = [queue.job(each) for each in again if each]  # type: ignore[arg-type]
        assert sorted(str(job.sample_id) for job in jobs if job) == ["a", "b"]

    def test_an_open_pass_is_not_doubled_and_its_rows_are_not_stored(self, tmp_path: Path) -> None:
        extracting = Extracting(tmp_path, PROMPTS[:2])
        extracting.answer(response("a", [4, 5]))
        queue = extracting.make()
        attempt = send(queue)
        assert attempt is not None
        queue.job(attempt)  # type: ignore[arg-type]
        extracting.replace_responses(response("a", [7, 8, 9]))
        queue.refresh()
        assert send(queue) is None, "one pass at a time"
        queue.accept(attempt, response("a", [9], attempt.rid))  # type: ignore[arg-type]
        assert extracting.captures.takes == [] and extracting.captures.open == {}
        again = send(queue)
        assert again is not None
        job = queue.job(again)  # type: ignore[arg-type]
        assert job is not None and job.input_ids == b"[1,2,3,7,8]"

    def test_a_failed_open_pass_is_queued_once(self, tmp_path: Path) -> None:
        extracting = Extracting(tmp_path, PROMPTS[:2])
        extracting.answer(response("a", [4, 5]))
        queue = extracting.make()
        attempt = send(queue)
        assert attempt is not None
        extracting.replace_responses(response("b", [1, 2]), response("a", [4, 5]))
        queue.refresh()
        queue.retry_at(attempt.entry, 0.0, FailureClass.TRANSIENT)
        drop(queue, attempt)
        assert sorted(waiting(queue)) == ["a", "b"] and queue.waiting == 2

    def test_it_is_noticed_at_the_latest_when_a_sample_is_not_where_it_was(self, tmp_path: Path) -> None:
        extracting = Extracting(tmp_path, PROMPTS[:2])
        extracting.answer(response("a", [4, 5]))
        queue = extracting.make()
        attempt = send(queue)
        assert attempt is not None
        extracting.replace_responses(response("b", [1, 2]), response("a", [4, 5]))
        assert queue.job(attempt) is None  # type: ignore[arg-type]
        drop(queue, attempt)
        assert sorted(waiting(queue)) == ["a", "b"]

    def test_damage_that_nobody_can_explain_stops(self, tmp_path: Path) -> None:
        extracting = Extracting(tmp_path, PROMPTS[:2])
        extracting.answer(response("a", [4, 5]), response("b", [4, 5, 6, 7, 8]))
        queue = extracting.make()
        attempt = send(queue)
        assert attempt is not None
        with extracting.folder.responses.open("r+b") as file:
            file.write(b"x" * 20)
        with pytest.raises(SampleMovedError):
            queue.job(attempt)  # type: ignore[arg-type]
        queue.put_back(attempt.entry)
        drop(queue, attempt)
        assert sorted(waiting(queue)) == ["a", "b"]

    def test_what_is_given_up_stays_so(self, tmp_path: Path) -> None:
        """Also what was given up in an earlier session, and for another reason than three failed checks."""
        extracting = Extracting(tmp_path, PROMPTS[:2])
        extracting.answer(response("a", [4, 5]), response("b", [4, 5]))
        poison = failed_capture("a", error=FailureClass.POISON, check=None, attempt=1, next=NextStep.QUARANTINED)
        extracting.journals.append(extracting.folder.failures, encode_line(poison))
        queue = extracting.make()
        attempt = send(queue)
        assert attempt is not None and attempt.entry.sample_id == "b"
        extracting.replace_responses(response("b", [7, 8]), response("a", [7, 8]))
        queue.refresh()
        queue.quarantine(attempt.entry, FailureClass.REJECTED)
        drop(queue, attempt)
        assert send(queue) is None and queue.exhausted
        assert queue.requeue(Requeue(at=9.0, sample_id="a")) == 1
        assert waiting(queue) == ["a"] and entries(queue)[b"a"].tokens == 4
        assert queue.requeue(Requeue(at=9.0, error=FailureClass.REJECTED)) == 1
        assert sorted(waiting(queue)) == ["a", "b"]

    def test_a_wish_for_what_is_not_in_the_file_any_more(self, tmp_path: Path) -> None:
        extracting = Extracting(tmp_path, PROMPTS[:2])
        extracting.answer(response("a", [4, 5]))
        queue = extracting.make()
        fail_all(extracting, queue, 3)
        extracting.replace_responses(response("b", [7, 8]))
        queue.refresh()
        wish = Requeue(at=9.0)
        extracting.journals.append(extracting.folder.failures, encode_line(wish))
        queue.requeue(wish)
        assert waiting(queue) == ["b"], "nothing is known of a"
        extracting.answer(response("a", [4, 5]))
        queue.refresh()
        assert sorted(waiting(queue)) == ["a", "b"], "and it has all its attempts again"

    def test_a_deleted_one_leaves_what_needs_no_response(self, tmp_path: Path) -> None:
        extracting, queue = made(tmp_path)
        extracting.answer(response("a", [4, 5]))
        queue.refresh()
        extracting.folder.responses.unlink()
        queue.refresh()
        assert waiting(queue) == ["m"]


def test_a_start_looks_at_a_few_samples_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeat, commands and answers wait for each of its steps."""
    monkeypatch.setattr("daemon.extract.wanted.SAMPLES_AT_A_TIME", 3)
    numbers = range(10)
    extracting = Extracting(tmp_path, [prompt(f"p{number}") for number in numbers] + PROMPTS[2:])
    extracting.answer(*(response(f"p{number}", [4, 5]) for number in numbers))
    seen: list[int] = []
    fill = ExtractQueue.fill

    def watched(queue: ExtractQueue, left: LeftDumps | None = None) -> bool:
        assert not queue.exhausted
        more = fill(queue, left)
        seen.append(queue.waiting)
        return more

    monkeypatch.setattr(ExtractQueue, "fill", watched)
    queue = extracting.make()
    assert seen == [3, 6, 9, 11] and not queue.exhausted and queue.weight == 11


async def test_a_large_file_is_read_between_other_things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.extract.wanted.READ_BYTES", 1 << 16)
    number = 400
    extracting = Extracting(tmp_path, [prompt(f"p{index}") for index in range(number)])
    queue = extracting.make()
    extracting.answer(*(response(f"p{index}", list(range(500))) for index in range(number)))
    queue.refresh()
    assert 0 < queue.waiting < number and not queue.exhausted
    seen = set()
    while queue.waiting < number:
        await asyncio.sleep(0)
        seen.add(queue.waiting)
    assert len(seen) > 2, "in steps"
    queue.close()


async def test_a_file_that_cannot_be_read_is_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.extract.wanted.READ_AGAIN_S", 0.001)
    extracting = Extracting(tmp_path, PROMPTS[:2])
    queue = extracting.make()
    extracting.folder.responses.unlink()
    extracting.folder.responses.mkdir()
    queue.refresh()
    assert not queue.exhausted
    extracting.folder.responses.rmdir()
    extracting.folder.responses.write_bytes(encode_line(response("a", [4, 5])))
    await until(lambda: queue.waiting)
    assert waiting(queue) == ["a"]
    queue.close()


def test_what_is_stored_already_is_never_queued(tmp_path: Path) -> None:
    extracting = Extracting(tmp_path, PROMPTS)
    extracting.journals.append(extracting.folder.hidden_states, encode_line(stored("a")))
    extracting.answer(response("a", [4, 5]))
    assert waiting(extracting.make()) == ["m"]
