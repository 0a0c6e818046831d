"""What the server does between a request and its answer: rids, queue, streams, aborts, draining, keys."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from daemon.embedded.config import load_config
from daemon.embedded.options import Options
from daemon.embedded.server import EmbeddedServer
from tests.embedded.helpers import PROMPT, capture, generate, until

Client = aiohttp.ClientSession


def slow(**options: Any) -> EmbeddedServer:
    """A server whose answers take a minute, unless they are aborted."""
    started = EmbeddedServer(Options(no_model=True, fixed_length=100, **options))
    started.faults.latency = 60.0
    return started


async def test_a_rid_in_flight_is_refused_and_free_again_afterwards(client: Client) -> None:
    async with slow() as server:
        first = asyncio.create_task(generate(client, server.url, rid="dup"))
        await until(lambda: server.service.load().running)
        status, body = await generate(client, server.url, rid="dup")
        recorded = capture("A_dup_rid_second")
        assert (status, body) == (recorded["status"], json.loads(recorded["body"]))
        await client.post(f"{server.url}/abort_request", json={"rid": "dup"})
        await first
        server.faults.latency = 0.0
        status, body = await generate(client, server.url, rid="dup")
        assert (status, body["meta_info"]["id"]) == (200, "dup")
        assert server.requests_seen.rids["dup"] == 2
        assert [each["rid"] for each in server.requests_seen.sample_bodies()] == ["dup"] * 3


async def test_aborts_answer_200_with_partial_output(client: Client) -> None:
    async with slow() as server:
        for target in ({"rid": "a-1"}, {"abort_all": True}):
            task = asyncio.create_task(generate(client, server.url, rid="a-1"))
            await until(lambda: server.service.load().running)
            for harmless in ({"rid": "a"}, {"rid": "nope"}, {}):
                async with client.post(f"{server.url}/abort_request", json=harmless) as response:
                    assert (response.status, await response.read()) == (200, b"")
            assert not task.done()
            async with client.post(f"{server.url}/abort_request", json=target) as response:
                assert response.status == 200
            status, body = await task
            assert status == 200
            reason = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
            assert body["meta_info"]["finish_reason"] == reason
            assert body["meta_info"]["completion_tokens"] == len(body["output_ids"]) < 100


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_is_aborted(client: Client, stream: bool) -> None:
    async with slow() as server:
        task = asyncio.create_task(generate(client, server.url, rid="gone", stream=stream))
        await until(lambda: server.service.load().running)
        task.cancel()
        await until(lambda: not server.service.load().running and not server.service.in_flight)


async def test_a_full_queue(client: Client) -> None:
    async with slow(max_running_requests=1, max_queued_requests=2) as server:
        held = [asyncio.create_task(generate(client, server.url)) for _ in range(3)]
        await until(lambda: server.service.load().waiting == 2)
        status, body = await generate(client, server.url)
        assert status == 503
        assert body == json.loads(capture("K_batch_gt_queue")["body"])
        async with client.post(f"{server.url}/generate", json={"input_ids": PROMPT, "stream": True}) as response:
            assert (response.status, "Retry-After" in response.headers) == (200, False)
            event, done, _ = (await response.text()).split("\n\n")
        recorded = json.loads(capture("K_queue_full_stream")[3][1].split("\n\n")[0].removeprefix("data: "))
        ours = json.loads(event.removeprefix("data: "))
        assert done == "data: [DONE]"
        assert ours["meta_info"]["finish_reason"] == recorded["meta_info"]["finish_reason"]
        assert set(ours["meta_info"]) == set(recorded["meta_info"])
        await client.post(f"{server.url}/abort_request", json={"abort_all": True})
        assert [status for status, _ in await asyncio.gather(*held)] == [200] * 3


async def test_draining_refuses_health_and_goes_on_generating(client: Client) -> None:
    async with slow() as server:
        held = asyncio.create_task(generate(client, server.url, rid="held"))
        await until(lambda: server.service.load().running)
        drained = asyncio.create_task(server.drain())
        await asyncio.sleep(0)
        async with client.get(f"{server.url}/health") as response:
            assert (response.status, await response.read()) == (503, b"")
        server.faults.latency = 0.0
        status, _ = await generate(client, server.url)
        assert status == 200
        assert not drained.done()
        await client.post(f"{server.url}/abort_request", json={"rid": "held"})
        await held
        await drained


async def test_flush_needs_an_idle_server(client: Client) -> None:
    async with slow() as server:
        held = asyncio.create_task(generate(client, server.url, rid="held"))
        await until(lambda: server.service.load().running)
        async with client.post(f"{server.url}/flush_cache") as response:
            recorded = capture("A_flush_cache_busy")
            assert (response.status, await response.text()) == (recorded["status"], recorded["body"])
        flush = asyncio.create_task(client.post(f"{server.url}/flush_cache?timeout=5"))
        await client.post(f"{server.url}/abort_request", json={"rid": "held"})
        assert (await flush).status == 200
        await held


async def test_loads_and_metrics_follow_what_runs(client: Client) -> None:
    async with slow(max_running_requests=2, enable_metrics=True, served_model_name="tiny") as server:
        held = [asyncio.create_task(generate(client, server.url)) for _ in range(3)]
        await until(lambda: server.service.load().waiting)
        async with client.get(f"{server.url}/v1/loads") as response:
            rank = (await response.json())["loads"][0]
        assert (rank["num_running_reqs"], rank["num_waiting_reqs"]) == (2, 1)
        assert rank["num_used_tokens"] == 2 * (10 + 50)
        assert rank["token_usage"] == round(120 / rank["max_total_num_tokens"], 4)
        await client.post(f"{server.url}/abort_request", json={"abort_all": True})
        await asyncio.gather(*held)
        server.faults.latency = 0.0
        await generate(client, server.url)
        async with client.get(f"{server.url}/metrics") as response:
            lines = (await response.text()).splitlines()
        labels = 'engine_type="unified",is_streaming="false",model_name="tiny"'
        assert f"sglang:num_requests_total{{{labels}}} 4.0" in lines
        assert f"sglang:prompt_tokens_total{{{labels}}} 40.0" in lines


async def test_a_key_is_asked_for(client: Client) -> None:
    async with EmbeddedServer(Options(no_model=True, api_key="sekret")) as server:
        body = {"input_ids": PROMPT}
        async with client.post(
            f"{server.url}/generate", json=body, headers={"Authorization": "Bearer sekret"}
        ) as response:
            assert response.status == 200
        async with client.post(f"{server.url}/generate", json=body) as response:
            assert (response.status, await response.json()) == (401, {"error": "Unauthorized"})


@pytest.mark.parametrize(
    "body", [{"input_ids": [71, -5]}, {"input_ids": [71, 1024]}, {"input_ids": [99999999999]}, {"text": ""}]
)
async def test_what_kills_the_real_server_kills_this_one(client: Client, body: dict[str, Any]) -> None:
    async with slow() as server:
        bystander = asyncio.create_task(generate(client, server.url))
        await until(lambda: server.service.load().running)
        with pytest.raises((aiohttp.ClientConnectionError, ConnectionError)):
            async with client.post(f"{server.url}/generate", json=body):
                pass
        assert server.dead.is_set()
        with pytest.raises((aiohttp.ClientConnectionError, ConnectionError)):
            await bystander
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(f"{server.url}/health")


async def test_the_reported_model_path_tells_the_vocabulary(client: Client, tmp_path: Any) -> None:
    for folder in (None, tmp_path / "model"):
        server = EmbeddedServer(Options(no_model=True, model_dir=folder))
        async with server, client.get(f"{server.url}/model_info") as response:
            path = (await response.json())["model_path"]
        assert folder is None or path == str(folder)
        assert load_config(Path(path)).vocab_size == load_config().vocab_size == 1024


async def test_streams_and_batches(client: Client) -> None:
    async with EmbeddedServer(Options(no_model=True, fixed_length=10)) as server:
        async with client.post(
            f"{server.url}/generate", json={"input_ids": [[1], [2]], "stream": True, "rid": ["a", "b"]}
        ) as response:
            events = [json.loads(line[6:]) for line in (await response.text()).split("\n\n")[:-2]]
        last = {event["index"]: event for event in events if event["meta_info"]["finish_reason"]}
        assert {index: event["meta_info"]["id"] for index, event in last.items()} == {0: "a", 1: "b"}
        status, answers = await generate(client, server.url, sampling_params={"n": 3}, rid="n")
        assert (status, len(answers)) == (200, 3)
        assert len({answer["meta_info"]["id"] for answer in answers}) == 3


async def test_idle_connections_are_closed() -> None:
    """The real server does so after 5 s: a client whose idle pool lives longer meets resets."""
    async with EmbeddedServer(Options(no_model=True, keep_alive=0.05)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(5):
            everything = await reader.read()
        writer.close()
    assert everything.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" not in everything
