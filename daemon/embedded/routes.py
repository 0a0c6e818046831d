"""Every route but /generate: health, information, control, and the OpenAI-like strays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from daemon.embedded import completions, information
from daemon.embedded.answers import Renderer
from daemon.embedded.errors import ApiError, FatalRequest
from daemon.embedded.jobs import Backend
from daemon.embedded.serving import cut
from daemon.embedded.tokenizer import ByteTokenizer

if TYPE_CHECKING:
    from daemon.embedded.server import EmbeddedServer

FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. "
    "(When there are running or waiting requests, the operation will not be performed.)\n"
)
NOT_FLUSHED = "Flush cache failed.\n"


class Routes:
    """Handlers bound to one server."""

    def __init__(self, server: EmbeddedServer, backend: Backend, tokenizer: ByteTokenizer) -> None:
        self._server, self._backend, self._tokenizer = server, backend, tokenizer

    def add_to(self, app: web.Application) -> None:
        """Register the routes; SGLang takes GET and POST for some."""
        for path in ("/health", "/health_generate"):
            app.router.add_get(path, self._health)
        for path in ("/model_info", "/get_model_info"):
            app.router.add_get(path, self._model_info)
        for path in ("/server_info", "/get_server_info"):
            app.router.add_get(path, self._server_info)
        app.router.add_get("/ping", self._ping)
        app.router.add_get("/v1/loads", self._loads)
        app.router.add_get("/v1/models", self._models)
        if self._server.options.enable_metrics:
            app.router.add_get("/metrics", self._metrics)
            app.router.add_get("/metrics/", self._metrics)
        app.router.add_get("/flush_cache", self._flush)
        app.router.add_post("/flush_cache", self._flush)
        app.router.add_post("/abort_request", self._abort)
        app.router.add_post("/v1/completions", self._completions)
        for path in ("/tokenize", "/v1/tokenize"):
            app.router.add_post(path, self._tokenize)

    def _note(self, request: web.Request) -> None:
        self._server.requests_seen.paths[request.path] += 1

    async def _ping(self, request: web.Request) -> web.Response:
        self._note(request)
        return web.Response()

    async def _health(self, request: web.Request) -> web.Response:
        self._note(request)
        if self._server.draining:
            return web.Response(status=503)
        return web.Response(status=200 if await self._server.probe() else 503)

    async def _model_info(self, request: web.Request) -> web.Response:
        self._note(request)
        return _json(information.model_info(self._server.options, self._server.config))

    async def _server_info(self, request: web.Request) -> web.Response:
        self._note(request)
        server = self._server
        info = information.server_info(
            server.options, server.config, server.limits.max_req_input_len, server.service.load()
        )
        info["port"] = server.port
        return _json(info)

    async def _loads(self, request: web.Request) -> web.Response:
        self._note(request)
        server = self._server
        return _json(information.loads(server.options, server.config, server.service.load()))

    async def _models(self, request: web.Request) -> web.Response:
        self._note(request)
        return _json(information.models(self._server.options, self._server.config))

    async def _metrics(self, request: web.Request) -> web.Response:
        self._note(request)
        server = self._server
        text = information.metrics(server.options, server.config, server.service.load(), server.service.totals)
        response = web.Response(
            body=text.encode(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )
        response.enable_compression()
        return response

    async def _flush(self, request: web.Request) -> web.Response:
        """Succeeds when nothing is in flight, within `timeout` seconds if that is given."""
        self._note(request)
        idle = self._server.service.idle
        if not idle.is_set():
            try:
                await asyncio.wait_for(idle.wait(), float(request.query.get("timeout", "0")))
            except (TimeoutError, ValueError):
                return web.Response(status=400, text=NOT_FLUSHED)
        self._backend.flush()
        return web.Response(text=FLUSHED)

    async def _abort(self, request: web.Request) -> web.Response:
        """Always 200; a rid must match whole."""
        self._note(request)
        try:
            body: Any = orjson.loads(await request.read())
        except orjson.JSONDecodeError:
            body = {}
        if isinstance(body, dict):
            if body.get("abort_all") is True:
                self._backend.abort(None)
            elif isinstance(body.get("rid"), str) and body["rid"]:
                self._backend.abort(body["rid"])
        return web.Response()

    async def _tokenize(self, request: web.Request) -> web.Response:
        self._note(request)
        body: Any = orjson.loads(await request.read())
        ids = self._tokenizer.encode(str(body.get("prompt", "")))
        context = self._server.limits.context_length
        return _json({"tokens": ids, "count": len(ids), "max_model_len": context})

    async def _completions(self, request: web.Request) -> web.Response:
        self._note(request)
        server = self._server
        try:
            prompt, raw = completions.parse_completion(
                await request.read(), request.content_type, server.limits, self._tokenizer
            )
        except ApiError as error:
            return web.Response(status=error.status, body=error.body, content_type=error.content_type)
        except FatalRequest:
            cut(request)
            server.die(1)
            return web.Response(status=500)
        job, result = await server.run(prompt.rid, prompt.input_ids, prompt.sampling)
        return _json(completions.completion(job, result, raw, Renderer(self._tokenizer, metrics=False)))


def _json(body: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")
