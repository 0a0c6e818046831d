"""The client's end of the control socket: one command, one fresh reply, or an error that says which of the two failed.

Plain blocking sockets: a command imports nothing heavy, and no reply is ever assumed.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from contracts.commands import Command, Events, Reply, decode_reply
from contracts.daemon_info import read_daemon_info
from contracts.records import Event, encode_line
from contracts.run_dir import RunDir

_CHUNK: Final = 1 << 16
_BUSY_PAUSE_S: Final = 0.02
_EVENT: Final = msgspec.json.Decoder(Event)


class ControlError(Exception):
    """The daemon did not do what was asked, as far as is known here; the message is a sentence."""


class DaemonNotRunning(ControlError):
    """Nobody listens at the run's socket."""

    def __init__(self, run: Path) -> None:
        super().__init__(f"no daemon is running for {run}; start it with: eagle3 start {run}")


class ControlTimeout(ControlError):
    """The daemon is there and did not answer in time: whether the command was carried out is not known."""


def socket_of(run: RunDir) -> Path:
    """Return where the run's daemon listens: its own word in ``daemon.json``, or the name that follows from the path.

    The two differ when the daemon was started through another path (a link) or with another runtime directory.
    """
    named = run.socket
    if named.exists():
        return named
    try:
        info = read_daemon_info(run.daemon_info)
    except OSError:
        return named
    return Path(info.socket) if info is not None and info.socket else named


def send(socket_path: Path, command: Command, timeout_s: float = 10.0, *, run: Path | None = None) -> Reply:
    """Send a command and return the daemon's reply to it.

    Args:
        socket_path: Where the daemon listens (`socket_of`).
        command: What it shall do.
        timeout_s: Seconds for all of it.
        run: The run directory, to be named in errors; the socket's folder when None.

    Raises:
        DaemonNotRunning: Nobody listens there.
        ControlTimeout: No reply in time.
        ControlError: The connection broke before the reply, the reply is not one, or the socket may not be used.
    """
    with _Connection(socket_path, timeout_s, run or socket_path.parent) as connection:
        return connection.ask(command)


def follow(socket_path: Path, last: int = 20, timeout_s: float = 10.0, *, run: Path | None = None) -> Iterator[Event]:
    """Yield the last events and then all that come, until the daemon ends.

    Args:
        socket_path: Where the daemon listens (`socket_of`).
        last: How many earlier events come first.
        timeout_s: Seconds until the daemon's reply; between events there is no limit.
        run: As for `send`.

    Raises:
        ControlError: As for `send`; also when the daemon refuses, with its message.
    """
    with _Connection(socket_path, timeout_s, run or socket_path.parent) as connection:
        reply = connection.ask(Events(last=last, follow=True))
        if not reply.ok:
            raise ControlError(reply.message)
        yield from connection.events()


class _Connection:
    def __init__(self, path: Path, timeout_s: float, run: Path) -> None:
        self._path = path
        self._run = run
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._buffer = bytearray()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> _Connection:
        try:
            self._connect()
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def ask(self, command: Command) -> Reply:
        try:
            self._limit()
            self._socket.sendall(encode_line(command))
            line = self._line()
        except TimeoutError:
            raise self._timed_out() from None
        except OSError as error:
            raise self._broke(error.strerror or str(error)) from error
        if line is None:
            raise self._broke("it closed the connection")
        try:
            return decode_reply(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ControlError(f"{self._path}: what answers there is not an eagle3 daemon: {error}") from error

    def events(self) -> Iterator[Event]:
        self._deadline = float("inf")
        try:
            while (line := self._line()) is not None:
                yield _EVENT.decode(line)
        except ConnectionError:
            return
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ControlError(f"{self._path}: an event that cannot be read: {error}") from error

    def _connect(self) -> None:
        while True:
            self._limit()
            try:
                self._socket.connect(os.fsencode(self._path))
            except BlockingIOError:
                # Its queue of connections is full: there is a daemon, and it is busy.
                time.sleep(_BUSY_PAUSE_S)
            except TimeoutError:
                raise self._timed_out() from None
            except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
                raise DaemonNotRunning(self._run) from None
            except OSError as error:
                raise ControlError(
                    f"{self._path}: the control socket cannot be used: {error.strerror or error}"
                ) from error
            else:
                return

    def _line(self) -> bytes | None:
        """Return the next whole line, None at the end."""
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            self._limit()
            chunk = self._socket.recv(_CHUNK)
            if not chunk:
                return None
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _limit(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._timed_out()
        self._socket.settimeout(None if left == float("inf") else left)

    def _timed_out(self) -> ControlTimeout:
        return ControlTimeout(
            f"the daemon of {self._run} did not answer within {self._timeout_s:g} s; "
            f"whether it will do what was asked is not known, look with: eagle3 status {self._run}"
        )

    def _broke(self, how: str) -> ControlError:
        return ControlError(
            f"the daemon of {self._run} gave no reply ({how}); look with: eagle3 status {self._run}, "
            f"and at {self._run / 'daemon.log'}"
        )
