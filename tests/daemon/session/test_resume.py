"""Starting again: exactly what has no answer is sent, whatever order answers came in."""

import asyncio
import json
import shutil
from pathlib import Path

import psutil
from aiohttp import web

from tests.support.runs import (
    answered,
    events,
    failures,
    make_run,
    prompt_lines,
    run_to_end,
    running,
    until,
    write_prompts,
)
from tests.support.scripted_sglang import Request, ScriptedSglang, answer_well

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


async def test_failures_that_another_tool_wrote_as_responses_are_sent_again(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        prompts = [{"sample_id": f"p{index}", "input_ids": [index]} for index in range(1, 7)]
        run = make_run(tmp_path, [server.url], {"B1": prompts})
        shutil.copy(CASES / "16-failures-in-responses.jsonl", run / "prepared/B1/raw_responses.jsonl")
        server.answer = _never
        async with running(run) as work:
            await until(lambda: len(server.seen) == 3)
            status = work.dataset()
            assert (status.done, status.failed, status.prompts) == (3, 2, 6)
        assert sorted(ids[0] for ids in server.prompts()) == [4, 5, 6]
        server.answer = answer_well
        async with running(run) as work:
            assert await work.end() is False
            status = work.dataset()
        assert (status.done, status.failed) == (6, 0)
        assert sorted(ids[0] for ids in server.prompts()[3:]) == [4, 5, 6]


async def test_one_that_never_answers_holds_up_nobody_and_memory_stays_flat(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        if request.ids == [1, 0]:
            await _never(request)
        return web.json_response(request.good())

    process = psutil.Process()
    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(5001)}, concurrency=64)
        async with running(run) as work:
            await until(lambda: work.dataset().done >= 1000, 30)
            server.seen.clear()
            before = process.memory_info().rss
            await until(lambda: work.dataset().done == 5000, 40)
            grown = process.memory_info().rss - before  # before the test itself reads 5,000 records
            assert len(answered(run)) == 5000, "the quick ones are on the disk"
            assert grown < 24e6
            assert work.session.scheduler.in_flight == 1


async def test_a_last_line_without_its_newline_is_a_record_and_a_torn_one_is_sent_again(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3), "B2": prompt_lines(3)})
        assert await run_to_end(run) is False
        whole, torn = run / "prepared/B1/raw_responses.jsonl", run / "prepared/B2/raw_responses.jsonl"
        whole.write_bytes(whole.read_bytes()[:-1])
        torn.write_bytes(torn.read_bytes()[:-20])
        (run / "fold.checkpoint").unlink()
        before = len(server.seen)
        async with running(run) as work:
            assert await work.end() is False
            assert [work.dataset(name).unreadable for name in ("B1", "B2")] == [0, 0]
            assert [work.dataset(name).duplicates for name in ("B1", "B2")] == [0, 0]
        assert len(server.seen) == before + 1
    assert len(answered(run, "B1")) == len(answered(run, "B2")) == 3
    assert list((run / "prepared/B2").glob("raw_responses.jsonl.torn-*"))


async def test_a_finished_run_needs_no_server(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3)})
        assert await run_to_end(run) is False
    assert await run_to_end(run) is False


async def test_prompts_added_later_are_sent_and_nothing_else(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3)})
        assert await run_to_end(run) is False
        write_prompts(run / "prepared/B1/prompts.jsonl", prompt_lines(5))
        assert await run_to_end(run) is False
        assert sorted(map(tuple, server.prompts()[3:])) == [(1, 3), (1, 4)]


async def test_given_up_samples_that_are_gone_settle_no_prompt(tmp_path: Path) -> None:
    async def refuse(_request: Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "odd"}}, status=400)

    async with ScriptedSglang(refuse) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(4)})
        assert await run_to_end(run) is False
        write_prompts(run / "prepared" / "B1" / "prompts.jsonl", prompt_lines(4, first=3))
        server.answer = answer_well
        assert await run_to_end(run) is False
    assert sorted(answered(run)) == ["p4", "p5", "p6"], "p3 is given up and still there"
    (said,) = events(run, "prompts.strangers")
    assert said["data"]["count"] == 3


async def test_prompts_that_were_exchanged_for_others_are_answered(tmp_path: Path) -> None:
    """As many responses as prompts, but to others: that is not done, and is said."""
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(4)})
        assert await run_to_end(run) is False
        write_prompts(run / "prepared" / "B1" / "prompts.jsonl", prompt_lines(4, first=3))
        assert await run_to_end(run) is False
    assert sorted(answered(run)) == ["p0", "p1", "p2", "p3", "p4", "p5", "p6"]
    said = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [event["data"]["count"] for event in said if event["kind"] == "prompts.strangers"] == [3]


async def test_pretokenized_prompts_are_not_generated(tmp_path: Path) -> None:
    masked = [{"sample_id": f"m{index}", "input_ids": [3, index], "loss_mask": [0, 1]} for index in range(3)]
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"A1": masked, "B1": [*prompt_lines(2), *masked]})
        async with running(run) as work:
            await until(lambda: work.dataset("B1").done == 2)
        assert sorted(map(tuple, server.prompts())) == [(1, 0), (1, 1)]


async def test_what_was_charged_before_a_stop_is_charged_after_it(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        if request.ids == [1, 0]:
            return web.Response(status=500, text="broken")
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        lines = prompt_lines(2)
        run = make_run(tmp_path, [server.url], {"B1": lines}, generate={"max_attempts": 3, "retry_base_s": 30.0,
                                                                        "retry_max_s": 30.0})  # fmt: skip
        async with running(run) as work:
            await until(lambda: work.dataset().failed == 1 and work.dataset().done == 1)
        async with running(run) as work:
            await until(lambda: len(failures(run)) == 2)
        async with running(run) as work:
            assert await work.end() is False
    assert [failure["attempt"] for failure in failures(run)] == [1, 2, 3]
    assert failures(run)[-1]["next"] == "quarantined"


async def _never(request: Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.json_response(json.loads("{}"))


async def test_the_last_event_tells_a_finished_run_from_an_ended_one(tmp_path: Path) -> None:
    async with ScriptedSglang() as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(300)})
        async with running(run) as work:
            await until(lambda: work.session.scheduler.queues)
            work.session.stop()
            await work.end()
        assert await run_to_end(run) is False
    said = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    ends = [event["message"] for event in said if event["kind"] == "daemon.stopped"]
    assert ends[0].startswith("daemon ended")
    assert ends[1] == "all that can be done is done; daemon ended"
