"""Clocks that are set, folders with odd names, faults of our own: the run goes on and tells no nonsense."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from aiohttp import web

from contracts.commands import Status
from tests.support.runs import answered, events, failures, make_run, prompt_lines, responses, run_to_end, running, until
from tests.support.scripted_sglang import Request, ScriptedSglang

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize("step_s", [-3600.0, 7200.0])
async def test_the_wall_clock_may_be_set(step_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    began = real()

    async def answer(request: Request) -> web.StreamResponse:
        await asyncio.sleep(0.02)
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(100)}, generate={"request_timeout_s": 5.0})
        async with running(run) as work:
            await until(lambda: work.dataset().done > 20)
            monkeypatch.setattr(time, "time", lambda: real() + step_s)
            await until(lambda: work.dataset().done > 60)
            status = work.session.status()
            assert await work.end() is False
    assert status.state == "running"
    assert 0 <= (status.daemon.heartbeat_age_s or 0) < 5
    assert 0 <= (status.elapsed_s or 0) < 60
    assert not [alert for alert in status.alerts if alert.code in ("heartbeat_stale", "telemetry_stale", "no_progress")]
    assert failures(run) == []
    times = [(record["started_at"], record["finished_at"]) for record in responses(run)]
    assert all(began - 1 < start <= end < began + 60 for start, end in times)


async def test_a_run_directory_whose_name_is_not_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    async with ScriptedSglang() as server:
        run = make_run(path, [server.url], {"B1": prompt_lines(3), "B2": []})
        async with running(run) as work:
            await until(lambda: work.session.pool.slots[0].state == "ok")
            assert (await work.handlers.handle(Status())).ok
            await work.end()
    assert len(answered(run)) == 3
    assert "caf\\udce9" in str(events(run, "prompts.failed")[0]["message"])


async def test_a_fault_of_our_own_that_ends_it_is_told_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("odd")

    monkeypatch.setattr("daemon.course.needs_of", broken)
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3)})
        with pytest.raises(KeyError):
            await run_to_end(run)
    fault, stopped = events(run)[-2:]
    assert (fault["kind"], fault["severity"], stopped["kind"]) == ("daemon.fault", "critical", "daemon.stopped")
    assert "the daemon ends: it broke: KeyError('odd')" in fault["message"]


async def test_a_fault_of_our_own_costs_one_sample_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from daemon.generate import scheduler

    async def broken(job, *rest):  # type: ignore[no-untyped-def]
        if job.sample_id == "p3":
            raise KeyError("a bug")
        return await execute(job, *rest)

    execute = scheduler.execute
    monkeypatch.setattr(scheduler, "execute", broken)
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(10)})
        async with running(run) as work:
            assert await work.end() is False
            assert (work.dataset().done, work.dataset().quarantined) == (9, 1)
            assert work.session.pool.slots[0].outstanding == 0
    assert "KeyError" in failures(run)[0]["message"]
    assert events(run, "daemon.fault")


async def test_a_fault_of_our_own_with_every_sample_stops_the_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("daemon.generate.scheduler.execute", broken)
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(1000)})
        async with running(run) as work:
            await until(lambda: work.dataset().stage == "halted")
    assert len(failures(run)) < 30


async def test_a_journal_that_cannot_be_read_is_told_once_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        await asyncio.sleep(0.02)
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(100)})
        async with running(run) as work:
            await until(lambda: work.dataset().done > 10)
            with monkeypatch.context() as broken:
                broken.setattr(os, "preadv", _unreadable)
                await until(lambda: events(run, "daemon.reading"))
                await asyncio.sleep(0.3)
            assert await work.end() is False
            assert work.dataset().done == 100
    assert [event["severity"] for event in events(run, "daemon.reading")] == ["critical", "info"]


def _unreadable(*_: object) -> int:
    raise OSError(5, "Input/output error", "raw_responses.jsonl")


async def test_telemetry_that_breaks_is_told_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(10)})
        monkeypatch.setattr("daemon.session.Session.heartbeat", lambda self: 1 / 0)
        assert await run_to_end(run) is False
    assert len(answered(run)) == 10
    assert "ZeroDivisionError" in str(events(run, "daemon.fault"))


async def test_nobody_is_signalled_by_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signals = list[object]()
    monkeypatch.setattr(os, "kill", lambda *what: signals.append(what))
    monkeypatch.setattr(os, "killpg", lambda *what: signals.append(what))
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(500)})
        async with running(run) as work:
            await until(lambda: work.dataset().done > 3)
            work.session.stop()
            assert await work.end() is True
    assert signals == []
