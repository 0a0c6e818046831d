"""Servers that die, hang, refuse, come back: nothing is lost, nobody innocent is given up, and it is said."""

import asyncio
import time
from pathlib import Path

import pytest
from aiohttp import web

from daemon.embedded.faults import Faults
from daemon.embedded.options import Options
from daemon.embedded.server import EmbeddedServer
from tests.support.runs import answered, events, failures, make_run, prompt_lines, run_to_end, running, until
from tests.support.scripted_sglang import Request, ScriptedSglang, answer_well

pytestmark = pytest.mark.usefixtures("quick")


async def hang(request: Request) -> web.StreamResponse:
    await request.aborted.wait()
    return web.Response(status=500)


async def test_a_server_that_stops_answering_is_a_stall_and_stop_still_works(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        return await (answer_well(request) if len(server.seen) <= 5 else asyncio.Event().wait())  # type: ignore[return-value]

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(30)}, alerts={"stall_after_s": 0.3})
        async with running(run) as work:
            await until(lambda: work.session.status().state == "stalled")
            status = work.session.status()
            assert status.totals.in_flight == 4
            assert "4 requests open" in str(status.reason)
            assert (status.totals.done, status.totals.eta_s) == (5, None)
            await until(lambda: events(run, "alert.raised"))
            assert "no_progress" in str(events(run, "alert.raised"))
            began = time.monotonic()
            work.session.stop()
            assert await work.end() is True
            assert time.monotonic() - began < 4.0
        assert len(server.aborts) == 4, "the server was asked to drop what it will not be waited for"


async def test_a_server_that_is_idle_is_not_probed_while_nothing_is_to_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedSglang(hang) as server, ScriptedSglang(hang) as idle:
        run = make_run(tmp_path, [server.url, idle.url], {"B1": prompt_lines(1)})
        async with running(run) as work:
            await until(lambda: len(server.seen) + len(idle.seen) == 1)
            monkeypatch.setattr("daemon.servers.pool.IDLE_S", 0.0)
            probes = server.probes + idle.probes
            for _ in range(10):
                work.session.wake()
                await asyncio.sleep(0.02)
            assert server.probes + idle.probes == probes
            for request in (*server.seen, *idle.seen):
                request.aborted.set()


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_timeouts_of_our_own_are_no_progress(concurrency: int, tmp_path: Path) -> None:
    async with ScriptedSglang(hang) as server:
        run = make_run(
            tmp_path, [server.url], {"B1": prompt_lines(30)},
            generate={"request_timeout_s": 0.3, "max_attempts": 50}, alerts={"stall_after_s": 1.0},
            concurrency=concurrency,
        )  # fmt: skip
        async with running(run) as work:
            await until(lambda: work.session.status().state == "stalled", 15)
            assert len(failures(run)) >= 2


async def test_a_request_given_up_is_aborted_before_its_place_is_used_again(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        """Goes on generating although the client left, until it is aborted."""
        if request.rid.rpartition(".")[0].rpartition(".")[0] in tried:
            return await answer_well(request)
        tried.add(request.rid.rpartition(".")[0].rpartition(".")[0])
        generating.add(request.rid)
        most.append(len(generating))
        shield = asyncio.ensure_future(_until_aborted(request))
        shield.add_done_callback(lambda _: generating.discard(request.rid))
        await asyncio.shield(shield)
        return await answer_well(request)

    tried, generating, most = set[str](), set[str](), list[int]()
    async with ScriptedSglang(answer) as server:
        run = make_run(
            tmp_path, [server.url], {"B1": prompt_lines(12)}, generate={"request_timeout_s": 0.2, "max_attempts": 9}
        )
        assert await run_to_end(run) is False
    assert max(most) <= 4
    assert sorted(answered(run)) == sorted(f"p{index}" for index in range(12))
    assert len(failures(run)) == len(server.aborts) == 12


async def _until_aborted(request: Request) -> None:
    await asyncio.wait_for(request.aborted.wait(), 10.0)


async def test_a_killed_server_costs_no_attempt_and_all_is_done_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.generate.scheduler.TRIAL_S", 60.0)  # an answer ends a suspect's trial before its time
    async with ScriptedSglang(hang) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(30)}, concurrency=8)
        async with running(run) as work:
            await until(lambda: len(server.seen) == 8)
            await server.close()
            await until(lambda: work.session.pool.slots[0].state == "down")
            await until(lambda: len(failures(run)) == 8)
            assert "no server can be used" in str(work.session.heartbeat().reason)
            assert "no server can be used" in str(work.session.heartbeat().blocked)
            server.answer = answer_well
            server.seen.clear()
            await server.start()
            assert await work.end() is False
            assert (work.dataset().done, work.dataset().quarantined) == (30, 0)
        assert len(server.seen) == 30
    assert {(f["error"], f["next"], f.get("attempt")) for f in failures(run)} == {("server_down", "retry", None)}
    assert [event["kind"] for event in events(run) if event["kind"].startswith("server.")] == [
        "server.up", "server.down", "server.up",
    ]  # fmt: skip


