"""What becomes of answers: the odd ones, the aborted, the cut ones, those of another shape."""

import json
from pathlib import Path

from aiohttp import web

from tests.support.runs import answered, events, failures, make_run, prompt_lines, responses, run_to_end, running, until
from tests.support.scripted_sglang import Request, ScriptedSglang

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


async def test_a_lone_surrogate_in_an_answer_harms_nobody(tmp_path: Path) -> None:
    case = (CASES / "03-lone-surrogate-answer.json").read_bytes()

    async def answer(request: Request) -> web.StreamResponse:
        if request.ids != [1, 1]:
            return web.json_response(request.good())
        return web.Response(body=case.replace(b'"id": "s"', b'"id": "%s"' % request.rid.encode()))

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(4)})
        assert await run_to_end(run) is False
    assert sorted(answered(run)) == ["p0", "p1", "p2", "p3"]
    assert {r["sample_id"]: r["output_ids"] for r in responses(run)}["p1"] == [5, 6, 7]
    assert failures(run) == []
    (run / "prepared/B1/raw_responses.jsonl").read_text(encoding="utf-8")


async def test_a_half_of_a_pair_in_a_field_that_is_kept_becomes_a_replacement_mark(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        body = json.dumps(request.good(finish_reason={"type": "stop", "matched": "\ud835 and \U0001d7d9"}))
        return web.Response(body=body.encode())

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(1)})
        assert await run_to_end(run) is False
    assert responses(run)[0]["matched"] == "\ufffd and \U0001d7d9"


async def test_an_abort_is_a_failure_that_is_tried_again_and_not_counted_as_tokens(tmp_path: Path) -> None:
    case = json.loads((CASES / "30-abort-200.json").read_bytes())
    aborted = set[str]()

    async def answer(request: Request) -> web.StreamResponse:
        key = str(request.ids)
        if request.ids != [1, 0] or key in aborted:
            return web.json_response(request.good())
        aborted.add(key)
        return web.json_response({**case, "meta_info": {**case["meta_info"], "id": request.rid}})

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3)})
        async with running(run) as work:
            assert await work.end() is False
            status = work.dataset()
    assert (status.done, status.failed, status.completion_tokens) == (3, 0, 9)
    (failure,) = failures(run)
    assert (failure["error"], failure["next"], failure["completion_tokens"]) == ("transient", "retry", 3)
    assert "Abort in waiting queue" in failure["message"]
    assert failure["http_status"] == 200
    assert "attempt" not in failure, "the queue was full: nobody's fault, no attempt is charged"


async def test_aborts_without_end_are_given_up(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        if request.ids == [1, 0]:
            return web.json_response(request.good([4], finish_reason={"type": "abort", "message": "by hand"}))
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3)}, generate={"max_attempts": 3})
        async with running(run) as work:
            assert await work.end() is False
            assert (work.dataset().done, work.dataset().quarantined) == (2, 1)
    assert [(f["attempt"], f["next"]) for f in failures(run)] == [(1, "retry"), (2, "retry"), (3, "quarantined")]


async def test_an_answer_cut_by_its_limit_is_counted_and_not_paid_for_again(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        if request.ids == [1, 2]:
            return web.json_response(request.good())
        ids = list(range(64))
        return web.json_response(request.good(ids, finish_reason={"type": "length", "length": 64}))

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(3)})
        async with running(run) as work:
            assert await work.end() is False
            status = work.dataset()
        assert len(server.seen) == 3
    assert (status.done, status.truncated, status.completion_tokens) == (3, 2, 64 + 64 + 3)
    assert status.finish_reasons == {"length": 2, "stop": 1}


async def test_ids_without_their_stop_token_are_refused_by_the_one_rule(tmp_path: Path) -> None:
    case = json.loads((CASES / "35-stop-token-stripped.json").read_bytes())

    async def answer(request: Request) -> web.StreamResponse:
        meta = {**case["meta_info"], "id": request.rid, "prompt_tokens": len(request.ids)}
        return web.json_response({**case, "meta_info": meta})

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(50)}, concurrency=2)
        async with running(run) as work:
            await until(lambda: work.session.scheduler.queues and work.session.scheduler.queues[0].halted)
            await until(lambda: work.session.fold.datasets["B1"].failures.halted)
            assert "dataset_halted" in [alert.code for alert in work.session.status().alerts]
    assert responses(run) == []
    assert 1 <= len(failures(run)) <= 2
    assert "completion_tokens is 4, output_ids are 3" in failures(run)[0]["message"]


async def test_a_body_split_inside_a_character_is_one_answer(tmp_path: Path) -> None:
    case = json.loads((CASES / "29-split-utf8-body.json").read_bytes())

    async def answer(request: Request) -> web.StreamResponse:
        meta = {**case["meta_info"], "id": request.rid, "prompt_tokens": len(request.ids)}
        body = json.dumps({**case, "meta_info": meta}, ensure_ascii=False).encode()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request.http)
        for at in range(len(body)):
            await response.write(body[at : at + 1])
        await response.write_eof()
        return response

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(2)})
        assert await run_to_end(run) is False
    assert [record["output_ids"] for record in responses(run)] == [[1, 2, 3], [1, 2, 3]]


async def test_pretty_printed_ids_stay_on_one_line(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        return web.Response(body=json.dumps(request.good(), indent=2).encode())

    async with ScriptedSglang(answer) as server:
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(2)})
        assert await run_to_end(run) is False
    assert [record["output_ids"] for record in responses(run)] == [[7, 8, 9], [7, 8, 9]]


async def test_another_shape_stops_its_data_set_and_no_other(tmp_path: Path) -> None:
    async def answer(request: Request) -> web.StreamResponse:
        if request.ids[0] == 2:
            return web.json_response({"choices": [{"text": "hi"}], "usage": {"completion_tokens": 3}})
        return web.json_response(request.good())

    async with ScriptedSglang(answer) as server:
        bad = prompt_lines(40, ids=lambda index: [2, index])
        run = make_run(tmp_path, [server.url], {"B1": prompt_lines(40), "B2": bad}, concurrency=4)
        async with running(run) as work:
            await until(lambda: work.dataset("B1").done == 40)
            await until(lambda: work.dataset("B2").stage == "halted")
            assert work.session.heartbeat().reason == "only stopped data sets are left"
            assert not work.task.done(), "it waits for a person"
            server.answer = lambda request: _good(request)
            reply = await work.handlers.handle(_retry("B2"))
            assert reply.ok
            assert await work.end() is False
    assert sorted(answered(run, "B2")) == sorted(f"p{index}" for index in range(40))
    assert len(failures(run, "B2")) <= 5, "a handful in flight and the requeue, not one for each sample"
    (halted,) = events(run, "dataset.halted")
    assert "output_ids" in halted["message"] or "agreed shape" in halted["message"]


async def _good(request: Request) -> web.StreamResponse:
    return web.json_response(request.good())


def _retry(dataset: str):  # type: ignore[no-untyped-def]
    from contracts.commands import Retry

    return Retry(dataset=dataset)
