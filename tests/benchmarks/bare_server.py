"""A server that is not the limit: ``POST /generate`` after a fixed delay, on a bare protocol, with canned ids.

``python -m tests.benchmarks.bare_server PORT DELAY_S IDS [SPREAD]``. Also answers the few GETs of the probe, and
``GET /count`` with the number of ``/generate`` answered.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import cast

import uvloop

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "


class Answers(asyncio.Protocol):
    """One connection."""

    delay_s = 0.2
    spread = 0.0
    """The delay varies by this share of it, up and down."""
    ids = b""
    count = 0
    completion_tokens = 0

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own class does not derive from it

    def data_received(self, data: bytes) -> None:
        data = self.pending + data if self.pending else data
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                break
            length_at = data.lower().find(b"content-length:", 0, end)
            length = int(data[length_at + 15 : data.find(b"\r\n", length_at)]) if length_at >= 0 else 0
            if len(data) < end + 4 + length:
                break
            body, target = data[end + 4 : end + 4 + length], data[: data.find(b"\r\n")].split(b" ")[1]
            data = data[end + 4 + length :]
            if target == b"/generate":
                delay_s = self.delay_s * (1 + random.uniform(-self.spread, self.spread))
                asyncio.get_running_loop().call_later(delay_s, self.answer, body, delay_s)
            else:
                self.tell(target)
        self.pending = data

    def answer(self, body: bytes, delay_s: float) -> None:
        start = body.find(b'"rid":"') + 7
        rid = body[start : body.find(b'"', start)]
        start = body.find(b'"input_ids":[') + 13
        prompt_tokens = body.count(b",", start, body.find(b"]", start)) + 1
        ids, tokens = Answers.ids, Answers.completion_tokens
        if b'"max_new_tokens":1}' in body:  # the daemon's probe
            ids, tokens = b"7", 1
        content = (
            b'{"text":"","output_ids":[%b],"meta_info":{"id":"%b","finish_reason":{"type":"stop","matched":2},'
            b'"prompt_tokens":%d,"weight_version":"default","completion_tokens":%d,"cached_tokens":0,"e2e_latency":%f}}'
        ) % (ids, rid, prompt_tokens, tokens, delay_s)
        Answers.count += 1
        if not self.transport.is_closing():
            self.transport.write(HEAD + b"%d\r\n\r\n" % len(content) + content)

    def tell(self, target: bytes) -> None:
        bodies = {
            b"/count": {"count": Answers.count},
            b"/model_info": {"model_path": "bench", "is_generation": True},
            b"/server_info": {"version": "bench", "max_req_input_len": 100_000, "context_length": 200_000},
            b"/v1/loads": {"loads": []},
        }
        body = bodies.get(target)
        content = json.dumps(body or {"detail": "Not Found"}).encode()
        status = b"200 OK" if body is not None else b"404 Not Found"
        self.transport.write(
            b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content)
        )
        self.transport.write(content)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Answers, "127.0.0.1", port, backlog=2048)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    chance = random.Random(1)
    Answers.delay_s = float(sys.argv[2])
    Answers.completion_tokens = int(sys.argv[3])
    Answers.spread = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    Answers.ids = b",".join(b"%d" % chance.randrange(160_000) for _ in range(Answers.completion_tokens))
    uvloop.run(serve(int(sys.argv[1])))
