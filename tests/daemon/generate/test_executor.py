"""One sample against one server: a response, or a failure with its class."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from contracts.clock import Clock
from contracts.records import FailureClass, Response
from daemon.generate.executor import Failed, Job, execute
from daemon.servers.client import SglangClient
from tests.daemon.servers.scripted_server import closed_port
from tests.support.scripted_sglang import Request, ScriptedSglang


@pytest.fixture
async def server() -> AsyncIterator[ScriptedSglang]:
    async with ScriptedSglang() as server:
        yield server


async def run(url: str, *, timeout_s: float = 5.0, think_end_token: int | None = None) -> Response | Failed:
    client = SglangClient(url, None, 1.0)
    await client.open()
    job = Job(
        dataset="B1",
        sample_id="p0",
        rid="e3.x.1",
        input_ids=b"[1, 2]",
        prompt_tokens=2,
        sampling_params=b'{"max_new_tokens":3}',
        attempt=2,
    )
    try:
        return await execute(job, client, Clock(), timeout_s, think_end_token)
    finally:
        await client.close()


async def test_a_response_has_what_the_server_said_and_what_we_know(server: ScriptedSglang) -> None:
    response = await run(server.url)
    assert isinstance(response, Response)
    assert (response.sample_id, response.rid, response.server, response.attempt) == ("p0", "e3.x.1", server.url, 2)
    assert (response.prompt_tokens, response.completion_tokens, response.finish_reason) == (2, 3, "stop")
    assert (bytes(response.output_ids), response.matched, response.cached_tokens) == (b"[7, 8, 9]", 9, 0)
    assert response.started_at <= response.finished_at
    assert response.think_end is None
    body = server.seen[0].body
    assert body == {"rid": "e3.x.1", "input_ids": [1, 2], "sampling_params": {"max_new_tokens": 3}}


@pytest.mark.parametrize(("token", "there"), [(8, True), (88, False)])
async def test_the_end_of_thinking(token: int, there: bool, server: ScriptedSglang) -> None:
    response = await run(server.url, think_end_token=token)
    assert isinstance(response, Response) and response.think_end is there


def json_answer(status: int, body: Any, **headers: str) -> Callable[[Request], Awaitable[web.StreamResponse]]:
    async def answer(request: Request) -> web.StreamResponse:
        return web.Response(status=status, body=json.dumps(body).encode(), headers=headers)

    return answer


def good_but(**meta: Any) -> Callable[[Request], Awaitable[web.StreamResponse]]:
    async def answer(request: Request) -> web.StreamResponse:
        return web.json_response(request.good(**meta))

    return answer


@pytest.mark.parametrize(
    ("answer", "error", "words", "busy"),
    [
        (json_answer(400, {"error": {"message": "too long"}}), FailureClass.REJECTED, "HTTP 400: too long", False),
        (json_answer(401, {"error": "Unauthorized"}), FailureClass.CONTRACT_DRIFT, "HTTP 401: Unauthorized", False),
        (json_answer(500, "boom"), FailureClass.TRANSIENT, "HTTP 500", False),
        (json_answer(503, {"object": "error", "message": "full"}), FailureClass.TRANSIENT, "HTTP 503: full", True),
        (json_answer(429, "slow down"), FailureClass.TRANSIENT, "HTTP 429", True),
        (json_answer(302, {}, Location="/x"), FailureClass.CONTRACT_DRIFT, "HTTP 302", False),
        (json_answer(200, []), FailureClass.CONTRACT_DRIFT, "agreed shape", False),
        (good_but(id="other"), FailureClass.CONTRACT_DRIFT, "to another request", False),
        (good_but(completion_tokens=2), FailureClass.CONTRACT_DRIFT, "contradicts itself", False),
        (good_but(finish_reason=None), FailureClass.CONTRACT_DRIFT, "not finished", False),
        (good_but(finish_reason={"type": "abort"}), FailureClass.TRANSIENT, "aborted by the server", False),
        (
            good_but(finish_reason={"type": "abort", "message": "m", "status_code": 503}),
            FailureClass.TRANSIENT,
            "aborted by the server: m",
            True,
        ),
    ],
)
async def test_each_failure_has_its_class(
    answer: Any, error: FailureClass, words: str, busy: bool, server: ScriptedSglang
) -> None:
    server.answer = answer
    failed = await run(server.url)
    assert isinstance(failed, Failed)
    assert (failed.error, failed.busy) == (error, busy)
    assert words in failed.message
    assert not (failed.connection_lost or failed.refused or failed.timed_out)


async def test_an_abort_of_another_request_is_not_ours(server: ScriptedSglang) -> None:
    server.answer = good_but(id="other", finish_reason={"type": "abort"})
    failed = await run(server.url)
    assert isinstance(failed, Failed) and failed.error is FailureClass.TRANSIENT


async def test_lost_refused_and_late(server: ScriptedSglang) -> None:
    async def reset(request: Request) -> web.StreamResponse:
        return request.reset()

    async def hang(request: Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    server.answer = reset
    lost = await run(server.url)
    assert isinstance(lost, Failed) and lost.connection_lost and not lost.refused
    refused = await run(f"http://127.0.0.1:{closed_port()}")
    assert isinstance(refused, Failed) and refused.connection_lost and refused.refused
    server.answer = hang
    late = await run(server.url, timeout_s=0.1)
    assert isinstance(late, Failed) and late.timed_out and not late.connection_lost
