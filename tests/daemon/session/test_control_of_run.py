"""Pause, resume, drain, stop, set, retry, targets: what people do to a run while it runs."""

import asyncio
import time
from pathlib import Path

import pytest
from aiohttp import web

from contracts.commands import Drain, Pause, Resume, Retry, Set, Stop
from contracts.records import FailureClass
from tests.support.runs import answered, events, failures, make_run, prompt_lines, run_to_end, running, until
from tests.support.scripted_sglang import Request, ScriptedSglang, answer_well

pytestmark = pytest.mark.usefixtures("quick")


class Gate:
    """Answers as many requests as it was told to."""

    def __init__(self) -> None:
        self.passes = asyncio.Semaphore(0)

    def let(self, number: int) -> None:
        for _ in range(number):
            self.passes.release()

    async def __call__(self, request: Request) -> web.StreamResponse:
        await self.passes.acquire()
        return web.json_response(request.good())


async def test_pause_sends_nothing_new_and_resume_goes_on(tmp_path: Path) -> None:
    gate = Gate()
    async with ScriptedSglang(gate) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(20)})
        async with running(run) as work:
            await until(lambda: len(server.seen) == 4)
            assert (await work.handlers.handle(Pause(reason="to look"))).ok
            gate.let(4)
            await until(lambda: work.dataset().done == 4)
            await until(lambda: work.session.status().state == "paused")
            assert work.session.status().reason == "to look"
            assert work.session.heartbeat().since_progress_s is None
            assert len(server.seen) == 4
            gate.let(100)
            assert (await work.handlers.handle(Resume())).ok
            assert await work.end() is False
    assert [event["kind"] for event in events(run) if event["kind"].startswith("run.")] == ["run.paused", "run.resumed"]


async def test_drain_finishes_what_is_in_flight_and_ends(tmp_path: Path) -> None:
    gate = Gate()
    async with ScriptedSglang(gate) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(20)})
        async with running(run) as work:
            await until(lambda: len(server.seen) == 4)
            assert (await work.handlers.handle(Drain())).ok
            gate.let(3)
            await until(lambda: work.dataset().done == 3)
            assert not work.task.done(), "one is still in flight"
            gate.let(1)
            assert await work.end() is True
        assert len(server.seen) == 4
    assert len(answered(run)) == 4


async def test_drain_may_be_taken_back(tmp_path: Path) -> None:
    gate = Gate()
    async with ScriptedSglang(gate) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(20)})
        async with running(run) as work:
            await until(lambda: len(server.seen) == 4)
            await work.handlers.handle(Drain())
            await work.handlers.handle(Resume())
            gate.let(100)
            assert await work.end() is False


async def test_stop_gives_up_what_is_in_flight_and_it_is_sent_again(tmp_path: Path) -> None:
    gate = Gate()
    async with ScriptedSglang(gate) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(10)})
        async with running(run) as work:
            gate.let(3)
            await until(lambda: work.dataset().done == 3 and len(server.seen) == 7)
            assert (await work.handlers.handle(Stop())).ok
            assert await work.end() is True
        assert len(server.aborts) == 4
        server.answer = answer_well
        server.seen.clear()
        assert await run_to_end(run) is False
        assert len(server.seen) == 7
    assert len(set(answered(run))) == len(answered(run)) == 10
    assert failures(run) == [], "giving up is no failure"


@pytest.mark.parametrize("how", ["drain", "stop"])
async def test_it_ends_while_it_waits_for_a_server(how: str, tmp_path: Path) -> None:
    run = make_run(tmp_path, ["http://127.0.0.1:9"], {"B1": prompt_lines(3)})
    async with running(run) as work:
        await until(lambda: work.session.pool.slots[0].state == "down")
        getattr(work.session, how)()
        assert await work.end(3.0) is True


async def test_targets_stop_the_sending_and_the_overrun_is_told(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(200), "B2": prompt_lines(5)}, targets={"B1": 30})
        async with running(run) as work:
            assert await work.end() is False
            status = work.dataset("B1")
    assert 10 <= status.done <= 13, "three tokens each, up to three in flight when it was reached"
    assert status.overrun_tokens == status.completion_tokens - 30  # type: ignore[operator]
    assert len(answered(run, "B2")) == 5
    assert status.stage == "finished"


