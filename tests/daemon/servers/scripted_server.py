"""A real HTTP server in a thread that answers as scripted: recorded bodies, odd ones, or nothing at all."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures_info"


@dataclass
class Answer:
    """What one path answers with."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    declared_length: int | None = None
    """Content-Length to claim; the real one when None."""
    hangs_after: bool = False
    """Send this much, then keep the connection open."""


HANG = Answer(status=0)
"""Take the request, never answer."""
HTML = Answer(body=b"<!DOCTYPE html><html><body>Welcome to nginx!</body></html>", content_type="text/html")
EMPTY = Answer()
NOT_FOUND = Answer(status=404, body=b'{"detail":"Not Found"}')


def as_json(value: object) -> Answer:
    return Answer(body=json.dumps(value).encode())


def recorded(name: str) -> Answer:
    """The answer of a recording of the real server."""
    exchange = json.loads((CAPTURES / f"{name}.json").read_text(encoding="utf-8"))
    return Answer(
        status=exchange["status"],
        body=exchange["body"].encode(),
        content_type=exchange["headers"].get("content-type", "text/plain"),
    )


@dataclass
class ScriptedServer:
    """A running server; ``answers`` may be changed while it runs. Paths without an answer are 404."""

    url: str
    answers: dict[str, Answer]
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)
    """(method, path, body) of every request."""
    headers: list[dict[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    """Ends what hangs."""

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.seen]


@contextmanager
def serving(answers: dict[str, Answer], port: int = 0) -> Iterator[ScriptedServer]:
    """Serve until the block ends; port 0: any."""
    server = ThreadingHTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler)
    scripted = ScriptedServer(url=f"http://127.0.0.1:{server.server_address[1]}", answers=answers)
    server.RequestHandlerClass = _handler(scripted)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield scripted
    finally:
        scripted.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _handler(scripted: ScriptedServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            scripted.seen.append((self.command, self.path, body))
            scripted.headers.append(dict(self.headers))
            answer = scripted.answers.get(self.path, NOT_FOUND)
            if answer is HANG:
                scripted.released.wait(30)
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            length = len(answer.body) if answer.declared_length is None else answer.declared_length
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(answer.body)
            if answer.hangs_after:
                self.wfile.flush()
                scripted.released.wait(30)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
