"""`retry` and `set` of a run without a daemon: recorded under the lock, heeded at the next start."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from contracts.commands import Retry, Set
from contracts.fold.run import RunFold
from contracts.records import CaptureCheck, Failure, FailureClass, NextStep, Stage, encode_line
from contracts.run_dir import RunDir
from daemon.recording import record_command
from daemon.single import AlreadyRunning, SingleInstance
from tests.support.runs import answered, events, failures, make_run, prompt_lines, run_to_end, running, until
from tests.support.scripted_sglang import Request, ScriptedSglang, answer_well

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.session.ALERTS_EVERY_S", 0.05)


async def refuse(_request: Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "odd"}}, status=400)


async def test_given_up_samples_of_a_finished_run_are_sent_again_at_the_next_start(tmp_path: Path) -> None:
    async with ScriptedSglang(refuse) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3)})
        assert await run_to_end(run) is False
        RunDir(run).daemon_info.write_bytes(info := b'{"pid": 1, "ended_at": 2.0}')
        reply = record_command(run, Retry(dataset="B1"))
        assert reply.ok and reply.result == {"samples": 3}
        assert reply.message == "3 samples are sent again: recorded; it takes effect at the next eagle3 start"
        assert RunDir(run).daemon_info.read_bytes() == info, "it still tells of the last daemon"
        assert failures(run)[-1]["type"] == "requeue"
        assert events(run, "control.retry")[-1]["dataset"] == "B1"
        server.answer = answer_well
        assert await run_to_end(run) is False
    assert len(answered(run)) == 3


async def test_a_stopped_data_set_goes_on_at_the_next_start(tmp_path: Path) -> None:
    async with ScriptedSglang(refuse) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(40)}, concurrency=1)
        async with running(run) as work:
            await until(lambda: work.dataset().stage == "halted")
        reply = record_command(run, Retry(error=FailureClass.CONTRACT_DRIFT))
        assert reply.message.startswith("B1 goes on, 21 samples were waiting; 0 samples are sent again")
        server.answer = answer_well
        assert await run_to_end(run) is False
    assert len(answered(run)) == 21


async def test_what_is_set_holds_at_the_next_start(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(50)}, targets={"B1": 3})
        assert await run_to_end(run) is False
        done = len(answered(run))
        assert record_command(run, Set(targets={"B1": 60})).message.startswith("target of B1: 60 tokens: recorded")
        assert await run_to_end(run) is False
        assert len(answered(run)) >= 20 > done
        (said,) = events(run, "config.overridden")
        assert "run.toml says a target of 3 tokens for B1, `set` of " in said["message"]
        assert said["message"].endswith(f"holds: 60; back to run.toml with: eagle3 set {run} --target B1=default")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Retry(dataset="C"), "no data set 'C'; there are: B1"),
        (Retry(sample_id="p0"), "no sample 'p0' of this run has failed"),
        (Set(targets={"C": 1}), "no data set 'C' in this run; there are: B1"),
        (Set(), "nothing to set"),
    ],
)
def test_what_a_daemon_would_refuse_is_refused_and_not_recorded(
    tmp_path: Path, command: Retry | Set, words: str
) -> None:
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(1)})
    reply = record_command(run, command)
    assert not reply.ok and words in reply.message
    assert failures(run) == events(run) == []


def test_invalid_input_is_no_matter_of_trying_again(tmp_path: Path) -> None:
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(1)})
    assert record_command(run, Retry(error=FailureClass.INVALID_INPUT)).result == {"samples": 0}
    assert failures(run) == []


def test_a_living_daemon_is_the_one_to_write(tmp_path: Path) -> None:
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(1)})
    daemon = SingleInstance(RunDir(run))
    daemon.acquire()
    with pytest.raises(AlreadyRunning):
        record_command(run, Set(concurrency=3))
    assert events(run) == []
    daemon.release()
    assert record_command(run, Set(concurrency=3)).ok, "and the lock was given back"
    assert record_command(run, Set(concurrency="default")).message.startswith("concurrency: as in run.toml, 4")


def test_samples_left_out_of_the_store_are_looked_at_again_when_asked_for(tmp_path: Path) -> None:
    extract = {"layers": [1], "max_tokens": 5}
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(2), "B2": []}, extract=extract)
    left_out = Failure(
        sample_id="p1",
        error=FailureClass.INVALID_INPUT,
        message="has 9 tokens, the limit is 5",
        next=NextStep.REFUSED,
        at=1.0,
        stage=Stage.EXTRACT,
        check=CaptureCheck.TOO_LONG,
    )
    (run / "prepared" / "B1" / "failures.jsonl").write_bytes(encode_line(left_out))
    reply = record_command(run, Retry(error=FailureClass.INVALID_INPUT))
    assert reply.ok and reply.message.startswith("1 sample is sent again")
    assert [record["stage"] for record in failures(run) if record["type"] == "requeue"] == ["extract"]
    assert not (run / "prepared" / "B2" / "failures.jsonl").exists()
    fold = RunFold(run)
    fold.poll()
    assert fold.datasets["B1"].failures.extract == {}


def test_answers_of_one_token_are_not_counted_as_sent_again(tmp_path: Path) -> None:
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(4)}, extract={"layers": [1]})

    def lost(name: str, **over: Any) -> bytes:
        values = {"sample_id": name, "message": "m", "at": 1.0, "stage": Stage.EXTRACT} | over
        return encode_line(Failure(**values))

    refused = {"error": FailureClass.INVALID_INPUT, "next": NextStep.REFUSED}
    lines = [
        lost("p0", check=CaptureCheck.IDS, error=FailureClass.CAPTURE, next=NextStep.QUARANTINED),
        lost("p1", check=CaptureCheck.NOTHING_TO_LEARN, **refused),
        lost("p2", check=CaptureCheck.NOTHING_TO_LEARN, **refused),
        lost("p3", check=CaptureCheck.TOO_LONG, **refused),
    ]
    (run / "prepared" / "B1" / "failures.jsonl").write_bytes(b"".join(lines))
    assert record_command(run, Retry()).message.startswith("1 sample is sent again")
    fold = RunFold(run)
    fold.poll()
    assert set(fold.datasets["B1"].failures.extract) == {b"p1", b"p2", b"p3"}, "they stay left out"
    reply = record_command(run, Retry())
    assert (
        "1 sample is too long for the store: raise max_tokens first; 2 samples have nothing to learn" in reply.message
    )
    assert record_command(run, Retry(error=FailureClass.INVALID_INPUT)).message.startswith("1 sample is sent again")
    assert record_command(run, Retry(sample_id="p1")).message.startswith("1 sample is sent again"), (
        "its mask was mended"
    )


@pytest.mark.parametrize(
    "command", [Retry(), Retry(dataset="B1", error=FailureClass.TRANSIENT), Retry(error=FailureClass.INVALID_INPUT)]
)
def test_nothing_to_retry_is_said_and_not_recorded(tmp_path: Path, command: Retry) -> None:
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(2)})
    reply = record_command(run, command)
    assert reply.ok and reply.message.startswith("nothing to retry")
    assert reply.result == {"samples": 0}
    assert events(run) == [] and not (run / "prepared" / "B1" / "failures.jsonl").exists()


def test_what_generates_nothing_has_no_token_target(tmp_path: Path) -> None:
    given = [{"sample_id": "p0", "input_ids": [1, 2], "loss_mask": [0, 1]}]
    run = make_run(tmp_path / "both", ["http://127.0.0.1:9"], {"A1": given, "B1": prompt_lines(1)})
    reply = record_command(run, Set(targets={"B1": 5, "A1": 5}))
    assert not reply.ok and reply.message.startswith("A1: every prompt brings its own answer (loss_mask)")
    assert events(run) == []
    assert record_command(run, Set(targets={"A1": "default", "B1": 5})).ok, "what was set before can be taken back"
    only = make_run(
        tmp_path / "only", ["http://127.0.0.1:9"], {"B1": prompt_lines(1)}, extract={"layers": [1]}, stages=["extract"]
    )
    reply = record_command(only, Set(targets={"B1": 5}))
    assert not reply.ok and "this run makes no answers" in reply.message
