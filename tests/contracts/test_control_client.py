"""The client never claims what it was not told, and says which failure it was."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from contracts.commands import Ping, Set
from contracts.control_client import (
    ControlError,
    ControlTimeout,
    DaemonNotRunning,
    follow,
    send,
    socket_of,
)
from contracts.daemon_info import DaemonInfo
from contracts.run_dir import RunDir


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "daemon.sock"


@contextmanager
def daemon(path: Path, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Serve one connection in a thread."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def accept() -> None:
        connection, _ = listener.accept()
        with connection:
            serve(connection)

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        listener.close()


def answering(*pieces: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        for piece in pieces:
            connection.sendall(piece)

    return serve


def test_it_sends_one_line_and_returns_the_reply(path: Path) -> None:
    got: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        got.append(connection.recv(1 << 16))
        connection.sendall(b'{"ok":true,"mess')
        connection.sendall(b'age":"done"}\n')

    with daemon(path, serve):
        reply = send(path, Set(concurrency=3))
    assert (reply.ok, reply.message) == (True, "done")
    assert got == [b'{"command":"set","concurrency":3,"targets":{}}\n']


@pytest.mark.parametrize("state", ["missing", "stale", "no folder"])
def test_nobody_there_is_not_running_with_what_to_do(path: Path, state: str) -> None:
    if state == "stale":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    where = path / "below" / "daemon.sock" if state == "no folder" else path
    with pytest.raises(DaemonNotRunning) as caught:
        send(where, Ping(), run=Path("my_run"))
    assert str(caught.value) == "no daemon is running for my_run; start it with: eagle3 start my_run"


def test_a_file_that_is_no_socket_is_not_a_daemon(path: Path) -> None:
    path.write_text("x")
    with pytest.raises(DaemonNotRunning):
        send(path, Ping())


def test_silence_is_a_named_timeout_and_not_success(path: Path) -> None:
    done = threading.Event()
    with daemon(path, lambda connection: done.wait(10) and None):
        with pytest.raises(ControlTimeout, match=r"within 0\.05 s.*is not known"):
            send(path, Ping(), 0.05)
        done.set()


def test_a_trickle_does_not_extend_the_time(path: Path) -> None:
    done = threading.Event()

    def serve(connection: socket.socket) -> None:
        while not done.wait(0.01):
            connection.sendall(b"x")

    with daemon(path, serve):
        with pytest.raises(ControlTimeout):
            send(path, Ping(), 0.1)
        done.set()


def test_a_full_queue_of_connections_is_waited_for_and_then_a_timeout(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(path))
        busy.listen(0)
        first.connect(str(path))
        with pytest.raises(ControlTimeout):
            send(path, Ping(), 0.1)


@pytest.mark.parametrize("answer", [(), (b'{"ok":true}',)])
def test_a_connection_that_ends_before_the_reply_is_not_success(path: Path, answer: tuple[bytes, ...]) -> None:
    with daemon(path, answering(*answer)), pytest.raises(ControlError, match="gave no reply"):
        send(path, Ping())


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\n", b"{}\n", b"\xff\n"])
def test_a_stranger_at_the_socket_is_named(path: Path, answer: bytes) -> None:
    with daemon(path, answering(answer)), pytest.raises(ControlError, match="not an eagle3 daemon"):
        send(path, Ping())


def test_following_yields_events_until_the_daemon_ends(path: Path) -> None:
    line = b'{"at":1.0,"severity":"info","kind":"k","message":"%d"}\n'
    with daemon(path, answering(b'{"ok":true}\n' + line % 1, line % 2)):
        assert [event.message for event in follow(path)] == ["1", "2"]


def test_a_refused_follow_is_an_error(path: Path) -> None:
    with daemon(path, answering(b'{"ok":false,"message":"not now"}\n')), pytest.raises(ControlError, match="not now"):
        next(follow(path))


def test_an_event_of_another_shape_is_named(path: Path) -> None:
    with daemon(path, answering(b'{"ok":true}\n{"x":1}\n')), pytest.raises(ControlError, match="cannot be read"):
        list(follow(path))


def test_the_socket_is_where_the_path_says(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert socket_of(run) == run.socket
    run.daemon_info.write_bytes(b"garbage")
    assert socket_of(run) == run.socket


def test_the_socket_is_where_the_daemon_said_when_it_was_started_otherwise(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.daemon_info.write_bytes(msgspec.json.encode(DaemonInfo(pid=1, socket="/elsewhere/daemon.sock")))
    assert socket_of(run) == Path("/elsewhere/daemon.sock")


def test_the_client_imports_nothing_slow() -> None:
    code = (
        "import contracts.control_client, sys; "
        "print([m for m in ('asyncio', 'aiohttp', 'requests', 'psutil', 'textual', 'torch') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
