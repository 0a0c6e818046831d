"""Dumps that are wrong in every known way: each is found and named, tried again, and nothing wrong is stored."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.records import FailureClass, Requeue, Stage, encode_line
from daemon.request_ids import is_probe
from tests.support.extracting import (
    SHORT,
    check_stored,
    dumping,
    extract,
    in_memory,
    left_in,
    pretokenized,
    prompts,
    stored_ids,
)
from tests.support.runs import failures, make_run, responses, run_to_end, running, until

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def memory() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


SAMPLES = 12
PASSING = {
    "nan_row": ("non_finite", "position ", ", the output of layer ", ": not finite"),
    "zero_row": ("zero_row", "position ", ", the output of layer 1: nothing but zeros"),
    "wrong_ids": ("ids", " was computed from token id ", "sent and received was"),
    "hole": ("positions", " was never written", "(1 of "),
    "short": ("missing", "rows for", "tokens after 0.4 s"),
    "never": ("missing", "no e3.", "after 0.4 s"),
    "error_file": ("server_error", "the server could not write the rows", "error_file"),
}
"""Fault -> the check that fails, and words of its message."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.extract.settling.RETRY_S", 0.02)
    monkeypatch.setattr("daemon.extract.extraction.STOP_S", 0.1)


@pytest.mark.parametrize("capture", ["generating", "afterwards"])
async def test_every_bad_dump_is_named_and_made_again(memory: Path, capture: str) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url],
            {"B1": prompts(SAMPLES, longest=2) if capture == "generating" else pretokenized(SAMPLES)},
            concurrency=SAMPLES,
            sampling=SHORT, extract=extract(dumps, capture=capture, dump_wait_s=0.4),
        )  # fmt: skip
        server.options.dump_faults.force(None, *PASSING)  # the probe's dump is good  # type: ignore[arg-type]
        assert await run_to_end(run) is False
        assert set(server.options.dump_faults.injected) == set(PASSING)
    found = failures(run)
    assert len(found) == len(PASSING)
    for check, *words in PASSING.values():
        (failure,) = [each for each in found if all(word in each["message"] for word in words)]
        assert (failure["stage"], failure["error"], failure["check"]) == ("extract", "capture", check)
        assert failure["next"] == "retry" and failure["rid"].startswith("e3.") and failure["attempt"] >= 1
    assert check_stored(run) == SAMPLES
    assert len(responses(run)) == (SAMPLES if capture == "generating" else 0), "no answer was made twice"
    assert left_in(dumps) == []


async def test_rows_of_two_requests_exchanged(memory: Path) -> None:
    """Case 17: rows belong to the request whose ids they were computed from."""
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(12)}, concurrency=8, sampling=SHORT, extract=extract(dumps)
        )
        server.options.dump_faults.force(None, None, "swap", None, "swap", None, "swap", "swap")
        assert await run_to_end(run) is False
    found = failures(run)
    assert 2 <= len(found) <= 4 and {failure["check"] for failure in found} <= {"ids", "missing", "rows"}
    assert check_stored(run) == 12
    assert left_in(dumps) == []


@pytest.mark.parametrize("fault", ["zero_row", "never"])
async def test_what_stays_wrong_is_given_up_after_three_and_a_person_can_ask_again(memory: Path, fault: str) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        server.options.dump_faults.force(None)
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(3), "A1": pretokenized(2)},
            sampling=SHORT, extract=extract(dumps, dump_wait_s=0.1),
        )  # fmt: skip
        setattr(server.options.dump_faults, fault, 1.0)
        async with running(run) as work:
            assert await work.end() is False, "what is given up holds nobody up"
        assert stored_ids(run) == stored_ids(run, "A1") == []
        for dataset, number in (("B1", 3), ("A1", 2)):
            steps = [(each["attempt"], each["next"]) for each in failures(run, dataset)]
            assert sorted(steps) == sorted([(1, "retry"), (2, "retry"), (3, "quarantined")] * number)
        assert left_in(dumps) == []
        sent = [rid for rid in server.requests_seen.rids if not is_probe(rid)]
        assert await run_to_end(run) is False
        assert [rid for rid in server.requests_seen.rids if not is_probe(rid)] == sent, "nothing is left to do"
        setattr(server.options.dump_faults, fault, 0.0)
        _requeue(run)
        assert await run_to_end(run) is False
    assert check_stored(run) == 5
    assert len(responses(run)) == 3


def _requeue(run: Path) -> None:
    """As ``eagle3 retry RUN --error capture`` does without a daemon."""
    for folder in (run / "prepared").iterdir():
        with (folder / "failures.jsonl").open("ab") as file:
            file.write(encode_line(Requeue(at=1.0, error=FailureClass.CAPTURE, stage=Stage.EXTRACT)))


async def test_a_person_asks_again_while_the_daemon_runs(memory: Path) -> None:
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(3)}, sampling=SHORT, extract=extract(dumps, dump_wait_s=60.0)
        )
        server.options.dump_faults.force(None, "never")  # it is waited for, and keeps the daemon there
        async with running(run) as work:
            server.options.dump_faults.zero_row = 1.0
            await until(lambda: _given_up(run) == 2)
            server.options.dump_faults.zero_row = 0.0
            done = work.session.requeue(Requeue(at=work.session.clock.now(), error=FailureClass.CAPTURE), "B1")
            assert done.samples == 2
            await until(lambda: len(stored_ids(run)) == 2)
        assert await run_to_end(run) is False
    assert check_stored(run) == 3
    assert left_in(dumps) == []


def _given_up(run: Path) -> int:
    return sum(each["next"] == "quarantined" for each in failures(run))


async def test_a_dump_that_grows_for_two_seconds(memory: Path) -> None:
    """Case 20: the copy is whole, whenever the rows come; the same where they never come (see `PASSING`)."""
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(6)}, sampling=SHORT, extract=extract(dumps, dump_wait_s=20.0)
        )
        server.options.dump_faults.late_s = 2.0
        server.options.dump_faults.force(None, "late", None, "late")
        assert await run_to_end(run) is False
    assert failures(run) == []
    assert check_stored(run) == 6
    assert left_in(dumps) == []


async def test_rows_that_come_when_nobody_waits_any_more_do_not_stay(memory: Path) -> None:
    """Nothing leaks over hours: what comes too late is removed while the daemon runs."""
    dumps = memory / "dumps"
    async with dumping(dumps) as server:
        run = make_run(
            memory / "run", [server.url], {"B1": prompts(4)}, sampling=SHORT, extract=extract(dumps, dump_wait_s=0.1)
        )
        server.options.dump_faults.late_s = 0.6
        server.options.dump_faults.force(None, "late", "late", "late", "late")
        async with running(run) as work:
            await until(lambda: len(failures(run)) == 4)
            work.session.pause("to look")
            await until(lambda: left_in(dumps))
            await until(lambda: not left_in(dumps))
            work.session.resume()
            assert await work.end() is False
    assert check_stored(run) == 4
    assert left_in(dumps) == []
