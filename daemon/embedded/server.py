"""The embedded server: SGLang's routes over one backend, and its life from bind to drain or sudden death."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import uuid
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from daemon.embedded.backends import DumpFolderError, make_backend, make_dumper
from daemon.embedded.config import load_config, write_model_folder
from daemon.embedded.dump_faults import DumpFaults
from daemon.embedded.errors import schema_error
from daemon.embedded.faults import Faults
from daemon.embedded.jobs import Backend, Job, Result, Sampling
from daemon.embedded.options import Options
from daemon.embedded.protocol import RESERVED_TOKENS, Limits
from daemon.embedded.routes import Routes
from daemon.embedded.serving import GenerateService, RequestLog, reset
from daemon.embedded.tokenizer import ByteTokenizer

if TYPE_CHECKING:
    from daemon.embedded.dumping import Dumper

MAX_BODY_BYTES = 256 * 1024 * 1024
_OPEN_PATHS = ("/health", "/metrics")
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EmbeddedServer:
    """One server; use it as an async context manager, in tests in-process.

    ```
    async with EmbeddedServer(Options(no_model=True)) as server:
        ... server.url, server.requests_seen, server.faults.force("reset")
    ```

    Args:
        options: how to start it; the defaults serve the real tiny model on a free port.
        on_death: called with the exit code when a fault or a fatal request kills the server. By default the
            server only plays dead: it stops listening and resets every connection, and `dead` is set.
    """

    def __init__(self, options: Options | None = None, on_death: Callable[[int], None] | None = None) -> None:
        self.options = options or Options()
        self.config = load_config()
        self.draining = False
        self.dead = asyncio.Event()
        self.port = 0
        self._on_death = on_death or self._play_dead
        length = min(self.config.max_position_embeddings, self.options.max_total_tokens or 1 << 62)
        self.limits = Limits(self.config.vocab_size, self.config.max_position_embeddings, length - RESERVED_TOKENS)
        self._tokenizer = ByteTokenizer(self.config)
        self._backend: Backend | None = None
        self._dumper: Dumper | None = None
        self._service: GenerateService | None = None
        self._runner: web.AppRunner | None = None
        self._socket: socket.socket | None = None
        self._site: web.SockSite | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """`http://host:port`, without a slash at the end."""
        return f"http://{self.options.host}:{self.port}"

    @property
    def faults(self) -> Faults:
        """The fault switches; changes apply to the next request."""
        return self.options.faults

    @property
    def dump_faults(self) -> DumpFaults:
        """The fault switches of dumps; changes apply to requests whose first row is still to come."""
        return self.options.dump_faults

    @property
    def dumper(self) -> Dumper:
        """What hidden states are dumped through: `about`, and `flush()` for tests.

        Raises:
            RuntimeError: the server was not started, or has no dump folder.
        """
        if self._dumper is None:
            raise RuntimeError("the embedded server dumps nothing: it was not started, or without dump_dir")
        return self._dumper

    @property
    def requests_seen(self) -> RequestLog:
        """What clients asked so far."""
        return self.service.log

    @property
    def service(self) -> GenerateService:
        """The handler of /generate.

        Raises:
            RuntimeError: the server was not started.
        """
        if self._service is None:
            raise RuntimeError("the embedded server is not started")
        return self._service

    async def start(self) -> None:
        """Load, warm up, bind.

        Raises:
            OSError: the port is taken.
            DumpFolderError: the dump folder cannot be written to.
        """
        if self.options.model_dir is not None:
            write_model_folder(self.options.model_dir)
        self._socket = socket.create_server((self.options.host, self.options.port), backlog=1024)
        self.port = self._socket.getsockname()[1]
        try:
            self._dumper = make_dumper(self.options, self.config, self.port)
        except DumpFolderError:
            self._socket.close()
            raise
        self._backend = make_backend(self.options, self.config, self._dumper)
        self._backend.start()
        self._service = GenerateService(
            self.options,
            self.limits,
            self._backend,
            None if self.options.skip_tokenizer_init else self._tokenizer,
            self._on_death,
        )
        middlewares = [_errors] if self.options.api_key is None else [_errors, self._authorize]
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=middlewares)
        app.router.add_route("POST", "/generate", self._service.handle)
        app.router.add_route("PUT", "/generate", self._service.handle)
        Routes(self, self._backend, self._tokenizer).add_to(app)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True,
            keepalive_timeout=self.options.keep_alive, shutdown_timeout=1.0,
        )  # fmt: skip
        await self._runner.setup()
        self._site = web.SockSite(self._runner, self._socket)
        await self._site.start()

    async def close(self) -> None:
        """Stop at once: what is in flight is aborted and answered so, what hangs is cut off."""
        if self._runner is None or self._backend is None:
            return
        self.service.closing.set()
        self._backend.abort(None)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.service.idle.wait(), 1.0)
        await self._runner.cleanup()
        self._backend.stop()
        if self._dumper is not None:
            await asyncio.to_thread(self._dumper.close)
        if self._closing is not None:
            await self._closing
        self._runner = None

    async def drain(self) -> None:
        """As after SIGTERM: /health is 503 from now on, /generate goes on; returns when nothing is in flight."""
        self.draining = True
        await self.service.idle.wait()

    async def __aenter__(self) -> EmbeddedServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def probe(self) -> bool:
        """The health check: a one-token forward when idle; True when the server can answer."""
        service, backend = self.service, self._backend
        assert backend is not None
        if service.is_hung:
            await asyncio.sleep(self.options.health_timeout)
            return False
        if self.options.health_delay:
            await asyncio.sleep(self.options.health_delay)
        if service.load().running:
            return True
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        rid = f"HEALTH_CHECK_{uuid.uuid4().hex}"
        backend.submit(Job(rid, [0], Sampling(max_new_tokens=1, temperature=0.0), _setter(done)))
        try:
            await asyncio.wait_for(done, self.options.health_timeout)
        except TimeoutError:
            return False
        return True

    async def run(self, prompt_rid: str, input_ids: list[int], sampling: Sampling) -> tuple[Job, Result]:
        """Generate outside /generate (for /v1/completions)."""
        assert self._backend is not None
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        job = Job(prompt_rid, input_ids, sampling, _setter(done))
        self._backend.submit(job)
        return job, await done

    def die(self, code: int) -> None:
        """End as the real server does after a fatal request."""
        self._on_death(code)

    def _play_dead(self, code: int) -> None:
        if self.dead.is_set() or self._runner is None or self._site is None:
            return
        self.dead.set()
        server = self._runner.server
        for connection in list(server.connections) if server is not None else []:
            if connection.transport is not None:
                reset(connection.transport)
        self._closing = asyncio.get_running_loop().create_task(self._site.stop())

    @web.middleware
    async def _authorize(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        allowed = request.headers.get("Authorization") == f"Bearer {self.options.api_key}"
        if not allowed and not request.path.startswith(_OPEN_PATHS):
            error = schema_error("Unauthorized", 401)
            return web.Response(status=401, body=error.body, content_type=error.content_type)
        return await handler(request)


@web.middleware
async def _errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """404 and 405 in FastAPI's words."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        headers: dict[str, Any] = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        body = orjson.dumps({"detail": error.reason})
        return web.Response(status=error.status, body=body, content_type="application/json", headers=headers)


def _setter(done: asyncio.Future[Result]) -> Callable[[Result], None]:
    def set_result(result: Result) -> None:
        if not done.done():
            done.set_result(result)

    return set_result