async def test_what_is_set_holds_at_once_and_after_a_restart(tmp_path: Path) -> None:
    gate = Gate()
    async with ScriptedSglang(gate) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(50)}, concurrency=2, targets={"B1": 3000})
        async with running(run) as work:
            await until(lambda: server.open == 2)
            assert (await work.handlers.handle(Set(concurrency=7, targets={"B1": 60}))).ok
            await until(lambda: server.open == 7)
            assert work.session.heartbeat().concurrency == 7
        async with running(run) as work:
            await until(lambda: server.open == 7)
            assert work.dataset().target_tokens == 60
            await work.handlers.handle(Set(concurrency=3))
            await until(lambda: work.session.heartbeat().concurrency == 3)
            gate.let(4)
            await until(lambda: work.dataset().done == 4)
            assert server.open == 3
            gate.let(1000)
            assert await work.end() is False
    assert 20 <= len(answered(run)) <= 24


async def test_a_target_raised_at_the_very_end_is_not_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.fold_keeper.POLL_S", 0.5)  # the fold is behind when the old target is reached
    gate = Gate()
    async with ScriptedSglang(gate) as server:
        run = make_run(
            tmp_path, [server.url], {"B1": prompt_lines(50), "B2": prompt_lines(1)}, concurrency=2, targets={"B1": 3}
        )
        async with running(run) as work:
            await until(lambda: len(server.seen) == 2)
            first = {tuple(ids) for ids in server.prompts()}
            assert len(first) <= 2
            gate.let(1)
            await until(lambda: work.session.scheduler.queues[0].target_reached or work.dataset("B2").done)
            await work.handlers.handle(Set(targets={"B1": 30}))
            gate.let(100)
            assert await work.end() is False
            assert 30 <= work.dataset("B1").completion_tokens <= 36  # type: ignore[operator]


async def test_retry_by_class_and_sample(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        if request.ids[1] < 3:
            return web.json_response({"error": {"message": "odd"}}, status=400)
        if request.ids[1] == 3:
            return web.Response(status=500, text="broken")
        return await gate(request)

    gate = Gate()
    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(6)}, generate={"max_attempts": 1}, concurrency=8)
        async with running(run) as work:
            await until(lambda: work.dataset().quarantined == 4)
            server.seen.clear()
            reply = await work.handlers.handle(Retry(sample_id="p1"))
            assert reply.result == {"samples": 1}
            await until(lambda: len(server.seen) == 1 and len(failures(run)) == 6)
            reply = await work.handlers.handle(Retry(error=FailureClass.TRANSIENT))
            assert reply.result == {"samples": 1}
            await until(lambda: len(server.seen) == 2)
            assert server.prompts() == [[1, 1], [1, 3]]
            await until(lambda: len(failures(run)) == 8 and work.dataset().quarantined == 4)
            server.answer = answer_well
            reply = await work.handlers.handle(Retry(error=FailureClass.INVALID_INPUT))
            assert reply.result == {"samples": 0}
            reply = await work.handlers.handle(Retry())
            assert reply.result == {"samples": 4}
            await until(lambda: work.dataset().done == 4)
            assert work.dataset().quarantined == 0
            gate.let(2)
            assert await work.end() is False
    assert len(answered(run)) == 6


async def test_retry_while_there_is_no_server_yet_is_kept(tmp_path: Path) -> None:
    async def refuse(request: Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "odd"}}, status=400)

    async with ScriptedSglang(refuse) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3), "B2": prompt_lines(30)})
        async with running(run) as work:
            await until(lambda: work.dataset("B1").quarantined == 3 and work.dataset("B2").stage == "halted")
        await server.close()
        async with running(run) as work:
            await until(lambda: work.session.pool.slots[0].state == "down")
            reply = await work.handlers.handle(Retry())
            assert int(reply.result["samples"]) >= 3 + 19
            server.answer = answer_well
            await server.start()
            assert await work.end() is False
    assert len(answered(run, "B1")) == 3 and len(answered(run, "B2")) == 30


