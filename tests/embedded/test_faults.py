"""Every fault switch, as a client meets it."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from daemon.embedded.arguments import build_parser, options_from
from daemon.embedded.faults import PROBABILITIES, Faults
from daemon.embedded.options import Options
from daemon.embedded.server import EmbeddedServer
from tests.embedded.helpers import PROMPT, generate, until

Client = aiohttp.ClientSession


def server(**faults: Any) -> EmbeddedServer:
    return EmbeddedServer(Options(no_model=True, fixed_length=20, faults=Faults(**faults)))


async def test_errors(client: Client) -> None:
    async with server(error_500=1.0) as embedded:
        assert await generate(client, embedded.url) == (500, b"Internal Server Error")
        assert embedded.faults.injected == {"error_500": 1}
    async with server(error_503=1.0) as embedded:
        for after in (None, 2.0):
            embedded.faults.retry_after = after
            async with client.post(f"{embedded.url}/generate", json={"input_ids": PROMPT}) as response:
                assert response.status == 503
                assert response.headers.get("Retry-After") == (None if after is None else "2")
                assert (await response.json())["message"] == "The request queue is full."


async def test_reset(client: Client) -> None:
    async with server(reset=1.0) as embedded:
        with pytest.raises((aiohttp.ClientConnectionError, ConnectionError)):
            await generate(client, embedded.url)
        assert embedded.requests_seen.generate >= 1


@pytest.mark.parametrize("stream", [False, True])
async def test_truncate(client: Client, stream: bool) -> None:
    async with server(truncate=1.0) as embedded:
        with pytest.raises(aiohttp.ClientPayloadError):
            await generate(client, embedded.url, stream=stream)
        async with client.post(f"{embedded.url}/generate", json={"input_ids": PROMPT}) as response:
            assert response.status == 200
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()


async def test_html(client: Client) -> None:
    async with server(html=1.0) as embedded:
        status, body = await generate(client, embedded.url)
    assert status == 200
    assert b"<h1>502 Bad Gateway</h1>" in body


async def test_hang(client: Client) -> None:
    async with server(hang=1.0) as embedded:
        task = asyncio.create_task(generate(client, embedded.url))
        await until(lambda: embedded.service.hung)
        assert embedded.service.load().running == 1
        await embedded.drain()  # what hangs does not hold a drain up
        task.cancel()
        await until(lambda: not embedded.service.hung)
        left = asyncio.create_task(generate(client, embedded.url))
        await until(lambda: embedded.service.hung)
    with pytest.raises((aiohttp.ClientConnectionError, ConnectionError)):
        await left


async def test_abort_and_wrong_counts(client: Client) -> None:
    async with server() as embedded:
        embedded.faults.force("abort", "wrong_counts", None)
        status, body = await generate(client, embedded.url)
        assert (status, body["meta_info"]["finish_reason"]["type"]) == (200, "abort")
        assert body["meta_info"]["completion_tokens"] == len(body["output_ids"]) == 10
        status, body = await generate(client, embedded.url)
        assert (status, body["meta_info"]["completion_tokens"], len(body["output_ids"])) == (200, 23, 20)
        _, body = await generate(client, embedded.url)
        assert body["meta_info"]["completion_tokens"] == len(body["output_ids"])
        with pytest.raises(ValueError, match="no fault 'typo'"):
            embedded.faults.force("typo")  # type: ignore[arg-type]


async def test_other_shapes(client: Client) -> None:
    async with server(other_shape=1.0, seed=2) as embedded:
        seen = {}
        for _ in range(12):
            _, body = await generate(client, embedded.url)
            assert "meta_info" not in body and len(body["output_ids"]) == 20
            seen["usage" if "usage" in body else "flat"] = body
    assert seen["usage"]["usage"] == {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
    assert (seen["flat"]["prompt_tokens"], seen["flat"]["completion_tokens"]) == (10, 20)


async def test_hang_after(client: Client) -> None:
    async with server(hang_after=2) as embedded:
        embedded.options.health_timeout = 0.05
        for _ in range(2):
            assert (await generate(client, embedded.url))[0] == 200
        task = asyncio.create_task(generate(client, embedded.url))
        await until(lambda: embedded.service.hung)
        async with client.get(f"{embedded.url}/health") as response:
            assert response.status == 503
        task.cancel()


async def test_die_after_plays_dead_in_process(client: Client) -> None:
    async with server(die_after=2) as embedded:
        for _ in range(2):
            assert (await generate(client, embedded.url))[0] == 200
        await embedded.dead.wait()
        with pytest.raises(aiohttp.ClientConnectionError):
            await generate(client, embedded.url)


async def test_latency(client: Client) -> None:
    async with server(latency=0.05, latency_spread=0.05) as embedded:
        delays = []
        for _ in range(3):
            _, body = await generate(client, embedded.url)
            delays.append(body["meta_info"]["e2e_latency"])
    assert min(delays) >= 0.049
    assert len(set(delays)) == 3


def test_draws_follow_the_seed() -> None:
    def draws(seed: int) -> list[Any]:
        faults = Faults(error_500=0.1, reset=0.2, other_shape=0.2, latency_spread=1.0, seed=seed)
        return [(faults.next_kind(), faults.next_delay()) for _ in range(400)]

    assert draws(1) == draws(1) != draws(2)
    kinds = [kind for kind, _ in draws(1)]
    assert 20 < kinds.count("error_500") < 65
    assert 50 < kinds.count("reset") < 115
    assert min(kinds.count("usage_shape"), kinds.count("flat_shape")) > 20
    assert 150 < kinds.count(None) < 250


def test_probabilities_must_make_sense() -> None:
    with pytest.raises(ValueError, match=r"sum to at most 1, not 1\.2"):
        Faults(reset=0.6, hang=0.6)
    with pytest.raises(ValueError, match="0 or more"):
        Faults(reset=-0.1)


def test_every_switch_is_on_the_command_line() -> None:
    words = [word for name in PROBABILITIES for word in (f"--{name.replace('_', '-')}", "0.1")]
    words += ["--latency", "1", "--latency-spread", "2", "--die-after", "3", "--hang-after", "4", "--retry-after", "5"]
    options = options_from(build_parser().parse_args([*words, "--seed", "7", "--port", "1"]))
    faults = options.faults
    assert [getattr(faults, name) for name in PROBABILITIES] == [0.1] * 9
    assert (faults.latency, faults.latency_spread, faults.die_after, faults.hang_after) == (1, 2, 3, 4)
    assert (faults.retry_after, faults.seed, options.seed, options.port) == (5, 7, 7, 1)
    assert options_from(build_parser().parse_args([])) == Options()


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="max_running_requests must be at least 1"):
        Options(max_running_requests=0)
    assert json.dumps(str(Options().model_path)).endswith('embedded"')
