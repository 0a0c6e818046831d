"""The control server: decoding, peers, limits, followers, closing; with the real client where a person would use it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contracts.commands import AnyCommand, Ping, Reply, Set, Stop, decode_reply
from contracts.control_client import DaemonNotRunning, follow, send
from contracts.records import Event, Severity
from contracts.run_dir import RunDir
from daemon.control.follower import Follower
from daemon.control.socket import LINE_LIMIT, ControlServer
from daemon.control.socket_file import SocketTrouble


def event(number: int) -> Event:
    return Event(at=float(number), severity=Severity.INFO, kind="test", message=f"event {number}")


class FakeHandler:
    """Answers with what it got; events come from a queue."""

    def __init__(self, name: str = "run") -> None:
        self.name = name
        self.got: list[AnyCommand] = []
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.hold: asyncio.Event | None = None
        self.holding = asyncio.Event()
        self.left = asyncio.Event()

    async def handle(self, command: AnyCommand) -> Reply:
        self.got.append(command)
        if self.hold is not None:
            self.holding.set()
            await self.hold.wait()
        if isinstance(command, Stop):
            raise RuntimeError("a fault of the handler")
        return Reply(ok=True, message=self.name)

    async def subscribe_events(self, last: int) -> AsyncIterator[Event]:
        try:
            for number in range(last):
                yield event(number)
            while True:
                yield await self.events.get()
        finally:
            self.left.set()


@pytest.fixture
def handler() -> FakeHandler:
    return FakeHandler()


@pytest.fixture
async def server(tmp_path: Path, handler: FakeHandler) -> AsyncIterator[Path]:
    path = tmp_path / "daemon.sock"
    control = ControlServer(path, handler)
    await control.start()
    yield path
    await control.close()


async def ask(path: Path, *lines: bytes) -> list[Reply]:
    reader, writer = await asyncio.open_unix_connection(path)
    replies = []
    for line in lines:
        writer.write(line)
        replies.append(decode_reply(await reader.readline()))
    writer.close()
    await writer.wait_closed()
    return replies


async def test_a_command_reaches_the_handler_typed(server: Path, handler: FakeHandler) -> None:
    reply = await asyncio.to_thread(send, server, Set(concurrency=7))
    assert (reply.ok, reply.message) == (True, "run")
    assert handler.got == [Set(concurrency=7)]


async def test_a_bad_line_is_named_and_the_connection_stays(server: Path, handler: FakeHandler) -> None:
    lines = [
        b"nonsense\n",
        b'{"command":"dance"}\n',
        b'{"command":"set","concurency":3}\n',
        b"\xff\n",
        b'{"command":"ping"}\n',
    ]
    replies = await ask(server, *lines)
    assert [reply.ok for reply in replies] == [False, False, False, False, True]
    assert "dance" in replies[1].message
    assert "concurency" in replies[2].message
    assert handler.got == [Ping()]


async def test_blank_lines_are_skipped(server: Path) -> None:
    assert len(await ask(server, b'\n  \n{"command":"ping"}\n')) == 1


@pytest.mark.parametrize("length", [LINE_LIMIT + 1, 3 * LINE_LIMIT])
async def test_a_line_beyond_the_limit_is_named_and_the_connection_stays(server: Path, length: int) -> None:
    replies = await ask(server, b"x" * length + b"\n", b'{"command":"ping"}\n')
    assert [reply.ok for reply in replies] == [False, True]
    assert f"longer than {LINE_LIMIT:,} bytes" in replies[0].message


async def test_half_a_line_is_never_carried_out(server: Path, handler: FakeHandler) -> None:
    reader, writer = await asyncio.open_unix_connection(server)
    writer.write(b'{"command":"stop"}')
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    assert handler.got == []


async def test_another_user_is_refused(tmp_path: Path, handler: FakeHandler) -> None:
    control = ControlServer(tmp_path / "daemon.sock", handler, uid_of=lambda _socket: 12_345)
    await control.start()
    reader, writer = await asyncio.open_unix_connection(tmp_path / "daemon.sock")
    writer.write(b'{"command":"stop"}\n')
    reply = decode_reply(await reader.readline())
    assert not reply.ok
    assert "only the user" in reply.message
    writer.close()
    await control.close()
    assert handler.got == []


async def test_a_fault_in_the_handler_ends_one_connection_only(server: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await asyncio.open_unix_connection(server)
    writer.write(b'{"command":"stop"}\n')
    assert await reader.read() == b""
    writer.close()
    assert (await ask(server, b'{"command":"ping"}\n'))[0].ok
    assert "a control connection failed" in caplog.text


async def test_events_come_after_the_reply_and_then_live(server: Path, handler: FakeHandler) -> None:
    stream = follow(server, last=2)
    first = [await asyncio.to_thread(next, stream) for _ in range(2)]
    handler.events.put_nowait(event(77))
    live = await asyncio.to_thread(next, stream)
    assert [one.message for one in [*first, live]] == ["event 0", "event 1", "event 77"]
    stream.close()
    await handler.left.wait()


async def test_events_without_follow_go_to_the_handler(server: Path) -> None:
    (reply,) = await ask(server, b'{"command":"events","last":3}\n')
    assert reply.message == "run"


async def test_a_follower_that_does_not_read_blocks_nobody(server: Path, handler: FakeHandler) -> None:
    reader, writer = await asyncio.open_unix_connection(server, limit=1024)
    writer.write(b'{"command":"events","follow":true,"last":20000}\n')
    await reader.readline()
    # All of them are taken from the source although nothing is read; then others are served as ever.
    handler.events.put_nowait(event(1))
    while not handler.events.empty():
        assert (await ask(server, b'{"command":"ping"}\n'))[0].ok
    writer.close()
    await handler.left.wait()


async def test_what_a_slow_follower_missed_is_counted() -> None:
    class SlowWriter:
        """Lets nothing through until told."""

        def __init__(self) -> None:
            self.lines: list[bytes] = []
            self.open = asyncio.Event()

        def write(self, line: bytes) -> None:
            self.lines.append(line)

        async def drain(self) -> None:
            await self.open.wait()

    async def source() -> AsyncIterator[Event]:
        for number in range(10):
            yield event(number)
            await asyncio.sleep(0)
        writer.open.set()

    writer = SlowWriter()
    await Follower(writer, limit=3).run(source(), asyncio.StreamReader())  # type: ignore[arg-type]
    got = [json.loads(line) for line in writer.lines]
    kept = [line for line in got if line["kind"] == "test"]
    (dropped,) = [line for line in got if line["kind"] == "control.dropped"]
    assert got[-1] == dropped
    assert dropped["severity"] == "warning"
    assert len(kept) + dropped["data"]["dropped"] == 10
    assert dropped["data"]["dropped"] > 0


async def test_a_fault_of_the_source_of_events_is_not_hidden() -> None:
    async def source() -> AsyncIterator[Event]:
        yield event(1)
        raise RuntimeError("source broke")

    class Writer:
        def write(self, line: bytes) -> None: ...

        async def drain(self) -> None: ...

    with pytest.raises(RuntimeError, match="source broke"):
        await Follower(Writer()).run(source(), asyncio.StreamReader())  # type: ignore[arg-type]


async def test_close_ends_idle_and_following_connections_and_removes_the_socket(
    tmp_path: Path, handler: FakeHandler
) -> None:
    path = tmp_path / "daemon.sock"
    control = ControlServer(path, handler)
    await control.start()
    idle, idle_writer = await asyncio.open_unix_connection(path)
    following, following_writer = await asyncio.open_unix_connection(path)
    following_writer.write(b'{"command":"events","follow":true,"last":1}\n')
    await following.readline()
    await control.close()
    assert await idle.read() == b""
    assert (await following.read()).endswith(b"}\n")
    assert not path.exists()
    for writer in (idle_writer, following_writer):
        writer.close()


async def test_close_lets_the_reply_that_is_being_made_go_out(tmp_path: Path, handler: FakeHandler) -> None:
    path = tmp_path / "daemon.sock"
    control = ControlServer(path, handler)
    await control.start()
    handler.hold = asyncio.Event()
    asking = asyncio.create_task(ask(path, b'{"command":"ping"}\n'))
    await handler.holding.wait()
    closing = asyncio.create_task(control.close())
    await asyncio.sleep(0)
    handler.hold.set()
    await closing
    assert (await asking)[0].ok


async def test_start_at_an_impossible_path_is_a_sentence(tmp_path: Path, handler: FakeHandler) -> None:
    (tmp_path / "daemon.sock").mkdir()
    control = ControlServer(tmp_path / "daemon.sock", handler)
    with pytest.raises(SocketTrouble):
        await control.start()
    await control.close()


async def test_case_62_two_runs_that_differ_in_byte_150_reach_their_own_daemons(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))
    runs = [RunDir(tmp_path / ("d" * 149 + last)) for last in "ab"]
    servers = []
    for run in runs:
        run.path.mkdir()
        servers.append(ControlServer(run.socket, FakeHandler(run.path.name[-1])))
        await servers[-1].start()
    answers = [(await asyncio.to_thread(send, run.socket, Ping())).message for run in runs]
    assert answers == ["a", "b"]
    for control in servers:
        await control.close()


async def test_case_63_after_close_the_client_says_that_nothing_runs(server: Path, handler: FakeHandler) -> None:
    other = server.with_name("other.sock")
    control = ControlServer(other, handler)
    await control.start()
    await control.close()
    with pytest.raises(DaemonNotRunning):
        send(other, Ping())


def test_it_serves_under_uvloop(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")
    path = tmp_path / "daemon.sock"

    async def serve() -> Reply:
        control = ControlServer(path, FakeHandler("uv"))
        await control.start()
        try:
            return await asyncio.to_thread(send, path, Ping())
        finally:
            await control.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(serve()).message == "uv"
    assert not path.exists()


def test_the_peer_is_who_the_kernel_says() -> None:
    import os

    from daemon.control.socket import peer_uid

    left, right = socket.socketpair()
    with left, right:
        assert peer_uid(left) == os.getuid()