async def test_what_kills_a_server_twice_is_given_up_and_nobody_else_is(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        if request.ids == [1, 13]:
            await asyncio.sleep(0.05)  # so that others are in flight with it
            asyncio.get_running_loop().create_task(die())
        await asyncio.sleep(0.1)
        return web.json_response(request.good())

    async def die() -> None:
        deaths.append(len(server.seen))
        await server.close()
        await asyncio.sleep(0.2)
        await server.start()

    deaths = list[int]()
    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(40)}, concurrency=16)
        async with running(run) as work:
            assert await work.end() is False
            status = work.session.status()
        assert len(deaths) == 2
    assert (status.totals.done, status.totals.quarantined) == (39, 1)
    assert "p13" not in answered(run)
    (poison,) = [failure for failure in failures(run) if failure["next"] == "quarantined"]
    assert (poison["sample_id"], poison["error"]) == ("p13", "poison")
    assert "quarantined" in [alert.code for alert in status.alerts]


async def test_with_two_servers_one_may_die(tmp_path: Path) -> None:
    async with ScriptedSglang() as one, ScriptedSglang() as other:

        async def answer(request: Request) -> web.StreamResponse:
            if len(one.seen) == 10:
                asyncio.get_running_loop().create_task(one.close())
                await asyncio.sleep(5)
            return web.json_response(request.good())

        one.answer = answer
        run = make_run(tmp_path, [one.url, other.url], {"B1": prompt_lines(100)}, concurrency=8)
        assert await run_to_end(run) is False
        assert len(one.seen) >= 10 and len(other.seen) >= 50
    assert sorted(answered(run)) == sorted(f"p{index}" for index in range(100))
    assert not [failure for failure in failures(run) if failure["next"] == "quarantined"]


async def test_an_outage_of_errors_gives_up_nobody(tmp_path: Path) -> None:
    """Five attempts with short pauses would be over long before the outage is."""

    async def broken(request: Request) -> web.StreamResponse:
        return web.Response(status=500, text="Internal Server Error")

    async with ScriptedSglang(broken) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(60)}, concurrency=8)
        async with running(run) as work:
            await until(lambda: len(failures(run)) >= 4)
            server.probe = broken
            await until(lambda: work.session.pool.slots[0].state == "unready")
            sent, probes = len(server.seen), server.probes
            await until(lambda: server.probes >= probes + 3)
            assert len(server.seen) - sent <= 8, "a server that fails at everything is left alone"
            server.answer = server.probe = answer_well
            assert await work.end() is False
            assert (work.dataset().done, work.dataset().quarantined) == (60, 0)
    assert "fails at everything" in str(failures(run))
    assert events(run, "server.unready")[0]["severity"] == "critical"


async def test_errors_that_only_some_samples_meet_are_theirs(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        if request.ids[1] < 12:
            return web.Response(status=500, text="cannot")
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(40)}, generate={"max_attempts": 3}, concurrency=16)
        async with running(run) as work:
            assert await work.end() is False
            assert (work.dataset().done, work.dataset().quarantined) == (28, 12)


async def test_401_in_the_middle_stops_the_data_set_instead_of_failing_every_sample(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        if len(server.seen) > 10:
            return web.json_response({"error": "Unauthorized"}, status=401)
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(1000)})
        async with running(run) as work:
            await until(lambda: work.dataset().stage == "halted")
            await until(lambda: work.session.scheduler.in_flight == 0)
        assert len(server.seen) <= 14
    assert 1 <= len(failures(run)) <= 4
    assert "401" in failures(run)[0]["message"] and "Unauthorized" in failures(run)[0]["message"]


async def test_a_server_that_refuses_everything_stops_the_data_set(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no such thing"}}, status=400)

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(1000)}, concurrency=8)
        async with running(run) as work:
            await until(lambda: work.dataset().stage == "halted")
            assert len(server.seen) <= 28
    assert "20 samples in a row were refused, the last: HTTP 400: no such thing" in str(events(run, "dataset.halted"))


async def test_some_refused_samples_stop_nothing_though_answers_take_long(tmp_path: Path) -> None:
    """Refusals come at once, answers late: for the first while there is nothing but refusals."""

    async def answer(request: Request) -> web.StreamResponse:
        if request.ids[1] % 2:
            return web.json_response({"error": {"message": "odd"}}, status=400)
        await late.wait()
        return web.json_response(request.good())

    late = asyncio.Event()
    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(200)}, concurrency=40)
        async with running(run) as work:
            await until(lambda: len(failures(run)) >= 39)
            late.set()
            assert await work.end() is False
            assert (work.dataset().done, work.dataset().quarantined) == (100, 100)


async def test_a_full_queue_is_waited_for_without_charge(tmp_path: Path) -> None:
    faults = Faults(latency=0.02)
    options = Options(no_model=True, fixed_length=3, max_running_requests=2, max_queued_requests=1, faults=faults)
    async with EmbeddedServer(options) as server:
        generate = {"max_attempts": 1, "vocab_size": 1000}
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(30)}, concurrency=8, generate=generate)
        assert await run_to_end(run) is False
    assert len(answered(run)) == 30
    assert {(f["http_status"], f["next"], f.get("attempt")) for f in failures(run)} == {(503, "retry", None)}


