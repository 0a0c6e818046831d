"""An SGLang-like server in-process that does to each /generate what the test says, and remembers what it saw."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

from aiohttp import web

from daemon.request_ids import is_probe

Answer = Callable[["Request"], Awaitable[web.StreamResponse]]


class Request:
    """One POST /generate."""

    def __init__(self, server: ScriptedSglang, http: web.Request, body: dict[str, Any]) -> None:
        self.server = server
        self.http = http
        self.body = body
        self.rid: str = body["rid"]
        self.ids: list[int] = body["input_ids"]
        self.aborted = asyncio.Event()

    def good(self, output_ids: list[int] | None = None, **meta: Any) -> dict[str, Any]:
        """The body of an answer that agrees with itself."""
        ids = [7, 8, 9] if output_ids is None else output_ids
        return {
            "text": "so",
            "output_ids": ids,
            "meta_info": {
                "id": self.rid,
                "finish_reason": {"type": "stop", "matched": ids[-1] if ids else 2},
                "prompt_tokens": len(self.ids),
                "completion_tokens": len(ids),
                "cached_tokens": 0,
                "e2e_latency": 0.01,
                **meta,
            },
        }

    def reset(self) -> web.Response:
        """Close the connection without a word."""
        assert self.http.transport is not None
        self.http.transport.abort()
        return web.Response(status=500)


async def answer_well(request: Request) -> web.StreamResponse:
    return web.json_response(request.good())


class ScriptedSglang:
    """Serves in the test's own loop.

    Args:
        answer: Answers every sample's request; may be changed while it runs. Probes are answered well, unless `probe`.
    """

    def __init__(self, answer: Answer = answer_well, *, keep_alive_s: float = 5.0) -> None:
        self.answer = answer
        self.probe: Answer = answer_well
        self.model_info: dict[str, Any] | Callable[[], Awaitable[web.StreamResponse]] = {
            "model_path": "/models/tiny",
            "served_model_name": "/models/tiny",
            "is_generation": True,
        }
        self.health = 200
        """What GET /health answers."""
        self.server_info: dict[str, Any] | None = {"version": "0.5.23", "max_req_input_len": 2000}
        self.seen: list[Request] = []
        """Samples' requests, in order of arrival."""
        self.probes = 0
        self.health_checks = 0
        self.aborts: list[str] = []
        self.open = 0
        self.most_open = 0
        self._requests: WeakValueDictionary[str, Request] = WeakValueDictionary()
        self._keep_alive_s = keep_alive_s
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prompts(self) -> list[list[int]]:
        """Token ids of every sample's request that was seen."""
        return [request.ids for request in self.seen]

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/generate", self._generate)
        app.router.add_post("/abort_request", self._abort)
        app.router.add_get("/health", self._health)
        app.router.add_get("/model_info", self._model_info)
        app.router.add_get("/server_info", self._server_info)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, keepalive_timeout=self._keep_alive_s, shutdown_timeout=0.1
        )
        await self._runner.setup()
        sock = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self.port = sock.getsockname()[1]
        await web.SockSite(self._runner, sock).start()

    async def close(self) -> None:
        """Stop listening and drop every connection; `start` makes it come back on the same port."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        for connection in list(runner.server.connections) if runner.server else []:
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()

    def drop_silent(self) -> None:
        """Close the connections on which nothing was asked yet, as a proxy does."""
        assert self._runner is not None and self._runner.server is not None
        for connection in self._runner.server.connections:
            if connection.transport is not None and not connection._request_count:
                connection.transport.abort()

    async def __aenter__(self) -> ScriptedSglang:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _generate(self, http: web.Request) -> web.StreamResponse:
        request = Request(self, http, json.loads(await http.read()))
        if is_probe(request.rid):
            self.probes += 1
            return await self.probe(request)
        self.seen.append(request)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self._requests[request.rid] = request
        try:
            return await self.answer(request)
        finally:
            self.open -= 1

    async def _abort(self, http: web.Request) -> web.Response:
        rid = json.loads(await http.read())["rid"]
        self.aborts.append(rid)
        request = self._requests.get(rid)
        if request is not None:
            request.aborted.set()
        return web.Response()

    async def _health(self, http: web.Request) -> web.Response:
        self.health_checks += 1
        return web.Response(status=self.health)

    async def _model_info(self, http: web.Request) -> web.StreamResponse:
        if callable(self.model_info):
            return await self.model_info()
        return web.json_response(self.model_info)

    async def _server_info(self, http: web.Request) -> web.StreamResponse:
        return web.Response(status=404) if self.server_info is None else web.json_response(self.server_info)