async def test_a_retry_that_lets_a_data_set_go_on_says_so(tmp_path: Path) -> None:
    async def refuse(request: Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "odd"}}, status=400)

    async with ScriptedSglang(refuse) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(30)}, concurrency=1)
        async with running(run) as work:
            await until(lambda: work.dataset().stage == "halted")
            await until(lambda: work.session.heartbeat().blocked == "only stopped data sets are left")
            server.answer = answer_well
            reply = await work.handlers.handle(Retry(dataset="B1", error=FailureClass.CONTRACT_DRIFT))
            assert reply.message == "B1 goes on, 11 samples were waiting; 0 samples are sent again"
            assert work.session.heartbeat().blocked is None
            assert await work.end() is False
    assert len(answered(run)) == 11
    said = [event["kind"] for event in events(run) if "20 samples in a row" in event["message"]]
    assert said.count("dataset.halted") == 1 and "alert.raised" not in said


async def test_a_sample_that_has_not_failed_is_refused_and_nothing_is_recorded(tmp_path: Path) -> None:
    gate = Gate()
    async with ScriptedSglang(gate) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(8)})
        async with running(run) as work:
            await until(lambda: len(server.seen) == 4)
            for command in (Retry(sample_id="nobody"), Retry(sample_id="p7", dataset="B1")):
                reply = await work.handlers.handle(command)
                assert not reply.ok and "has failed and is without an answer" in reply.message
            gate.let(100)
            assert await work.end() is False
    assert failures(run) == []


async def test_what_is_set_can_be_taken_back_and_is_said_at_the_start(tmp_path: Path) -> None:
    gate = Gate()
    async with ScriptedSglang(gate) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(50)}, concurrency=2, targets={"B1": 3000})
        async with running(run) as work:
            await until(lambda: server.open == 2)
            await work.handlers.handle(Set(concurrency=7, targets={"B1": 60}))
            await until(lambda: server.open == 7)
        assert events(run, "config.overridden") == []
        async with running(run) as work:
            await until(lambda: server.open == 7)
            said = [event["message"] for event in events(run, "config.overridden")]
            assert said[0].startswith("run.toml says concurrency 2, `set` of ") and "holds: 7" in said[0]
            assert "run.toml says a target of 3,000 tokens for B1" in said[1] and "holds: 60" in said[1]
            reply = await work.handlers.handle(Set(concurrency="default", targets={"B1": "default"}))
            assert (
                reply.message
                == "concurrency: as in run.toml, 2; target of B1: as in run.toml, a target of 3,000 tokens"
            )
            await until(lambda: work.session.heartbeat().concurrency == 2 and work.dataset().target_tokens == 3000)


async def test_data_sets_share_the_slots_by_what_they_need(tmp_path: Path) -> None:
    """One that has no answers yet must not be starved by one whose need is known in tokens."""
    gate = Gate()

    async def answer(request: Request) -> web.StreamResponse:
        await gate.passes.acquire()
        return web.json_response(request.good(list(range(60))))

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(450)}, concurrency=20)
        gate.let(50)
        async with running(run) as work:
            await until(lambda: work.dataset("B1").done == 50)
        make_run(run, [server.url], {"B1": [], "B2": prompt_lines(100)}, concurrency=20)
        async with running(run) as work:
            await until(lambda: work.session.scheduler.in_flight == 20)
            in_flight = work.session.heartbeat().in_flight
            assert 3 <= in_flight["B2"] <= 7, "100 of 500 prompts: about a fifth"


async def test_a_paused_run_with_due_retries_sleeps(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        return web.Response(status=500, text="broken")

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(4)}, generate={"max_attempts": 100})
        async with running(run) as work:
            await until(lambda: len(failures(run)) >= 4)
            work.session.pause("to rest")
            await until(lambda: work.session.scheduler.in_flight == 0)
            await asyncio.sleep(0.1)
            looks = list[float]()
            dispatch = work.session.scheduler._dispatch
            work.session.scheduler._dispatch = lambda: (looks.append(time.monotonic()), dispatch())[1]  # type: ignore[method-assign]
            await asyncio.sleep(0.5)
            assert len(looks) < 25, "woken by the fold ten times a second, not spinning"
