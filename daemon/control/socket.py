"""The daemon's end of the control socket: accepts, checks who asks, decodes a line, hands it on, writes the reply."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec

from contracts.commands import AnyCommand, Events, Reply, decode_command
from contracts.records import Event, encode_line
from daemon.control.follower import Follower
from daemon.control.socket_file import SocketFile

LINE_LIMIT: Final = 1 << 20
"""Longest command line, in bytes."""
_CLOSE_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class Handler(Protocol):
    """What the daemon does with a command."""

    async def handle(self, command: AnyCommand) -> Reply:
        """Carry a command out. `Events` without ``follow`` comes here too: its result is ``{"events": [...]}``."""
        ...

    def subscribe_events(self, last: int) -> AsyncIterator[Event]:
        """Return the last events and then, without end, all that come after."""
        ...


def peer_uid(connection: socket.socket) -> int:
    """Return the user id of the process at the other end."""
    _pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


class ControlServer:
    """Serves one socket path from `start` to `close`.

    Args:
        path: Where the socket is made (`contracts.run_dir.RunDir.socket`).
        handler: Carries commands out.
        uid_of: Replaced in tests that play another user.
    """

    def __init__(self, path: Path, handler: Handler, *, uid_of: Callable[[socket.socket], int] = peer_uid) -> None:
        self._file = SocketFile(path)
        self._handler = handler
        self._uid_of = uid_of
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._answering = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def start(self) -> None:
        """Make the socket and accept.

        Raises:
            daemon.control.socket_file.SocketTrouble: It cannot be made; one sentence says why.
        """
        self._server = await asyncio.start_unix_server(self._accept, sock=self._file.listen(), limit=LINE_LIMIT)

    async def close(self) -> None:
        """Accept nothing more, let replies that are being made go out (for a second), end all connections."""
        if self._server is None:
            return
        self._server.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), _CLOSE_S)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._file.remove()
        self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Our own task: the one that asyncio would make cannot be cancelled quietly on 3.11.
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _LOG.error("a control connection failed", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._uid(writer) == os.getuid():
                await self._converse(reader, writer)
            else:
                await _send(writer, Reply(ok=False, message="only the user who runs the daemon may control it"))
        except ConnectionError:
            pass
        finally:
            await _hang_up(writer)

    def _uid(self, writer: asyncio.StreamWriter) -> int:
        # A duplicate as a real socket: uvloop's own object cannot be asked for its peer.
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as connection:
            return self._uid_of(connection)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (line := await _read_line(reader)) is not None:
            if not line.strip():
                continue
            follow: Events | None = None
            self._begin_answer()
            try:
                reply, follow = await self._answer(line)
                await _send(writer, reply)
            finally:
                self._end_answer()
            if follow is not None:
                await Follower(writer).run(self._handler.subscribe_events(follow.last), reader)
                return

    async def _answer(self, line: bytes) -> tuple[Reply, Events | None]:
        """Return the reply, and the command when events are to follow it."""
        if len(line) > LINE_LIMIT:
            return Reply(ok=False, message=f"the command is longer than {LINE_LIMIT:,} bytes"), None
        try:
            command = decode_command(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Reply(ok=False, message=f"not a command: {error}"), None
        if isinstance(command, Events) and command.follow:
            return Reply(ok=True, message="events follow"), command
        return await self._handler.handle(command), None

    def _begin_answer(self) -> None:
        self._answering += 1
        self._quiet.clear()

    def _end_answer(self) -> None:
        self._answering -= 1
        if not self._answering:
            self._quiet.set()


async def _read_line(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next whole line; None at the end, half a line before it included: it may have been cut.

    Of a line beyond the limit only its first bytes come back, enough to be known as too long.
    """
    too_long = b""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            piece = await reader.readexactly(error.consumed)
            too_long = too_long or piece
        except asyncio.IncompleteReadError:
            return None
        else:
            return too_long or line[:-1]


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    writer.write(encode_line(reply))
    await writer.drain()


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Close after what is buffered went out; a peer that does not read is not waited for."""
    writer.close()
    with suppress(ConnectionError):
        try:
            await asyncio.wait_for(writer.wait_closed(), _CLOSE_S)
        except TimeoutError:
            writer.transport.abort()
