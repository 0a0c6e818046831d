"""POST /generate: every way to fail has its name, and idle connections are dropped in time."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from daemon.servers.client import AnswerTimeoutError, ConnectionLostError, SglangClient
from tests.daemon.servers.scripted_server import closed_port
from tests.support.scripted_sglang import Request, ScriptedSglang

BODY = b'{"rid":"e3.1","input_ids":[1],"sampling_params":{}}'


@pytest.fixture
async def server() -> AsyncIterator[ScriptedSglang]:
    async with ScriptedSglang() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedSglang) -> AsyncIterator[SglangClient]:
    client = SglangClient(server.url, "key", 2.0)
    await client.open()
    yield client
    await client.close()


async def test_an_answer_comes_as_it_is(server: ScriptedSglang, client: SglangClient) -> None:
    answer = await client.generate(BODY, 5.0)
    assert (answer.status, answer.retry_after_s) == (200, None)
    assert b'"output_ids": [7, 8, 9]' in answer.body
    assert server.seen[0].http.headers["Authorization"] == "Bearer key"
    assert "Accept-Encoding" not in server.seen[0].http.headers


@pytest.mark.parametrize(
    ("header", "seconds"), [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("soon", None), ("nan", None), ("inf", None)]
)
async def test_retry_after(header: str, seconds: float | None, server: ScriptedSglang, client: SglangClient) -> None:
    async def busy(request: Request) -> web.Response:
        return web.Response(status=503, headers={"Retry-After": header})

    server.answer = busy
    assert (await client.generate(BODY, 5.0)).retry_after_s == seconds


async def test_nothing_listens() -> None:
    client = SglangClient(f"http://127.0.0.1:{closed_port()}", None, 2.0)
    await client.open()
    with pytest.raises(ConnectionLostError, match="no connection: ") as caught:
        await client.generate(BODY, 5.0)
    assert caught.value.refused
    await client.abort("e3.1")
    await client.close()


async def test_a_name_that_nobody_knows() -> None:
    client = SglangClient("http://no-such-host.invalid:1", None, 2.0)
    await client.open()
    with pytest.raises(ConnectionLostError) as caught:
        await client.generate(BODY, 5.0)
    assert caught.value.refused
    await client.close()


async def test_reset_and_cut_off_are_lost_connections(server: ScriptedSglang, client: SglangClient) -> None:
    async def reset(request: Request) -> web.Response:
        return request.reset()

    async def cut(request: Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request.http)
        await response.write(b"{")
        assert request.http.transport is not None
        request.http.transport.close()
        return response

    for answer in (reset, cut):
        server.answer = answer
        with pytest.raises(ConnectionLostError) as caught:
            await client.generate(BODY, 5.0)
        assert not caught.value.refused


async def test_no_answer_in_time(server: ScriptedSglang, client: SglangClient) -> None:
    async def hang(request: Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    server.answer = hang
    began = time.monotonic()
    with pytest.raises(AnswerTimeoutError, match=r"no answer within 0\.1 s"):
        await client.generate(BODY, 0.1)
    assert time.monotonic() - began < 2.0
    server.answer = ScriptedSglang().answer
    assert (await client.generate(BODY, 5.0)).status == 200, "the limit of one is not that of the next"


async def test_cancelling_is_no_timeout(server: ScriptedSglang, client: SglangClient) -> None:
    async def hang(request: Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    server.answer = hang
    task = asyncio.create_task(client.generate(BODY, 60.0))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_idle_connections_are_never_reused_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled: the server closes after 0.2 s (really 5), the client's limit is 0.16 s (really 4)."""
    monkeypatch.setattr("daemon.servers.client.KEEP_ALIVE_S", 0.16)
    async with ScriptedSglang(keep_alive_s=0.2) as server:
        client = SglangClient(server.url, None, 2.0)
        await client.open()
        for number in range(20):
            assert (await client.generate(BODY, 5.0)).status == 200
            await asyncio.sleep(0.19 + number * 0.001)
        assert len(server.seen) == 20
        await client.close()


async def test_a_burst_reuses_its_connections(server: ScriptedSglang, client: SglangClient) -> None:
    ports = set[object]()

    async def note(request: Request) -> web.Response:
        assert request.http.transport is not None
        ports.add(request.http.transport.get_extra_info("peername"))
        return web.json_response(request.good())

    server.answer = note
    for _ in range(20):
        await client.generate(BODY, 5.0)
    assert len(ports) == 1


async def test_no_proxy_is_asked(server: ScriptedSglang, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    client = SglangClient(f"http://localhost:{server.port}", None, 2.0)
    await client.open()
    assert (await client.generate(BODY, 5.0)).status == 200
    await client.close()