@pytest.mark.parametrize("kind", ["reset", "truncate", "error_500", "html"])
async def test_passing_faults_are_tried_again(kind: str, tmp_path: Path) -> None:
    faults = Faults(**{kind: 0.2}, seed=3)  # type: ignore[arg-type]
    async with EmbeddedServer(Options(no_model=True, fixed_length=3, faults=faults)) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(60)}, generate={"vocab_size": 1000}, concurrency=16)
        assert await run_to_end(run) is False
    assert sorted(answered(run)) == sorted(f"p{index}" for index in range(60))
    assert 3 < len(failures(run)) < 40


async def test_nothing_but_pages_takes_the_server_out_and_blames_no_sample(tmp_path: Path) -> None:
    faults = Faults(html=1.0)
    async with EmbeddedServer(Options(no_model=True, fixed_length=3, faults=faults)) as server:
        faults.html = 0.0
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(200)}, generate={"vocab_size": 1000}, concurrency=8)
        async with running(run) as work:
            await until(lambda: len(answered(run)) > 10)
            server.faults.html = 1.0
            await until(lambda: work.session.pool.slots[0].state == "refused")
            assert work.dataset().stage != "halted"
            server.faults.html = 0.0
            assert await work.end() is False
    assert len(answered(run)) == 200
    assert not [failure for failure in failures(run) if failure["next"] != "retry"]


@pytest.mark.parametrize("kind", ["wrong_counts", "usage_shape", "flat_shape"])
async def test_drift_stops_the_data_set_at_the_first_and_names_it(kind: str, tmp_path: Path) -> None:
    async with EmbeddedServer(Options(no_model=True, fixed_length=3)) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(60)}, generate={"vocab_size": 1000}, concurrency=4)
        async with running(run) as work:
            await until(lambda: server.requests_seen.generate >= 3)
            server.faults.force(kind)  # type: ignore[arg-type]
            await until(lambda: work.dataset().stage in ("halted", "finished"))
            assert work.dataset().stage == "halted"
    assert len(failures(run)) == 1
    assert events(run, "dataset.halted")


async def test_a_server_with_another_model_is_not_used_until_it_has_the_right_one(tmp_path: Path) -> None:
    async with ScriptedSglang() as right, ScriptedSglang() as wrong:
        wrong.model_info = {"model_path": "/models/other", "is_generation": True}
        await wrong.close()
        run = make_run(tmp_path, [right.url, wrong.url], {"B1": prompt_lines(60)}, concurrency=2)
        async with running(run) as work:
            await until(lambda: right.seen)
            work.session.pause("to let the other come")
            await wrong.start()
            await until(lambda: work.session.pool.slots[1].state == "refused")
            await until(lambda: "/models/other" in str(events(run, "server.refused")))
            wrong.model_info = {"model_path": "/models/tiny", "is_generation": True}
            await until(lambda: work.session.pool.slots[1].state == "ok")
            work.session.resume()
            assert await work.end() is False
        assert wrong.seen


async def test_a_server_that_is_still_loading_is_no_emergency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent() -> web.StreamResponse:
        await loaded.wait()
        return web.json_response({"model_path": "/models/tiny", "is_generation": True})

    loaded = asyncio.Event()
    async with ScriptedSglang() as server:
        server.model_info = silent
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3)})
        async with running(run) as work:
            work.session.pool.slots[0].control._timeout_s = 0.2
            await until(lambda: work.session.pool.slots[0].state == "unready")
            await until(lambda: events(run, "server.unready"))
            assert events(run, "server.unready")[0]["severity"] == "info"
            assert "no answer within" in str(work.session.heartbeat().reason)
            loaded.set()
            assert await work.end() is False
    assert not events(run, "server.down")
    assert len(events(run, "server.unready")) == 1


async def test_a_missing_endpoint_costs_a_note_only_when_it_tells_a_limit(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path / "a", [server.url], {"B1": prompt_lines(3)})
        assert await run_to_end(run) is False
        assert not events(run, "server.note"), "no /metrics, no /v1/loads: readings, not limits"
        server.server_info = None
        run = make_run(tmp_path / "b", [server.url], {"B1": prompt_lines(3)})
        assert await run_to_end(run) is False
        assert "/server_info" in str(events(run, "server.note"))


async def test_proxies_of_the_environment_are_not_used_and_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with ScriptedSglang() as server:
        urls = [server.url, f"http://localhost:{server.port}"]
        run = make_run(tmp_path, urls, {"B1": prompt_lines(10)})
        assert await run_to_end(run) is False
    assert {response["server"] for response in (await _responses(run))} == set(urls)
    assert "HTTP_PROXY" in str(events(run, "daemon.note"))


async def _responses(run: Path) -> list[dict[str, str]]:
    from tests.support.runs import responses

    return responses(run)
