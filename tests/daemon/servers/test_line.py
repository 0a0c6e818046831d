"""The line to a server's process: it tells that the process is gone, and nothing else does."""

import asyncio

import pytest

from daemon.servers.client import ConnectionLostError
from daemon.servers.line import Line
from tests.support.runs import until
from tests.support.scripted_sglang import ScriptedSglang


async def test_it_ends_with_the_server_and_says_so_once() -> None:
    lost = list[float]()
    async with ScriptedSglang() as server:
        line = Line(server.url, 5.0, lost.append)
        first = await line.open()
        assert await line.open() == first == line.number
        await server.close()
        await until(lambda: line.number is None)
        assert len(lost) == 1 and lost[0] >= 0
        with pytest.raises(ConnectionLostError, match="no connection: Connection refused"):
            await line.open()
        await server.start()
        assert await line.open() != first
        line.close()
        assert line.number is None
        await asyncio.sleep(0)
    assert len(lost) == 1, "of an end of our own nobody is told"


async def test_one_that_is_closed_as_soon_as_it_is_made_is_none() -> None:
    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    lost = list[float]()
    async with await asyncio.start_server(close, "127.0.0.1", 0) as server:
        line = Line(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 5.0, lost.append)
        try:
            await line.open()
        except ConnectionLostError as error:
            assert "closed as soon as" in str(error)
        else:
            await until(lambda: len(lost) == 1)
        assert line.number is None


async def test_an_address_that_is_none() -> None:
    with pytest.raises(ConnectionLostError, match="no connection: "):
        await Line("http://127.0.0.1:99999", 5.0, lambda lasted_s: None).open()
