"""`python -m daemon.embedded` as a process: what it prints, how it drains, how it dies."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.embedded.helpers import generate

Client = aiohttp.ClientSession


@asynccontextmanager
async def process(*words: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A running server and its URL; killed at the end if it is still there."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "daemon.embedded", "--port", "0", *words, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert started.stdout is not None
        async with asyncio.timeout(20):
            line = (await started.stdout.readline()).decode()
        assert line.startswith("ready http://127.0.0.1:")
        yield started, line.split()[1]
        async with asyncio.timeout(10):
            assert await started.stdout.read() == b""  # one line, and no more
            await started.wait()
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


async def test_sigterm_drains_and_exits_0(client: Client, tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    async with process("--no-model", "--latency", "0.4", "--port-file", str(port_file)) as (server, url):
        assert url.endswith(f":{int(port_file.read_text())}")
        held = asyncio.create_task(generate(client, url))
        async with client.get(f"{url}/v1/loads") as response:
            assert response.status == 200
        while not await running(client, url):
            pass
        server.send_signal(signal.SIGTERM)
        while await status(client, f"{url}/health") != 503:
            pass
        answered, body = await held
        assert answered == 200
        assert body["meta_info"]["finish_reason"]["type"] != "abort"
    assert server.returncode == 0


async def test_a_bad_id_ends_the_process_with_1(client: Client) -> None:
    async with process() as (server, url):
        answered, body = await generate(client, url, sampling_params={"max_new_tokens": 2})
        assert (answered, len(body["output_ids"])) == (200, 2)
        with pytest.raises((aiohttp.ClientConnectionError, ConnectionError)):
            await generate(client, url, input_ids=[1024])
    assert server.returncode == 1


async def test_die_after_sends_the_last_answer(client: Client) -> None:
    async with process("--no-model", "--die-after", "2", "--fixed-length", "1500") as (server, url):
        for _ in range(2):
            answered, body = await generate(client, url, sampling_params={"max_new_tokens": 1500})
            assert (answered, len(body["output_ids"])) == (200, 1500)
    assert server.returncode == 1


async def test_a_second_signal_does_not_wait() -> None:
    async with process("--no-model", "--latency", "60") as (server, url), aiohttp.ClientSession() as client:
        held = asyncio.create_task(generate(client, url))
        while not await running(client, url):
            pass
        server.send_signal(signal.SIGINT)
        while await status(client, f"{url}/health") != 503:
            pass
        server.send_signal(signal.SIGINT)
        with pytest.raises((aiohttp.ClientConnectionError, ConnectionError)):
            await held
    assert server.returncode == 130


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [(["--reset", "0.9", "--hang", "0.9"], 2, "sum to at most 1"), ([], 1, "cannot listen on 127.0.0.1:")],
)
async def test_a_start_that_fails_says_why(words: list[str], code: int, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        started = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "daemon.embedded",
            "--no-model",
            "--port",
            port,
            *words,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await started.communicate()
    assert started.returncode == code
    assert message in errors.decode()


async def running(client: Client, url: str) -> int:
    async with client.get(f"{url}/v1/loads") as response:
        load = (await response.json())["loads"][0]
    return int(load["num_running_reqs"])


async def status(client: Client, url: str) -> int:
    async with client.get(url) as response:
        return response.status
