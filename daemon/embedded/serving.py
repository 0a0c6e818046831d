"""POST /generate: checks, queueing, faults, streaming, and what happens when the client leaves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from daemon.embedded.answers import HTML, Renderer
from daemon.embedded.errors import QUEUE_FULL, ApiError, FatalRequest, internal_error, queue_full
from daemon.embedded.faults import FaultKind, Faults
from daemon.embedded.flight import Flight
from daemon.embedded.information import Totals
from daemon.embedded.jobs import Backend, Load, Result
from daemon.embedded.options import Options
from daemon.embedded.protocol import GenerateRequest, Limits, duplicate, parse_generate
from daemon.embedded.tokenizer import ByteTokenizer

_JSON = {"Content-Type": "application/json", "Server": "uvicorn"}
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass
class RequestLog:
    """What clients asked, for tests: counts, and a sample of bodies."""

    generate: int = 0
    """POST /generate received, whatever became of them."""
    answered: int = 0
    """/generate answers of status 200 that were sent whole."""
    rids: Counter[str] = field(default_factory=Counter)
    """Of valid requests, by prompt."""
    paths: Counter[str] = field(default_factory=Counter)
    """Requests of the other routes, by path."""
    bodies: deque[bytes] = field(default_factory=lambda: deque(maxlen=64))
    """The last /generate bodies."""

    def sample_bodies(self) -> list[dict[str, Any]]:
        """The last /generate bodies that are JSON objects, oldest first."""
        found = []
        for body in self.bodies:
            with contextlib.suppress(orjson.JSONDecodeError):
                found.append(orjson.loads(body))
        return [each for each in found if isinstance(each, dict)]


class GenerateService:
    """Handles /generate for one server.

    Args:
        options: of the server.
        limits: of its model.
        backend: what generates.
        tokenizer: None with `--skip-tokenizer-init`.
        die: ends the server at once with the given exit code, as a fatal request does to the real one.
    """

    def __init__(
        self, options: Options, limits: Limits, backend: Backend, tokenizer: ByteTokenizer | None,
        die: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.log = RequestLog()
        self.totals = Totals.zero()
        self.in_flight: set[str] = set()
        self.hung = 0
        self.closing = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self._active = 0
        self._options, self._limits, self._backend, self._die = options, limits, backend, die
        self._tokenizer = tokenizer
        self._render = Renderer(tokenizer, options.enable_metrics)

    @property
    def faults(self) -> Faults:
        """The switches; may be changed at any time."""
        return self._options.faults

    @property
    def is_hung(self) -> bool:
        """Whether `hang_after` has come."""
        limit = self.faults.hang_after
        return limit is not None and self.log.answered >= limit

    def load(self) -> Load:
        """The backend's load, with requests that hang counted as running."""
        load = self._backend.load()
        load.running += self.hung
        return load

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one POST /generate."""
        body = await request.read()
        self.log.generate += 1
        self.log.bodies.append(body)
        self._active += 1
        self.idle.clear()
        try:
            fault = self.faults.next_kind()
            early = await self._early_fault(request, fault)
            if early is not None:
                return early
            parsed = parse_generate(body, request.headers.get("Content-Type", ""), self._limits, self._tokenizer)
            return await self._answer(request, parsed, fault)
        except ApiError as error:
            return web.Response(status=error.status, body=error.body, content_type=error.content_type)
        except FatalRequest:
            cut(request)
            self._die(1)
            return web.Response(status=500)
        finally:
            self._active -= 1
            if not self._active - self.hung:
                self.idle.set()

    async def _early_fault(self, request: web.Request, fault: FaultKind | None) -> web.StreamResponse | None:
        """Carry out the faults that need no generation; None when there is none of these."""
        if fault == "error_500":
            raise internal_error()
        if fault == "error_503":
            error, after = queue_full(), self.faults.retry_after
            headers = _JSON if after is None else {**_JSON, "Retry-After": f"{after:g}"}
            return web.Response(status=error.status, body=error.body, headers=headers)
        if fault == "html":
            return web.Response(body=HTML, content_type="text/html")
        if fault == "hang" or self.is_hung:
            return await self._hang(request)
        if fault == "reset":
            cut(request)
            return web.Response(status=500)
        return None

    async def _hang(self, request: web.Request) -> web.StreamResponse:
        """Say nothing until the client leaves (this task is cancelled then) or the server closes."""
        self.hung += 1
        if not self._active - self.hung:
            self.idle.set()
        try:
            await self.closing.wait()
        finally:
            self.hung -= 1
        cut(request)
        return web.Response(status=500)

    async def _answer(
        self, request: web.Request, parsed: GenerateRequest, fault: FaultKind | None
    ) -> web.StreamResponse:
        for prompt in parsed.prompts:
            if prompt.rid in self.in_flight:
                raise duplicate(prompt.rid)
        flight = Flight(parsed, self.faults)
        if self._is_full(len(parsed.prompts)):
            if not parsed.stream:
                raise queue_full()
            refused = [b"data: %s\n\n" % self._render.queue_full(job, QUEUE_FULL) for job in flight.jobs]
            return await self._stream_out(request, [*refused, b"data: [DONE]\n\n"])
        rids = [prompt.rid for prompt in parsed.prompts]
        self.in_flight.update(rids)
        self.log.rids.update(rids)
        try:
            for job in flight.jobs:
                self._backend.submit(job)
            if parsed.stream:
                return await self._stream(request, parsed, flight, fault)
            results = [await done for done in flight.done]
        except (asyncio.CancelledError, ConnectionError):
            for job in flight.jobs:
                self._backend.abort(job)
            raise
        finally:
            self.in_flight.difference_update(rids)
        if self.is_hung:
            return await self._hang(request)
        self._count(flight, results)
        answers = [
            self._render.answer(job, result, fault=fault, prompt_ids=parsed.return_prompt_ids)
            for job, result in zip(flight.jobs, results, strict=True)
        ]
        body = b"[%s]" % b",".join(answers) if parsed.batch else answers[0]
        if fault == "truncate":
            return await self._truncate(request, body)
        response = web.Response(body=body, headers=_JSON)
        self.log.answered += 1
        if self.faults.die_after is not None and self.log.answered >= self.faults.die_after:
            await response.prepare(request)
            await response.write_eof()
            self._die(1)
        return response

    async def _stream(
        self, request: web.Request, parsed: GenerateRequest, flight: Flight, fault: FaultKind | None
    ) -> web.StreamResponse:
        """Server-sent events: the answer so far, as often as there is more, then `[DONE]`."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8", "Server": "uvicorn"})
        await response.prepare(request)
        left, results = len(flight.jobs), {}
        while left:
            number, result = await flight.events.get()
            index = number if parsed.batch else None
            final = result.finish_reason is not None
            if final:
                left -= 1
                results[number] = result
                if self.is_hung:
                    return await self._hang(request)
            if fault == "truncate" and len(result.output_ids) > 1:
                cut(request, abruptly=False)
                return response
            answer = self._render.answer(
                flight.jobs[number], result, fault=fault if final else None,
                prompt_ids=parsed.return_prompt_ids, index=index,
            )  # fmt: skip
            await response.write(b"data: %s\n\n" % answer)
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        self._count(flight, [results[number] for number in range(len(flight.jobs))])
        self.log.answered += 1
        if self.faults.die_after is not None and self.log.answered >= self.faults.die_after:
            self._die(1)
        return response

    async def _stream_out(self, request: web.Request, events: list[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for event in events:
            await response.write(event)
        await response.write_eof()
        return response

    async def _truncate(self, request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={**_JSON, "Content-Length": str(len(body))})
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        cut(request, abruptly=False)
        return response

    def _is_full(self, count: int) -> bool:
        most = self._options.max_queued_requests
        if most is None:
            return False
        load = self.load()
        return load.running + load.waiting + count > self._options.max_running_requests + most

    def _count(self, flight: Flight, results: list[Result]) -> None:
        totals = self.totals
        for job, result in zip(flight.jobs, results, strict=True):
            streams = job.progress is not None
            totals.requests[streams] += 1
            totals.prompt_tokens[streams] += len(job.input_ids)
            totals.generation_tokens[streams] += len(result.output_ids)
            totals.latency_sum += result.finished - job.received
            totals.aborted += (result.finish_reason or {}).get("type") == "abort"


def cut(request: web.Request, *, abruptly: bool = True) -> None:
    """Close the client's connection: at once and with a reset, or once what was written is sent."""
    transport = request.transport
    if transport is None:
        return
    if abruptly:
        reset(transport)
    else:
        transport.close()


def reset(transport: asyncio.Transport) -> None:
    """Close at once; the peer sees a reset, not an orderly end."""
    raw = transport.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):  # the peer may have been faster
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()
